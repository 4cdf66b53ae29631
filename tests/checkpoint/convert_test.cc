#include "checkpoint/convert.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/json/parse.hpp>
#include <cmath>
#include <fstream>
#include <sstream>

#include "base/file.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/convert_config.h"
#include "checkpoint/gpt_oss_table.h"
#include "expect_says.h"

namespace rose {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

const std::string kToyA = std::string(ROSE_SOURCE_DIR) + "/tests/data/toy-a";

std::unique_ptr<Checkpoint> Open(const std::string& folder) {
  Result<std::unique_ptr<Checkpoint>> checkpoint = OpenCheckpoint(folder);
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  return checkpoint.ok() ? std::move(checkpoint).value() : nullptr;
}

struct Conversion {
  std::string from, to, out;
  bool strict = false;
  int threads = 2;
  std::function<void(const LoadProgress&)> progress = nullptr;
  int64_t max_shard_bytes = 4'800'000'000;
};

Result<ConvertSummary> Convert(const Conversion& conversion, const std::vector<TensorSpec>& table) {
  const std::unique_ptr<Checkpoint> checkpoint = Open(conversion.from);
  return ConvertCheckpoint(*checkpoint, table,
                           {.to = FindCodec(conversion.to),
                            .out = conversion.out,
                            .strict = conversion.strict,
                            .threads = conversion.threads,
                            .progress = conversion.progress,
                            .max_shard_bytes = conversion.max_shard_bytes});
}

ConvertSummary MustConvert(const Conversion& conversion, const std::vector<TensorSpec>& table) {
  Result<ConvertSummary> summary = Convert(conversion, table);
  EXPECT_TRUE(summary.ok()) << summary.status().message();
  return summary.ok() ? std::move(summary).value() : ConvertSummary();
}

std::string Text(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

bool SameTensor(const Checkpoint& a, const Checkpoint& b, const std::string& name) {
  const Tensor x = a.Data(name), y = b.Data(name);
  return x.ToString() == y.ToString() && std::memcmp(x.raw(), y.raw(), x.bytes()) == 0;
}

// One expert weight "w" [experts, rows, cols] in MXFP4.
struct MadeUp {
  int64_t experts = 1, rows = 128, cols = 128;
  std::vector<uint8_t> blocks, scales;

  MadeUp(int64_t e, int64_t r, int64_t c) : experts(e), rows(r), cols(c) {
    blocks.resize(e * r * c / 2);
    for (size_t i = 0; i < blocks.size(); ++i)  // every nibble, -0 too
      blocks[i] = static_cast<uint8_t>((2 * i % 16) | ((2 * i + 1) % 16) << 4);
    scales.assign(e * r * c / 32, 120);
  }
  uint8_t& scale(int64_t expert, int64_t row, int64_t block) {
    return scales[(expert * rows + row) * (cols / 32) + block];
  }
  void Zero(int64_t expert, int64_t row, int64_t block) {
    std::fill_n(blocks.begin() + ((expert * rows + row) * (cols / 32) + block) * 16, 16, 0x80);
  }
  std::vector<TensorSpec> Table() const {
    return {{"w", TensorKind::kExperts, {experts, rows, cols}, {{"w"}}},
            {"v", TensorKind::kVector, {3}, {{"v"}}}};
  }
  void Save(CheckpointFolder& folder) const {
    folder.Add("w_blocks", DType::kU8, {experts, rows, cols / 32, 16}, blocks);
    folder.Add("w_scales", DType::kU8, {experts, rows, cols / 32}, scales);
    folder.Add("v", DType::kBf16, {3}, Bf16Ramp(3, 7));
    folder.Save();
  }
};

// Blocks of the report that are not exact, as {expert, row, column}.
std::vector<std::vector<int64_t>> InexactBlocks(const ConvertSummary& summary) {
  const json::value report = json::parse(Text(summary.report_path));
  std::vector<std::vector<int64_t>> blocks;
  for (const json::value& weight : report.at("weights").as_array())
    for (const json::value& block : weight.at("inexact").as_array())
      blocks.push_back({block.at("expert").to_number<int64_t>(),
                        block.at("block").at(0).to_number<int64_t>(),
                        block.at("block").at(1).to_number<int64_t>()});
  return blocks;
}

TEST(ConvertTest, ToyAThroughFp8IsToyAInBf16) {
  CheckpointFolder work;
  const std::vector<TensorSpec> table = GptOssTable({});
  const std::string fp8 = work.path() + "/fp8", bf16 = work.path() + "/bf16";
  const std::string through = work.path() + "/through";
  const ConvertSummary to_fp8 = MustConvert({kToyA, "fp8-block", fp8}, table);
  EXPECT_EQ(to_fp8.converted, 8);
  EXPECT_EQ(to_fp8.copied, 19 * 4 + 3 - 16);
  // [384, 192] is 3 x 2 blocks, [192, 192] is 2 x 2; eight experts in four layers.
  EXPECT_EQ(to_fp8.blocks, 4 * 8 * (6 + 4));
  int64_t blocks = 0;
  for (const int64_t count : to_fp8.spreads) blocks += count;
  EXPECT_EQ(blocks, to_fp8.blocks);
  const ConvertSummary to_bf16 = MustConvert({kToyA, "bf16", bf16}, table);
  EXPECT_EQ(to_bf16.inexact_blocks, 0);
  MustConvert({fp8, "bf16", through}, table);

  const std::unique_ptr<Checkpoint> source = Open(kToyA), middle = Open(fp8), direct = Open(bf16),
                                    other = Open(through);
  EXPECT_EQ(middle->tensors().size(), source->tensors().size());
  EXPECT_EQ(middle->Data("model.layers.0.mlp.experts.gate_up_proj").ToString(),
            "F8_E4M3 [8, 384, 192]");
  EXPECT_EQ(middle->Data("model.layers.0.mlp.experts.gate_up_proj_scale_inv").ToString(),
            "F32 [8, 3, 2]");
  EXPECT_EQ(direct->Data("model.layers.0.mlp.experts.gate_up_proj").ToString(),
            "BF16 [8, 192, 384]");
  EXPECT_EQ(to_fp8.inexact_blocks, 0) << "toy-a is known to be exact";
  for (const auto& [name, tensor] : direct->tensors())
    EXPECT_TRUE(SameTensor(*direct, *other, name)) << name;
  EXPECT_TRUE(SameTensor(*source, *middle, "model.layers.3.self_attn.q_proj.weight"));
  EXPECT_EQ(Text(fp8 + "/generation_config.json"), Text(kToyA + "/generation_config.json"));
  EXPECT_FALSE(fs::exists(fp8 + "/convert.journal"));
  EXPECT_FALSE(fs::exists(fp8 + ".partial"));

  // And the decoded weights that a model gets are equal too.
  const auto a = LoadWeights(*source, table, 1, nullptr),
             b = LoadWeights(*middle, table, 1, nullptr),
             c = LoadWeights(*direct, table, 1, nullptr);
  ASSERT_TRUE(a.ok() && b.ok() && c.ok());
  std::vector<float> x(192), y(192), z(192);
  for (const char* name : {"layers.1.gate_up", "layers.2.down"}) {
    for (int64_t row = 0; row < 8 * 192; ++row) {
      DecodeRow((*a)->Get(name), row / 192, row % 192, x);
      DecodeRow((*b)->Get(name), row / 192, row % 192, y);
      DecodeRow((*c)->Get(name), row / 192, row % 192, z);
      ASSERT_EQ(std::memcmp(x.data(), y.data(), 192 * 4), 0) << name << " row " << row;
      ASSERT_EQ(std::memcmp(x.data(), z.data(), 192 * 4), 0) << name << " row " << row;
    }
  }
}

TEST(ConvertTest, TheBorderOfExactnessIsASpreadOf14) {
  // Expert s has one MXFP4 block that lies s exponents below the others, all with full range.
  MadeUp made(21, 160, 192);
  for (int64_t spread = 0; spread <= 20; ++spread) made.scale(spread, 140, 5) = 120 - spread;
  CheckpointFolder folder;
  made.Save(folder);
  const std::string fp8 = folder.path() + "/fp8", bf16 = folder.path() + "/bf16";
  const ConvertSummary summary = MustConvert({folder.path(), "fp8-block", fp8}, made.Table());
  EXPECT_EQ(summary.blocks, 21 * 4);
  EXPECT_EQ(summary.inexact_blocks, 6);
  ASSERT_EQ(summary.spreads.size(), 21u);
  EXPECT_EQ(summary.spreads[0], 21 * 3 + 1);
  for (int spread = 1; spread <= 20; ++spread) EXPECT_EQ(summary.spreads[spread], 1);
  std::vector<std::vector<int64_t>> right;
  for (int64_t expert = 15; expert <= 20; ++expert) right.push_back({expert, 1, 1});
  EXPECT_EQ(InexactBlocks(summary), right);
  EXPECT_EQ(summary.max_relative_error, 1.0);  // the smallest numbers vanish
  ASSERT_EQ(summary.inexact.size(), 6u);
  EXPECT_SAYS(summary.inexact[0], "w expert 15 block [1, 1]: ");
  EXPECT_SAYS(summary.inexact[0], "exponents spread over 15");

  // Bit for bit where the report says exact, and only there.
  MustConvert({folder.path(), "bf16", bf16}, made.Table());
  MustConvert({fp8, "bf16", folder.path() + "/through"}, made.Table());
  const auto direct = Open(bf16), through = Open(folder.path() + "/through");
  const Bf16* a = direct->Data("w").data<Bf16>();
  const Bf16* b = through->Data("w").data<Bf16>();
  for (int64_t expert = 0; expert < 21; ++expert) {
    int64_t changed = 0;
    for (int64_t i = 0; i < 160 * 192; ++i) {
      const int64_t col = i / 160, row = i % 160;  // stored turned
      const bool differs = a[expert * 160 * 192 + i] != b[expert * 160 * 192 + i];
      changed += differs;
      EXPECT_TRUE(!differs || (row >= 128 && col >= 128 && expert >= 15));
    }
    EXPECT_EQ(changed > 0, expert >= 15) << expert;
  }
}

TEST(ConvertTest, BlocksOfZerosHaveNoSpread) {
  MadeUp made(2, 128, 128);
  made.scale(0, 3, 1) = 1;
  made.Zero(0, 3, 1);
  for (int64_t row = 0; row < 128; ++row)
    for (int64_t block = 0; block < 4; ++block) made.Zero(1, row, block);
  CheckpointFolder folder;
  made.Save(folder);
  const ConvertSummary summary =
      MustConvert({folder.path(), "fp8-block", folder.path() + "/out"}, made.Table());
  EXPECT_EQ(summary.inexact_blocks, 0) << "zeros keep their sign";
  EXPECT_EQ(summary.blocks, 2);
  EXPECT_EQ(summary.spreads, std::vector<int64_t>{1});
}

TEST(ConvertTest, ExtremeExponentsComeThrough) {
  MadeUp made(2, 128, 64);
  std::fill_n(made.scales.begin(), 256, 0);
  std::fill_n(made.scales.begin() + 256, 256, 252);
  CheckpointFolder folder;
  made.Save(folder);
  for (const char* to : {"fp8-block", "bf16"}) {
    const ConvertSummary summary =
        MustConvert({folder.path(), to, folder.path() + "/" + to}, made.Table());
    EXPECT_EQ(summary.inexact_values, 0) << to;
  }
  const ConvertSummary back =
      MustConvert({folder.path() + "/bf16", "mxfp4", folder.path() + "/back"}, made.Table());
  EXPECT_EQ(back.inexact_values, 0);
  const auto source = Open(folder.path()), again = Open(folder.path() + "/back");
  EXPECT_TRUE(SameTensor(*source, *again, "w_blocks"));
  EXPECT_TRUE(SameTensor(*source, *again, "w_scales"));
}

TEST(ConvertTest, StrictRefusesAndLeavesNothing) {
  MadeUp made(3, 128, 128);
  made.scale(2, 5, 3) = 100;
  CheckpointFolder folder;
  made.Save(folder);
  const std::string out = folder.path() + "/out";
  const Result<ConvertSummary> refused =
      Convert({folder.path(), "fp8-block", out, /*strict=*/true}, made.Table());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), StatusCode::kUnavailable);
  EXPECT_SAYS(refused.status().message(), "--strict refuses: 1 of 3 blocks change");
  EXPECT_SAYS(refused.status().message(), "w expert 2 block [0, 0]: 28 values change");
  EXPECT_FALSE(fs::exists(out));
  EXPECT_FALSE(fs::exists(out + ".partial"));
  MustConvert({folder.path(), "bf16", out, /*strict=*/true}, made.Table());
}

