// The table of a gpt-oss model (spec B.1 and B.5), written out for the tests of this folder.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/tensor_spec.h"

namespace rose {

struct GptOssSizes {
  int64_t layers = 4, hidden = 192, inter = 192, experts = 8, vocab = 1024;
  int64_t heads = 8, kv_heads = 2, head_dim = 64;
};

inline std::vector<TensorSpec> GptOssTable(const GptOssSizes& s) {
  std::vector<TensorSpec> table;
  const auto add = [&](std::string name, TensorKind kind, std::vector<int64_t> shape,
                       std::vector<TensorSource> sources) {
    table.push_back({std::move(name), kind, std::move(shape), std::move(sources)});
  };
  const int64_t q = s.heads * s.head_dim, kv = s.kv_heads * s.head_dim;
  using enum TensorKind;
  add("embed", kMatrix, {s.vocab, s.hidden}, {{"model.embed_tokens.weight"}, {"embedding.weight"}});
  for (int64_t n = 0; n < s.layers; ++n) {
    const std::string l = "layers." + std::to_string(n) + ".";
    const std::string hf = "model." + l, b = "block." + std::to_string(n) + ".";
    const std::string at = hf + "self_attn.", ex = hf + "mlp.experts.";
    add(l + "attn_norm", kVector, {s.hidden},
        {{hf + "input_layernorm.weight"}, {b + "attn.norm.scale"}});
    for (const auto& [suffix, kind] : {std::pair("weight", kMatrix), std::pair("bias", kVector)}) {
      const std::string dot = std::string(".") + suffix;
      const bool m = kind == kMatrix;
      const auto shape = [&](int64_t rows, int64_t cols) {
        return m ? std::vector<int64_t>{rows, cols} : std::vector<int64_t>{rows};
      };
      add(l + "qkv" + dot, kind, shape(q + 2 * kv, s.hidden),
          {{at + "q_proj" + dot, at + "k_proj" + dot, at + "v_proj" + dot},
           {b + "attn.qkv" + dot}});
      add(l + "o" + dot, kind, shape(s.hidden, q), {{at + "o_proj" + dot}, {b + "attn.out" + dot}});
      add(l + "router" + dot, kind, shape(s.experts, s.hidden),
          {{hf + "mlp.router" + dot}, {b + "mlp.gate" + dot}});
    }
    add(l + "sinks", kVector, {s.heads}, {{at + "sinks"}, {b + "attn.sinks"}});
    add(l + "mlp_norm", kVector, {s.hidden},
        {{hf + "post_attention_layernorm.weight"}, {b + "mlp.norm.scale"}});
    add(l + "gate_up", kExperts, {s.experts, 2 * s.inter, s.hidden},
        {{ex + "gate_up_proj"}, {b + "mlp.mlp1_weight"}});
    add(l + "gate_up_bias", kVector, {s.experts, 2 * s.inter},
        {{ex + "gate_up_proj_bias"}, {b + "mlp.mlp1_bias"}});
    add(l + "down", kExperts, {s.experts, s.hidden, s.inter},
        {{ex + "down_proj"}, {b + "mlp.mlp2_weight"}});
    add(l + "down_bias", kVector, {s.experts, s.hidden},
        {{ex + "down_proj_bias"}, {b + "mlp.mlp2_bias"}});
  }
  add("norm", kVector, {s.hidden}, {{"model.norm.weight"}, {"norm.scale"}});
  add("lm_head", kMatrix, {s.vocab, s.hidden}, {{"lm_head.weight"}, {"unembedding.weight"}});
  return table;
}

}  // namespace rose
