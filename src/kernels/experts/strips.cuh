// The work of a CTA of sm90_bf16_moe_gemm_strips: its tasks, rings of weights, and sums.
#pragma once

#include "kernels/common/ptx/bulk_copy.cuh"
#include "kernels/experts/moe_math.cuh"
#include "kernels/experts/strips_shape.cuh"

namespace rose {

// What a CTA does; `shared` as StripsShape lays it out. All threads call Prepare, Begin and Run.
template <Packing kPacking, int kTiles, bool kIsOne>
class Strips {
  using Unit = ExpertUnit<kPacking>;
  static constexpr bool kIsShort = kIsOne || kTiles > 1;
  static constexpr int kStageUnits = StageUnits(kPacking, kIsShort), kStages = Stages(kIsShort);
  static constexpr int kStageBytes = kStageUnits * Unit::kBytes;

 public:
  __device__ Strips(const StripsParams& params, uint8_t* shared)
      : p_(params.gemm),
        s_(params.shape),
        shared_(shared),
        warp_(static_cast<int>(threadIdx.x / 32)),
        lane_(static_cast<int>(threadIdx.x % 32)),
        units_(p_.weight.units()),
        blocks_(p_.weight.row_blocks()),
        ring_(ptx::SharedAddress(shared + s_.ring_at + warp_ * kStages * kStageBytes)) {}

  __device__ void Prepare() {
    if (threadIdx.x == 0) {
      ptx::BarrierInit(x_full(), 1);
#pragma unroll 1
      for (int i = 0; i < 1 << s_.slot_bits; ++i) {
        ptx::BarrierInit(summed(i), s_.chunks);
        ptx::BarrierInit(stored(i), 1);
      }
      ptx::BarriersReady();
    }
    // Columns beyond x's that a unit has, where bulk copies do not come.
    const int pad = units_ * kUnitCols - p_.weight.cols;
#pragma unroll 1
    for (int i = threadIdx.x; i < s_.x_rows * (pad / 8); i += blockDim.x) {
      uint8_t* row = shared_ + s_.x_at + i / (pad / 8) * s_.pitch;
      reinterpret_cast<uint4*>(row + p_.weight.cols * 2)[i % (pad / 8)] = {0, 0, 0, 0};
    }
    __syncthreads();  // barriers and zeros are there
  }

  // Fills the ring with the first of this warp's weights.
  __device__ void Begin(const MoePlan& plan) {
    plan_ = plan;
    const int64_t items = int64_t{*plan.tile_count} * blocks_;
    begin_ = static_cast<int>(items * blockIdx.x / gridDim.x);
    end_ = static_cast<int>(items * (blockIdx.x + 1) / gridDim.x);
    ahead_ = First();
    AheadTask();
#pragma unroll 1
    for (int slot = 0; slot < kStages; ++slot) CopyNext(slot);
  }

  __device__ void Run() {
    Task task = First();
    uint32_t x_parity = 0;
    int tile = begin_ / blocks_;
#pragma unroll 1
    for (int item = begin_; item < end_; x_parity ^= 1) {
      if (item != begin_) __syncthreads();  // nobody reads the rows before
      const int first_row = plan_.tiles[tile].first;
      tile += TilesThatFit(tile);
      LoadRows(first_row, plan_.tiles[tile - 1]);
      ptx::BarrierWait(x_full(), x_parity);
      item = min(end_, tile * blocks_);
#pragma unroll 1
      for (; task.item < item; Advance(task)) Compute(task, first_row);
    }
  }