TEST(ConvertTest, RefusesNumbersThatAreNone) {
  const auto problem = [](const MadeUp& made) {
    CheckpointFolder folder;
    made.Save(folder);
    const std::string out = folder.path() + "/out";
    const Result<ConvertSummary> result = Convert({folder.path(), "fp8-block", out}, made.Table());
    EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument);
    EXPECT_FALSE(fs::exists(out) || fs::exists(out + ".partial"));
    return result.status().message();
  };
  MadeUp nan(2, 32, 64);
  nan.scale(1, 30, 1) = 255;
  EXPECT_SAYS(problem(nan),
              "tensor 'w_scales' has 1 scale that are NaN or infinite, the first at [1, 30, 1]");
  MadeUp large(2, 32, 64);
  large.scale(1, 30, 1) = 254;
  EXPECT_SAYS(problem(large), "'w' expert 1, row 30, column 36 is inf, which cannot be converted");
}

TEST(ConvertTest, RefusesWhatMakesNoSense) {
  MadeUp made(1, 32, 64);
  CheckpointFolder folder;
  made.Save(folder);
  const auto problem = [&](const std::string& to, const std::string& out,
                           const std::vector<TensorSpec>& table) {
    const Result<ConvertSummary> result = Convert({folder.path(), to, out}, table);
    EXPECT_FALSE(result.ok());
    EXPECT_FALSE(fs::exists(folder.path() + "/out") || fs::exists(folder.path() + "/out.partial"));
    return result.status().message();
  };
  const std::string out = folder.path() + "/out";
  EXPECT_SAYS(problem("bf16", folder.path(), made.Table()), "exists already");
  EXPECT_SAYS(problem("mxfp4", out, made.Table()), "nothing to convert");
  EXPECT_SAYS(problem("bf16", out, MadeUp(2, 32, 64).Table()), "expected U8 [2, 32, 2, 16]");
  CheckpointFolder narrow;
  narrow.Add("w", DType::kBf16, {1, 40, 8}, Bf16Ramp(320));
  narrow.Save();
  const Result<ConvertSummary> unsupported =
      Convert({narrow.path(), "mxfp4", out}, {{"w", TensorKind::kExperts, {1, 8, 40}, {{"w"}}}});
  EXPECT_EQ(unsupported.status().code(), StatusCode::kUnsupported);
  EXPECT_SAYS(unsupported.status().message(), "'w' has rows of 40 numbers, and mxfp4 needs");
}

