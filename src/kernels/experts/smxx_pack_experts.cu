// Computes  the packed form of experts' weights (PackedExperts) from the published one. Exact: only
//           moves bits, but for mxfp4's scale bytes, which become exponents of bf16.
// Work      one warp a unit of 16 rows x 64 columns; a lane writes its part of the fragments.
// Bound     memory: reads and writes the weights once; at load only.
// Requires  cols a multiple of 32, data aligned to 4 bytes.
// Measured  not yet.
#include <algorithm>

#include "base/check.h"
#include "device/launch.h"
#include "kernels/experts/experts.h"

namespace rose {
namespace {

constexpr int kRows = PackedExperts::kUnitRows;
constexpr int kCols = PackedExperts::kUnitCols;

// One unit as a lane sees it. Fragment element p of a k16 step (MmaBf16): rows and columns below.
struct UnitView {
  const PackExpertsParams* p;
  int64_t expert;
  int row_block;
  int unit;
  int lane;

  __host__ __device__ int row(int fragment_half) const {  // fragment rows lane/4 and lane/4 + 8
    return row_block * kRows + 2 * (lane / 4) + fragment_half;
  }
  __host__ __device__ int col(int step, int part) const {  // of the pair's first element
    return unit * kCols + 16 * step + 2 * (lane % 4) + 8 * (part >> 1);
  }
  __host__ __device__ bool inside(int row, int col) const {
    return row < p->shape.rows && col < p->shape.cols;
  }
  __host__ __device__ int64_t at(int row, int col) const {
    return (expert * p->shape.rows + row) * p->shape.cols + col;
  }
};

// Where decoding looks for code `code` of fragment pair `part` within 16 bits (expert_decode.cuh).
__host__ __device__ uint32_t PlaceE2m1(uint32_t code, int part) {
  const uint32_t sign = code >> 3, magnitude = code & 7;
  if (part < 3) return sign << (15 - 3 * part) | magnitude << (6 - 3 * part);
  return sign << 10 | (magnitude >> 2) << 14 | (magnitude >> 1 & 1) << 13 | (magnitude & 1) << 11;
}

// Returns the largest E8M0 byte of the lane's.
__host__ __device__ int PackMxfp4(const UnitView& v, uint8_t* unit) {
  const auto* codes = static_cast<const uint8_t*>(v.p->data);
  const auto* scales = static_cast<const uint8_t*>(v.p->scales);
  auto* words = reinterpret_cast<uint32_t*>(unit) + v.lane * 4;
  for (int step = 0; step < 4; ++step) {
    uint32_t word = 0;
    for (int part = 0; part < 4; ++part) {
      const int row = v.row(part & 1), col = v.col(step, part);
      const uint32_t pair = v.inside(row, col) ? codes[v.at(row, col) / 2] : 0u;
      word |= PlaceE2m1(pair & 15, part) | PlaceE2m1(pair >> 4, part) << 16;
    }
    words[step] = word;
  }
  const int row = v.row(v.lane % 4 / 2), col = v.unit * kCols + 32 * (v.lane % 2);
  const int scale = v.inside(row, col) ? scales[v.at(row, col) / 32] : 0;
  // The exponent of bf16 that brings a field 2^126 too small to its value.
  unit[512 + v.lane] =
      v.inside(row, col) ? static_cast<uint8_t>(scale > kLargestE8m0 ? 254 : scale + 126) : 0;
  return scale;
}

__host__ __device__ void PackBf16(const UnitView& v, uint8_t* unit) {
  const auto* values = static_cast<const uint16_t*>(v.p->data);
  for (int step = 0; step < 4; ++step) {
    auto* words = reinterpret_cast<uint32_t*>(unit + step * 512) + v.lane * 4;
    for (int part = 0; part < 4; ++part) {
      const int row = v.row(part & 1), col = v.col(step, part);
      words[part] = 0;
      if (!v.inside(row, col)) continue;
      const uint16_t* pair = values + v.at(row, col);
      words[part] = pair[0] | uint32_t{pair[1]} << 16;
    }
  }
}

// Of a word's four bytes, 1 and 3 are the pair of the upper row, 0 and 2 that of the lower one.
__host__ __device__ void PackFp8(const UnitView& v, uint8_t* unit) {
  const auto* values = static_cast<const uint8_t*>(v.p->data);
  for (int step = 0; step < 4; ++step) {
    auto* words = reinterpret_cast<uint32_t*>(unit + step / 2 * 512) + v.lane * 4 + step % 2 * 2;
    words[0] = words[1] = 0;
    for (int part = 0; part < 4; ++part) {
      const int row = v.row(part & 1), col = v.col(step, part);
      if (!v.inside(row, col)) continue;
      const uint8_t* pair = values + v.at(row, col);
      const uint32_t spread = pair[0] | uint32_t{pair[1]} << 16;
      words[part >> 1] |= spread << ((part & 1) ? 0 : 8);
    }
  }
  if (v.lane >= 4) return;
  float scale = 0;
  const int row = v.row_block * kRows + v.lane, col = v.unit * kCols;
  if (v.lane < 2 && v.inside(row, col)) {
    const int blocks = (v.p->shape.cols + 127) / 128;
    const int woven = v.p->woven_scales ? 2 : 1;  // WeightFormat::ScaleRow, ScaleRows
    const int scale_row = row / woven / 128 * woven + row % woven;
    const int scale_rows = (v.p->shape.rows / woven + 127) / 128 * woven;
    scale = static_cast<const float*>(
        v.p->scales)[(v.expert * scale_rows + scale_row) * blocks + col / 128];
  }
  reinterpret_cast<float*>(unit + 1024)[v.lane] = scale;
}

// Packs lane `lane` of unit `index` (over all experts); returns its largest E8M0 byte, or 0.
__host__ __device__ int PackLane(const PackExpertsParams& p, int64_t index, int lane,
                                 int unit_bytes) {
  const int units = p.shape.units(), row_blocks = p.shape.row_blocks();
  const UnitView view{&p, index / units / row_blocks, static_cast<int>(index / units % row_blocks),
                      static_cast<int>(index % units), lane};
  uint8_t* unit = p.out + index * unit_bytes;
  switch (p.shape.packing) {
    case Packing::kMxfp4:
      return PackMxfp4(view, unit);
    case Packing::kBf16:
      PackBf16(view, unit);
      return 0;
    case Packing::kFp8Block:
      PackFp8(view, unit);
      return 0;
  }
  return 0;
}

struct PackKernelParams {
  PackExpertsParams pack;
  int64_t units;  // over all experts
  int unit_bytes;
};

constexpr int kWarps = 8;

__global__ void __launch_bounds__(kWarps * 32)
    smxx_pack_experts_kernel(const __grid_constant__ PackKernelParams p) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  int largest = 0;
  for (int64_t unit = int64_t{blockIdx.x} * kWarps + threadIdx.x / 32; unit < p.units;
       unit += int64_t{gridDim.x} * kWarps) {
    largest = max(largest, PackLane(p.pack, unit, lane, p.unit_bytes));
  }
  if (p.pack.largest_scale == nullptr) return;
  largest = __reduce_max_sync(~0u, largest);
  if (lane == 0) atomicMax(p.pack.largest_scale, largest);
}

int64_t AllUnits(const PackedExperts& shape) {
  return int64_t{shape.experts} * shape.row_blocks() * shape.units();
}

void Check(const PackExpertsParams& p) {
  ROSE_CHECK(p.shape.cols > 0 && p.shape.cols % 32 == 0, "cols=", p.shape.cols,
             ": experts are packed in blocks of 32 columns");
  ROSE_CHECK(p.shape.rows > 0 && p.shape.experts > 0, "rows=", p.shape.rows,
             " experts=", p.shape.experts);
  ROSE_CHECK(p.data != nullptr && p.out != nullptr, "weights without an address");
  ROSE_CHECK((p.scales != nullptr) == (p.shape.packing != Packing::kBf16), "scales");
}

}  // namespace