 private:
  __device__ void Advance(Task& task) const {
    task.Advance(s_.step_items, s_.step_chunks, s_.chunks, blocks_);
  }
  // This warp's first task.
  __device__ Task First() const {
    Task task{begin_, begin_ / blocks_, begin_ % blocks_, 0};
    task.Advance(warp_ / s_.chunks, warp_ % s_.chunks, s_.chunks, blocks_);
    return task;
  }
  // Barriers: the rows of x are there; of a slot: its chunks are there, their sum is taken.
  __device__ uint64_t* x_full() const {
    return reinterpret_cast<uint64_t*>(shared_ + s_.barrier_at);
  }
  __device__ uint64_t* summed(int slot) const { return x_full() + 1 + 2 * slot; }
  __device__ uint64_t* stored(int slot) const { return x_full() + 2 + 2 * slot; }
  // Sums of a chunk.
  __device__ float4* Partial(int slot, int chunk, int tile) const {
    return reinterpret_cast<float4*>(shared_ + s_.partial_at) +
           ((slot * s_.chunks + chunk) * kTiles + tile) * 8 * s_.pairs + lane_ / 4 * s_.pairs +
           lane_ % 4;
  }

  // The task that copies have come to.
  __device__ void AheadTask() {
    if (ahead_.item >= end_) return;
    if (ahead_.tile != ahead_tile_) {
      ahead_tile_ = ahead_.tile;
      ahead_expert_ = p_.weight.data + lane_ * 16 +
                      int64_t{plan_.tiles[ahead_tile_].expert} * blocks_ * units_ * Unit::kBytes;
    }
    ahead_from_ =
        ahead_expert_ +
        static_cast<uint32_t>(ahead_.block * units_ + ahead_.chunk * kChunkUnits) * Unit::kBytes;
    ahead_units_ = min(kChunkUnits, units_ - ahead_.chunk * kChunkUnits);
  }

  // Begins the copy of the next stage of this warp's tasks; one group of copies, maybe empty.
  __device__ void CopyNext(int slot) {
    if (ahead_.item < end_) {
      const uint32_t to = ring_ + slot * kStageBytes + lane_ * 16;
      const int bytes = min(kStageUnits, ahead_units_) * Unit::kBytes - lane_ * 16;
#pragma unroll
      for (int at = 0; at < kStageBytes; at += 512)
        if (at < bytes) ptx::CopyAsync16(to + at, ahead_from_ + at, /*is_inside=*/true);
      ahead_from_ += kStageBytes;
      ahead_units_ -= kStageUnits;
      if (ahead_units_ <= 0) {
        Advance(ahead_);
        AheadTask();
      }
    }
    ptx::CopyAsyncCommit();
  }

  // Tiles from `first` on whose rows fit into shared memory together.
  __device__ int TilesThatFit(int first) const {
    int tiles = 0, rows = 0;
    while ((first + tiles) * blocks_ < end_) {
      rows += plan_.tiles[first + tiles].count;
      if (rows > s_.x_rows) break;
      ++tiles;
    }
    return tiles;
  }

  // Rows of x from the plan's entry `first` to the tile `last` into shared memory.
  __device__ void LoadRows(int first, const MoeTile& last) const {
    if (warp_ != 0) return;
    const int rows = last.first + last.count - first;
    const uint32_t bytes = p_.weight.cols * 2;
    if (lane_ == 0) ptx::BarrierExpect(x_full(), rows * bytes);
    __syncwarp();
#pragma unroll 1
    for (int row = lane_; row < rows; row += 32) {
      const int64_t from = plan_.entries[first + row] / p_.x_divisor;
      ptx::BulkCopy(shared_ + s_.x_at + row * s_.pitch, p_.x + from * p_.weight.cols, bytes,
                    x_full());
    }
  }

