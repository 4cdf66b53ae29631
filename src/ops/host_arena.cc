#include "ops/host_arena.h"

#include <algorithm>
#include <new>

namespace rose {
namespace {

constexpr int64_t kAlign = 64;
constexpr int64_t kFirstBlockBytes = int64_t{1} << 20;

int64_t RoundUp(int64_t bytes) {
  return (bytes + kAlign - 1) / kAlign * kAlign;
}

}  // namespace

void HostArena::FreeAligned::operator()(std::byte* p) const {
  ::operator delete[](p, std::align_val_t(kAlign));
}

void HostArena::AddBlock(int64_t bytes) {
  auto* data = static_cast<std::byte*>(::operator new[](bytes, std::align_val_t(kAlign)));
  blocks_.push_back({std::unique_ptr<std::byte[], FreeAligned>(data), bytes});
  used_ = 0;
  total_ += bytes;
}

Tensor HostArena::Take(DType dtype, std::initializer_list<int64_t> shape) {
  int64_t elements = 1;
  for (int64_t size : shape) elements *= size;
  const int64_t bytes = RoundUp(std::max<int64_t>(1, elements * ElementBytes(dtype)));
  if (blocks_.empty() || used_ + bytes > blocks_.back().bytes) {
    // Doubling keeps the number of blocks of the first large step small.
    AddBlock(std::max({bytes, kFirstBlockBytes, total_}));
  }
  std::byte* data = blocks_.back().data.get() + used_;
  used_ += bytes;
  return Tensor(data, dtype, shape);
}

void HostArena::Reset() {
  if (blocks_.size() > 1) {
    const int64_t bytes = total_;
    blocks_.clear();
    total_ = 0;
    AddBlock(bytes);
  }
  used_ = 0;
}

}  // namespace rose
