// Computes  the stored numbers of a made-up weight, as tensor/random_weight.h defines them: a word
//           of random bits by integer mixing, then a look-up for every byte (or sum of bytes).
//           Nothing is rounded; the bytes are the host's.
// Work      a thread makes 16 bytes at a time (32 numbers of mxfp4, 16 of fp8-block, 8 of bf16), or
//           8 scales; CTAs stride over the weight. The tables lie in shared memory.
// Bound     integer instructions: about 8 for a number, with one look-up.
// Measured  on one H200 (2026-11-30): 120b with mxfp4 experts, 65 GB, 51 ms = 1.28 TB/s; 20b 11 ms;
//           120b with fp8-block experts, 119 GB, 65 ms. Not tuned.
// Requires  16-byte alignment of the data; any count of numbers.
#include <algorithm>

#include "base/check.h"
#include "device/launch.h"
#include "kernels/random/random.h"

namespace rose {
namespace {

constexpr int kThreads = 256;

// RandomWord of tensor/random_weight.h.
__device__ uint64_t Word(uint64_t key, uint64_t index) {
  uint64_t x = key + index * 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Eight numbers of mxfp4.
__device__ uint32_t Nibbles(const uint16_t* codes, uint64_t word) {
  uint32_t out = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) out |= uint32_t{codes[word >> (8 * i) & 255]} << (4 * i);
  return out;
}

// Four numbers of fp8-block.
__device__ uint32_t Bytes(const uint16_t* codes, uint32_t word) {
  uint32_t out = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) out |= uint32_t{codes[word >> (8 * i) & 255]} << (8 * i);
  return out;
}

// Two numbers of bf16: __dp4a adds the four bytes of each half.
__device__ uint32_t Pair(const uint16_t* codes, uint64_t word) {
  const uint32_t low = codes[__dp4a(static_cast<uint32_t>(word), 0x01010101u, 0u)];
  const uint32_t high = codes[__dp4a(static_cast<uint32_t>(word >> 32), 0x01010101u, 0u)];
  return low | high << 16;
}

// Bytes 16 * at to 16 * at + 15 of the data.
__device__ uint4 MakeVector(const RandomDataParams& p, const uint16_t* codes, uint64_t at) {
  uint32_t out[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    switch (p.packing) {
      case Packing::kBf16:
        out[i] = Pair(codes, Word(p.tables.key, 4 * at + i));
        break;
      case Packing::kMxfp4:
        out[i] = Nibbles(codes, Word(p.tables.key, 4 * at + i));
        break;
      case Packing::kFp8Block:
        out[i] = Bytes(codes,
                       static_cast<uint32_t>(Word(p.tables.key, 2 * at + i / 2) >> (32 * (i % 2))));
        break;
    }
  }
  return {out[0], out[1], out[2], out[3]};
}

__device__ int64_t DataBytes(Packing packing, int64_t numbers) {
  if (packing == Packing::kBf16) return 2 * numbers;
  return packing == Packing::kMxfp4 ? numbers / 2 : numbers;
}

__global__ void __launch_bounds__(kThreads)
    smxx_random_data_kernel(const __grid_constant__ RandomDataParams p) {
  __shared__ uint16_t codes[RandomTables::kSums];
  for (int i = threadIdx.x; i < RandomTables::kSums; i += kThreads) codes[i] = p.tables.codes[i];
  __syncthreads();  // all threads wait for the table
  const int64_t bytes = DataBytes(p.packing, p.numbers);
  const int64_t vectors = (bytes + 15) / 16;
  for (int64_t at = blockIdx.x * int64_t{kThreads} + threadIdx.x; at < vectors;
       at += int64_t{kThreads} * gridDim.x) {
    const uint4 made = MakeVector(p, codes, static_cast<uint64_t>(at));
    if (16 * at + 16 <= bytes) {
      static_cast<uint4*>(p.out)[at] = made;
      continue;
    }
    const uint32_t words[4] = {made.x, made.y, made.z, made.w};
    for (int64_t i = 0; i < bytes - 16 * at; ++i)
      static_cast<uint8_t*>(p.out)[16 * at + i] =
          static_cast<uint8_t>(words[i / 4] >> (8 * (i % 4)));
  }
}

__global__ void __launch_bounds__(kThreads)
    smxx_random_scales_kernel(const __grid_constant__ RandomScalesParams p) {
  __shared__ uint8_t exponents[256];
  exponents[threadIdx.x] = p.tables.exponents[threadIdx.x];
  static_assert(kThreads == 256, "one entry a thread");
  __syncthreads();  // all threads wait for the table
  for (int64_t at = blockIdx.x * int64_t{kThreads} + threadIdx.x; 8 * at < p.scales;
       at += int64_t{kThreads} * gridDim.x) {
    const uint64_t word = Word(p.tables.scale_key, static_cast<uint64_t>(at));
    for (int i = 0; i < 8 && 8 * at + i < p.scales; ++i) {
      const uint8_t exponent = exponents[word >> (8 * i) & 255];
      if (p.packing == Packing::kMxfp4) {
        static_cast<uint8_t*>(p.out)[8 * at + i] = exponent;
      } else {
        static_cast<uint32_t*>(p.out)[8 * at + i] = uint32_t{exponent} << 23;
      }
    }
  }
}

// Enough CTAs for all SMs and no more than there is work.
dim3 GridFor(int64_t items) {
  constexpr int64_t kCtas = 132 * 8;
  return dim3(static_cast<unsigned>(std::min(kCtas, (items + kThreads - 1) / kThreads)));
}

}  // namespace

void LaunchRandomData(const RandomDataParams& params, cudaStream_t stream) {
  ROSE_CHECK(params.numbers >= 0 && (params.packing != Packing::kMxfp4 || params.numbers % 2 == 0),
             "numbers=", params.numbers);
  ROSE_CHECK_EQ(reinterpret_cast<uintptr_t>(params.out) % 16, 0u);
  if (params.numbers == 0) return;
  Launch("smxx_random_data", smxx_random_data_kernel,
         {.grid = GridFor(params.numbers / 8 + 1), .block = dim3(kThreads)}, stream, params);
}

void LaunchRandomScales(const RandomScalesParams& params, cudaStream_t stream) {
  ROSE_CHECK(params.scales >= 0, "scales=", params.scales);
  if (params.scales == 0) return;
  Launch("smxx_random_scales", smxx_random_scales_kernel,
         {.grid = GridFor(params.scales / 8 + 1), .block = dim3(kThreads)}, stream, params);
}

}  // namespace rose
