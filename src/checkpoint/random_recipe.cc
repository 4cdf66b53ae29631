// NOTE: the numbers below are chosen so that a model of made-up weights behaves like a trained one
// where speed and rounding are concerned. The residual stream begins with a deviation of 1 and
// grows to 2 or 3 over 36 layers; scores of attention have a deviation near 2, so that a row looks
// at some keys and not at all of them; gates reach the clamp of 7 now and then; logits decide as
// a language model's do. Tokens of a sequence must stay different from each other, or all would
// choose the same experts: what attention adds, being an average, is kept small, and biases too.
#include "checkpoint/random_recipe.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace rose {
namespace {

struct Numbers {
  double mean = 0;
  double deviation = 0;
};

// The deviation of a router's logits.
constexpr double kRouterDeviation = 2;

// A matrix that multiplies the deviation of its input by `gain`.
Numbers Gain(const TensorSpec& spec, double gain) {
  return {0, gain / std::sqrt(static_cast<double>(spec.shape.back()))};
}

Numbers NumbersOf(const TensorSpec& spec) {
  switch (spec.role) {
    case TensorRole::kPlain:
      return spec.kind == TensorKind::kVector ? Numbers{0, 0.01} : Gain(spec, 1);
    case TensorRole::kEmbedding:
      return {0, 1};
    case TensorRole::kNorm:
      return {1, 0.2};
    case TensorRole::kSinks:
      return {1, 1};
    case TensorRole::kAttnOut:
      return Gain(spec, 0.35);
    case TensorRole::kRouter:
      return Gain(spec, kRouterDeviation);
    case TensorRole::kRouterBias:
      return {0, 0.01};
    case TensorRole::kGateUp:
      return Gain(spec, 2);
    case TensorRole::kDown:
      return Gain(spec, 0.2);
    case TensorRole::kLmHead:
      return Gain(spec, 3);
  }
  ROSE_CHECK(false, "role ", static_cast<int>(spec.role));
}

// Biases with which the largest of normal logits fall on the experts about as Zipf's law draws
// them. With Gumbel's noise, of deviation pi / sqrt(6), log-probabilities would do exactly that.
std::vector<uint16_t> ZipfBias(int64_t experts, double exponent, uint64_t key) {
  const double scale = kRouterDeviation / (3.14159265358979 / std::sqrt(6.0));
  std::vector<int64_t> order(experts);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return RandomWord(key, static_cast<uint64_t>(a)) < RandomWord(key, static_cast<uint64_t>(b));
  });
  std::vector<uint16_t> bias(experts);
  for (int64_t rank = 0; rank < experts; ++rank) {
    const double log_share = -exponent * std::log(static_cast<double>(rank + 1));
    bias[order[rank]] = ToBf16(static_cast<float>(scale * log_share)).bits;
  }
  return bias;
}

Result<RandomRecipe> RecipeOf(const TensorSpec& spec, const RandomOptions& options) {
  WeightFormat format = spec.kind == TensorKind::kExperts ? options.experts : kBf16Format;
  // As a loader has them: blocks of scales are those of the matrices that are woven.
  if (format.block_rows > 1) format.woven = static_cast<int>(spec.sources.front().size());
  if (format.packing == Packing::kMxfp4 && spec.shape.back() % format.block_cols != 0) {
    return InvalidArgument("'", spec.name, "' has rows of ", spec.shape.back(),
                           " numbers, and mxfp4 needs a multiple of ", format.block_cols,
                           "; make the experts bf16 or fp8-block");
  }
  const uint64_t key = RandomKey(options.seed, spec.name);
  const Numbers numbers = NumbersOf(spec);
  RandomRecipe recipe = MakeRandomRecipe(format, spec.shape, key, numbers.mean, numbers.deviation);
  if (spec.role == TensorRole::kRouterBias && options.zipf > 0)
    recipe.listed = ZipfBias(spec.shape[0], options.zipf, key);
  return recipe;
}

}  // namespace

Result<std::vector<RandomRecipe>> RandomRecipes(const std::vector<TensorSpec>& table,
                                                const RandomOptions& options) {
  const auto is_router_bias = [](const TensorSpec& spec) {
    return spec.role == TensorRole::kRouterBias;
  };
  if (options.zipf > 0 && std::none_of(table.begin(), table.end(), is_router_bias)) {
    return InvalidArgument(
        "routing by Zipf's law needs a router with a bias, and this model's has ",
        "none; leave it balanced");
  }
  std::vector<RandomRecipe> recipes;
  for (const TensorSpec& spec : table) {
    ROSE_ASSIGN_OR_RETURN(RandomRecipe recipe, RecipeOf(spec, options));
    recipes.push_back(std::move(recipe));
  }
  return recipes;
}

}  // namespace rose
