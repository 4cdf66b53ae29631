// What holds for the whole program: wrong use, output that cannot be written, odd files.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "apps/run_program.h"
#include "checkpoint/checkpoint_folder.h"
#include "expect_says.h"

namespace rose {
namespace {

namespace fs = std::filesystem;

const std::string kToyA = "tests/data/toy-a";
const std::string kRosebud = "models/rosebud";

// Exit code of the program with its standard output on a full device.
int ExitCodeOnFullDevice(const std::string& arguments) {
  const std::string program = fs::read_symlink("/proc/self/exe").parent_path() / "rose";
  const int status = std::system((program + " " + arguments + " >/dev/full 2>/dev/null").c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void CopyFiles(const std::string& from, std::initializer_list<const char*> names,
               const std::string& to) {
  for (const char* name : names)
    fs::copy_file(from + "/" + name, to + "/" + name, fs::copy_options::overwrite_existing);
}

TEST(Program, NamesTheCommandThatDoesNotExist) {
  const ProgramResult result = RunProgram({"srve"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_SAYS(result.err, "there is no command 'srve'");
}

TEST(Program, OutputThatIsLostIsAFailure) {
  EXPECT_EQ(ExitCodeOnFullDevice("--help"), 1);
  EXPECT_EQ(ExitCodeOnFullDevice("inspect " + kToyA), 1);
  EXPECT_EQ(ExitCodeOnFullDevice("tokenize --model o200k_harmony text"), 1);
  EXPECT_EQ(ExitCodeOnFullDevice("generate " + kToyA + " --token-ids 1 --max-tokens 2 --json"), 1);
}

TEST(Program, APipeInPlaceOfAFileDoesNotHang) {
  CheckpointFolder work;
  CopyFiles(kToyA, {"config.json"}, work.path());
  ASSERT_EQ(::mkfifo((work.path() + "/model.safetensors").c_str(), 0600), 0);
  const ProgramResult result = RunProgram({"inspect", work.path()});
  EXPECT_NE(result.exit_code, 0);
  EXPECT_SAYS(result.err, "not a regular file");
}

TEST(Program, LogitsReplacesNothingButAFile) {
  CheckpointFolder work;
  WriteText(work.path() + "/ids.json", "[1, 2]");
  WriteText(work.path() + "/target", "precious");
  fs::create_symlink("target", work.path() + "/link");
  for (const std::string& out : {work.path(), work.path() + "/link", std::string()}) {
    const ProgramResult result =
        RunProgram({"logits", kToyA, "--token-ids-file", work.path() + "/ids.json", "--out", out});
    EXPECT_EQ(result.exit_code, 2) << out << result.err;
  }
  EXPECT_TRUE(fs::is_symlink(work.path() + "/link"));
}

TEST(Program, RefusesMemoryThatIsNone) {
  for (const char* memory : {"-5", "0", "18446744073709551616", "9e", "4000T"}) {
    const ProgramResult result =
        RunProgram({"serve", kRosebud, "--port", "0", "--kv-memory", memory});
    EXPECT_EQ(result.exit_code, 2) << memory << result.err;
  }
}

TEST(Program, SaysWhichMemoryIsTooLarge) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer ends a process that asks for so much";
#endif
  const ProgramResult result =
      RunProgram({"serve", kRosebud, "--device", "cpu", "--port", "0", "--host-cache", "900T"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_SAYS(result.err, "--host-cache");
}

TEST(Program, RefusesTheBuiltInTokenizerForAnotherFamily) {
  const ProgramResult result =
      RunProgram({"chat", "--device", "cpu", "--like", "tests/data/qwen3-moe-toy"}, "hello\n");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_SAYS(result.err, "o200k_harmony: the tokenizer is not this model's");
  EXPECT_SAYS(result.err, "tokenizer.json");
}

TEST(Program, RefusesTheTokenizerOfAnotherModel) {
  CheckpointFolder work;
  CopyFiles(kToyA, {"config.json", "model.safetensors"}, work.path());
  CopyFiles(kRosebud, {"tokenizer.json", "tokenizer_config.json"}, work.path());
  const ProgramResult result = RunProgram({"chat", work.path()}, "hello\n");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_SAYS(result.err, "the tokenizer is not this model's");
}

TEST(Program, ChatForgetsAThoughtWithoutAnAnswer) {
  const ProgramResult result =
      RunProgram({"chat", kRosebud, "--temperature", "0", "--max-tokens", "32"},
                 "/effort high\nWhat is 12345 + 54321?\n/effort low\nWhat is 2 + 2?\n");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_SAYS(result.out, "2 + 2 = 4");
}

}  // namespace
}  // namespace rose
