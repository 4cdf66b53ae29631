// Qwen3-MoE: checkpoints of sizes that are no multiple of a block of scales, tied embeddings, and
// conversion.
#include "models/qwen3_moe.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cmath>
#include <random>

#include "base/file.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/convert.h"
#include "expect_says.h"
#include "models/load.h"
#include "models/random_model.h"
#include "models/step_runner.h"
#include "ops/op_sets.h"

namespace rose {
namespace {

// Rows of q, k and v end within blocks, those of gate and up and all columns too.
const char kEdges[] = R"({"hidden_size": 200, "moe_intermediate_size": 140, "head_dim": 50,
  "num_experts": 3, "num_experts_per_tok": 2})";

// Writes a checkpoint as it is published: every matrix of attention and experts apart, in fp8-block
// or, with the same numbers, in bf16.
class Writer {
 public:
  Writer(CheckpointFolder& folder, bool is_fp8) : folder_(folder), is_fp8_(is_fp8) {}

  void Vector(const std::string& name, int64_t n) {
    std::vector<Bf16> values(n);
    for (Bf16& value : values) value = ToBf16(1 + 0.2f * normal_(random_));
    folder_.Add(name, DType::kBf16, {n}, values);
  }
  void Plain(const std::string& name, int64_t rows, int64_t cols) {
    AddBf16(name, rows, cols, Values(rows, cols));
  }
  void Linear(const std::string& name, int64_t rows, int64_t cols) {
    // Each block of 128 x 128 has a magnitude of its own, so that a wrong scale is seen.
    std::vector<float> values = Values(rows, cols);
    for (int64_t i = 0; i < rows * cols; ++i)
      values[i] *= static_cast<float>(1 << (2 * (i / cols / 128) + i % cols / 128));
    std::vector<uint8_t> data, scale_bytes;
    CodecFor(kFp8BlockFormat).Pack(values, rows, cols, data, scale_bytes);
    const int64_t block_rows = (rows + 127) / 128, block_cols = (cols + 127) / 128;
    std::vector<float> scales(block_rows * block_cols);
    ASSERT_EQ(scale_bytes.size(), scales.size() * sizeof(float));
    std::memcpy(scales.data(), scale_bytes.data(), scale_bytes.size());
    if (is_fp8_) {
      folder_.Add(name, DType::kE4m3, {rows, cols}, data);
      folder_.Add(name + "_scale_inv", DType::kF32, {block_rows, block_cols}, scales);
      return;
    }
    // Scales are powers of two: E4M3 times one of them is exact in bf16.
    for (int64_t i = 0; i < rows * cols; ++i)
      values[i] = ToFloat(E4m3{data[i]}) * scales[i / cols / 128 * block_cols + i % cols / 128];
    AddBf16(name, rows, cols, values);
  }

 private:
  std::vector<float> Values(int64_t rows, int64_t cols) {
    std::vector<float> values(rows * cols);
    for (float& value : values) value = normal_(random_) / std::sqrt(static_cast<float>(cols)) / 4;
    return values;
  }
  void AddBf16(const std::string& name, int64_t rows, int64_t cols,
               const std::vector<float>& values) {
    std::vector<Bf16> rounded(values.size());
    for (size_t i = 0; i < values.size(); ++i) rounded[i] = ToBf16(values[i]);
    folder_.Add(name, DType::kBf16, {rows, cols}, rounded);
  }

  CheckpointFolder& folder_;
  const bool is_fp8_;
  std::mt19937_64 random_{7};
  std::normal_distribution<float> normal_;
};

