#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "device/cuda_check.h"
#include "kernels/attention/work.h"

namespace rose {
namespace {

constexpr int64_t kAlignment = 256;

// Takes `count` elements from a workspace of which `offset` bytes are given away.
template <typename T>
T* Take(void* workspace, int64_t& offset, int64_t count) {
  const int64_t at = offset;
  offset += (count * static_cast<int64_t>(sizeof(T)) + kAlignment - 1) / kAlignment * kAlignment;
  return workspace ? reinterpret_cast<T*>(static_cast<char*>(workspace) + at) : nullptr;
}

void CheckLimits(const AttentionLimits& limits) {
  ROSE_CHECK(limits.kv_heads > 0 && limits.heads > 0 && limits.heads % limits.kv_heads == 0 &&
                 limits.heads / limits.kv_heads <= kTileQueries,
             "heads=", limits.heads, " kv_heads=", limits.kv_heads);
  ROSE_CHECK(limits.head_dim > 0 && limits.head_dim % 8 == 0 && limits.head_dim <= 128,
             "head_dim=", limits.head_dim);
  ROSE_CHECK(limits.rows >= 0 && limits.seqs >= 0 && limits.window >= 0, "rows=", limits.rows,
             " seqs=", limits.seqs, " window=", limits.window);
}

}  // namespace

int64_t SmCount() {
  int device = 0, count = 0;
  CudaCheck(cudaGetDevice(&device), "asking for the device");
  CudaCheck(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device), "counting SMs");
  return count;
}

bool IsFast(const AttentionLimits& limits) {
  return limits.head_dim == 64 || limits.head_dim == 128;
}

AttentionWork LayOutWork(const AttentionLimits& limits, void* workspace, int64_t* bytes) {
  CheckLimits(limits);
  AttentionWork work;
  const int64_t group = limits.heads / limits.kv_heads;
  work.tile_rows = static_cast<int32_t>(
      (IsFast(limits) ? PrefillQueries(limits.head_dim) : kTileQueries) / group);
  // A window reaches few splits, or walks them at no loss: no partial results.
  work.slots = IsFast(limits) && limits.window == 0 ? kSplitSlots : 0;
  work.item_capacity = limits.rows + work.slots;
  work.tile_capacity = limits.rows / work.tile_rows + limits.seqs;
  int64_t offset = 0;
  work.counts = Take<WorkCounts>(workspace, offset, 1);
  work.cut_rows = Take<CutRow>(workspace, offset, work.slots / 2);
  work.items = Take<DecodeItem>(workspace, offset, work.item_capacity);
  work.tiles = Take<RowTile>(workspace, offset, work.tile_capacity);
  work.partials = Take<float>(workspace, offset, work.slots * limits.heads * (limits.head_dim + 2));
  if (bytes) *bytes = offset;
  return work;
}

AttendParams MakeAttendParams(const AttentionParams& params) {
  const AttentionLimits& limits = params.limits;
  const int64_t group = limits.heads / limits.kv_heads;
  const double scale = 1.44269504088896340736 / std::sqrt(static_cast<double>(limits.head_dim));
  return {.qkv = params.qkv,
          .keys = params.keys,
          .values = params.values,
          .sinks = params.sinks,
          .out = params.out,
          .pages = params.step.pages,
          .work = LayOutWork(limits, params.workspace, nullptr),
          .qkv_stride = params.qkv_stride,
          .heads = static_cast<int>(limits.heads),
          .kv_heads = static_cast<int>(limits.kv_heads),
          .group = static_cast<int>(group),
          .blocks = static_cast<int>((group + kDecodeHeads - 1) / kDecodeHeads),
          .dim = static_cast<int>(limits.head_dim),
          .window = static_cast<int>(limits.window),
          .scale = static_cast<float>(scale)};
}

int64_t AttentionWorkspaceBytes(const AttentionLimits& limits) {
  int64_t bytes = 0;
  LayOutWork(limits, nullptr, &bytes);
  return bytes;
}

void LaunchPagedAttention(const AttentionParams& params, cudaStream_t stream) {
  CheckLimits(params.limits);
  ROSE_CHECK(params.qkv_stride >= params.limits.heads * params.limits.head_dim &&
                 params.qkv_stride % 8 == 0,
             "qkv_stride=", params.qkv_stride);
  if (params.step.rows == 0) return;
  if (!params.is_planned) LaunchPlanAttention(params, stream);
  if (!IsFast(params.limits)) return LaunchTileAttention(params, stream);
  LaunchDecodeAttention(params, stream);
  LaunchMergeAttention(params, stream);
  if (!params.is_decode) LaunchPrefillAttention(params, stream);
}

}  // namespace rose
