// Computes  nothing: loads `bytes` and forgets them.
// Work      pieces of 16 KB by turns. Bound: memory, bytes read once.
#include <algorithm>

#include "base/check.h"
#include "device/launch.h"
#include "kernels/common/ptx/bulk_copy.cuh"
#include "kernels/read/read.h"

namespace rose {
namespace {

constexpr int kThreads = 256;
constexpr int kLoads = 4;  // of 16 bytes, in flight in every thread
constexpr int64_t kPiece = kThreads * kLoads;
constexpr int64_t kMostCtas = 132 * 8;  // all that fit on an H200 at once

__global__ void __launch_bounds__(kThreads) smxx_read_kernel(const __grid_constant__ ReadParams p) {
  ptx::DependencyLaunch();
  ptx::DependencyWait();
  const auto* const data = reinterpret_cast<const uint4*>(p.data);
  const int64_t count = p.bytes / 16;
  uint32_t any = 0;
  for (int64_t piece = blockIdx.x * kPiece; piece < count; piece += gridDim.x * kPiece) {
    uint4 values[kLoads] = {};
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int64_t at = piece + i * kThreads + threadIdx.x;
      if (at < count) values[i] = __ldcs(data + at);
    }
#pragma unroll
    for (int i = 0; i < kLoads; ++i) any |= values[i].x & values[i].y & values[i].z & values[i].w;
  }
  // So that the loads are not left out; written for very few data, and never read.
  if (any == 0xffffffffu) *reinterpret_cast<uint32_t*>(p.sink) = any;
}

}  // namespace

void LaunchRead(const ReadParams& params, cudaStream_t stream) {
  ROSE_CHECK(params.bytes >= 0 && params.bytes % 16 == 0, "bytes=", params.bytes);
  if (params.bytes == 0) return;
  const int64_t pieces = (params.bytes / 16 + kPiece - 1) / kPiece;
  Launch("smxx_read", smxx_read_kernel,
         {.grid = dim3(static_cast<unsigned>(std::min(pieces, kMostCtas))),
          .block = dim3(kThreads),
          .dependent = true},
         stream, params);
}

}  // namespace rose