void WriteCheckpoint(CheckpointFolder& folder, const std::string& config, bool is_fp8) {
  const boost::json::value json = boost::json::parse(config);
  const auto size = [&](const char* key) { return json.at(key).to_number<int64_t>(); };
  const int64_t hidden = size("hidden_size"), inter = size("moe_intermediate_size");
  const int64_t head_dim = size("head_dim"), vocab = size("vocab_size");
  const int64_t q = size("num_attention_heads") * head_dim;
  const int64_t kv = size("num_key_value_heads") * head_dim;
  folder.Write("config.json", config);
  Writer out(folder, is_fp8);
  out.Plain("model.embed_tokens.weight", vocab, hidden);
  for (int64_t i = 0; i < size("num_hidden_layers"); ++i) {
    const std::string n = StrCat("model.layers.", i, ".");
    out.Vector(n + "input_layernorm.weight", hidden);
    out.Vector(n + "post_attention_layernorm.weight", hidden);
    out.Vector(n + "self_attn.q_norm.weight", head_dim);
    out.Vector(n + "self_attn.k_norm.weight", head_dim);
    out.Linear(n + "self_attn.q_proj.weight", q, hidden);
    out.Linear(n + "self_attn.k_proj.weight", kv, hidden);
    out.Linear(n + "self_attn.v_proj.weight", kv, hidden);
    out.Linear(n + "self_attn.o_proj.weight", hidden, q);
    out.Plain(n + "mlp.gate.weight", size("num_experts"), hidden);
    for (int64_t e = 0; e < size("num_experts"); ++e) {
      const std::string expert = StrCat(n, "mlp.experts.", e, ".");
      out.Linear(expert + "gate_proj.weight", inter, hidden);
      out.Linear(expert + "up_proj.weight", inter, hidden);
      out.Linear(expert + "down_proj.weight", hidden, inter);
    }
  }
  out.Vector("model.norm.weight", hidden);
  if (!json.at("tie_word_embeddings").as_bool()) out.Plain("lm_head.weight", vocab, hidden);
  folder.Save();
}

LoadedModel Load(const std::string& folder, std::unique_ptr<OpSet> ops) {
  Result<LoadedModel> loaded = LoadModel(folder, std::move(ops), /*threads=*/2, {});
  EXPECT_TRUE(loaded.ok()) << loaded.status().message();
  return std::move(loaded).value();
}

// Of the last of some tokens.
std::vector<float> Logits(const LoadedModel& loaded) {
  std::vector<int32_t> tokens(70);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i * 37 % 96);
  auto runner = StepRunner::Create(*loaded.model, *loaded.ops, 1, 70).value();
  const SequenceTokens part{0, tokens};
  const int32_t row = 69;
  return ToVector(runner->Run({&part, 1}, {&row, 1}));
}

void ExpectSameWeights(const LoadedModel& a, const LoadedModel& b) {
  for (const TensorSpec& spec : a.model->tensors()) {
    if (spec.kind == TensorKind::kVector) continue;
    const Weight& x = a.weights.find(spec.name)->second;
    const Weight& y = b.weights.find(spec.name)->second;
    const int64_t cols = spec.shape.back(), rows = spec.shape[spec.shape.size() - 2];
    std::vector<float> row_x(cols), row_y(cols);
    for (int64_t e = 0; e < (spec.shape.size() == 3 ? spec.shape[0] : 1); ++e) {
      for (int64_t row = 0; row < rows; ++row) {
        DecodeRow(x, e, row, row_x);
        DecodeRow(y, e, row, row_y);
        ASSERT_EQ(row_x, row_y) << spec.name << " expert " << e << " row " << row;
      }
    }
  }
}

TEST(Qwen3MoeTest, BlocksOfScalesMayBeCutAnywhere) {
  CheckpointFolder fp8, bf16;
  WriteCheckpoint(fp8, SmallQwenConfig(kEdges), true);
  WriteCheckpoint(bf16, SmallQwenConfig(kEdges), false);
  const LoadedModel expected = Load(bf16.path(), std::make_unique<CpuOps>());
  const LoadedModel packed = Load(fp8.path(), std::make_unique<CpuOps>());
  const WeightFormat& qkv = packed.weights.find("layers.0.qkv")->second.format;
  EXPECT_EQ(qkv.packing, Packing::kFp8Block);
  EXPECT_EQ(qkv.block_rows, 4) << "of 200, 100 and 100 rows";
  const Weight& gate_up = packed.weights.find("layers.1.gate_up")->second;
  EXPECT_EQ(gate_up.format.woven, 2);
  EXPECT_EQ(gate_up.scales.ToString(), "F32 [3, 4, 2]");
  ExpectSameWeights(packed, expected);
  const std::vector<float> logits = Logits(expected);
  ExpectSameBits(Logits(packed).data(), logits.data(), 96);
  for (OpSetCase& set : FastOpSets()) {
    SCOPED_TRACE(set.name);
    const Precision precision = set.precision;
    ExpectNear(Logits(Load(fp8.path(), std::move(set.ops))), logits, BoundOf(precision));
  }
}