TEST(ConvertTest, MeasuresWhatRoundingCosts) {
  CheckpointFolder folder;
  std::vector<Bf16> values(64 * 32);
  for (size_t i = 0; i < values.size(); ++i) values[i] = ToBf16(std::sin(static_cast<float>(i)));
  folder.Add("w", DType::kBf16, {1, 64, 32}, values);
  folder.Save();
  const std::vector<TensorSpec> table = {{"w", TensorKind::kExperts, {1, 32, 64}, {{"w"}}}};
  const ConvertSummary summary =
      MustConvert({folder.path(), "fp8-block", folder.path() + "/out"}, table);
  EXPECT_EQ(summary.inexact_blocks, 1);
  EXPECT_TRUE(summary.spreads.empty());
  EXPECT_GT(summary.max_relative_error, 0.05);
  EXPECT_LE(summary.max_relative_error, 1.0 / 16);
}

// All files of a folder, by name.
std::map<std::string, std::string> Files(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    files[entry.path().filename()] = Text(entry.path());
  return files;
}

// Runs `work` in a child process and returns its wait status.
template <typename Work>
int InChild(const Work& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    work();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

TEST(ConvertTest, GoesOnAfterAKillAtAnyMoment) {
  CheckpointFolder work;
  const std::vector<TensorSpec> table = GptOssTable({});
  constexpr int64_t kShardBytes = 1'000'000;
  const std::string whole = work.path() + "/whole", out = work.path() + "/out";
  int moments = 0;
  MustConvert({kToyA, "fp8-block", whole, false, 1, [&](auto&) { ++moments; }, kShardBytes}, table);
  ASSERT_GT(moments, 50);
  EXPECT_TRUE(fs::exists(whole + "/model.safetensors.index.json"));
  const std::map<std::string, std::string> right = Files(whole);
  for (int last = 1; last <= moments; last += 17) {
    int left = last;
    const Conversion killed{kToyA,
                            "fp8-block",
                            out,
                            false,
                            1,
                            [&](auto&) {
                              if (--left == 0) ::raise(SIGKILL);
                            },
                            kShardBytes};
    const int status = InChild([&] { (void)Convert(killed, table); });
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    ASSERT_TRUE(fs::exists(out + ".partial"));
    ASSERT_FALSE(fs::exists(out));
    int64_t begun_at = -1;
    const ConvertSummary summary = MustConvert(
        {kToyA, "fp8-block", out, false, 2,
         [&](const LoadProgress& p) { begun_at = begun_at < 0 ? p.done_bytes : begun_at; },
         kShardBytes},
        table);
    if (last > moments / 2) {
      EXPECT_GT(summary.resumed, 0) << last;
      EXPECT_GT(begun_at, 0) << last;
    }
    EXPECT_EQ(Files(out), right) << "killed at report " << last;
    fs::remove_all(out);
  }
}

TEST(ConvertTest, StartsAnewWhenTheWorkLeftIsNotItsOwn) {
  CheckpointFolder work;
  const std::vector<TensorSpec> table = GptOssTable({});
  const std::string out = work.path() + "/out";
  int left = 60;
  const Conversion killed{kToyA, "fp8-block", out, false, 1, [&](auto&) {
                            if (--left == 0) ::raise(SIGKILL);
                          }};
  const auto kill = [&] { InChild([&] { (void)Convert(killed, table); }); };
  kill();
  EXPECT_EQ(MustConvert({kToyA, "bf16", out}, table).resumed, 0) << "another format";
  fs::remove_all(out);
  kill();
  WriteText(out + ".partial/model.safetensors.partial", "lost");
  EXPECT_EQ(MustConvert({kToyA, "fp8-block", out}, table).resumed, 0) << "data is gone";
  MustConvert({kToyA, "fp8-block", work.path() + "/right"}, table);
  EXPECT_EQ(Files(out), Files(work.path() + "/right"));
  fs::remove_all(out);
  kill();
  const std::string journal = Text(out + ".partial/convert.journal");
  WriteText(out + ".partial/convert.journal", journal + R"({"done":70,"rep)");
  EXPECT_GT(MustConvert({kToyA, "fp8-block", out}, table).resumed, 0) << "a line cut short";
  EXPECT_EQ(Files(out), Files(work.path() + "/right"));
}

TEST(ConvertTest, NeverTouchesWhatIsNotItsOwn) {
  CheckpointFolder work;
  const std::vector<TensorSpec> table = GptOssTable({});
  const std::string out = work.path() + "/out", partial = out + ".partial";
  const auto expect_refusal = [&](const std::string& precious) {
    const Result<ConvertSummary> summary = Convert({kToyA, "bf16", out}, table);
    ASSERT_FALSE(summary.ok());
    EXPECT_EQ(summary.status().code(), StatusCode::kInvalidArgument);
    EXPECT_SAYS(summary.status().message(), "something else has it");
    EXPECT_EQ(Text(precious), "precious");
    EXPECT_FALSE(fs::exists(out));
  };
  fs::create_directories(partial);
  WriteText(partial + "/letter", "precious");
  expect_refusal(partial + "/letter");
  fs::rename(partial, work.path() + "/elsewhere");
  fs::create_directory_symlink(work.path() + "/elsewhere", partial);
  expect_refusal(work.path() + "/elsewhere/letter");
  fs::remove(partial);
  WriteText(partial, "precious");
  expect_refusal(partial);
}

TEST(ConvertTest, TwoAtOnceDoNotMix) {
  CheckpointFolder work;
  const std::vector<TensorSpec> table = GptOssTable({});
  const std::string out = work.path() + "/out";
  Status second;
  MustConvert({kToyA, "fp8-block", out, false, 1,
               [&](auto&) {
                 if (second.ok()) second = Convert({kToyA, "fp8-block", out}, table).status();
               }},
              table);
  EXPECT_EQ(second.code(), StatusCode::kUnavailable);
  EXPECT_SAYS(second.message(), "another conversion is at work there");
}

TEST(ConvertTest, AFullDiskIsSaidAndNothingIsLeft) {
  CheckpointFolder work;
  const std::vector<TensorSpec> table = GptOssTable({});
  const std::string out = work.path() + "/out";
  for (const rlim_t limit : {100, 20'000, 1'000'000, 5'000'000}) {
    const int status = InChild([&] {
      ::signal(SIGXFSZ, SIG_IGN);
      const rlimit size{limit, limit};
      ::setrlimit(RLIMIT_FSIZE, &size);
      const Result<ConvertSummary> result = Convert({kToyA, "fp8-block", out, false, 1}, table);
      const bool is_right =
          result.status().code() == StatusCode::kIo &&
          result.status().message().find("cannot write: File too large") != std::string::npos;
      ::_exit(is_right ? 7 : 1);
    });
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << "limit " << limit;
    EXPECT_FALSE(fs::exists(out) || fs::exists(out + ".partial")) << "limit " << limit;
  }
  const int full = ::open("/dev/full", O_WRONLY);
  ASSERT_GE(full, 0);
  const std::vector<uint8_t> bytes(10);
  const Status status = WriteAll(full, "x.safetensors", bytes);
  ::close(full);
  EXPECT_EQ(status.code(), StatusCode::kIo);
  EXPECT_EQ(status.message(), "x.safetensors: cannot write: No space left on device");
}

TEST(ConvertTest, ConfigFollowsTheFormat) {
  const std::string config =
      R"({"architectures":["GptOssForCausalLM"],"quantization_config":{"quant_method":"mxfp4"},)"
      R"("rms_norm_eps":1e-05,"rope_theta":150000})";
  const std::vector<std::string> kept = {"lm_head", "model.layers.*.mlp.router"};
  const std::string fp8 = *ConvertedConfig(config, kFp8BlockFormat, kept);
  EXPECT_SAYS(fp8, R"("quant_method":"fp8","weight_block_size":[128,128])");
  EXPECT_SAYS(fp8, R"("modules_to_not_convert":["lm_head","model.layers.*.mlp.router"])");
  EXPECT_EQ(fp8.find("mxfp4"), std::string::npos);
  EXPECT_SAYS(fp8, "\"rope_theta\": 150000");
  EXPECT_EQ(json::parse(fp8).at("rms_norm_eps").as_double(), 1e-5);
  const std::string bf16 = *ConvertedConfig(fp8, kBf16Format, kept);
  EXPECT_EQ(bf16.find("quantization_config"), std::string::npos);
  EXPECT_SAYS(*ConvertedConfig(bf16, kMxfp4Format, kept), R"("quant_method":"mxfp4"})");
  const std::string original = R"({"num_experts": 32})";
  EXPECT_EQ(*ConvertedConfig(original, kFp8BlockFormat, kept), original);
  EXPECT_FALSE(ConvertedConfig("[]", kFp8BlockFormat, kept).ok());
}

}  // namespace
}  // namespace rose
