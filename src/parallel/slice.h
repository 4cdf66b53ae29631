// Which part of an axis belongs to a rank.
#pragma once

#include <cstdint>

namespace rose {

// Elements [begin, end) of an axis.
struct Slice {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const { return end - begin; }
  bool operator==(const Slice&) const = default;
};

// Cuts an axis of `size` elements into slices for `ranks` ranks, in their order and without holes.
// Every border between two ranks is a multiple of `block` (32 where MXFP4 scales run along the
// axis, 1 where nothing does); slices differ by at most one block, the earlier ones being larger. A
// rank owns nothing if there are fewer blocks than ranks. Interleaved gate and up rows are cut as
// twice the slice of the intermediate axis, so that pairs stay together.
Slice SliceOf(int64_t size, int64_t block, int rank, int ranks);

// The size to which all slices of such a cut are padded with zeros where they must be equal.
int64_t PaddedSliceSize(int64_t size, int64_t block, int ranks);

}  // namespace rose
