#include "simulator/step_table.h"

#include <gtest/gtest.h>

#include "expect_says.h"

namespace rose {
namespace {

const char kHead[] =
    R"({"model": "m", "machine": "by hand", "kv_heads": 8, "head_dim": 64, "kv_dtype": "bf16",)"
    R"( "groups": [{"window": 128, "layers": 12}, {"window": 0, "layers": 12}]})";

TEST(StepTable, WhatIsWrittenReadsBack) {
  StepTable table =
      ParseStepTable(std::string(kHead) + "\n" +
                     R"({"decode_rows": 16, "decode_keys": 4096, "ms": 2.5})" + "\n\n")
          .value();
  ASSERT_EQ(table.steps.size(), 1u);
  EXPECT_EQ(table.steps[0].shape.sampled_rows, 16);
  EXPECT_EQ(table.vocab, 201'088);
  // K and V, 64 positions, 8 heads of 64, 2 bytes, 12 layers.
  EXPECT_EQ(table.PageBytes(), std::vector<int64_t>(2, 2 * 64 * 8 * 64 * 2 * 12));
  const std::string written = StepTableHead(table) + "\n" + StepLine(table.steps[0]);
  const StepTable again = ParseStepTable(written).value();
  EXPECT_EQ(StepTableHead(again) + "\n" + StepLine(again.steps[0]), written);
  EXPECT_EQ(again.kv.groups[0].window, 128);
  EXPECT_EQ(again.steps[0].shape.decode_keys, 4096);
  EXPECT_FALSE(again.feeds_back);
  table.feeds_back = true;
  EXPECT_TRUE(
      ParseStepTable(StepTableHead(table) + "\n" + StepLine(table.steps[0])).value().feeds_back);
}

TEST(StepTable, WhatIsWrongIsNamedWithItsLine) {
  const auto says = [](const std::string& text, const char* part) {
    const auto table = ParseStepTable(text);
    ASSERT_FALSE(table.ok()) << text;
    EXPECT_SAYS(table.status().message(), part);
  };
  const std::string head = std::string(kHead) + "\n";
  says("", "at least one measured step");
  says(head, "at least one measured step");
  says("{}", "line 1: \"kv_heads\"");
  says("[]", "line 1: this is no JSON object");
  says("\n{", "line 2: ");
  says(R"({"kv_heads": 8, "head_dim": 64, "kv_dtype": "f16"})", "\"kv_dtype\"");
  says(R"({"kv_heads": 8, "head_dim": 64, "kv_dtype": "f32"})", "\"groups\"");
  says(R"({"kv_heads": 8, "head_dim": 64, "kv_dtype": "f32", "feeds_back": 1})", "\"feeds_back\"");
  says(head + R"({"decode_rows": 1, "ms": 0})", "line 2: a step needs \"ms\"");
  says(head + R"({"ms": 1})", "\"decode_rows\" or \"prompt_rows\"");
  says(head + R"({"decode_rows": -1, "ms": 1})", "\"decode_rows\" must be");
}

}  // namespace
}  // namespace rose
