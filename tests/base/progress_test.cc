#include "base/progress.h"

#include <gtest/gtest.h>

namespace rose {
namespace {

TEST(Progress, BytesHaveThreeDigits) {
  EXPECT_EQ(BytesText(0), "0 B");
  EXPECT_EQ(BytesText(999), "999 B");
  EXPECT_EQ(BytesText(1000), "1.00 kB");
  EXPECT_EQ(BytesText(9994), "9.99 kB");
  EXPECT_EQ(BytesText(9995), "10.0 kB");
  EXPECT_EQ(BytesText(999'499), "999 kB");
  EXPECT_EQ(BytesText(999'500), "1.00 MB");
  EXPECT_EQ(BytesText(13'761'264'768), "13.8 GB");
}

TEST(Progress, LineHasShareRateAndTimeLeft) {
  const ProgressState half{.began_at = 0, .done = 50'000'000, .total = 100'000'000, .seconds = 5};
  EXPECT_EQ(ProgressLine("loading", half),
            "loading [############------------]  50%  50.0 MB of 100 MB  10.0 MB/s  5 s left");
  const ProgressState resumed{
      .began_at = 40'000'000, .done = 50'000'000, .total = 100'000'000, .seconds = 5};
  EXPECT_EQ(ProgressLine("x", resumed),
            "x [############------------]  50%  50.0 MB of 100 MB  2.00 MB/s  25 s left");
  EXPECT_EQ(ProgressLine("x", {.began_at = 0, .done = 7, .total = 7, .seconds = 1}),
            "x [########################] 100%  7 B of 7 B  7 B/s");
  EXPECT_EQ(
      ProgressLine("x", {.began_at = 2, .done = 7, .total = 8, .seconds = 2, .unit = "lines"}),
      "x [#####################---]  87%  7 of 8 lines  2.5/s  0 s left");
  EXPECT_EQ(ProgressLine("x", {}), "x [########################] 100%  0 B of 0 B");
}

TEST(Progress, IsSilentWithoutATerminal) {
  std::FILE* file = std::tmpfile();
  {
    ProgressBar("x", file).Update(1, 2);
  }
  EXPECT_EQ(std::ftell(file), 0);
  std::fclose(file);
}

}  // namespace
}  // namespace rose
