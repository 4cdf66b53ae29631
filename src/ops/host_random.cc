#include "ops/host_random.h"

#include <algorithm>
#include <functional>

#include "base/parallel_for.h"

namespace rose {
namespace {

constexpr int64_t kPiece = 1 << 20;  // numbers a task makes; whole words of random bits

// Calls fill(begin, end) over [0, count) in pieces.
void FillPieces(int threads, int64_t count, const std::function<void(int64_t, int64_t)>& fill) {
  ParallelFor(threads, (count + kPiece - 1) / kPiece,
              [&](int64_t i) { fill(i * kPiece, std::min(count, (i + 1) * kPiece)); });
}

}  // namespace

Result<Weight> HostRandomWeights::Make(const RandomRecipe& recipe, int threads) {
  constexpr int64_t kAlign = 64;
  Weight weight = LayOut(recipe);
  for (Tensor* tensor : {&weight.data, &weight.scales}) {
    if (tensor->empty()) continue;
    const int64_t bytes = (tensor->bytes() + kAlign) / kAlign * kAlign;
    blocks_.emplace_back(std::aligned_alloc(kAlign, bytes));
    if (blocks_.back() == nullptr)
      return Unavailable("not enough memory for made-up weights: ", bytes, " bytes");
    *tensor = Tensor(blocks_.back().get(), tensor->dtype(), tensor->shape());
  }
  int64_t numbers = 1;
  for (int64_t size : recipe.shape) numbers *= size;
  uint8_t* const data = static_cast<uint8_t*>(weight.data.raw());
  const int64_t eight_bytes = weight.data.bytes() * 8 / std::max<int64_t>(1, numbers);
  FillPieces(threads, numbers, [&](int64_t begin, int64_t end) {
    FillRandomData(recipe, begin, end, data + begin * eight_bytes / 8);
  });
  if (weight.scales.empty()) return weight;
  uint8_t* const scales = static_cast<uint8_t*>(weight.scales.raw());
  const int64_t scale_bytes = ElementBytes(weight.scales.dtype());
  FillPieces(threads, weight.scales.elements(), [&](int64_t begin, int64_t end) {
    FillRandomScales(recipe, begin, end, scales + begin * scale_bytes);
  });
  return weight;
}

}  // namespace rose
