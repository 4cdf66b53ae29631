// rose inspect and rose convert as a user runs them: output, messages, exit codes.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <boost/json/parse.hpp>
#include <cstdio>

#include "base/file.h"
#include "checkpoint/checkpoint_folder.h"
#include "expect_says.h"

namespace rose {
namespace {

namespace fs = std::filesystem;

const std::string kToyA = "tests/data/toy-a";

struct Outcome {
  int exit_code = -1;
  std::string out, err;
};

// Runs the program that lies beside this one.
Outcome Rose(const CheckpointFolder& work, const std::string& arguments) {
  const std::string program = fs::read_symlink("/proc/self/exe").parent_path() / "rose";
  const std::string err = work.path() + "/stderr", out = work.path() + "/stdout";
  const int status = std::system((program + " " + arguments + " >" + out + " 2>" + err).c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, *ReadFile(out, 1 << 26),
          *ReadFile(err, 1 << 20)};
}

// A copy of toy-a whose model.safetensors is `bytes`.
std::string BadModel(const CheckpointFolder& work, const std::string& bytes) {
  const std::string folder = work.path() + "/bad";
  fs::create_directories(folder);
  fs::copy_file(kToyA + "/config.json", folder + "/config.json",
                fs::copy_options::overwrite_existing);
  WriteText(folder + "/model.safetensors", bytes);
  return folder;
}

TEST(InspectCommand, ShowsFormatsAndTensors) {
  CheckpointFolder work;
  const Outcome text = Rose(work, "inspect " + kToyA);
  EXPECT_EQ(text.exit_code, 0);
  EXPECT_EQ(text.err, "");
  EXPECT_SAYS(text.out, "bytes         4692992 (4.69 MB)");
  EXPECT_SAYS(text.out, "mxfp4             8   1.88 MB");
  const Outcome json = Rose(work, "inspect --json " + kToyA);
  EXPECT_EQ(json.exit_code, 0);
  const boost::json::value root = boost::json::parse(json.out);
  EXPECT_EQ(root.at("architecture").as_string(), "GptOssForCausalLM");
  EXPECT_EQ(root.at("tensors").as_array().size(), 79u);
  EXPECT_EQ(root.at("bytes").as_int64(), 4692992);
  EXPECT_EQ(root.at("formats").at("mxfp4").at("weights").as_int64(), 8);
  EXPECT_EQ(root.at("config").at("hidden_size").as_int64(), 192);
  EXPECT_TRUE(root.at("missing").as_array().empty());
}

TEST(InspectCommand, BadFilesEndWithCode2AndASentence) {
  CheckpointFolder work;
  const std::string good = *ReadFile(kToyA + "/model.safetensors", 1 << 24);
  const auto problem = [&](const std::string& bytes) {
    const Outcome outcome = Rose(work, "inspect " + BadModel(work, bytes));
    EXPECT_EQ(outcome.exit_code, 2);
    return outcome.err;
  };
  EXPECT_SAYS(problem(good.substr(0, 5)),
              "rose: " + work.path() + "/bad/model.safetensors: the file is cut short");
  EXPECT_SAYS(problem(good.substr(0, good.size() - 1)), "reach beyond the file");
  EXPECT_SAYS(problem(std::string(16, '\x7f')), "more than the limit of 100000000");
  EXPECT_SAYS(problem(RawSafetensors("{}", "")), "missing (71):\n  'model.embed_tokens.weight'");
  EXPECT_SAYS(problem(RawSafetensors(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                                     R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
                                     "abc")),
              "the data of tensor 'b' overlaps that of tensor 'a'");
  EXPECT_SAYS(Rose(work, "inspect /nonexistent").err, "rose: /nonexistent: no such folder");
}

TEST(InspectCommand, AnotherArchitectureIsShownAndRefused) {
  CheckpointFolder work;
  const std::string folder = BadModel(work, RawSafetensors("{}", ""));
  WriteText(folder + "/config.json", R"({"architectures":["OtherForCausalLM"]})");
  const Outcome outcome = Rose(work, "inspect " + folder);
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_SAYS(outcome.out, "tensors       0");
  EXPECT_SAYS(outcome.err, "OtherForCausalLM");
  EXPECT_EQ(Rose(work, "convert " + folder + " --to bf16").exit_code, 2);
}

TEST(ConvertCommand, ConvertsProvesAndRefuses) {
  CheckpointFolder work;
  const std::string out = work.path() + "/fp8";
  const Outcome first =
      Rose(work, "convert " + kToyA + " --to fp8-block --strict --out " + out + "/");
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_EQ(first.err, "") << "no bar without a terminal";
  EXPECT_SAYS(first.out, "8 weights converted, 63 copied, 4.69 MB -> 6.35 MB");
  EXPECT_SAYS(first.out, "bit-exact: all 320 blocks");
  EXPECT_SAYS(first.out, "   5         308  ####");
  EXPECT_EQ(Rose(work, "inspect " + out).exit_code, 0);
  const Outcome again = Rose(work, "convert " + kToyA + " --to fp8-block --out " + out);
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_SAYS(again.err, "exists already; remove it or choose another --out");
  const Outcome json = Rose(work, "convert --json " + out + " --to bf16");
  EXPECT_EQ(json.exit_code, 0);
  EXPECT_TRUE(boost::json::parse(json.out).at("exact").as_bool());
  EXPECT_TRUE(fs::exists(out + "-bf16/convert_report.json"));
  EXPECT_EQ(Rose(work, "convert " + kToyA + " --to int4").exit_code, 2);
}

TEST(ConvertCommand, StrictRefusalAndFullDiskEndWithCode1) {
  CheckpointFolder work;
  // A scale of one MXFP4 block far below the others of its 128 x 128.
  std::string bytes = *ReadFile(kToyA + "/model.safetensors", 1 << 24);
  const auto checkpoint = OpenCheckpoint(kToyA);
  const char* name = "model.layers.1.mlp.experts.down_proj_scales";
  const auto* begin = static_cast<const char*>((*checkpoint)->Data(name).raw());
  const std::string scales(begin, (*checkpoint)->Data(name).bytes());
  const size_t at = bytes.find(scales);
  ASSERT_NE(at, std::string::npos);
  bytes[at + 7] = 60;
  const std::string folder = BadModel(work, bytes), out = work.path() + "/out";
  const Outcome refused = Rose(work, "convert " + folder + " --to fp8-block --strict --out " + out);
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_SAYS(refused.err, "--strict refuses: 1 of 32 blocks change");
  EXPECT_SAYS(refused.err, "model.layers.1.mlp.experts.down_proj expert 0 block [0, 0]");
  EXPECT_FALSE(fs::exists(out) || fs::exists(out + ".partial"));
  const Outcome inexact = Rose(work, "convert " + folder + " --to fp8-block --out " + out);
  EXPECT_EQ(inexact.exit_code, 0);
  EXPECT_SAYS(inexact.out, "not exact: 1 of 320 blocks");
  bytes[at + 7] = '\xff';
  const Outcome nan =
      Rose(work, "convert " + BadModel(work, bytes) + " --to bf16 --out " + out + "2");
  EXPECT_EQ(nan.exit_code, 2);
  EXPECT_SAYS(nan.err,
              "down_proj_scales' has 1 scale that are NaN or infinite, the first at [0, 1, 1]");
  EXPECT_FALSE(fs::exists(out + "2") || fs::exists(out + "2.partial"));
}

TEST(ConvertCommand, AFileLimitIsAFailedWrite) {
  CheckpointFolder work;
  const std::string out = work.path() + "/out";
  const std::string program = fs::read_symlink("/proc/self/exe").parent_path() / "rose";
  const std::string err = work.path() + "/err";
  const int status = std::system(("bash -c 'ulimit -f 1000; " + program + " convert " + kToyA +
                                  " --to bf16 --out " + out + "' 2>" + err)
                                     .c_str());
  EXPECT_EQ(WEXITSTATUS(status), 1);
  EXPECT_SAYS(*ReadFile(err, 1 << 20), "cannot write: File too large");
  EXPECT_FALSE(fs::exists(out) || fs::exists(out + ".partial"));
}

}  // namespace
}  // namespace rose
