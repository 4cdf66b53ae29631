#include <algorithm>
#include <array>

#include "base/check.h"
#include "device/align.h"
#include "device/arena.h"
#include "device/cuda_check.h"

namespace rose {
namespace {

constexpr int64_t kStripe = 256;
constexpr int64_t kFirstBlockBytes = int64_t{4} << 20;
constexpr int kNan = 0xff;  // bytes of 0xff are a NaN in every float type

}  // namespace

Tensor DeviceArena::Take(DType dtype, std::initializer_list<int64_t> shape) {
  int64_t elements = 1;
  for (int64_t size : shape) elements *= size;
  return Tensor(TakeBytes(elements * ElementBytes(dtype)), dtype, shape);
}

void* DeviceArena::TakeBytes(int64_t bytes) {
  // Checked, the stripe begins right behind the last byte.
  const int64_t room = AlignOnDevice(std::max<int64_t>(1, bytes) + (is_checked_ ? kStripe : 0));
  while (current_ < blocks_.size() && used_ + room > blocks_[current_].bytes) {
    ++current_;
    used_ = 0;
  }
  if (current_ == blocks_.size()) AddBlock(std::max({room, kFirstBlockBytes, this->bytes()}));
  std::byte* data = blocks_[current_].data.get() + used_;
  used_ += room;
  if (is_checked_) stripes_.push_back(data + bytes);
  return data;
}

void DeviceArena::Release(const Mark& mark) {
  if (is_checked_) return;  // keeps the scratch to look at its stripes
  current_ = mark.block;
  used_ = mark.used;
}

void DeviceArena::AddBlock(int64_t bytes) {
  Block block;
  block.data = ValueOrThrow(AllocateDevice(bytes, "the activations of a step",
                                           "lower --max-step-tokens, or give --kv-memory less"));
  block.bytes = bytes;
  if (is_checked_) {
    CudaCheck(cudaMemsetAsync(block.data.get(), kNan, bytes, stream_), "filling with NaN");
  }
  blocks_.push_back(std::move(block));
  current_ = blocks_.size() - 1;
  used_ = 0;
}

void DeviceArena::CheckStripes() {
  std::array<std::byte, kStripe> found;
  for (size_t i = 0; i < stripes_.size(); ++i) {
    CudaCheck(cudaMemcpyAsync(found.data(), stripes_[i], kStripe, cudaMemcpyDeviceToHost, stream_),
              "reading a stripe");
    CudaCheck(cudaStreamSynchronize(stream_), "waiting for a stripe");
    for (int64_t at = 0; at < kStripe; ++at) {
      ROSE_CHECK(found[at] == std::byte{kNan}, "written ", at, " bytes behind tensor ", i, " of ",
                 stripes_.size());
    }
  }
  stripes_.clear();
  for (Block& block : blocks_) {
    CudaCheck(cudaMemsetAsync(block.data.get(), kNan, block.bytes, stream_), "filling with NaN");
  }
}

void DeviceArena::Reset() {
  if (is_checked_) CheckStripes();
  current_ = 0;
  used_ = 0;
}

int64_t DeviceArena::bytes() const {
  int64_t total = 0;
  for (const Block& block : blocks_) total += block.bytes;
  return total;
}

}  // namespace rose
