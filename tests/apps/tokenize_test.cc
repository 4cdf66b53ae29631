#include <gtest/gtest.h>

#include "apps/run_program.h"
#include "base/json.h"

namespace rose {
namespace {

ProgramResult Tokenize(std::vector<std::string> arguments, const std::string& input = "") {
  arguments.insert(arguments.begin(), {"tokenize", "--model", "o200k_harmony"});
  return RunProgram(arguments, input);
}

TEST(TokenizeCommand, OneJsonStringALine) {
  const ProgramResult result =
      Tokenize({"--json"}, "\"hello world\"\n\"\"\n\"<|start|>\"\n \"\\ud83e\\udd99\" \n\"\\n\"");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "[24912, 2375]\n[]\n[27, 91, 5236, 91, 29]\n[4103, 99, 247]\n[198]\n");
  EXPECT_EQ(result.err, "");
}

TEST(TokenizeCommand, SpecialsOnlyWhenAsked) {
  EXPECT_EQ(Tokenize({"--json", "--special"}, "\"<|start|>\"\n").out, "[200006]\n");
}

TEST(TokenizeCommand, DecodesListsOfIds) {
  const ProgramResult result =
      Tokenize({"--json", "--decode"}, "[24912, 2375]\n[]\n[9552, 198]\n[200012]\n");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "\"hello world\"\n\"\"\n\" \uFFFD\\n\"\n\"<|call|>\"\n");
}

TEST(TokenizeCommand, EveryTokenDecodesToValidJson) {
  std::string input;
  for (int id = 0; id < 201088; ++id) input += "[" + std::to_string(id) + "]\n";
  const ProgramResult result = Tokenize({"--json", "--decode"}, input);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  int64_t lines = 0;
  for (size_t at = 0; at < result.out.size(); ++lines) {
    const size_t end = result.out.find('\n', at);
    ASSERT_NE(end, std::string::npos);
    ASSERT_TRUE(ParseJson(result.out.substr(at, end - at)).ok()) << "id " << lines;
    at = end + 1;
  }
  EXPECT_EQ(lines, 201088);
}

TEST(TokenizeCommand, ABadLineIsNamed) {
  const auto error = [](std::vector<std::string> arguments, const std::string& line) {
    arguments.push_back("--json");
    const bool decode = arguments.front() == "--decode";
    const ProgramResult result = Tokenize(arguments, (decode ? "[198]\n" : "\"a\"\n") + line);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(result.out, decode ? "\"\\n\"\n" : "[64]\n");
    return result.err;
  };
  EXPECT_EQ(error({}, "[1]\n"), "rose: line 2 of the input: expected a JSON string\n");
  EXPECT_EQ(error({}, "\n"),
            "rose: line 2 of the input: Invalid JSON at byte 0: expected a value.\n");
  EXPECT_NE(error({}, "\"a\n").find("line 2"), std::string::npos);
  EXPECT_NE(error({}, "\"\xff\"\n").find("line 2"), std::string::npos);
  EXPECT_NE(error({}, std::string(1000000, '[')).find("line 2"), std::string::npos);
  EXPECT_EQ(error({"--decode"}, "\"a\"\n"),
            "rose: line 2 of the input: expected a list of token ids\n");
  EXPECT_EQ(error({"--decode"}, "[1.5]\n"),
            "rose: line 2 of the input: a token id must be a whole number, not 1.5\n");
  EXPECT_EQ(error({"--decode"}, "[\"1\"]\n"),
            "rose: line 2 of the input: a token id must be a whole number, not \"1\"\n");
}

TEST(TokenizeCommand, ForEyes) {
  EXPECT_EQ(Tokenize({"hello \"w\xff\n"}).out,
            "  24912  \"hello\"\n    392  \" \\\"\"\n     86  \"w\"\n    187  \"\\xFF\"\n    198  "
            "\"\\n\"\n");
  EXPECT_EQ(Tokenize({"--special"}, "<|end|>").out, " 200007  <|end|>\n");
  EXPECT_EQ(Tokenize({"--decode", "24912", "2375"}).out, "hello world\n");
  EXPECT_EQ(Tokenize({"--decode"}, "24912\n2375\n").out, "hello world\n");
}

TEST(TokenizeCommand, AnIdWithoutTokenIsRefused) {
  for (const std::string id : {"-1", "201088", "2147483648", "4294967320"}) {
    const std::string message = "no token has the id " + id + "; ids go up to 201087\n";
    const ProgramResult words = Tokenize({"--decode"}, "24912 " + id);
    EXPECT_EQ(words.exit_code, 2);
    EXPECT_EQ(words.out, "");
    EXPECT_EQ(words.err, "rose: " + message);
    const ProgramResult lines = Tokenize({"--json", "--decode"}, "[24912]\n[24912, " + id + "]\n");
    EXPECT_EQ(lines.exit_code, 2);
    EXPECT_EQ(lines.out, "\"hello\"\n");
    EXPECT_EQ(lines.err, "rose: line 2 of the input: " + message);
  }
}

TEST(TokenizeCommand, WrongUseIsExit2) {
  const ProgramResult word = Tokenize({"--decode", "x1"});
  EXPECT_EQ(word.exit_code, 2);
  EXPECT_EQ(word.err, "rose: a token id must be a whole number, not \"x1\"\n");
  EXPECT_EQ(Tokenize({"--json", "text"}).exit_code, 2);
  EXPECT_EQ(Tokenize({"--jason"}).exit_code, 2);
  const ProgramResult missing = RunProgram({"tokenize", "--model", "no/such", "x"});
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_EQ(missing.err, "rose: there is no no/such\n");
  EXPECT_EQ(RunProgram({"tokenize", "--model", "tests/data/tokenizer", "x"}).err,
            "rose: tests/data/tokenizer has no tokenizer.json and no *.tiktoken\n");
}

}  // namespace
}  // namespace rose
