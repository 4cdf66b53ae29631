// Options of the commands: what looks like a value and is none, is refused.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "apps/run_program.h"
#include "checkpoint/checkpoint_folder.h"
#include "expect_says.h"
#include "temp_path.h"

namespace rose {
namespace {

namespace fs = std::filesystem;

const std::string kToyA = "tests/data/toy-a";
const std::string kRosebud = "models/rosebud";

TEST(Options, AListOfNumbersHoldsNumbers) {
  for (const char* list : {"", ",", "1,", ",1", "1,,2", "1 2", "-1", "+1", "x", "0x1", "1.0",
                           "2147483648", "99999999999999999999"}) {
    for (const char* option : {"--token-ids", "--stop-ids"}) {
      std::vector<std::string> arguments = {"generate", kToyA, option, list, "--max-tokens", "1"};
      if (std::string(option) == "--stop-ids")
        arguments.insert(arguments.end(), {"--token-ids", "1"});
      const ProgramResult result = RunProgram(arguments);
      EXPECT_EQ(result.exit_code, 2) << option << " '" << list << "' " << result.err;
      EXPECT_SAYS(result.err, option);
    }
    if (std::string(list) == "2147483648") continue;  // a position may be as large
    const ProgramResult result = RunProgram({"logits", kToyA, "--token-ids-file", "/dev/null",
                                             "--out", "/tmp/none", "--positions", list});
    EXPECT_EQ(result.exit_code, 2) << list;
  }
  const std::vector<std::string> start = {"generate",      kToyA, "--max-tokens", "2", "--json",
                                          "--temperature", "0"};
  std::vector<std::string> commas = start, words = start;
  commas.insert(commas.end(), {"--token-ids", "1,2,3"});
  words.insert(words.end(), {"--token-ids", "1", "2,3"});
  EXPECT_EQ(RunProgram(commas).exit_code, 0);
  EXPECT_EQ(RunProgram(commas).out, RunProgram(words).out);
}

// What a shell makes of "$MODEL" without that variable.
TEST(Options, AnEmptyModelIsNotTheDefault) {
  const std::vector<std::vector<std::string>> commands = {
      {"inspect", ""},
      {"serve", "", "--max-context", "100000000"},  // else it would serve
      {"chat", "", "--max-context", "100000000"},
      {"generate", "", "--token-ids", "1", "--max-tokens", "1"},
      {"logits", "", "--token-ids-file", kToyA + "/config.json", "--out", "/tmp/none"},
      {"batch", "/dev/null", "/tmp/none", ""},
      {"bench", "decode", ""},
      {"bench", "ops", "--like", ""},
      {"simulate", "--compare", "", "--input", "no length"},
      {"convert", "", "--to", "bf16"},
      {"make-checkpoint", "--like", "", "--out", "/tmp/none"},
      {"tokenize", "--model", "", "x"},
      {"render", "--model", ""},
      {"parse", "--model", ""}};
  for (const std::vector<std::string>& command : commands) {
    const ProgramResult result = RunProgram(command);
    EXPECT_EQ(result.exit_code, 2) << command[0];
    EXPECT_SAYS(result.err, " is needed");
    EXPECT_EQ(result.out, "") << command[0];
  }
}

TEST(Options, ASeedIsNotWrapped) {
  const auto generate = [](const std::string& seed) {
    return RunProgram(
        {"generate", kToyA, "--token-ids", "1", "--max-tokens", "1", "--json", "--seed", seed});
  };
  for (const char* seed : {"-1", "9223372036854775808", "18446744073709551616", "", "1.5", "x"})
    EXPECT_EQ(generate(seed).exit_code, 2) << seed;
  EXPECT_EQ(generate("9223372036854775807").exit_code, 0);
  EXPECT_EQ(generate("0").exit_code, 0);
  EXPECT_EQ(RunProgram({"chat", kRosebud, "--seed", "-1"}).exit_code, 2);
}

TEST(Options, AnOriginIsOne) {
  for (const char* origin : {"foo", "https://app.example/", ""}) {
    const ProgramResult result = RunProgram({"serve", kToyA, "--cors-origin", origin});
    EXPECT_EQ(result.exit_code, 2) << origin;
    EXPECT_SAYS(result.err, "--cors-origin");
  }
}

TEST(Options, NamesDoNotSteerTheTerminal) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"inspect", "no\033[31mred\u009b"},
        std::vector<std::string>{"tokenize", "--model", "no\033]0;title\a", "x"},
        std::vector<std::string>{"\033[2J"},
        std::vector<std::string>{"serve", "--port", "\033[2J"}}) {
    const ProgramResult result = RunProgram(arguments);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_SAYS(result.err, "\\x1B");
    EXPECT_EQ(result.err.find('\033'), std::string::npos);
    EXPECT_EQ(result.err.find("\u009b"), std::string::npos);
  }
}

