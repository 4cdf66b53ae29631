"""Checks an exported model with PyTorch: answers word for word, and equality with transformers.

    python evaluate.py models/rosebud [--answers 500] [--draft models/rosebud-draft]
    python evaluate.py models/rosebud --equal      # same logits as transformers' GptOss, in f32

An answer counts as right if the first choice at each of its tokens is the taught one. The taught answers are unique, so
this is what greedy decoding writes, found in one forward for many answers. It is a lower bound: an answer in other words
counts as wrong here. tests/quality asks the same questions through the HTTP API.
"""
import argparse
import collections
import pathlib

import numpy
import torch
import torch.nn.functional as F

import export
from data import test_rows
from model import Model, Tree


def choices(model: Model, tree: Tree, ids) -> torch.Tensor:
    """First choices [B, T], 16,384 tokens at a time."""
    hidden = model.hidden(ids, tree).detach().flatten(0, 1)
    head = model.head.detach().to(hidden.dtype)
    return torch.cat([F.linear(h, head).argmax(-1) for h in hidden.split(16384)]).view(ids.shape)


def measure(model: Model, tree: Tree, rows, target: Model | None = None) -> dict:
    """{(task, effort): [right answers, answers, right tokens, tokens, tokens where model and target agree]}"""
    counts = collections.defaultdict(lambda: numpy.zeros(5, int))
    size = tree.doc.shape[0]
    for at in range(0, len(rows), size):
        part = rows[at:at + size]
        arrays = [row.array() for row in part]
        arrays += arrays[:1] * (size - len(part))
        x = torch.from_numpy(numpy.stack(arrays, 1)).to(tree.doc.device)
        ids = x[0].int()
        tree.set(*x[1:4])
        mine = choices(model, tree, ids)
        other = choices(target, tree, ids) if target else mine
        hit, same = (mine == x[4]).cpu().numpy(), (mine == other).cpu().numpy()
        for r, row in enumerate(part):
            for first, end, tag in row.spans:
                counts[tag] += (hit[r, first:end].all(), 1, hit[r, first:end].sum(), end - first, same[r, first:end].sum())
    return counts


def report(model: Model, tree: Tree, rows, target: Model | None = None) -> str:
    counts = measure(model, tree, rows, target)
    lines = []
    for task in dict.fromkeys(task for task, _ in counts):
        efforts = {e: c for (t, e), c in counts.items() if t == task}
        total = sum(efforts.values())
        lines.append(f"  {task:10s} {total[0] / total[1]:6.1%} of {total[1]:5d} answers  "
                     + " ".join(f"{e} {efforts[e][0] / efforts[e][1]:.1%}" for e in ("low", "medium", "high") if e in efforts)
                     + f"  tokens {total[2] / total[3]:.2%}" + (f"  agrees {total[4] / total[3]:.1%}" if target else ""))
    total = sum(counts.values())
    if target:
        lines.append(f"  agrees with the target at {total[4] / total[3]:.1%} of {total[3]} tokens")
    return "\n".join(lines)


def equal(folder: pathlib.Path, length: int = 600) -> tuple[float, float]:
    """Largest difference of logits to transformers' own module, both f32, and the largest logit."""
    from transformers import GptOssForCausalLM, Mxfp4Config
    theirs = GptOssForCausalLM.from_pretrained(folder, quantization_config=Mxfp4Config(dequantize=True),
                                               dtype=torch.float32, attn_implementation="eager")
    model = export.load(folder, torch.float32)
    row = test_rows(length, 1, max_tokens=300)[0]
    x = torch.from_numpy(row.array())[:, None]
    tree = Tree(1, length, "cpu", dense=True)
    zeros = torch.zeros(1, length)
    tree.set(zeros, torch.arange(length)[None], zeros)
    with torch.no_grad():
        mine, other = model.logits(x[0].int(), tree), theirs(x[0].long()).logits
    return (mine - other).abs().max().item(), other.abs().max().item()


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("model", type=pathlib.Path)
    a.add_argument("--answers", type=int, default=500)
    a.add_argument("--draft", type=pathlib.Path)
    a.add_argument("--equal", action="store_true")
    a.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    a.add_argument("--length", type=int, default=8192)
    o = a.parse_args()
    if o.equal:
        print("largest difference to transformers: {:.1e}, largest logit {:.1f}".format(*equal(o.model)))
        return
    gpu = o.device != "cpu"
    model = export.load(o.model, torch.bfloat16 if gpu else torch.float32).to(o.device).requires_grad_(False)
    draft = export.load(o.draft, model.dtype).to(o.device).requires_grad_(False) if o.draft else None
    tree = Tree(4 if gpu else 1, o.length, o.device, dense=not gpu)
    rows = test_rows(o.length, o.answers)
    for m in filter(None, (model, draft)):
        if gpu:
            m.compile()
    print(report(model, tree, rows))
    if draft:
        print("draft:\n" + report(draft, tree, rows, model))


if __name__ == "__main__":
    main()