  // A task; first_row is the entry whose row is the first in shared memory.
  __device__ void Compute(const Task& task, int first_row) {
    const MoeTile tile = plan_.tiles[task.tile];
    const int row = task.block * kUnitRows + lane_ / 4 * 2;
    const bool is_last = task.chunk == s_.chunks - 1;
    // Early, since it comes from far; decoded late.
    uint32_t bias = 0;
    if (is_last && p_.bias != nullptr && row < p_.weight.rows)
      bias =
          *reinterpret_cast<const uint32_t*>(p_.bias + int64_t{tile.expert} * p_.weight.rows + row);
    float sum[kTiles][4];
    Chunk(task.chunk, tile, tile.first - first_row, sum);

    const int local = task.item - begin_, slot = local & ((1 << s_.slot_bits) - 1);
    const uint32_t turn = local >> s_.slot_bits & 1;
    ptx::BarrierWait(stored(slot), turn ^ 1);  // the slot's block before is summed up
    const int tiles = kTiles > 1 && tile.count > 8 ? kTiles : 1;
    if (lane_ % 4 < s_.pairs)
      for (int t = 0; t < tiles; ++t)
        *Partial(slot, task.chunk, t) = {sum[t][0], sum[t][1], sum[t][2], sum[t][3]};
    __syncwarp();  // of all lanes
    if (lane_ == 0) ptx::BarrierArrive(summed(slot));
    if (!is_last) return;
    ptx::BarrierWait(summed(slot), turn);  // all chunks are there
    if (lane_ % 4 < s_.pairs)
      for (int t = 0; t < tiles; ++t) {
        float4 v = *Partial(slot, 0, t);
#pragma unroll 2
        for (int chunk = 1; chunk < s_.chunks; ++chunk) {
          const float4 next = *Partial(slot, chunk, t);
          v.x += next.x, v.y += next.y, v.z += next.z, v.w += next.w;
        }
        const float first = __uint_as_float(bias << 16);
        const float second = __uint_as_float(bias & 0xffff0000);
        sum[t][0] = v.x + first, sum[t][1] = v.y + first;
        sum[t][2] = v.z + second, sum[t][3] = v.w + second;
      }
    __syncwarp();  // all lanes have read the sums
    if (lane_ == 0) ptx::BarrierArrive(stored(slot));
    Store(tile, row, sum);
  }

  // The sums of a chunk of a block: one chain from zero (fp8-block: chains of 128 columns).
  __device__ void Chunk(int chunk, const MoeTile& tile, int x_first, float (&sum)[kTiles][4]) {
    // Lane l's row of ldmatrix: row l % 8 of each 8, columns 8 (l / 8) of 32. Beyond the tile's
    // rows any will do: columns of a product do not mix.
    uint32_t x_row[kTiles];
    for (int t = 0; t < kTiles; ++t)
      x_row[t] = ptx::SharedAddress(shared_ + s_.x_at) +
                 (x_first + min(t * 8 + lane_ % 8, tile.count - 1)) * s_.pitch + lane_ / 8 * 16 +
                 chunk * (kChunkUnits * kUnitCols * 2);
    const bool is_wide = kTiles > 1 && tile.count > 8;
    Sums<kTiles> sums;
    constexpr int kBatch = kBatchUnits<kPacking>;
    int count = min(kChunkUnits, units_ - chunk * kChunkUnits);
#pragma unroll 1
    for (; count > 0; count -= kStageUnits) {
      ptx::CopyAsyncWait<kStages - 1>();
      __syncwarp();  // the stage's copies of all lanes are there
      const uint32_t stage = ring_ + slot_ * kStageBytes;
      const int here = min(kStageUnits, count);
      int u = 0;
#pragma unroll 1
      for (; u + kBatch <= here; u += kBatch) {
        Unit units[kBatch];
#pragma unroll
        for (int i = 0; i < kBatch; ++i) units[i].Load(stage + (u + i) * Unit::kBytes, lane_);
        if (u + kBatch == here) Release();
        if (is_wide)
          MultiplyBatch<kTiles>(units, x_row, sums);
        else
          MultiplyBatch<1>(units, x_row, sums);
        for (int t = 0; t < kTiles; ++t) x_row[t] += kBatch * kUnitCols * 2;
      }
      if (u == here) continue;
#pragma unroll 1
      for (; u < here; ++u) {
        Unit unit;
        unit.Load(stage + u * Unit::kBytes, lane_);
        if (u + 1 == here) Release();
        Multiply<kTiles>(unit, x_row, 0, sums);
        for (int t = 0; t < kTiles; ++t) x_row[t] += kUnitCols * 2;
        if (u % kChainUnits == kChainUnits - 1 || u + 1 == here) sums.EndChain(unit);
      }
    }
    sums.Take(sum);
  }

