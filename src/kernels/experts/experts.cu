// The launchers of experts.h: checks, the choice of a kernel, and what runs before and after it.
#include <algorithm>

#include "base/check.h"
#include "kernels/experts/experts.h"
#include "kernels/experts/moe_gemm.h"

namespace rose {
namespace {

// Steps of at most so many tokens take the strips: up to a tile of 16, which reads weights once and
// is faster than the narrow grouped kernel (both products of 16 tokens of gpt-oss-20b 132 us
// against some 200; one step of 16 users 5.1 ms against 5.7).
constexpr int64_t kStripsTokens = 16;
// Steps whose experts have no more rows on average take the narrow instance of the grouped kernel.
// Measured, random routing: at 24 rows it is 17 (32 experts) and 11 % (128) faster in gate_up, at
// 32 the wide one is by 12 and 14 %, since experts of more than 32 rows cost a second tile.
constexpr int64_t kNarrowRows = 28;

struct Product {
  MoeGemmParams gemm;
  int64_t tokens;
  ExpertsScratch scratch;
};

void CheckProduct(const Product& p) {
  const PackedExperts& weight = p.gemm.weight;
  ROSE_CHECK(p.tokens >= 0 && p.tokens * p.gemm.experts_per_token <= 0x7fffffff,
             "tokens=", p.tokens);
  ROSE_CHECK(p.gemm.experts_per_token > 0 && p.gemm.experts_per_token <= weight.experts,
             "experts_per_token=", p.gemm.experts_per_token, " experts=", weight.experts);
  ROSE_CHECK(weight.cols > 0 && weight.cols % 32 == 0, "cols=", weight.cols,
             ": experts are packed in blocks of 32 columns");
  ROSE_CHECK(weight.rows > 0 && weight.rows % 2 == 0, "rows=", weight.rows,
             ": rows are taken in pairs");
  ROSE_CHECK(p.scratch.workspace != nullptr && p.scratch.sms > 0, "scratch");
}

GroupedTiles TilesOf(const MoeGemmParams& p, ExpertsVariant variant) {
  if (p.weight.packing != Packing::kMxfp4 || variant == ExpertsVariant::kGrouped)
    return GroupedTiles::kWide;
  const bool is_few = p.entry_count <= p.weight.experts * kNarrowRows;
  return variant == ExpertsVariant::kNarrow || is_few ? GroupedTiles::kNarrow : GroupedTiles::kWide;
}

void LaunchProduct(const Product& product, ExpertsVariant variant, cudaStream_t stream) {
  CheckProduct(product);
  if (product.tokens == 0) return;
  MoeGemmParams p = product.gemm;
  p.entry_count = static_cast<int>(product.tokens * p.experts_per_token);
  const bool is_down = p.activated == nullptr;
  if (is_down) {
    p.products = reinterpret_cast<float*>(static_cast<char*>(product.scratch.workspace) +
                                          MoePlanBytes(p.entry_count, p.weight.experts));
  }
  // Strips take a step only if all its tokens fit a tile, so that weights are read once.
  const int strips_tile = StripsTileRows(
      p.weight, static_cast<int>(std::min(product.tokens, kStripsTokens)), p.entry_count);
  const bool is_grouped = strips_tile < product.tokens ||
                          (variant != ExpertsVariant::kAuto && variant != ExpertsVariant::kStrips);
  const GroupedTiles tiles = TilesOf(p, variant);
  const int tile = is_grouped ? GroupedTileRows(p.weight.packing, tiles) : strips_tile;
  if (is_grouped || p.entry_count > kOwnPlanEntries || p.weight.experts > kOwnPlanExperts) {
    const MoePlanMemory memory =
        MoePlanAt(product.scratch.workspace, p.entry_count, p.weight.experts);
    LaunchMoePlan({.experts = p.experts,
                   .entries = p.entry_count,
                   .expert_count = p.weight.experts,
                   .tile = tile,
                   .out = memory},
                  stream);
    p.plan = {memory.entries, memory.tiles, memory.tile_count};
  }
  if (is_grouped) {
    LaunchMoeGrouped(p, tiles, product.scratch.sms, stream);
  } else {
    LaunchMoeStrips(p, tile, product.scratch.sms, stream);
  }
  if (is_down) LaunchMoeSum(p, stream);
}

}  // namespace

int64_t ExpertsWorkspaceBytes(int64_t tokens, int experts_per_token, int experts, int rows) {
  const int64_t entries = tokens * experts_per_token;
  return MoePlanBytes(entries, experts) + entries * rows * static_cast<int64_t>(sizeof(float));
}

void LaunchExpertsGateUp(const ExpertsGateUpParams& params, cudaStream_t stream,
                         ExpertsVariant variant) {
  Product p{};
  p.tokens = params.tokens;
  p.scratch = params.scratch;
  p.gemm.x = params.x;
  p.gemm.x_divisor = params.experts_per_token;
  p.gemm.experts = params.experts;
  p.gemm.weight = params.weight;
  p.gemm.bias = params.bias;
  p.gemm.experts_per_token = params.experts_per_token;
  p.gemm.activated = params.out;
  p.gemm.limit = params.limit;
  p.gemm.alpha = params.alpha;
  p.gemm.up_offset = params.up_offset;
  LaunchProduct(p, variant, stream);
}

void LaunchExpertsDown(const ExpertsDownParams& params, cudaStream_t stream,
                       ExpertsVariant variant) {
  Product p{};
  p.tokens = params.tokens;
  p.scratch = params.scratch;
  p.gemm.x = params.x;
  p.gemm.x_divisor = 1;
  p.gemm.experts = params.experts;
  p.gemm.weights = params.weights;
  p.gemm.weight = params.weight;
  p.gemm.bias = params.bias;
  p.gemm.experts_per_token = params.experts_per_token;
  p.gemm.out = params.out;
  LaunchProduct(p, variant, stream);
}

}  // namespace rose
