// The list of work of a step is there when the first attention behind it reads it, however busy the
// memory is.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "device/cuda_check.h"
#include "device/memory.h"
#include "device/stream.h"
#include "kernels/attention/attention.h"
#include "kernels/on_device.h"

namespace rose {
namespace {

constexpr int64_t kSeqs = 64, kHeads = 8, kDim = 64, kPageSize = 64;
constexpr Bf16 kNan{0xffff};

// Stores of a plan take longer to arrive while this goes on.
class BusyMemory {
 public:
  BusyMemory() : from_(std::vector<char>(kBytes)), to_(std::vector<char>(kBytes)) {
    for (int i = 0; i < 300; ++i) {
      CudaCheck(cudaMemcpyAsync(to_.data(), from_.data(), kBytes, cudaMemcpyDeviceToDevice,
                                stream_.get()),
                "copying");
    }
  }
  ~BusyMemory() { (void)cudaStreamSynchronize(stream_.get()); }
  BusyMemory(const BusyMemory&) = delete;
  BusyMemory& operator=(const BusyMemory&) = delete;

 private:
  static constexpr size_t kBytes = size_t{1} << 28;
  OnDevice<char> from_, to_;
  Stream stream_;
};

// Sequence s has one token, so that a head's result is the value of page s.
Bf16 ValueOf(int64_t seq, int64_t head) {
  return ToBf16(static_cast<float>(1 + seq * kHeads + head));
}

// Steps of one sequence and of many in turn. A step that saw the list of the one before it leaves
// rows out.
TEST(AttentionPlan, IsThereForTheFirstAttentionBehindIt) {
  if (CudaDevices() == 0) GTEST_SKIP() << "no GPU";
  constexpr int64_t kSteps = 1000, kRow = kHeads * kDim, kOut = kSeqs * kRow;
  std::vector<DeviceSeq> seqs;
  std::vector<int32_t> pages;
  std::vector<Bf16> values(kSeqs * kHeads * kPageSize * kDim, kNan);
  for (int32_t s = 0; s < kSeqs; ++s) {
    seqs.push_back({.first_row = s, .rows = 1, .start = 0, .pages_at = {s}});
    pages.push_back(s);
    for (int64_t h = 0; h < kHeads; ++h) {
      std::fill_n(&values[(s * kHeads + h) * kPageSize * kDim], kDim, ValueOf(s, h));
    }
  }
  const OnDevice<DeviceSeq> seqs_device(seqs);
  const OnDevice<int32_t> pages_device(pages);
  const OnDevice<Bf16> qkv(std::vector<Bf16>(kSeqs * kRow, ToBf16(0))),
      keys(std::vector<Bf16>(values.size(), ToBf16(0))), values_device(values),
      out(std::vector<Bf16>((kSteps + 1) * kOut, kNan));
  AttentionParams params{.qkv = qkv.data(),
                         .keys = keys.data(),
                         .values = values_device.data(),
                         .limits = {.rows = kSeqs,
                                    .seqs = kSeqs,
                                    .heads = kHeads,
                                    .kv_heads = kHeads,
                                    .head_dim = kDim},
                         .qkv_stride = kRow,
                         .is_decode = true};
  params.step.seqs = seqs_device.data();
  params.step.pages = pages_device.data();
  const OnDevice<char> workspace(std::vector<char>(AttentionWorkspaceBytes(params.limits)));
  params.workspace = workspace.data();
  const Stream stream;
  const BusyMemory busy;
  for (int64_t i = 0; i < kSteps; ++i) {
    for (const auto& [rows, at] : {std::pair<int64_t, int64_t>{1, kSteps}, {kSeqs, i}}) {
      params.step.rows = params.step.seq_count = rows;
      params.out = out.data() + at * kOut;
      LaunchPagedAttention(params, stream.get());
    }
  }
  CudaCheck(cudaStreamSynchronize(stream.get()), "waiting");
  const std::vector<Bf16> got = out.ToHost();
  for (int64_t i = 0; i < kSteps * kOut; ++i) {
    const int64_t seq = i % kOut / kRow, head = i % kRow / kDim;
    ASSERT_EQ(got[i].bits, ValueOf(seq, head).bits)
        << "step " << i / kOut << ", sequence " << seq << ", head " << head;
  }
}

}  // namespace
}  // namespace rose
