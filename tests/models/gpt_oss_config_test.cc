#include "models/gpt_oss_config.h"

#include <gtest/gtest.h>

#include <cmath>

#include "models/model.h"
#include "models/random_model.h"

namespace rose {
namespace {

std::string ErrorOf(const std::string& changes) {
  const Result<GptOssConfig> config = ParseGptOssConfig(SmallConfig(changes));
  if (config.ok()) return "";
  EXPECT_EQ(config.status().code(), StatusCode::kInvalidArgument);
  return config.status().message();
}

TEST(GptOssConfigTest, ReadsTheHuggingFaceForm) {
  const GptOssConfig c = ParseGptOssConfig(SmallConfig()).value();
  EXPECT_EQ(c.vocab, 96);
  EXPECT_EQ(c.hidden, 64);
  EXPECT_EQ(c.inter, 64);
  EXPECT_EQ(c.layers, 2);
  EXPECT_EQ(c.heads, 4);
  EXPECT_EQ(c.kv_heads, 2);
  EXPECT_EQ(c.head_dim, 64);
  EXPECT_EQ(c.experts, 8);
  EXPECT_EQ(c.experts_per_token, 4);
  EXPECT_EQ(c.window, 128);
  EXPECT_EQ(c.sliding, (std::vector<bool>{true, false}));
  EXPECT_EQ(c.max_positions, 131072);
  EXPECT_EQ(c.rms_norm_eps, 1e-5f);
  EXPECT_EQ(c.activation.limit, 7.0f);
  EXPECT_EQ(c.activation.alpha, 1.702f);
}

TEST(GptOssConfigTest, ReadsTheOriginalForm) {
  const char* text = R"({"num_hidden_layers": 24, "num_experts": 32, "experts_per_token": 4,
    "vocab_size": 201088, "hidden_size": 2880, "intermediate_size": 2880, "swiglu_limit": 7.0,
    "head_dim": 64, "num_attention_heads": 64, "num_key_value_heads": 8, "sliding_window": 128,
    "initial_context_length": 4096, "rope_theta": 150000, "rope_scaling_factor": 32.0,
    "rope_ntk_alpha": 1, "rope_ntk_beta": 32})";
  const GptOssConfig c = ParseGptOssConfig(text).value();
  EXPECT_EQ(c.experts, 32);
  EXPECT_EQ(c.max_positions, 131072);
  EXPECT_EQ(c.rms_norm_eps, 1e-5f);
  EXPECT_TRUE(c.sliding[0]);
  EXPECT_FALSE(c.sliding[23]);
  const GptOssConfig hf = ParseGptOssConfig(SmallConfig()).value();
  EXPECT_EQ(MakeRope(c.rope, 64).inv_freq, MakeRope(hf.rope, 64).inv_freq);
  EXPECT_EQ(MakeRope(c.rope, 64).scale, MakeRope(hf.rope, 64).scale);
  const auto model = CreateModel(text).value();
  EXPECT_EQ(model->info().architecture, "GptOssForCausalLM");
}