  // The stage is in registers.
  __device__ void Release() {
    __syncwarp();  // of all lanes
    CopyNext(slot_);
    if (++slot_ == kStages) slot_ = 0;
  }

  // Chains of products, and for fp8-block what is summed of them with their scales.
  template <int kN>
  struct Sums {
    float chain[kN][4] = {};
    float scaled[Unit::kChainScales ? kN : 1][4] = {};

    __device__ void EndChain(const Unit& unit) {
      if constexpr (Unit::kChainScales)
        for (int t = 0; t < kN; ++t)
          for (int i = 0; i < 4; ++i) {
            scaled[t][i] = __fmaf_rn(unit.scales[i / 2], chain[t][i], scaled[t][i]);
            chain[t][i] = 0;
          }
    }
    __device__ void Take(float (&sum)[kN][4]) const {
      for (int t = 0; t < kN; ++t)
        for (int i = 0; i < 4; ++i) sum[t][i] = Unit::kChainScales ? scaled[t][i] : chain[t][i];
    }
  };

  template <int kN>
  __device__ static void MultiplyBatch(const Unit (&units)[kBatchUnits<kPacking>],
                                       const uint32_t (&x_row)[kTiles], Sums<kTiles>& sums) {
#pragma unroll
    for (int u = 0; u < kBatchUnits<kPacking>; ++u) {
      Multiply<kN>(units[u], x_row, u, sums);
      if (u % kChainUnits == kChainUnits - 1) sums.EndChain(units[u]);
    }
  }

  // A unit with kN * 8 rows of x.
  template <int kN>
  __device__ static void Multiply(const Unit& unit, const uint32_t (&x_row)[kTiles], int u,
                                  Sums<kTiles>& sums) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      uint32_t a[2][4];
      unit.Fragment(half, a[0], a[1]);
#pragma unroll
      for (int t = 0; t < kN; ++t) {
        const uint4 b = ptx::LoadMatrix4(x_row[t] + u * (kUnitCols * 2) + half * 64);
        ptx::MmaBf16(sums.chain[t], a[0], b.x, b.y);
        ptx::MmaBf16(sums.chain[t], a[1], b.z, b.w);
      }
    }
  }

  // Rows `row` and row + 1 of the weight; sum[t][i] is of row + i / 2 and of the tile's entry
  // EntryOf(t, i % 2).
  __device__ void Store(const MoeTile& tile, int row, const float (&sum)[kTiles][4]) const {
    if (row >= p_.weight.rows) return;
    for (int t = 0; t < kTiles; ++t)
      for (int j = 0; j < 2; ++j) {
        const int column = t * 8 + lane_ % 4 * 2 + j;
        if (column >= tile.count) continue;
        const int64_t entry = plan_.entries[tile.first + column];
        if (p_.activated != nullptr)
          p_.activated[entry * (p_.weight.rows / 2) + row / 2] =
              MoeActivate(p_, sum[t][j], sum[t][2 + j]);
        else
          __stcg(reinterpret_cast<float2*>(p_.products + entry * p_.weight.rows + row),
                 {sum[t][j], sum[t][2 + j]});
      }
  }

  const MoeGemmParams& p_;
  const StripsShape& s_;
  uint8_t* const shared_;
  const int warp_, lane_, units_, blocks_;
  const uint32_t ring_;
  MoePlan plan_;
  int begin_, end_;  // of the CTA's items
  Task ahead_;       // of the next copy
  int ahead_tile_ = -1;
  const uint8_t* ahead_expert_;  // its tile's weights, this lane's first 16 bytes
  const uint8_t* ahead_from_;    // its source, this lane's first 16 bytes
  int ahead_units_;              // of the task that are not copied yet
  int slot_ = 0;                 // of the next stage
};

}  // namespace rose