int UnitBytes(Packing packing) {
  switch (packing) {
    case Packing::kMxfp4:
      return 512 + 32;
    case Packing::kBf16:
      return 2048;
    case Packing::kFp8Block:
      return 1024 + 16;
  }
  ROSE_CHECK(false, "packing ", static_cast<int>(packing));
  return 0;
}

int64_t PackedExpertsBytes(const PackedExperts& shape) {
  return AllUnits(shape) * UnitBytes(shape.packing);
}

void LaunchPackExperts(const PackExpertsParams& params, cudaStream_t stream) {
  Check(params);
  const PackKernelParams p{params, AllUnits(params.shape), UnitBytes(params.shape.packing)};
  const int64_t ctas = std::min<int64_t>((p.units + kWarps - 1) / kWarps, 132 * 8);
  Launch("smxx_pack_experts", smxx_pack_experts_kernel,
         {.grid = dim3(static_cast<unsigned>(ctas)), .block = dim3(kWarps * 32)}, stream, p);
}

void PackExpertsOnHost(const PackExpertsParams& params) {
  Check(params);
  const int unit_bytes = UnitBytes(params.shape.packing);
  for (int64_t unit = 0; unit < AllUnits(params.shape); ++unit)
    for (int lane = 0; lane < 32; ++lane) {
      const int scale = PackLane(params, unit, lane, unit_bytes);
      if (params.largest_scale != nullptr)
        *params.largest_scale = std::max(*params.largest_scale, scale);
    }
}

}  // namespace rose