TEST(Qwen3MoeTest, RowsOfGateAndUpTakeTurns) {
  CheckpointFolder folder;
  WriteCheckpoint(folder, SmallQwenConfig(kEdges), false);
  const LoadedModel loaded = Load(folder.path(), std::make_unique<CpuOps>());
  const Weight& gate_up = loaded.weights.find("layers.1.gate_up")->second;
  const Weight& down = loaded.weights.find("layers.1.down")->second;
  const auto expect_row = [&](const Weight& weight, int64_t row, const char* part, int64_t from) {
    const Tensor stored = loaded.checkpoint->Data(StrCat("model.layers.1.mlp.experts.2.", part));
    std::vector<float> out(weight.shape[2]);
    DecodeRow(weight, 2, row, out);
    for (size_t i = 0; i < out.size(); ++i)
      ASSERT_EQ(out[i], ToFloat(stored.data<Bf16>()[from * weight.shape[2] + i])) << part << row;
  };
  for (int64_t row : {0, 1, 127, 128, 139}) {
    expect_row(gate_up, 2 * row, "gate_proj.weight", row);
    expect_row(gate_up, 2 * row + 1, "up_proj.weight", row);
    expect_row(down, row, "down_proj.weight", row);
  }
}

TEST(Qwen3MoeTest, TiedEmbeddingsAreTheOutputMatrix) {
  CheckpointFolder tied, apart;
  const std::string config = SmallQwenConfig(R"({"tie_word_embeddings": true})");
  WriteCheckpoint(tied, config, false);
  const LoadedModel loaded = Load(tied.path(), std::make_unique<CpuOps>());
  EXPECT_FALSE(loaded.weights.contains("lm_head"));
  const std::vector<float> logits = Logits(loaded);
  // The same numbers, the last matrix of its own.
  WriteCheckpoint(apart, SmallQwenConfig(), false);
  const std::vector<float> others = Logits(Load(apart.path(), std::make_unique<CpuOps>()));
  EXPECT_NE(logits, others);
  for (float logit : logits) ASSERT_TRUE(std::isfinite(logit));
}

TEST(Qwen3MoeTest, EveryMissingTensorOfAnExpertIsNamed) {
  CheckpointFolder folder;
  WriteCheckpoint(folder, SmallQwenConfig(), false);
  folder.Write("config.json", SmallQwenConfig(R"({"num_experts": 9})"));
  const Result<LoadedModel> loaded =
      LoadModel(folder.path(), std::make_unique<CpuOps>(), /*threads=*/1, {});
  ASSERT_FALSE(loaded.ok());
  EXPECT_SAYS(loaded.status().message(), "missing (6):");
  EXPECT_SAYS(loaded.status().message(),
              "'model.layers.0.mlp.experts.8.up_proj.weight' (in any weight format)");
  folder.Write("config.json", SmallQwenConfig(R"({"num_experts": 7})"));
  const Result<LoadedModel> more =
      LoadModel(folder.path(), std::make_unique<CpuOps>(), /*threads=*/1, {});
  EXPECT_SAYS(more.status().message(), "left over (6):");
}

