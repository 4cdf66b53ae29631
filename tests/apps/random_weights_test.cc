// Commands over made-up weights, as a user runs them.
#include <gtest/gtest.h>

#include <filesystem>

#include "apps/run_program.h"
#include "base/file.h"
#include "base/json.h"
#include "checkpoint/checkpoint_folder.h"
#include "expect_says.h"
#include "models/built_in_configs.h"
#include "temp_path.h"

namespace rose {
namespace {

namespace fs = std::filesystem;

const std::string kToyA = "tests/data/toy-a";  // its configuration alone is used

class RandomWeightsCommand : public testing::Test {
 protected:
  void SetUp() override { fs::remove_all(out_); }
  void TearDown() override { fs::remove_all(out_); }

  const std::string out_ = TempPath("random_weights_test");
};

TEST_F(RandomWeightsCommand, ACheckpointAnswersAsTheSameWeightsMadeAtOnce) {
  const ProgramResult made = RunProgram(
      {"make-checkpoint", "--like", kToyA, "--seed", "5", "--routing", "zipf:1.5", "--out", out_});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  EXPECT_SAYS(made.out, "79 tensors");
  const auto generate = [](std::vector<std::string> model) {
    model.insert(model.begin(), {"generate", "--device", "cpu"});
    model.insert(model.end(),
                 {"--token-ids", "1,2,3", "--max-tokens", "6", "--temperature", "0", "--json"});
    const ProgramResult result = RunProgram(model);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  };
  const std::string answer = generate({out_});
  EXPECT_EQ(answer, generate({"--like", kToyA, "--weights-seed", "5", "--routing", "zipf:1.5"}));
  EXPECT_EQ(answer, generate({kToyA, "--load-format", "random", "--weights-seed", "5", "--routing",
                              "zipf:1.5"}));
  EXPECT_NE(answer, generate({"--like", kToyA, "--weights-seed", "6", "--routing", "zipf:1.5"}));
}

TEST_F(RandomWeightsCommand, AnotherFamilyAnswersAsTheSameWeightsMadeAtOnce) {
  const std::string toy = "tests/data/qwen3-moe-toy";
  for (const std::string format : {"bf16", "fp8-block"}) {
    const ProgramResult made =
        RunProgram({"make-checkpoint", "--like", toy, "--experts", format, "--out", out_});
    ASSERT_EQ(made.exit_code, 0) << made.err;
    const std::vector<std::string> run = {"--device",     "cpu", "--token-ids",   "1,2,3",
                                          "--max-tokens", "6",   "--temperature", "0",
                                          "--json"};
    std::vector<std::string> read = {"generate", out_};
    std::vector<std::string> direct = {"generate", "--like", toy, "--experts", format};
    read.insert(read.end(), run.begin(), run.end());
    direct.insert(direct.end(), run.begin(), run.end());
    const ProgramResult answer = RunProgram(read);
    EXPECT_EQ(answer.exit_code, 0) << answer.err;
    EXPECT_EQ(answer.out, RunProgram(direct).out);
    fs::remove_all(out_);
  }
}

TEST_F(RandomWeightsCommand, BenchPrefillGivesOneLineForEachLength) {
  const ProgramResult result =
      RunProgram({"bench", "prefill", "--device", "cpu", "--like", kToyA, "--tokens", "1,70",
                  "--chunk", "32", "--runs", "2", "--warmup", "0"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const size_t end = result.out.find('\n');
  const auto json = ParseJson(result.out.substr(end + 1));
  ASSERT_TRUE(json.ok()) << result.out;
  const auto number = [&](const char* key) { return json->Find(key)->AsDouble().value(); };
  EXPECT_EQ(*json->Find("model")->string(), "toy-a-random");
  EXPECT_EQ(number("tokens"), 70);
  EXPECT_EQ(number("runs"), 2);
  EXPECT_GT(number("tokens_per_s"), 0);
  EXPECT_LE(number("ms_p10"), number("ms"));
  EXPECT_LE(number("ms"), number("ms_p90"));
  EXPECT_NEAR(number("experts_a_layer"), 8, 0.01);
  EXPECT_EQ(json->Find("floor_ms"), nullptr);
}

TEST_F(RandomWeightsCommand, TheTokenizerIsThatOfTheModelWhoseSizeIsMeant) {
  for (const std::vector<std::string>& model :
       {std::vector<std::string>{"--load-format", "random"},
        std::vector<std::string>{"models/rosebud", "--load-format", "random"},
        std::vector<std::string>{"--like", "models/rosebud"},
        std::vector<std::string>{"--like", "models/rosebud/config.json"}}) {
    std::vector<std::string> words = {"generate", "--device", "cpu", "--max-tokens", "1"};
    words.insert(words.end(), model.begin(), model.end());
    words.emplace_back("2 + 2 =");
    const ProgramResult result = RunProgram(words);
    EXPECT_EQ(result.exit_code, 0) << model.front() << result.err;
  }
}

// Neither OpenAI's folder `original` nor make-checkpoint's has a tokenizer. That of gpt-oss is
// built in, so that what is missing here is the weights.
TEST_F(RandomWeightsCommand, ThePublishedGptOssNeedsNoTokenizerFile) {
  const auto complaint = [&](const std::string& config) {
    WriteText(out_ + "/original/config.json", config);
    const ProgramResult result = RunProgram({"generate", out_, "2 + 2 ="});
    EXPECT_EQ(result.exit_code, 2);
    return result.err;
  };
  fs::create_directories(out_ + "/original");
  EXPECT_SAYS(complaint(std::string(BuiltInConfigs().front().config_json)),
              "has no model.safetensors");
  EXPECT_SAYS(complaint(ReadFile(kToyA + std::string("/config.json"), 10'000).value()),
              "has no tokenizer.json");
}

TEST_F(RandomWeightsCommand, SaysWhatIsWrong) {
  const auto fails = [](const std::vector<std::string>& arguments, const char* message) {
    const ProgramResult result = RunProgram(arguments);
    EXPECT_EQ(result.exit_code, 2) << arguments[0];
    EXPECT_SAYS(result.err, message);
  };
  fails({"make-checkpoint", "--like", "21b", "--out", out_}, "there are 20b, 120b");
  fails({"make-checkpoint", "--like", "20b", "--out", out_, "--routing", "zipf:-1"}, "balanced");
  fails({"make-checkpoint", "--like", kToyA, "--out", "tests"}, "exists already");
  fails({"generate", "models/rosebud", "--like", "20b", "--token-ids", "1"},
        "either DIR or --like");
  fails({"make-checkpoint", "--like", kToyA, "--out", out_, "--tokenizer", "tests"},
        "tests: has no tokenizer.json");
  fails({"generate", "--like", "", "--token-ids", "1"}, "--like");
  EXPECT_FALSE(fs::exists(out_));
}

TEST_F(RandomWeightsCommand, ASeedIsNotWrapped) {
  for (const char* seed : {"-1", "18446744073709551616", "", "1.5", "x", " 1"}) {
    for (const std::vector<std::string>& arguments :
         {std::vector<std::string>{"make-checkpoint", "--like", kToyA, "--out", out_, "--seed"},
          std::vector<std::string>{"generate", "--like", kToyA, "--token-ids", "1",
                                   "--weights-seed"}}) {
      std::vector<std::string> words = arguments;
      words.emplace_back(seed);
      const ProgramResult result = RunProgram(words);
      EXPECT_EQ(result.exit_code, 2) << seed << result.err;
      EXPECT_SAYS(result.err, words[words.size() - 2]);
    }
  }
  EXPECT_EQ(RunProgram({"generate", "--like", kToyA, "--token-ids", "1", "--max-tokens", "1",
                        "--weights-seed", "18446744073709551615"})
                .exit_code,
            0);
}

// Whoever sets them believes that they do something.
TEST_F(RandomWeightsCommand, OptionsOfMadeUpWeightsAreRefusedWithoutSuch) {
  for (const std::vector<std::string>& option : {std::vector<std::string>{"--experts", "bf16"},
                                                 {"--routing", "zipf:1"},
                                                 {"--weights-seed", "2"}}) {
    for (const std::vector<std::string>& command :
         {std::vector<std::string>{"generate", kToyA, "--token-ids", "1", "--max-tokens", "1"},
          {"bench", "prefill", kToyA, "--tokens", "1", "--runs", "1"},
          {"chat", "models/rosebud"}}) {
      std::vector<std::string> words = command;
      words.insert(words.end(), option.begin(), option.end());
      const ProgramResult result = RunProgram(words);
      EXPECT_EQ(result.exit_code, 2) << command[0] << " " << option[0];
      EXPECT_SAYS(result.err, "--load-format random");
    }
  }
}

}  // namespace
}  // namespace rose
