#include "models/step_work.h"

#include <gtest/gtest.h>

#include "models/built_in_configs.h"
#include "models/random_model.h"
#include "ops/cpu/cpu_ops.h"

namespace rose {
namespace {

// Weights without memory, in the published formats: their sizes are all that counts.
LoadedModel Sizes(std::string_view config_json) {
  LoadedModel loaded;
  loaded.ops = std::make_unique<CpuOps>();
  loaded.model = CreateModel(config_json).value();
  const std::vector<TensorSpec>& table = loaded.model->tensors();
  const std::vector<RandomRecipe> recipes = RandomRecipes(table, {}).value();
  for (size_t i = 0; i < table.size(); ++i)
    loaded.weights.emplace(table[i].name, LayOut(recipes[i]));
  return loaded;
}

// The known sizes of both models: bytes of a checkpoint, and of a token alone (3,708 and 5,003 MB
// with all biases; the KV cache is nearly empty).
TEST(StepWork, OfThePublishedModels) {
  const std::vector<BuiltInConfig>& configs = BuiltInConfigs();
  const int64_t checkpoint_bytes[] = {13'761'264'768, 65'248'815'744};
  const double token_bytes[] = {3.708e9, 5.003e9};
  const double active[] = {3'608'307'264, 5'132'849'472};
  for (size_t i = 0; i < configs.size(); ++i) {
    const LoadedModel loaded = Sizes(configs[i].config_json);
    int64_t bytes = 0;
    for (const auto& [name, weight] : loaded.weights) bytes += weight.bytes();
    EXPECT_EQ(bytes, checkpoint_bytes[i]);
    const StepWork work = WorkOf(loaded, {{0, 1, 1}});
    EXPECT_NEAR(work.bytes / token_bytes[i], 1, 0.002);
    EXPECT_NEAR(work.flops / (2 * active[i]), 1, 0.002);
    EXPECT_NEAR(work.experts, 4, 1e-9);
    EXPECT_NEAR(WorkOf(loaded, std::vector<SequenceWork>(16, {0, 1, 1})).experts,
                i == 0 ? 28.2 : 51.0, 0.1);
  }
}

TEST(StepWork, OfAttention) {
  const LoadedModel loaded = Sizes(SmallConfig());  // layers: sliding (128), full; 4 heads of 64
  const StepWork base = WorkOf(loaded, {{0, 1, 0}});
  const StepWork late = WorkOf(loaded, {{1000, 1, 0}});
  // 1,000 more keys in the full layer, 127 in the sliding one; K and V of 2 heads in F32.
  EXPECT_DOUBLE_EQ(late.bytes - base.bytes, 2.0 * 2 * 64 * 4 * (1000 + 127));
  EXPECT_DOUBLE_EQ(late.flops - base.flops, 4.0 * 4 * 64 * (1000 + 127));
  const StepWork two = WorkOf(loaded, {{0, 2, 0}});
  EXPECT_DOUBLE_EQ(two.flops - 2 * base.flops, 4.0 * 4 * 64 * 2);
  // The last matrix is read only where logits are wanted.
  EXPECT_DOUBLE_EQ(WorkOf(loaded, {{0, 1, 1}}).bytes - base.bytes, 96 * 64 * 2.0);
}

}  // namespace
}  // namespace rose
