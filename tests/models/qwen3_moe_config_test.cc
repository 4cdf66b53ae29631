#include "models/qwen3_moe_config.h"

#include <gtest/gtest.h>

#include "expect_says.h"
#include "models/model.h"
#include "models/random_model.h"

namespace rose {
namespace {

TEST(Qwen3MoeConfigTest, ReadsThePublishedForm) {
  // Qwen3-30B-A3B.
  const Qwen3MoeConfig c = ParseQwen3MoeConfig(SmallQwenConfig(R"({"vocab_size": 151936,
    "hidden_size": 2048, "moe_intermediate_size": 768, "num_hidden_layers": 48, "head_dim": 128,
    "num_attention_heads": 32, "num_key_value_heads": 4, "num_experts": 128,
    "num_experts_per_tok": 8, "bos_token_id": 151643, "eos_token_id": 151645})"))
                               .value();
  EXPECT_EQ(c.vocab, 151936);
  EXPECT_EQ(c.hidden, 2048);
  EXPECT_EQ(c.inter, 768);
  EXPECT_EQ(c.layers, 48);
  EXPECT_EQ(c.heads, 32);
  EXPECT_EQ(c.kv_heads, 4);
  EXPECT_EQ(c.head_dim, 128);
  EXPECT_EQ(c.experts, 128);
  EXPECT_EQ(c.experts_per_token, 8);
  EXPECT_EQ(c.max_positions, 40960);
  EXPECT_EQ(c.rms_norm_eps, 1e-6f);
  EXPECT_FALSE(c.is_tied);
  EXPECT_EQ(c.rope.theta, 1e6);
  EXPECT_EQ(c.rope.factor, 1);
}

TEST(Qwen3MoeConfigTest, RopeMayBeYarnOrInItsNewPlace) {
  const Qwen3MoeConfig yarn = ParseQwen3MoeConfig(SmallQwenConfig(R"({"rope_scaling":
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}})"))
                                  .value();
  EXPECT_EQ(yarn.rope.factor, 4);
  EXPECT_EQ(yarn.rope.original_context, 32768);
  EXPECT_TRUE(yarn.rope.truncate);
  const Qwen3MoeConfig moved = ParseQwen3MoeConfig(SmallQwenConfig(R"({"rope_theta": "-",
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000000}})"))
                                   .value();
  EXPECT_EQ(moved.rope.theta, 1e7);
  const Result<Qwen3MoeConfig> none =
      ParseQwen3MoeConfig(SmallQwenConfig(R"({"rope_theta": "-"})"));
  ASSERT_FALSE(none.ok());
  EXPECT_SAYS(none.status().message(), "rope_theta is missing");
}

TEST(Qwen3MoeConfigTest, WhatWouldChangeTheMathematicsIsRefused) {
  struct Wrong {
    const char* changes;
    const char* message;
  };
  const Wrong wrongs[] = {
      {R"({"vocab_size": "-"})", "vocab_size is missing; expected a whole number"},
      {R"({"moe_intermediate_size": "-"})", "moe_intermediate_size is missing"},
      {R"({"head_dim": 63})", "head_dim is 63; expected an even number"},
      {R"({"num_attention_heads": 5})", "num_attention_heads is 5; expected a multiple of"},
      {R"({"num_experts": 3})", "num_experts_per_tok is 4"},
      {R"({"rms_norm_eps": 0})", "rms_norm_eps is 0"},
      {R"({"eos_token_id": 96})", "eos_token_id is 96; expected token ids from 0 to 95"},
      {R"({"model_type": "qwen2_moe"})", "model_type is \"qwen2_moe\"; only \"qwen3_moe\""},
      {R"({"hidden_act": "gelu"})", "hidden_act is \"gelu\"; only \"silu\""},
      {R"({"attention_bias": true})", "attention_bias is true; only false"},
      {R"({"use_sliding_window": true})", "use_sliding_window is true; only false"},
      {R"({"decoder_sparse_step": 2})", "decoder_sparse_step is 2; only 1"},
      {R"({"mlp_only_layers": [0]})", "mlp_only_layers is [0]; only []"},
      {R"({"norm_topk_prob": false})", "norm_topk_prob is false; only true is supported"},
      {R"({"norm_topk_prob": "-"})", "norm_topk_prob is missing; only true is supported"},
      {R"({"shared_expert_intermediate_size": 64})", "Qwen3-MoE has no such part"},
      {R"({"layer_types": ["full_attention", "sliding_attention"]})", "only \"full_attention\""},
      {R"({"rope_scaling": {"rope_type": "linear", "factor": 2}})", "rope_type is \"linear\""},
      {R"({"quantization_config": {"quant_method": "fp8", "weight_block_size": [64, 64]}})",
       "quantization_config.weight_block_size is [64,64]; only [128,128] is supported"},
  };
  for (const Wrong& wrong : wrongs) {
    const Result<Qwen3MoeConfig> config = ParseQwen3MoeConfig(SmallQwenConfig(wrong.changes));
    ASSERT_FALSE(config.ok()) << wrong.changes;
    EXPECT_EQ(config.status().code(), StatusCode::kInvalidArgument);
    EXPECT_SAYS(config.status().message(), wrong.message);
  }
}

TEST(RegistryTest, AModelOfNoFamilyIsRefusedWithTheListAndTheGuide) {
  const Result<std::unique_ptr<Model>> model =
      CreateModel(R"({"architectures": ["LlamaForCausalLM"]})");
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.status().code(), StatusCode::kUnsupported);
  EXPECT_SAYS(
      model.status().message(),
      "\"LlamaForCausalLM\" is not supported; known: GptOssForCausalLM, Qwen3MoeForCausalLM");
  EXPECT_SAYS(model.status().message(), "docs/new-model.md");
}

}  // namespace
}  // namespace rose
