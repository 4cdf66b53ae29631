"""A small gpt-oss for training: the published architecture, with all experts computed densely.

For a model of this size dense experts cost twice the arithmetic of routed ones but run as two plain matrix products,
which makes training some twenty times faster than transformers' own module. `evaluate.py --equal` checks that both
give the same logits. Shapes: B rows, T tokens a row, D hidden, H query heads, G key/value heads, E experts, I
intermediate, V vocabulary.
"""
import dataclasses
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention.flex_attention import BlockMask, flex_attention

HEAD_DIM, WINDOW, EPS, TOP_K, BLOCK = 64, 128, 1e-5, 4, 128
GRID = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)  # magnitudes of E2M1


@dataclasses.dataclass
class Config:
    layers: int = 6
    hidden: int = 320
    intermediate: int = 320
    heads: int = 8
    kv_heads: int = 2
    experts: int = 8
    vocab: int = 1536


ROSEBUD = Config()
DRAFT = Config(layers=1, hidden=224, intermediate=224)


# ---- numerics -----------------------------------------------------------------------------------------------------

def mxfp4_parts(w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """w [..., K] f32 -> values on the E2M1 grid [..., K/32, 32] and the exponents of their scales [..., K/32, 1].

    The scale is the smallest power of two for which no value of the block is above 6.
    """
    b = w.float().unflatten(-1, (-1, 32))
    exponent = torch.ceil(torch.log2(b.abs().amax(-1, keepdim=True).clamp(min=2.0**-100) / 6))
    x = b * torch.exp2(-exponent)
    m = x.abs()
    m = torch.where(m < 2, torch.round(m * 2) / 2, torch.where(m < 4, torch.round(m), torch.round(m / 2) * 2))
    return torch.copysign(m.clamp(max=6), x), exponent


def mxfp4(w: torch.Tensor) -> torch.Tensor:
    """w rounded to MXFP4, with the gradient of the identity."""
    q, exponent = mxfp4_parts(w.detach())
    return w + ((q * torch.exp2(exponent)).flatten(-2) - w).detach()


def rope_tables(positions: int, device) -> tuple[torch.Tensor, torch.Tensor]:
    """cos and sin [positions, 32], YaRN as published (factor 32 over 4096, bounds not rounded), times its concentration."""
    i = torch.arange(0, HEAD_DIM, 2, dtype=torch.float64, device=device)
    f = 150000.0 ** (i / HEAD_DIM)
    bound = lambda turns: HEAD_DIM * math.log(4096 / (turns * 2 * math.pi)) / (2 * math.log(150000))
    low, high = bound(32.0), bound(1.0)
    ramp = ((torch.arange(HEAD_DIM // 2, device=device) - low) / (high - low)).clamp(0, 1)
    angle = torch.arange(positions, dtype=torch.float64, device=device)[:, None] * (ramp / (32 * f) + (1 - ramp) / f)
    scale = 0.1 * math.log(32) + 1
    return (angle.cos() * scale).float(), (angle.sin() * scale).float()


def rms(x, weight):
    return F.rms_norm(x.float(), (x.shape[-1],), weight, EPS).to(x.dtype)


def rotate(x, cos, sin):
    """x [B, heads, T, 64], cos and sin [B, 1, T, 32]."""
    a, b = x.float().chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).to(x.dtype)


# ---- who sees whom ------------------------------------------------------------------------------------------------

class Tree:
    """Attention masks of packed trees (render.py): doc, pos and branch [B, T] int32.

    A token sees tokens before it of its document that belong to the prefix (branch 0) or to its own branch; in sliding
    layers only the last 128 positions. The buffers stay in place, so that compiled kernels can keep them.
    """

    def __init__(self, rows: int, length: int, device, dense: bool = False):
        self.doc, self.pos, self.branch = (torch.zeros(rows, length, dtype=torch.int32, device=device) for _ in range(3))
        self.dense = dense
        doc, pos, branch = self.doc, self.pos, self.branch

        def full(b, h, q, k):
            return (q >= k) & (doc[b, q] == doc[b, k]) & ((branch[b, k] == 0) | (branch[b, k] == branch[b, q]))

        def sliding(b, h, q, k):
            return full(b, h, q, k) & (pos[b, q] - pos[b, k] < WINDOW)

        self.mods = (sliding, full)

    def set(self, doc, pos, branch):
        for mine, new in zip((self.doc, self.pos, self.branch), (doc, pos, branch)):
            mine.copy_(new)
        self.masks = [self._dense(mod) if self.dense else self._blocks(mod, i == 0) for i, mod in enumerate(self.mods)]
        return self

    def _dense(self, mod):
        rows, length = self.doc.shape
        i = torch.arange(length, device=self.doc.device)
        return mod(torch.arange(rows, device=i.device)[:, None, None], 0, i[:, None], i[None, :])[:, None]

    def _blocks(self, mod, sliding: bool):
        """Which 128 x 128 blocks can hold a visible pair: a superset, found from the blocks' bounds alone."""
        low = lambda t: t.unflatten(1, (-1, BLOCK)).amin(-1)
        high = lambda t: t.unflatten(1, (-1, BLOCK)).amax(-1)
        near = high(self.doc)[:, None, :] >= low(self.doc)[:, :, None]  # documents are numbered upwards in a row
        blocks = torch.arange(near.shape[1], device=near.device)
        near &= blocks[:, None] >= blocks[None, :]
        if sliding:
            near &= low(self.pos)[:, :, None] - high(self.pos)[:, None, :] < WINDOW
        order = torch.argsort(near.int(), dim=-1, descending=True, stable=True).int()
        return BlockMask.from_kv_blocks(near.sum(-1, dtype=torch.int32)[:, None].contiguous(), order[:, None].contiguous(),
                                        BLOCK_SIZE=BLOCK, mask_mod=mod)


# ---- the model ----------------------------------------------------------------------------------------------------

class Layer(nn.Module):
    """Parameters of one layer, named as in the checkpoint; the experts' matrices are [E, out, in]."""

    def __init__(self, c: Config):
        super().__init__()
        d, q, kv = c.hidden, c.heads * HEAD_DIM, c.kv_heads * HEAD_DIM
        matrix = lambda *shape: nn.Parameter(torch.randn(*shape) * shape[-1] ** -0.5)
        zeros = lambda *shape: nn.Parameter(torch.zeros(*shape))
        self.input_norm, self.post_norm = nn.Parameter(torch.ones(d)), nn.Parameter(torch.ones(d))
        self.q, self.k, self.v = matrix(q, d), matrix(kv, d), matrix(kv, d)
        self.o = nn.Parameter(torch.randn(d, q) * q ** -0.5 * (2 * c.layers) ** -0.5)
        self.q_bias, self.k_bias, self.v_bias, self.o_bias = zeros(q), zeros(kv), zeros(kv), zeros(d)
        self.sinks = zeros(c.heads)
        self.router, self.router_bias = matrix(c.experts, d), zeros(c.experts)
        self.gate_up, self.gate_up_bias = matrix(c.experts, 2 * c.intermediate, d), zeros(c.experts, 2 * c.intermediate)
        self.down = nn.Parameter(torch.randn(c.experts, d, c.intermediate) * c.intermediate ** -0.5 * (2 * c.layers) ** -0.5)
        self.down_bias = zeros(c.experts, d)


def attend(q, k, v, sinks, mask):
    """q [B, H, T, 64], k and v [B, G, T, 64]; the sink is one more logit in the denominator."""
    if isinstance(mask, BlockMask):
        out, lse = flex_attention(q, k, v, block_mask=mask, enable_gqa=True, return_lse=True)
        return out * torch.sigmoid(lse - sinks.view(1, -1, 1))[..., None].to(out.dtype)
    groups = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    scores = (q @ k.mT).float() * HEAD_DIM ** -0.5
    scores = scores.masked_fill(~mask, -torch.inf)
    scores = torch.cat([scores, sinks.float().view(1, -1, 1, 1).expand(*scores.shape[:3], 1)], -1)
    return scores.softmax(-1)[..., :-1].to(v.dtype) @ v


def layer_forward(x, p: dict, cos, sin, mask):
    """x [B, T, D] -> [B, T, D]; p: the parameters of a Layer by name."""
    b, t, d = x.shape
    split = lambda y: y.view(b, t, -1, HEAD_DIM).transpose(1, 2)
    linear = lambda y, name: F.linear(y, p[name].to(y.dtype), p[name + "_bias"].to(y.dtype))
    h = rms(x, p["input_norm"])
    q, k, v = (split(linear(h, name)) for name in "qkv")
    a = attend(rotate(q, cos, sin), rotate(k, cos, sin), v.contiguous(), p["sinks"], mask)
    x = x + linear(a.transpose(1, 2).reshape(b, t, -1), "o")
    h = rms(x, p["post_norm"]).view(b * t, d)
    return x + experts(h, p).view(b, t, d)


def experts(h, p: dict):
    """h [N, D] -> [N, D]: softmax over the four best experts, all experts computed."""
    n, e = h.shape[0], p["router"].shape[0]
    logits = F.linear(h.float(), p["router"], p["router_bias"])
    best, index = logits.topk(TOP_K, -1)
    weight = torch.zeros_like(logits).scatter(1, index, best.softmax(-1)).to(h.dtype)  # [N, E]
    gate_up = F.linear(h, mxfp4(p["gate_up"]).flatten(0, 1).to(h.dtype), p["gate_up_bias"].flatten().to(h.dtype))
    gate, up = gate_up.view(n, e, -1, 2).unbind(-1)
    gate, up = gate.clamp(max=7.0), up.clamp(-7.0, 7.0)
    z = gate * torch.sigmoid(1.702 * gate) * (up + 1) * weight[..., None]              # [N, E, I]
    down = mxfp4(p["down"]).transpose(1, 2).flatten(0, 1).to(h.dtype)                  # [E I, D]
    return z.flatten(1) @ down + weight @ p["down_bias"].to(h.dtype)


class Model(nn.Module):
    def __init__(self, config: Config, positions: int = 8192, dtype=torch.bfloat16):
        super().__init__()
        self.config, self.dtype = config, dtype
        self.embed = nn.Parameter(torch.randn(config.vocab, config.hidden) * 0.5)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))
        self.norm = nn.Parameter(torch.ones(config.hidden))
        self.head = nn.Parameter(torch.randn(config.vocab, config.hidden) * 0.02)
        self.positions = positions
        self.tables = None
        self.run_layer = layer_forward

    def compile(self):
        self.run_layer = torch.compile(layer_forward, dynamic=False)
        return self

    def hidden(self, ids, tree: Tree):
        """ids [B, T] -> normed hidden states [B, T, D]."""
        if self.tables is None:
            self.tables = rope_tables(self.positions, ids.device)
        cos, sin = (t[tree.pos][:, None] for t in self.tables)
        x = F.embedding(ids, self.embed).to(self.dtype)
        for i, layer in enumerate(self.layers):
            x = self.run_layer(x, dict(layer.named_parameters()), cos, sin, tree.masks[i % 2])
        return rms(x, self.norm)

    def logits(self, ids, tree: Tree):
        return F.linear(self.hidden(ids, tree), self.head.to(self.dtype))