// Through the converter: what is exact stays, the numbers of the folder are those of the source.
TEST(Qwen3MoeTest, ConvertsMatrixByMatrix) {
  CheckpointFolder fp8, bf16;
  WriteCheckpoint(fp8, SmallQwenConfig(kEdges), true);
  WriteCheckpoint(bf16, SmallQwenConfig(kEdges), false);
  const auto convert = [](const std::string& from, const char* to, const std::string& out) {
    const auto checkpoint = OpenCheckpoint(from).value();
    const auto model = CreateModel(checkpoint->config_json()).value();
    Result<ConvertSummary> summary = ConvertCheckpoint(
        *checkpoint, model->tensors(), {.to = FindCodec(to), .out = out, .threads = 2});
    EXPECT_TRUE(summary.ok()) << summary.status().message();
    EXPECT_EQ(summary->inexact_blocks, 0);
  };
  const LoadedModel expected = Load(bf16.path(), std::make_unique<CpuOps>());
  // All of fp8, attention too, to bf16: tensor by tensor the other folder.
  convert(fp8.path(), "bf16", fp8.path() + "/bf16");
  const LoadedModel decoded = Load(fp8.path() + "/bf16", std::make_unique<CpuOps>());
  ASSERT_EQ(decoded.checkpoint->tensors().size(), expected.checkpoint->tensors().size());
  ExpectSameWeights(decoded, expected);
  EXPECT_EQ(ReadFile(fp8.path() + "/bf16/config.json", 1 << 20)->find("quantization_config"),
            std::string::npos);
  // Experts of bf16 to fp8-block; what stays is listed.
  convert(bf16.path(), "fp8-block", bf16.path() + "/fp8");
  const LoadedModel packed = Load(bf16.path() + "/fp8", std::make_unique<CpuOps>());
  ExpectSameWeights(packed, expected);
  EXPECT_EQ(
      packed.checkpoint->Data("model.layers.0.mlp.experts.1.up_proj.weight_scale_inv").ToString(),
      "F32 [2, 2]");
  EXPECT_SAYS(*ReadFile(bf16.path() + "/fp8/config.json", 1 << 20),
              R"("modules_to_not_convert":["model.embed_tokens","model.layers.*.self_attn.q_proj",)"
              R"("model.layers.*.self_attn.k_proj","model.layers.*.self_attn.v_proj",)"
              R"("model.layers.*.self_attn.o_proj","model.layers.*.mlp.gate","lm_head"])");
}

TEST(Qwen3MoeTest, ExpertsInMxfp4AreWovenToo) {
  CheckpointFolder folder;
  WriteCheckpoint(folder, SmallQwenConfig(), false);
  const auto checkpoint = OpenCheckpoint(folder.path()).value();
  const auto model = CreateModel(checkpoint->config_json()).value();
  ASSERT_TRUE(ConvertCheckpoint(*checkpoint, model->tensors(),
                                {.to = FindCodec("mxfp4"), .out = folder.path() + "/mxfp4"})
                  .ok());
  const LoadedModel loaded = Load(folder.path() + "/mxfp4", std::make_unique<CpuOps>());
  const Weight& gate_up = loaded.weights.find("layers.0.gate_up")->second;
  EXPECT_EQ(gate_up.format, kMxfp4Format);
  for (int64_t row : {0, 1, 63, 64, 126, 127}) {
    const char* part = row % 2 == 0 ? "gate_proj" : "up_proj";
    const std::string stem = StrCat("model.layers.0.mlp.experts.5.", part, ".weight_");
    const Weight apart{kMxfp4Format,
                       {64, 64},
                       loaded.checkpoint->Data(stem + "blocks"),
                       loaded.checkpoint->Data(stem + "scales")};
    std::vector<float> woven(64), alone(64);
    DecodeRow(gate_up, 5, row, woven);
    DecodeRow(apart, 0, row / 2, alone);
    EXPECT_EQ(woven, alone) << row;
  }
}

TEST(Qwen3MoeTest, TheTableCountsAreThoseOfThePublishedModel) {
  const auto model = CreateModel(SmallQwenConfig(R"({"vocab_size": 151936, "hidden_size": 2048,
    "moe_intermediate_size": 768, "num_hidden_layers": 48, "head_dim": 128, "num_experts": 128,
    "num_attention_heads": 32, "num_key_value_heads": 4, "num_experts_per_tok": 8})"))
                         .value();
  EXPECT_EQ(model->tensors().size(), 48u * 9 + 3);
  int64_t parameters = 0;
  for (const TensorSpec& spec : model->tensors()) {
    EXPECT_EQ(spec.split == Split::kNone, spec.group == Group::kNone) << spec.name;
    int64_t n = 1;
    for (int64_t size : spec.shape) n *= size;
    parameters += n;
  }
  EXPECT_EQ(parameters, 30'532'122'624);  // "30.5B", as its card says
  ASSERT_EQ(model->info().kv.groups.size(), 1u);
  EXPECT_EQ(model->info().kv.groups[0].window, 0);
  EXPECT_EQ(model->info().kv.groups[0].layers.size(), 48u);
}

}  // namespace
}  // namespace rose