TEST(Options, NamesOfTensorsDoNotSteerTheTerminal) {
  CheckpointFolder work;
  WriteText(work.path() + "/config.json", R"({"architectures":["OtherForCausalLM"]})");
  WriteText(work.path() + "/model.safetensors",
            RawSafetensors(
                "{\"\\u001b[31m\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", "x"));
  const ProgramResult result = RunProgram({"inspect", work.path()});
  EXPECT_SAYS(result.out, "\\x1B[31m");
  EXPECT_EQ(result.out.find('\033'), std::string::npos);
}

TEST(Options, AContextThatCannotBeHadIsRefused) {
  const ProgramResult positions =
      RunProgram({"chat", kRosebud, "--max-context", "131073"}, "hello\n");
  EXPECT_EQ(positions.exit_code, 2);
  EXPECT_SAYS(positions.err, "--max-context 131073: the model has 131072 positions");
  const ProgramResult memory =
      RunProgram({"chat", kRosebud, "--max-context", "100000", "--kv-memory", "4M"}, "hello\n");
  EXPECT_EQ(memory.exit_code, 2);
  EXPECT_SAYS(memory.err, "--kv-memory");
  EXPECT_EQ(RunProgram({"chat", kRosebud, "--max-context", "1000", "--max-tokens", "2"}, "hello\n")
                .exit_code,
            0);
}

TEST(Options, MemoryOfAGpuThatDoesNotComputeIsRefused) {
  for (const std::string command : {"chat", "serve"}) {
    const ProgramResult result = RunProgram(
        {command, kRosebud, "--device", "cpu", "--gpu-memory", "8G", "--max-context", "100000000"});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_SAYS(result.err, "--gpu-memory: this computes on the CPU");
  }
}

TEST(Options, TokenIdsMayComeThroughAPipe) {
  CheckpointFolder work;
  const std::string pipe = work.path() + "/pipe", out = work.path() + "/logits.safetensors";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(pipe) << "[1, 2, 3]"; });
  const ProgramResult result =
      RunProgram({"logits", kToyA, "--token-ids-file", pipe, "--out", out});
  writer.join();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(fs::exists(out));
}

// What `rose chat` shows on a terminal of its own.
std::string OnATerminal(const std::string& environment) {
  const std::string program = fs::read_symlink("/proc/self/exe").parent_path() / "rose";
  const std::string shown = TempPath("terminal");
  const std::string command = environment + " script -qec '" + program + " chat " + kRosebud +
                              "' /dev/null </dev/null >" + shown + " 2>&1";
  EXPECT_EQ(std::system(command.c_str()), 0);
  std::ifstream file(shown);
  std::string text(std::istreambuf_iterator<char>(file), {});
  fs::remove(shown);
  EXPECT_SAYS(text, "Ask something");
  return text;
}

TEST(Options, NoColorMeansNoStyles) {
  EXPECT_SAYS(OnATerminal("NO_COLOR="), "\033[");
  EXPECT_EQ(OnATerminal("NO_COLOR=1").find("\033["), std::string::npos);
}

}  // namespace
}  // namespace rose
