#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <numeric>

#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/gpt_oss_table.h"
#include "expect_says.h"

namespace rose {
namespace {

const std::string kToyA = std::string(ROSE_SOURCE_DIR) + "/tests/data/toy-a";

std::unique_ptr<Checkpoint> Open(const std::string& folder) {
  Result<std::unique_ptr<Checkpoint>> checkpoint = OpenCheckpoint(folder);
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  return checkpoint.ok() ? std::move(checkpoint).value() : nullptr;
}

std::string LoadProblem(const std::string& folder, const std::vector<TensorSpec>& table) {
  const std::unique_ptr<Checkpoint> checkpoint = Open(folder);
  const auto weights = LoadWeights(*checkpoint, table, 2, nullptr);
  EXPECT_FALSE(weights.ok());
  if (weights.ok()) return "";
  EXPECT_EQ(weights.status().code(), StatusCode::kInvalidArgument);
  return weights.status().message();
}

bool SameBytes(const Tensor& a, const Tensor& b) {
  return a.bytes() == b.bytes() && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

TEST(LoadWeightsTest, LoadsToyAJoinedAndWithoutCopies) {
  const std::unique_ptr<Checkpoint> checkpoint = Open(kToyA);
  EXPECT_EQ(checkpoint->tensors().size(), 19u * 4 + 3);
  const std::vector<TensorSpec> table = GptOssTable({});
  for (const int threads : {1, 3}) {
    std::atomic<int64_t> most{0}, total{0};
    const auto weights =
        LoadWeights(*checkpoint, table, threads, [&](const LoadProgress& progress) {
          most = std::max<int64_t>(most, progress.done_bytes);
          total = progress.total_bytes;
        });
    ASSERT_TRUE(weights.ok()) << weights.status().message();
    EXPECT_EQ(total, checkpoint->bytes());
    EXPECT_EQ(most, checkpoint->bytes());
    const HostWeights& host = **weights;

    const Weight& gate_up = host.Get("layers.2.gate_up");
    EXPECT_EQ(gate_up.format, kMxfp4Format);
    EXPECT_EQ(gate_up.data.ToString(), "U8 [8, 384, 6, 16]");
    EXPECT_EQ(gate_up.scales.ToString(), "U8 [8, 384, 6]");
    const Tensor stored = checkpoint->Data("model.layers.2.mlp.experts.gate_up_proj_blocks");
    EXPECT_EQ(gate_up.data.raw(), stored.raw()) << "a view, not a copy";

    const Weight& qkv = host.Get("layers.1.qkv.weight");
    EXPECT_EQ(qkv.data.ToString(), "BF16 [768, 192]");
    const std::string attn = "model.layers.1.self_attn.";
    uint8_t* rows = static_cast<uint8_t*>(qkv.data.raw());
    EXPECT_TRUE(SameBytes(Tensor(rows, DType::kBf16, {512, 192}),
                          checkpoint->Data(attn + "q_proj.weight")));
    EXPECT_TRUE(SameBytes(Tensor(rows + 512 * 384, DType::kBf16, {128, 192}),
                          checkpoint->Data(attn + "k_proj.weight")));
    EXPECT_TRUE(SameBytes(Tensor(rows + 640 * 384, DType::kBf16, {128, 192}),
                          checkpoint->Data(attn + "v_proj.weight")));
    EXPECT_EQ(host.Get("layers.0.gate_up_bias").data.ToString(), "BF16 [8, 384]");
  }
}

TEST(LoadWeightsTest, ListsEverythingThatIsMissingLeftOverOrWrong) {
  GptOssSizes sizes;
  sizes.layers = 3;
  const std::string one_layer_less = LoadProblem(kToyA, GptOssTable(sizes));
  EXPECT_SAYS(one_layer_less, "left over (19):");
  EXPECT_SAYS(one_layer_less, "'model.layers.3.self_attn.sinks'");
  sizes.layers = 5;
  const std::string one_more = LoadProblem(kToyA, GptOssTable(sizes));
  EXPECT_SAYS(one_more, "missing (17):");
  EXPECT_SAYS(one_more, "'model.layers.4.self_attn.k_proj.bias'");
  EXPECT_SAYS(one_more, "'model.layers.4.mlp.experts.gate_up_proj' (in any weight format)");
  sizes.layers = 4;
  sizes.experts = 16;
  const std::string experts = LoadProblem(kToyA, GptOssTable(sizes));
  EXPECT_SAYS(experts,
              "tensor 'model.layers.0.mlp.experts.gate_up_proj_blocks' is U8 [8, 384, 6, 16], "
              "expected U8 [16, 384, 6, 16]");
  EXPECT_SAYS(experts, "wrong (24):");
  EXPECT_SAYS(experts, "and 4 more");
  EXPECT_EQ(experts.find("left over"), std::string::npos) << experts;
  sizes.experts = 8;
  sizes.kv_heads = 4;
  EXPECT_SAYS(LoadProblem(kToyA, GptOssTable(sizes)),
              "q_proj.weight' and what follows add up to 768, expected 1024");
}

// The layouts below: two experts of [64, 96], made from the same numbers.
constexpr int64_t kExperts = 2, kRows = 64, kCols = 96;

std::vector<TensorSpec> ExpertTable() {
  return {{"w", TensorKind::kExperts, {kExperts, kRows, kCols}, {{"hf.w"}, {"block.w"}}}};
}

std::vector<uint8_t> RandomBytes(int64_t count, uint32_t seed, int modulus) {
  std::vector<uint8_t> bytes(count);
  for (uint8_t& byte : bytes) {
    seed = seed * 1664525 + 1013904223;
    byte = static_cast<uint8_t>((seed >> 16) % modulus);
  }
  return bytes;
}

std::vector<float> Decoded(const CheckpointFolder& folder) {
  std::vector<float> values;
  const std::unique_ptr<Checkpoint> checkpoint = Open(folder.path());
  const auto weights = LoadWeights(*checkpoint, ExpertTable(), 2, nullptr);
  EXPECT_TRUE(weights.ok()) << weights.status().message();
  if (!weights.ok()) return values;
  values.resize(kExperts * kRows * kCols);
  for (int64_t row = 0; row < kExperts * kRows; ++row) {
    DecodeRow((*weights)->Get("w"), row / kRows, row % kRows,
              std::span(values).subspan(row * kCols, kCols));
  }
  return values;
}

TEST(Case076, AllLayoutsOfTheSameNumbersLoadEqual) {
  const std::vector<uint8_t> blocks = RandomBytes(kExperts * kRows * kCols / 2, 1, 256);
  std::vector<uint8_t> scales = RandomBytes(kExperts * kRows * kCols / 32, 2, 10);
  for (uint8_t& scale : scales) scale += 125;
  const auto mxfp4 = [&](const std::string& separator) {
    CheckpointFolder folder;
    const std::string stem = separator == "_" ? "hf.w" : "block.w";
    folder.Add(stem + separator + "blocks", DType::kU8, {kExperts, kRows, kCols / 32, 16}, blocks);
    folder.Add(stem + separator + "scales", DType::kU8, {kExperts, kRows, kCols / 32}, scales);
    folder.Save();
    return Decoded(folder);
  };
  const std::vector<float> hugging_face = mxfp4("_");
  ASSERT_EQ(hugging_face.size(), static_cast<size_t>(kExperts * kRows * kCols));
  EXPECT_EQ(hugging_face[0], kE2m1[blocks[0] & 15] * std::ldexp(1.0f, scales[0] - 127));
  EXPECT_EQ(hugging_face[1], kE2m1[blocks[0] >> 4] * std::ldexp(1.0f, scales[0] - 127));
  EXPECT_EQ(mxfp4("."), hugging_face);

  CheckpointFolder dequantised;  // [experts, cols, rows]
  std::vector<Bf16> turned(hugging_face.size());
  for (int64_t e = 0; e < kExperts; ++e)
    for (int64_t row = 0; row < kRows; ++row)
      for (int64_t col = 0; col < kCols; ++col)
        turned[(e * kCols + col) * kRows + row] =
            ToBf16(hugging_face[(e * kRows + row) * kCols + col]);
  dequantised.Add("hf.w", DType::kBf16, {kExperts, kCols, kRows}, turned);
  dequantised.Save();
  EXPECT_EQ(Decoded(dequantised), hugging_face);

  CheckpointFolder fp8;
  std::vector<uint8_t> data, packed;
  std::vector<float> fp8_scales;
  for (int64_t e = 0; e < kExperts; ++e) {
    std::vector<uint8_t> part, part_scales;
    CodecFor(kFp8BlockFormat)
        .Pack(std::span(hugging_face).subspan(e * kRows * kCols, kRows * kCols), kRows, kCols, part,
              part_scales);
    packed.insert(packed.end(), part.begin(), part.end());
    float scale = 0;
    std::memcpy(&scale, part_scales.data(), 4);
    fp8_scales.push_back(scale);
  }
  fp8.Add("hf.w", DType::kE4m3, {kExperts, kRows, kCols}, packed);
  fp8.Add("hf.w_scale_inv", DType::kF32, {kExperts, 1, 1}, fp8_scales);
  fp8.Save();
  EXPECT_EQ(Decoded(fp8), hugging_face);
}

TEST(Case077, AScaleThatIsNaNIsRefusedWithItsPlace) {
  CheckpointFolder folder;
  std::vector<uint8_t> scales(kExperts * kRows * kCols / 32, 254);
  scales[(1 * kRows + 7) * 3 + 2] = 255;
  scales.back() = 255;
  folder.Add("hf.w_blocks", DType::kU8, {kExperts, kRows, 3, 16}, RandomBytes(6144, 3, 256));
  folder.Add("hf.w_scales", DType::kU8, {kExperts, kRows, 3}, scales);
  folder.Save();
  EXPECT_SAYS(LoadProblem(folder.path(), ExpertTable()),
              "tensor 'hf.w_scales' has 2 scales that are NaN or infinite, the first at [1, 7, 2]");

  for (const float bad : {std::nanf(""), -INFINITY}) {
    CheckpointFolder fp8;
    fp8.Add("hf.w", DType::kE4m3, {kExperts, kRows, kCols}, RandomBytes(12288, 3, 100));
    fp8.Add("hf.w_scale_inv", DType::kF32, {kExperts, 1, 1}, std::vector<float>{1.0f, bad});
    fp8.Save();
    EXPECT_SAYS(
        LoadProblem(fp8.path(), ExpertTable()),
        "tensor 'hf.w_scale_inv' has 1 scale that are NaN or infinite, the first at [1, 0, 0]");
  }
}

TEST(LoadWeightsTest, UnalignedDataIsCopied) {
  CheckpointFolder folder;
  folder.Add("odd", DType::kU8, {1}, std::vector<uint8_t>{7});
  folder.Add("v", DType::kBf16, {5}, Bf16Ramp(5, 3));
  folder.Save();
  const std::unique_ptr<Checkpoint> checkpoint = Open(folder.path());
  const std::vector<TensorSpec> table = {{"v", TensorKind::kVector, {5}, {{"v"}}}};
  EXPECT_SAYS(LoadProblem(folder.path(), table), "left over (1):\n  'odd'");

  folder.Write("model.safetensors",
               RawSafetensors(R"({"v":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}})",
                              std::string("\x80\x3f\x00\x40", 4)));
  const std::unique_ptr<Checkpoint> unaligned = Open(folder.path());
  ASSERT_EQ(reinterpret_cast<uintptr_t>(unaligned->Data("v").raw()) % 2, 1u);
  const std::vector<TensorSpec> two = {{"v", TensorKind::kVector, {2}, {{"v"}}}};
  const auto weights = LoadWeights(*unaligned, two, 1, nullptr);
  ASSERT_TRUE(weights.ok()) << weights.status().message();
  EXPECT_EQ(ToFloat((*weights)->Get("v").data.data<Bf16>()[1]), 2.0f);
}

TEST(LoadWeightsTest, RefusesWrongTypes) {
  CheckpointFolder folder;
  folder.Add("v", DType::kF32, {2}, std::vector<float>{1, 2});
  folder.Add("hf.w_blocks", DType::kU8, {kExperts, kRows, 3, 16}, RandomBytes(6144, 3, 256));
  folder.Save();
  std::vector<TensorSpec> table = ExpertTable();
  table.push_back({"v", TensorKind::kVector, {2}, {{"v"}}});
  const std::string problem = LoadProblem(folder.path(), table);
  EXPECT_SAYS(problem, "tensor 'v' is F32 [2], expected BF16 [2]");
  EXPECT_SAYS(problem, "tensor 'hf.w_scales' is missing beside its blocks");
  EXPECT_SAYS(problem, "wrong (2):");
}

TEST(LoadWeightsTest, JoinsFp8RowsOnAnyRow) {
  const auto load = [](int64_t first_rows) {
    CheckpointFolder folder;
    folder.Add("q", DType::kE4m3, {first_rows, 8}, std::vector<uint8_t>(first_rows * 8, 0x38));
    folder.Add("q_scale_inv", DType::kF32, {(first_rows + 127) / 128, 1},
               std::vector<float>((first_rows + 127) / 128, 2.0f));
    folder.Add("k", DType::kE4m3, {10, 8}, std::vector<uint8_t>(80, 0x38));
    folder.Add("k_scale_inv", DType::kF32, {1, 1}, std::vector<float>{4.0f});
    folder.Save();
    const std::vector<TensorSpec> table = {
        {"qk", TensorKind::kMatrix, {first_rows + 10, 8}, {{"q", "k"}}}};
    const std::unique_ptr<Checkpoint> checkpoint = Open(folder.path());
    const auto weights = LoadWeights(*checkpoint, table, 1, nullptr);
    if (!weights.ok()) return weights.status().message();
    std::vector<float> row(8);
    EXPECT_EQ((*weights)->Get("qk").format.block_rows, std::gcd(128, first_rows));
    DecodeRow((*weights)->Get("qk"), 0, first_rows - 1, row);
    EXPECT_EQ(row[7], 2.0f);
    DecodeRow((*weights)->Get("qk"), 0, first_rows, row);
    EXPECT_EQ(row[0], 4.0f);
    return std::string();
  };
  EXPECT_EQ(load(128), "");
  EXPECT_EQ(load(100), "");
  EXPECT_EQ(load(192), "");
  EXPECT_EQ(load(129), "");
}

}  // namespace
}  // namespace rose
