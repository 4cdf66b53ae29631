#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "apps/run_program.h"
#include "base/json.h"
#include "expect_says.h"
#include "simulator/step_table.h"
#include "temp_path.h"

namespace rose {
namespace {

const std::string kH200 = "docs/h200-gpt-oss-20b.steps";

TEST(SimulateCommand, SaysTheSameForTheSameSeed) {
  const std::vector<std::string> arguments = {
      "simulate", "--steps", kH200,     "--rate",     "50",       "-n",
      "200",      "--input", "200~0.5", "--replicas", "2",        "--prefix-tokens",
      "64",       "--json",  "--seed",  "7",          "--router", "prefix-affine"};
  const ProgramResult result = RunProgram(arguments);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const auto without_time = [](const std::string& out) {
    return out.substr(0, out.find("took_s"));
  };
  EXPECT_EQ(without_time(result.out), without_time(RunProgram(arguments).out));
  const auto json = ParseJson(result.out);
  ASSERT_TRUE(json.ok()) << result.out;
  const auto number = [&](const char* key) { return json->Find(key)->AsDouble().value(); };
  EXPECT_EQ(number("answered"), 200);
  EXPECT_EQ(number("completion_tokens"), 200 * 128);
  EXPECT_GT(number("prefix_hit_rate"), 0);
  EXPECT_GT(number("most_bytes_used"), 1e6);
  EXPECT_EQ(number("preemptions"), 0);
}

TEST(SimulateCommand, AWrittenTraceIsReadBack) {
  const std::string path = TempPath("trace.jsonl");
  const ProgramResult made =
      RunProgram({"simulate", "--steps", kH200, "--rate", "9", "-n", "50", "--write-trace", path});
  const ProgramResult read = RunProgram({"simulate", "--steps", kH200, "--trace", path});
  EXPECT_EQ(read.exit_code, 0) << read.err;
  // Times are written to the microsecond.
  EXPECT_EQ(read.out.substr(0, 20), made.out.substr(0, 20));
  EXPECT_SAYS(read.out, "50 of 50 answered");
}

TEST(SimulateCommand, WrongUseIsSaid) {
  const auto says = [](std::vector<std::string> arguments, const char* part) {
    arguments.insert(arguments.begin(), "simulate");
    const ProgramResult result = RunProgram(arguments);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_SAYS(result.err, part);
  };
  says({}, "name a table with --steps");
  says({"--steps", "nowhere"}, "nowhere");
  says({"--steps", "README.md"}, "README.md: line 1");
  says({"--steps", kH200, "--input", "5:3"}, "'5:3' is no length");
  says({"--steps", kH200, "--kv-memory", "1"}, "hold no page of the KV cache");
  says({"--steps", kH200, "--trace", kH200}, "line 1: \"at_s\"");
}

TEST(SimulateCommand, MeasuresAModelAndHoldsItAgainstTheSimulation) {
  const ProgramResult steps =
      RunProgram({"bench", "steps", "tests/data/toy-a", "--max-running", "4", "--max-step-tokens",
                  "16", "--longest", "100", "--repeats", "1"});
  EXPECT_EQ(steps.exit_code, 0) << steps.err;
  const auto table = ParseStepTable(steps.out);
  ASSERT_TRUE(table.ok()) << table.status().message();
  EXPECT_EQ(table->model, "toy-a");
  int64_t mixed = 0;
  for (const MeasuredStep& step : table->steps) {
    mixed += step.shape.decode_rows > 0 && step.shape.prompt_rows > 0 ? 1 : 0;
  }
  EXPECT_GE(table->steps.size(), 10u);
  EXPECT_GE(mixed, 1);
  const std::string path = TempPath("toy.steps");
  std::ofstream(path) << steps.out;
  const ProgramResult both =
      RunProgram({"simulate", "--compare", "tests/data/toy-a", "--steps", path, "-n", "5",
                  "--input", "10:40", "--output", "5", "--json", "--kv-memory", "10M"});
  EXPECT_EQ(both.exit_code, 0) << both.err;
  std::istringstream lines(both.out);
  std::vector<std::string> kinds;
  for (std::string line; std::getline(lines, line);) {
    const auto json = ParseJson(line);
    ASSERT_TRUE(json.ok()) << line;
    kinds.push_back(*json->Find("simulate")->string());
    if (const JsonValue* answered = json->Find("answered")) {
      EXPECT_EQ(answered->AsInteger(), 5);
      EXPECT_EQ(json->Find("completion_tokens")->AsInteger(), 25);
    } else {
      EXPECT_GT(json->Find("throughput")->AsDouble().value(), 0);
    }
  }
  EXPECT_EQ(kinds, (std::vector<std::string>{"trace", "real", "compare"}));
}

}  // namespace
}  // namespace rose
