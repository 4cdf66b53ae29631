#include "base/check.h"

#include <gtest/gtest.h>

#include <string>

namespace rose {
namespace {

TEST(Check, NamesTheExpressionAndBothValues) {
  const int heads = 7;
  try {
    ROSE_CHECK_EQ(heads % 2, 0);
    FAIL() << "the check passed";
  } catch (const CheckFailure& failure) {
    const std::string what = failure.what();
    EXPECT_NE(what.find("heads % 2 == 0"), std::string::npos) << what;
    EXPECT_NE(what.find("1 and 0"), std::string::npos) << what;
    EXPECT_NE(what.find("check_test.cc"), std::string::npos) << what;
  }
}

TEST(Check, APassingCheckEvaluatesItsOperandsOnce) {
  int calls = 0;
  const auto next = [&calls] { return ++calls; };
  ROSE_CHECK_EQ(next(), 1);
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace rose