TEST(GptOssConfigTest, WrongValuesAreNamed) {
  struct Wrong {
    const char* changes;
    const char* message;
  };
  const Wrong wrongs[] = {
      {R"({"vocab_size": "-"})", "vocab_size is missing; expected a whole number"},
      {R"({"vocab_size": -3})", "vocab_size is -3; expected a whole number from 1"},
      {R"({"hidden_size": 1.5})", "hidden_size is 1.5E0; expected a whole number"},
      {R"({"hidden_size": "64"})", "hidden_size is \"64\"; expected a whole number"},
      {R"({"hidden_size": 1e300})", "hidden_size is 1E300; expected a whole number"},
      {R"({"num_hidden_layers": 0})", "num_hidden_layers is 0"},
      {R"({"num_hidden_layers": 3})",
       "layer_types is [\"sliding_attention\",\"full_attention\"]; "
       "expected a list of 3 entries"},
      {R"({"layer_types": ["full_attention", "linear_attention"]})",
       "layer_types[1] is \"linear_attention\""},
      {R"({"layer_types": "full_attention"})", "layer_types is \"full_attention\""},
      {R"({"head_dim": 63})", "head_dim is 63; expected an even number"},
      {R"({"num_attention_heads": 5})", "num_attention_heads is 5; expected a multiple of"},
      {R"({"num_local_experts": 3})", "num_experts_per_tok is 4"},
      {R"({"experts_per_token": 2})", "experts_per_token is 2; but num_experts_per_tok is 4"},
      {R"({"sliding_window": 0})", "sliding_window is 0"},
      {R"({"model_type": "llama"})", "model_type is \"llama\"; only \"gpt_oss\""},
      {R"({"eos_token_id": 96})", "eos_token_id is 96; expected token ids from 0 to 95"},
      {R"({"eos_token_id": [2, -1]})", "eos_token_id is [2,-1]"},
      {R"({"pad_token_id": "0"})", "pad_token_id is \"0\""},
      {R"({"bos_token_id": 1.5})", "bos_token_id is 1.5E0"},
      {R"({"swiglu_limit": 0})", "swiglu_limit is 0; expected a number above 0"},
      {R"({"rms_norm_eps": -1e-5})", "rms_norm_eps is -1E-5"},
      {R"({"hidden_act": "gelu"})", "hidden_act is \"gelu\"; only \"silu\""},
      {R"({"attention_bias": false})", "attention_bias is false; only true"},
      {R"({"tie_word_embeddings": true})", "tie_word_embeddings is true; only false"},
      {R"({"final_logit_softcapping": 30})", "final_logit_softcapping is 30"},
      {R"({"num_shared_experts": 1})", "num_shared_experts is 1"},
      {R"({"max_position_embeddings": "-"})", "max_position_embeddings is missing"},
      {R"({"rope_theta": "-"})", "rope_theta is missing"},
      {R"({"rope_theta": 1})", "rope_theta is 1"},
      {R"({"rope_scaling": 7})", "rope_scaling is 7; expected an object"},
      {R"({"rope_scaling": {"rope_type": "yarn"}})", "rope_scaling.factor is missing"},
      {R"({"rope_parameters": {"rope_type": "default"}})", "rope_scaling is {"},
      {R"({"rope_scaling": {"rope_type": "default", "factor": 32}})",
       "rope_scaling.factor is 32; the type \"default\" has none"},
      {R"({"rope_scaling": {"rope_type": "default", "type": "yarn"}})",
       "rope_scaling.type is \"yarn\""},
      {R"({"rope_scaling": {"rope_type": "default", "rope_theta": 10000}})",
       "but rope_scaling.rope_theta is 10000"},
      {R"({"max_position_embeddings": 131073})",
       "max_position_embeddings is 131073; but original_max_position_embeddings times factor"},
      {R"({"initial_context_length": 2048})", "initial_context_length is 2048; but"},
      {R"({"rope_scaling_factor": 32})", "rope_scaling is {"},
      {R"({"rope_scaling": {"rope_type": "default", "mscale": 2}})", "rope_scaling.mscale is 2"},
      {R"({"rope_scaling": {"rope_type": "yarn", "factor": 0.5,
           "original_max_position_embeddings": 4096}})",
       "rope_scaling.factor is 5E-1"},
      {R"({"rope_scaling": {"rope_type": "yarn", "factor": 32, "beta_fast": 1, "beta_slow": 1,
           "original_max_position_embeddings": 4096}})",
       "rope_scaling.beta_fast is 1"},
  };
  for (const Wrong& wrong : wrongs) {
    EXPECT_NE(ErrorOf(wrong.changes).find(wrong.message), std::string::npos)
        << wrong.changes << "\n"
        << ErrorOf(wrong.changes);
  }
}

