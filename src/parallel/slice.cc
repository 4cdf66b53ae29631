#include "parallel/slice.h"

#include <algorithm>

#include "base/check.h"

namespace rose {

Slice SliceOf(int64_t size, int64_t block, int rank, int ranks) {
  ROSE_CHECK(size >= 0 && block >= 1, "size ", size, ", block ", block);
  ROSE_CHECK(rank >= 0 && rank < ranks, "rank ", rank, " of ", ranks);
  const int64_t blocks = (size + block - 1) / block;
  const int64_t each = blocks / ranks, more = blocks % ranks;  // the first `more` own one more
  const int64_t first = rank * each + std::min<int64_t>(rank, more);
  const int64_t count = each + (rank < more ? 1 : 0);
  return {std::min(size, first * block), std::min(size, (first + count) * block)};
}

int64_t PaddedSliceSize(int64_t size, int64_t block, int ranks) {
  const int64_t blocks = (size + block - 1) / block;
  return (blocks + ranks - 1) / ranks * block;
}

}  // namespace rose
