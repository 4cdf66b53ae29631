#include "base/cpu.h"

#include <gtest/gtest.h>

namespace rose {
namespace {

TEST(CpuTest, ALevelIsChosenByNameAndNeverAboveTheMachine) {
  EXPECT_EQ(ChooseCpuIsa("").value(), DetectCpuIsa());
  EXPECT_EQ(ChooseCpuIsa("scalar").value(), CpuIsa::kScalar);
  for (CpuIsa isa : AvailableCpuIsas()) EXPECT_EQ(ChooseCpuIsa(CpuIsaName(isa)).value(), isa);
  EXPECT_EQ(AvailableCpuIsas().back(), DetectCpuIsa());
  for (const char* wrong : {"sse", "AVX2", "avx1024", "avx2 "}) {
    const Result<CpuIsa> isa = ChooseCpuIsa(wrong);
    ASSERT_FALSE(isa.ok()) << wrong;
    EXPECT_EQ(isa.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(isa.status().message().find("this machine has: scalar"), std::string::npos);
  }
  EXPECT_GE(AvailableCpus(), 1);
}

}  // namespace
}  // namespace rose
