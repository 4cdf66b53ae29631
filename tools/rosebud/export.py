"""Writes a trained model in the published file layout (Hugging Face, MXFP4 experts) and reads it back."""
import json
import pathlib

import torch
from safetensors.torch import load_file, save_file

from model import GRID, Config, Model, mxfp4_parts
from tokenizer import special_names

ATTENTION = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "o": "o_proj"}


def pack_mxfp4(w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """w [..., K] -> blocks [..., K/32, 16] and scales [..., K/32], U8; the low nibble comes first."""
    q, exponent = mxfp4_parts(w)
    code = (q.abs()[..., None] == torch.tensor(GRID)).int().argmax(-1) + 8 * torch.signbit(q).int()
    return (code[..., 0::2] + 16 * code[..., 1::2]).to(torch.uint8), (exponent[..., 0] + 127).to(torch.uint8)


def unpack_mxfp4(blocks: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    table = torch.tensor(GRID + tuple(-g for g in GRID))
    code = torch.stack([blocks & 15, blocks >> 4], -1).flatten(-2).long()
    return (table[code] * torch.exp2(scales.float() - 127)[..., None]).flatten(-2)


def tensors(model: Model) -> dict[str, torch.Tensor]:
    out = {"model.embed_tokens.weight": model.embed, "model.norm.weight": model.norm, "lm_head.weight": model.head}
    for i, layer in enumerate(model.layers):
        at = f"model.layers.{i}."
        out[at + "input_layernorm.weight"] = layer.input_norm
        out[at + "post_attention_layernorm.weight"] = layer.post_norm
        out[at + "self_attn.sinks"] = layer.sinks
        for mine, theirs in ATTENTION.items():
            out[at + f"self_attn.{theirs}.weight"] = getattr(layer, mine)
            out[at + f"self_attn.{theirs}.bias"] = getattr(layer, mine + "_bias")
        out[at + "mlp.router.weight"], out[at + "mlp.router.bias"] = layer.router, layer.router_bias
        for mine, theirs in (("gate_up", "gate_up_proj"), ("down", "down_proj")):
            blocks, scales = pack_mxfp4(getattr(layer, mine).detach().float().cpu())
            out[at + f"mlp.experts.{theirs}_blocks"], out[at + f"mlp.experts.{theirs}_scales"] = blocks, scales
            out[at + f"mlp.experts.{theirs}_bias"] = getattr(layer, mine + "_bias")
    return {name: (t if t.dtype == torch.uint8 else t.detach().to(torch.bfloat16)).cpu().contiguous()
            for name, t in out.items()}


def config_json(c: Config) -> dict:
    first = c.vocab - 21  # id of <|startoftext|>
    return {
        "architectures": ["GptOssForCausalLM"], "attention_bias": True, "attention_dropout": 0.0,
        "eos_token_id": first + 4, "experts_per_token": 4, "head_dim": 64, "hidden_act": "silu", "hidden_size": c.hidden,
        "initial_context_length": 4096, "initializer_range": 0.02, "intermediate_size": c.intermediate,
        "layer_types": [("sliding_attention", "full_attention")[i % 2] for i in range(c.layers)],
        "max_position_embeddings": 131072, "model_type": "gpt_oss", "num_attention_heads": c.heads,
        "num_experts_per_tok": 4, "num_hidden_layers": c.layers, "num_key_value_heads": c.kv_heads,
        "num_local_experts": c.experts, "output_router_logits": False, "pad_token_id": first + 1,
        "quantization_config": {"modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router",
                                                           "model.embed_tokens", "lm_head"], "quant_method": "mxfp4"},
        "rms_norm_eps": 1e-05,
        "rope_scaling": {"beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0, "original_max_position_embeddings": 4096,
                         "rope_type": "yarn", "truncate": False},
        "rope_theta": 150000, "router_aux_loss_coef": 0.9, "sliding_window": 128, "swiglu_limit": 7.0,
        "tie_word_embeddings": False, "transformers_version": "4.55.0.dev0", "use_cache": True, "vocab_size": c.vocab}


def generation_json(c: Config) -> dict:
    first = c.vocab - 21
    stops = [i for name in ("<|return|>", "<|endoftext|>", "<|call|>") for i, s in enumerate(special_names()) if s == name]
    return {"bos_token_id": first, "do_sample": True, "eos_token_id": [first + i for i in stops],
            "pad_token_id": first + 1, "transformers_version": "4.55.0.dev0"}


def export(model: Model, folder) -> None:
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / "model.safetensors.part"  # never half a model under the name
    save_file(tensors(model), part, metadata={"format": "pt"})
    part.replace(folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config_json(model.config), indent=2) + "\n")
    (folder / "generation_config.json").write_text(json.dumps(generation_json(model.config), indent=2) + "\n")


def load(folder, dtype=torch.bfloat16, positions: int = 8192) -> Model:
    """A Model with the weights of an exported folder (experts as their MXFP4 values)."""
    folder = pathlib.Path(folder)
    c = json.loads((folder / "config.json").read_text())
    config = Config(c["num_hidden_layers"], c["hidden_size"], c["intermediate_size"], c["num_attention_heads"],
                    c["num_key_value_heads"], c["num_local_experts"], c["vocab_size"])
    model, data = Model(config, positions, dtype), load_file(folder / "model.safetensors")
    own = dict(zip(tensors(model), [None] * len(data)))
    assert own.keys() == data.keys(), "not the tensors of this layout"
    with torch.no_grad():
        for name, parameter in (("model.embed_tokens.weight", model.embed), ("model.norm.weight", model.norm),
                                ("lm_head.weight", model.head)):
            parameter.copy_(data[name])
        for i, layer in enumerate(model.layers):
            at = f"model.layers.{i}."
            layer.input_norm.copy_(data[at + "input_layernorm.weight"])
            layer.post_norm.copy_(data[at + "post_attention_layernorm.weight"])
            layer.sinks.copy_(data[at + "self_attn.sinks"])
            for mine, theirs in ATTENTION.items():
                getattr(layer, mine).copy_(data[at + f"self_attn.{theirs}.weight"])
                getattr(layer, mine + "_bias").copy_(data[at + f"self_attn.{theirs}.bias"])
            layer.router.copy_(data[at + "mlp.router.weight"])
            layer.router_bias.copy_(data[at + "mlp.router.bias"])
            for mine, theirs in (("gate_up", "gate_up_proj"), ("down", "down_proj")):
                at_e = at + f"mlp.experts.{theirs}"
                getattr(layer, mine).copy_(unpack_mxfp4(data[at_e + "_blocks"], data[at_e + "_scales"]))
                getattr(layer, mine + "_bias").copy_(data[at_e + "_bias"])
    return model
