// rose bench ops, prefill and decode, as a user runs them; on a CPU.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>

#include "apps/run_program.h"
#include "base/json.h"
#include "expect_says.h"

namespace rose {
namespace {

std::vector<JsonValue> Lines(const std::string& out) {
  std::vector<JsonValue> lines;
  std::istringstream stream(out);
  for (std::string line; std::getline(stream, line);) {
    Result<JsonValue> json = ParseJson(line);
    EXPECT_TRUE(json.ok()) << line;
    if (json.ok()) lines.push_back(std::move(json).value());
  }
  return lines;
}

double Number(const JsonValue& line, const char* key) {
  const JsonValue* value = line.Find(key);
  EXPECT_NE(value, nullptr) << key;
  return value == nullptr ? -1 : value->AsDouble().value_or(-1);
}

// Runs over the CPU, a millisecond for each op.
ProgramResult Bench(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"bench", "ops", "--device", "cpu", "--ms", "1"});
  return RunProgram(arguments);
}

TEST(BenchOps, GivesEveryOpOfALayerOneLineWithItsCheck) {
  const ProgramResult result =
      Bench({"--like", "tests/data/toy-a", "--tokens", "1,20", "--context", "100,200"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  std::map<std::string, int> lines;
  for (const JsonValue& line : Lines(result.out)) {
    const std::string op = *line.Find("op")->string();
    ++lines[op];
    EXPECT_LE(Number(line, "us_p10"), Number(line, "us")) << op;
    EXPECT_LE(Number(line, "us"), Number(line, "us_p90")) << op;
    EXPECT_GT(Number(line, "us"), 0) << op;
    EXPECT_GT(Number(line, "bytes"), 0) << op;
    const JsonValue& checked = *line.Find("checked");
    EXPECT_EQ(Number(checked, "rows"), Number(line, "tokens") == 1 ? 1 : 4) << op;
    EXPECT_LE(Number(checked, "one_minus_cos"), Number(checked, "bound")) << op;
    EXPECT_TRUE(line.Find("baseline")->is_null()) << op;
    EXPECT_EQ(line.Find("floor_us"), nullptr) << op;
    if (op == "experts_down") {
      EXPECT_EQ(*line.Find("format")->string(), "mxfp4");
      EXPECT_GE(Number(line, "experts"), Number(line, "tokens") == 1 ? 4 : 5);
    }
  }
  // Of a prompt, only what is longer than a few rows.
  const std::map<std::string, int> expected = {{"add_rms_norm", 2},
                                               {"attention_decode_full", 4},
                                               {"attention_decode_sliding", 4},
                                               {"attention_prefill_full", 2},
                                               {"attention_prefill_sliding", 2},
                                               {"experts_down", 2},
                                               {"experts_gate_up", 2},
                                               {"lm_head", 2},
                                               {"o", 2},
                                               {"qkv", 2},
                                               {"rope_append_kv", 4},
                                               {"route", 2}};
  EXPECT_EQ(lines, expected);
}

TEST(BenchOps, CountsBytesAndProducts) {
  const ProgramResult result =
      Bench({"--like", "tests/data/toy-a", "--tokens", "3", "--op", "qkv"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::vector<JsonValue> lines = Lines(result.out);
  ASSERT_EQ(lines.size(), 1u);
  // 192 columns; 8 heads and 2 for keys and values each, of 64; f32 on a CPU.
  EXPECT_EQ(Number(lines[0], "bytes"), 768 * 192 * 2 + 3 * (192 + 768) * 4);
  EXPECT_EQ(Number(lines[0], "flops"), 2 * 3 * 768 * 192);
}

TEST(BenchOps, TakesBeginningsOfNamesAndFormatsOfMatrices) {
  const ProgramResult result = Bench({"--like", "tests/data/toy-a", "--tokens", "2", "--op",
                                      "experts,o,attention_decode_s", "--dense", "fp8-block"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  std::map<std::string, std::string> formats;
  for (const JsonValue& line : Lines(result.out)) {
    const JsonValue* format = line.Find("format");
    formats[*line.Find("op")->string()] = format == nullptr ? "" : *format->string();
  }
  const std::map<std::string, std::string> expected = {{"attention_decode_sliding", ""},
                                                       {"experts_down", "mxfp4"},
                                                       {"experts_gate_up", "mxfp4"},
                                                       {"o", "fp8-block"}};
  EXPECT_EQ(formats, expected);
}

TEST(BenchOps, TakesACheckpointOfAnotherFamily) {
  const ProgramResult result = Bench({"tests/data/qwen3-moe-toy-fp8", "--tokens", "17"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(Lines(result.out).size(), 10u) << result.out;
}

TEST(BenchOps, SaysWhatIsWrong) {
  const ProgramResult no_op = Bench({"models/rosebud", "--op", "nonsense"});
  EXPECT_EQ(no_op.exit_code, 2);
  EXPECT_SAYS(no_op.err, "--op 'nonsense'");
  // One of several, and one that is not there for these tokens.
  for (const char* names : {"o,nonsense", "o,attention_prefill"}) {
    const ProgramResult one = Bench({"--like", "tests/data/toy-a", "--tokens", "2", "--op", names});
    EXPECT_EQ(one.exit_code, 2) << names;
    EXPECT_SAYS(one.err, "there are add_rms_norm, attention_decode_full,");
    EXPECT_EQ(one.out, "");
  }
  const ProgramResult no_tokens = Bench({"models/rosebud", "--tokens", "0"});
  EXPECT_EQ(no_tokens.exit_code, 2);
  EXPECT_SAYS(no_tokens.err, "--tokens");
}

TEST(BenchDecode, SaysWhatWasComparedWithTheModelAlone) {
  const ProgramResult result =
      RunProgram({"bench", "decode", "--device", "cpu", "--like", "tests/data/toy-a", "--users",
                  "1,5", "--prompt", "70", "--tokens", "9", "--runs", "1"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::vector<JsonValue> lines = Lines(result.out);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(Number(*lines[0].Find("checked"), "users"), 1);
  EXPECT_EQ(Number(*lines[1].Find("checked"), "users"), 4);
  EXPECT_EQ(Number(*lines[1].Find("checked"), "tokens"), 9);
}

}  // namespace
}  // namespace rose
