#include <gtest/gtest.h>

#include <sstream>

#include "apps/run_program.h"
#include "base/json.h"

namespace rose {
namespace {

TEST(BenchEngine, EveryCaseRunsTheLoadThatItNames) {
  const ProgramResult result = RunProgram({"bench", "engine", "--steps", "20"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  std::istringstream lines(result.out);
  std::vector<std::string> names;
  for (std::string line; std::getline(lines, line);) {
    const auto json = ParseJson(line);
    ASSERT_TRUE(json.ok()) << line;
    const auto number = [&](const char* key) { return json->Find(key)->AsDouble().value(); };
    names.push_back(*json->Find("case")->string());
    EXPECT_NEAR(number("running"), 256, 40) << line;
    const bool many_wait = names.back() == "waiting" || names.back() == "memory";
    EXPECT_EQ(number("limit_us"), many_wait ? 200 : 100);
    if (many_wait) {
      EXPECT_EQ(number("waiting"), 1000);
    }
    EXPECT_GE(number("rows"), 256 - 40);
    EXPECT_GT(number("us_p50"), 0);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"decode", "mixed", "waiting", "memory"}));
}

}  // namespace
}  // namespace rose