TEST(Case084, TheRampOfYarnIsNotRounded) {
  const double expected[] = {1,
                             0.689044306,
                             0.474782055,
                             0.327145872,
                             0.225418,
                             0.155322989,
                             0.107024421,
                             0.0737445682,
                             0.0508132748,
                             0.0317056962,
                             0.0193350011,
                             0.0115920493,
                             0.00679495949,
                             0.00386035932,
                             0.00209379238,
                             0.0010526021,
                             0.000456483919,
                             0.000129318701,
                             3.83088124e-05,
                             2.6396469e-05,
                             1.81883367e-05,
                             1.25325698e-05,
                             8.63549588e-06,
                             5.95023926e-06,
                             4.09997848e-06,
                             2.82506683e-06,
                             1.94659621e-06,
                             1.34129104e-06,
                             9.2420895e-07,
                             6.36820915e-07,
                             4.38797825e-07,
                             3.02351143e-07};
  const GptOssConfig config = ParseGptOssConfig(SmallConfig()).value();
  const Rope rope = MakeRope(config.rope, 64);
  ASSERT_EQ(rope.inv_freq.size(), 32u);
  for (int i = 0; i < 32; ++i)
    EXPECT_FLOAT_EQ(rope.inv_freq[i], static_cast<float>(expected[i])) << i;
  EXPECT_FLOAT_EQ(rope.scale, 1.3465735902799727f);

  RopeConfig rounded = config.rope;
  rounded.truncate = true;
  const Rope other = MakeRope(rounded, 64);
  EXPECT_NEAR(other.inv_freq[15] / expected[15], 1.146, 1e-3);
  EXPECT_NEAR(other.inv_freq[17] / expected[17], 1.763, 1e-3);
  for (int i : {0, 8, 18, 31}) EXPECT_EQ(other.inv_freq[i], rope.inv_freq[i]) << i;
}

TEST(Case086, BothNamesOfTheRopeKeyAreReadAndNeitherIsAnError) {
  const GptOssConfig old_name = ParseGptOssConfig(SmallConfig()).value();
  const GptOssConfig new_name = ParseGptOssConfig(SmallConfig(R"({
    "rope_scaling": "-", "rope_theta": "-", "rope_parameters": {"beta_fast": 32.0,
    "beta_slow": 1.0, "factor": 32.0, "original_max_position_embeddings": 4096,
    "rope_theta": 150000, "rope_type": "yarn", "truncate": false}})"))
                                    .value();
  EXPECT_EQ(MakeRope(new_name.rope, 64).inv_freq, MakeRope(old_name.rope, 64).inv_freq);
  EXPECT_EQ(MakeRope(new_name.rope, 64).scale, MakeRope(old_name.rope, 64).scale);
  // The stretched context is the limit as it is written, not multiplied again.
  EXPECT_EQ(old_name.max_positions, 131072);
  EXPECT_EQ(new_name.max_positions, 131072);

  EXPECT_NE(ErrorOf(R"({"rope_scaling": "-"})").find("rope_scaling is missing"), std::string::npos);
  EXPECT_NE(ErrorOf(R"({"rope_scaling": null})").find("rope_scaling is missing"),
            std::string::npos);
  EXPECT_NE(ErrorOf(R"({"rope_scaling": {"rope_type": "linear", "factor": 2}})")
                .find("rope_scaling.rope_type is \"linear\"; expected \"yarn\" or \"default\""),
            std::string::npos);
  const GptOssConfig plain =
      ParseGptOssConfig(SmallConfig(R"({"rope_scaling": {"rope_type": "default"}})")).value();
  const Rope rope = MakeRope(plain.rope, 64);
  EXPECT_EQ(rope.scale, 1.0f);
  for (int i = 0; i < 32; ++i)
    EXPECT_FLOAT_EQ(rope.inv_freq[i], static_cast<float>(std::pow(150000.0, -i / 32.0)));
}

TEST(RegistryTest, AnUnknownArchitectureListsTheKnownOnes) {
  const auto unknown = CreateModel(SmallConfig(R"({"architectures": ["LlamaForCausalLM"]})"));
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.status().code(), StatusCode::kUnsupported);
  EXPECT_NE(unknown.status().message().find("LlamaForCausalLM"), std::string::npos);
  EXPECT_NE(unknown.status().message().find("known: GptOssForCausalLM"), std::string::npos);
  for (const char* text :
       {"", "{", "[]", "7", R"({"model_type": "x"})", R"({"architectures": []})",
        R"({"architectures": [3]})", R"({"architectures": "GptOssForCausalLM"})"}) {
    const auto model = CreateModel(text);
    ASSERT_FALSE(model.ok()) << text;
    EXPECT_EQ(model.status().code(), StatusCode::kInvalidArgument) << text;
    EXPECT_EQ(model.status().message().find("config.json"), 0u) << model.status().message();
  }
}

}  // namespace
}  // namespace rose
