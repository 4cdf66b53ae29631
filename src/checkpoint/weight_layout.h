// Where each byte of a weight comes from: what resolving has found, laid out as ops want it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/resolve.h"
#include "tensor/weight.h"

namespace rose {

// Those bytes of a weight's data or scales that one stored tensor has (or one expert of it, where
// experts are transposed).
struct Segment {
  std::string source;       // the stored tensor
  Tensor view;              // its bytes in the mapped file, or those of the one expert
  int64_t to = 0;           // the byte of the whole where they begin
  bool transposed = false;  // view is [cols, rows], of two bytes each
  // How the rows of the view go to the whole, where they are not transposed.
  int64_t rows = 0;    // that it has there
  int64_t stride = 1;  // every so many-th row; other segments lie between
  int64_t repeat = 1;  // each row of the view so many times; the last perhaps fewer

  // The bytes stay in their order, without gaps.
  bool is_plain() const { return !transposed && stride == 1 && repeat == 1; }
  int64_t end() const;  // the byte of the whole behind the last
};

struct WeightLayout {
  Weight weight;  // addresses are null
  std::vector<Segment> data, scales;
};

WeightLayout LayOutWeight(const Checkpoint& checkpoint, const ResolvedWeight& resolved);

// Copies what the segment has of bytes [begin, begin + into.size()) of the whole, from the mapping.
void CopySegment(const Segment& segment, int64_t begin, std::span<uint8_t> into);

}  // namespace rose
