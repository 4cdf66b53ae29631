"""rose's logits against those of transformers, with weights of gpt-oss-20b's size, on one GPU.

    python3 tests/gpu/against_transformers.py build/rose [FOLDER = /dev/shm/rose-20b] [POSITIONS = 2048]

Makes a checkpoint with `rose make-checkpoint --like 20b` in FOLDER (14 GB; memory-backed is best), has rose write the
logits of a random text at --device cuda, and compares them, and those of transformers in bf16, with transformers in
f32 (84 GB). Prints one JSON line: mean Kullback-Leibler divergence from f32 and how often the most likely token is
the same. Needs torch, transformers (with GptOss) and safetensors, and 90 GB of GPU memory.
"""

import json
import os
import subprocess
import sys
import time

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, Mxfp4Config

ROSE = sys.argv[1]
FOLDER = sys.argv[2] if len(sys.argv) > 2 else "/dev/shm/rose-20b"
POSITIONS = int(sys.argv[3]) if len(sys.argv) > 3 else 2048
START = time.time()


def say(text):
    print(f"[{time.time() - START:6.1f} s] {text}", file=sys.stderr, flush=True)


def rose_logits(ids):
    if not os.path.exists(os.path.join(FOLDER, "config.json")):
        subprocess.run([ROSE, "make-checkpoint", "--like", "20b", "--out", FOLDER], check=True)
        say("checkpoint written")
    ids_file, out = FOLDER + "-ids.json", FOLDER + "-logits.safetensors"
    with open(ids_file, "w") as file:
        json.dump(ids, file)
    every = ",".join(str(i) for i in range(len(ids)))
    subprocess.run([ROSE, "logits", FOLDER, "--device", "cuda", "--token-ids-file", ids_file, "--positions", every,
                    "--out", out], check=True)
    logits = load_file(out)["logits"]
    os.remove(out)
    return logits


@torch.no_grad()
def logits_of(model, ids):
    return model(torch.tensor([ids], device="cuda"), use_cache=False).logits[0].float()


@torch.no_grad()
def compare(reference, other, rows=128):
    """Mean KL(reference || other) and agreement of the most likely token."""
    divergence, agree = 0.0, 0
    for first in range(0, reference.shape[0], rows):
        a = torch.log_softmax(reference[first:first + rows].double(), -1)
        b = torch.log_softmax(other[first:first + rows].to("cuda").double(), -1)
        divergence += (a.exp() * (a - b)).sum().item()
        agree += (a.argmax(-1) == b.argmax(-1)).sum().item()
    return divergence / reference.shape[0], agree / reference.shape[0]


def main():
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = False
    ids = torch.randint(0, 199998, (POSITIONS,)).tolist()
    rose = rose_logits(ids)
    say("rose is done")
    options = dict(quantization_config=Mxfp4Config(dequantize=True), dtype=torch.bfloat16, device_map="cuda",
                   attn_implementation="eager")
    try:
        model = AutoModelForCausalLM.from_pretrained(FOLDER, experts_implementation="eager", **options)
    except TypeError:
        model = AutoModelForCausalLM.from_pretrained(FOLDER, **options)
    model.eval()
    say(f"transformers has loaded {sum(p.numel() for p in model.parameters()) / 1e9:.2f} G parameters")
    half = logits_of(model, ids).cpu()
    say("bf16 is done")
    model.float()
    full = logits_of(model, ids)
    say("f32 is done")
    spread = full.std(-1).mean().item()
    result = {"positions": POSITIONS, "logits_std": spread}
    for name, logits in (("rose_exact", rose), ("transformers_bf16", half)):
        divergence, agree = compare(full, logits)
        rms = (full - logits.to("cuda")).pow(2).mean().sqrt().item()
        result[name] = {"mean_kl": divergence, "top1_agreement": agree, "rms": rms}
    result["kl_ratio"] = result["rose_exact"]["mean_kl"] / result["transformers_bf16"]["mean_kl"]
    print(json.dumps(result))


main()
