#include "checkpoint/weight_layout.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "checkpoint/safetensors.h"
#include "checkpoint/transpose.h"

namespace rose {
namespace {

// Of a row of the whole. A transposed view's columns are rows there.
int64_t RowBytes(const Segment& segment) {
  const Tensor& view = segment.view;
  if (segment.transposed) return 2 * view.dim(0);
  return view.dim(0) == 0 ? 0 : view.bytes() / view.dim(0);
}

// A segment for each expert of a stack that is stored with the input axis first.
void AddTransposed(const std::string& name, const Tensor& view, std::vector<Segment>& segments) {
  const int64_t bytes = view.bytes() / view.dim(0);
  for (int64_t expert = 0; expert < view.dim(0); ++expert) {
    uint8_t* from = static_cast<uint8_t*>(view.raw()) + expert * bytes;
    segments.push_back({.source = name,
                        .view = Tensor(from, view.dtype(), {view.dim(1), view.dim(2)}),
                        .to = expert * bytes,
                        .transposed = true});
  }
}

// Appends parts one behind the other or, where their stride is more than 1, so many at a time whose
// rows take turns.
class Joiner {
 public:
  Joiner(int64_t stride, int64_t repeat) : stride_(stride), repeat_(repeat) {}

  void Add(const std::string& name, const Tensor& view, int64_t rows) {
    Segment segment{
        .source = name, .view = view, .rows = rows, .stride = stride_, .repeat = repeat_};
    segment.to = at_ + turn_ * RowBytes(segment);
    if (++turn_ == stride_) {
      at_ += rows * stride_ * RowBytes(segment);
      turn_ = 0;
    }
    segments_.push_back(std::move(segment));
  }

  std::vector<Segment> Take() { return std::move(segments_); }

 private:
  const int64_t stride_, repeat_;
  int64_t at_ = 0, turn_ = 0;
  std::vector<Segment> segments_;
};

// Bytes [lo, hi) of the whole, all of which are the segment's.
void CopyTransposed(const Segment& segment, int64_t lo, int64_t hi, uint8_t* to) {
  const int64_t row_bytes = RowBytes(segment);
  const int64_t first = (lo - segment.to) / row_bytes;
  const int64_t last = (hi - segment.to + row_bytes - 1) / row_bytes;
  const auto transpose = [&](uint8_t* rows) {
    TransposePairs(static_cast<const uint8_t*>(segment.view.raw()) + 2 * first, segment.view.dim(0),
                   last - first, segment.view.dim(1), rows);
  };
  const int64_t before = lo - segment.to - first * row_bytes;
  if (before == 0 && hi - lo == (last - first) * row_bytes) return transpose(to);
  std::vector<uint8_t> rows((last - first) * row_bytes);
  transpose(rows.data());
  std::memcpy(to, rows.data() + before, hi - lo);
}

}  // namespace

int64_t Segment::end() const {
  if (transposed || is_plain()) return to + view.bytes();
  return to + ((rows - 1) * stride + 1) * RowBytes(*this);
}

WeightLayout LayOutWeight(const Checkpoint& checkpoint, const ResolvedWeight& resolved) {
  const WeightFormat& format = resolved.format;
  const std::vector<int64_t>& values = resolved.spec->shape;
  StoredWeight whole = resolved.codec->Describe(resolved.spec->name, values);
  if (whole.transposed) std::swap(whole.data.shape[1], whole.data.shape[2]);
  WeightLayout layout;
  layout.weight = {format, values, Tensor(nullptr, whole.data.dtype, whole.data.shape), {}};
  if (whole.scales) {
    std::vector<int64_t>& shape = whole.scales->shape;
    shape[values.size() - 2] = format.ScaleRows(values[values.size() - 2]);
    layout.weight.scales = Tensor(nullptr, whole.scales->dtype, shape);
  }
  const int64_t repeat = resolved.codec->format().block_rows / format.block_rows;
  Joiner data(resolved.woven, 1), scales(resolved.woven, repeat);
  for (const StoredWeight& part : resolved.parts) {
    const Tensor view = checkpoint.Data(part.data.name);
    if (part.transposed) {
      AddTransposed(part.data.name, view, layout.data);
      continue;
    }
    const int64_t rows = part.data.shape[0];
    data.Add(part.data.name, view, rows);
    if (!part.scales) continue;
    const int64_t blocks =
        repeat == 1 ? part.scales->shape[0] : (rows + format.block_rows - 1) / format.block_rows;
    scales.Add(part.scales->name, checkpoint.Data(part.scales->name), blocks);
  }
  if (layout.data.empty()) layout.data = data.Take();
  layout.scales = scales.Take();
  return layout;
}

void CopySegment(const Segment& segment, int64_t begin, std::span<uint8_t> into) {
  const int64_t lo = std::max(begin, segment.to);
  const int64_t hi = std::min(begin + std::ssize(into), segment.end());
  if (lo >= hi) return;
  uint8_t* to = into.data() + (lo - begin);
  if (segment.transposed) return CopyTransposed(segment, lo, hi, to);
  const uint8_t* from = static_cast<const uint8_t*>(segment.view.raw());
  if (segment.is_plain()) {
    std::memcpy(to, from + (lo - segment.to), hi - lo);
    return;
  }
  const int64_t bytes = RowBytes(segment), pitch = bytes * segment.stride;
  for (int64_t row = (lo - segment.to) / pitch; row < segment.rows; ++row) {
    const int64_t at = segment.to + row * pitch;
    if (at >= hi) return;
    const int64_t first = std::max(at, lo), last = std::min(at + bytes, hi);
    if (first >= last) continue;
    std::memcpy(to + (first - lo), from + row / segment.repeat * bytes + (first - at),
                last - first);
  }
}

}  // namespace rose
