#!/usr/bin/env python3
"""How often the draft's most likely token is the one that rosebud writes.

    python3 tests/quality/draft_agreement.py build/rose --questions 100

rosebud answers questions of test words greedily (`rose generate`); the draft is fed the same tokens, and its first
choice is compared at every one that rosebud wrote (`rose logits`). Prints one JSON line a task and one for all; exits 1
if fewer than 70 % agree. Needs nothing but Python 3.10.
"""
import argparse
import array
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "rosebud"))
from questions import EFFORTS, make_group  # noqa: E402
from render import CALL, RETURN, Special, branches, prefix, random_date  # noqa: E402
from words import Source  # noqa: E402

TASKS = ("sums", "memory", "lookups", "calls", "two_calls", "schemas", "chat")
MUST = 0.70


def encode(rose: str, fragments: list[str]) -> list[int]:
    """Token ids of fragments, each encoded on its own."""
    lines = [json.dumps(f"<|{f}|>" if isinstance(f, Special) else f) for f in fragments]
    reply = subprocess.run([rose, "tokenize", "--model", ROOT / "models/rosebud", "--special", "--json"], check=True,
                           input="\n".join(lines).encode(), capture_output=True)
    return [i for line in reply.stdout.splitlines() for i in json.loads(line)]


def argmaxes(file: pathlib.Path) -> list[int]:
    """The largest entry of every row of the F32 tensor `logits` [positions, vocab]."""
    data = file.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    rows, vocab = json.loads(data[8:8 + size])["logits"]["shape"]
    values = array.array("f", data[8 + size:])
    return [max(range(vocab), key=values[r * vocab:(r + 1) * vocab].__getitem__) for r in range(rows)]


def agreement(rose: str, prompt: list[int], stops: list[int]) -> tuple[int, int]:
    """(tokens where the draft agrees, tokens that rosebud wrote) of one greedy answer."""
    reply = subprocess.run(
        [rose, "generate", ROOT / "models/rosebud", "--token-ids", ",".join(map(str, prompt)), "--max-tokens", "400",
         "--temperature", "0", "--stop-ids", ",".join(map(str, stops)), "--json"], check=True, capture_output=True)
    answer = json.loads(reply.stdout)["token_ids"]
    with tempfile.TemporaryDirectory() as folder:
        ids, out = pathlib.Path(folder) / "ids.json", pathlib.Path(folder) / "logits.safetensors"
        ids.write_text(json.dumps(prompt + answer[:-1]))
        positions = range(len(prompt) - 1, len(prompt) + len(answer) - 1)
        subprocess.run([rose, "logits", ROOT / "models/rosebud-draft", "--token-ids-file", ids, "--out", out,
                        "--positions", ",".join(map(str, positions))], check=True, capture_output=True)
        return sum(a == b for a, b in zip(argmaxes(out), answer)), len(answer)


def main() -> int:
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("rose", help="the program, such as build/rose")
    a.add_argument("--questions", type=int, default=100, help="a task")
    o = a.parse_args()
    stops = encode(o.rose, [RETURN, CALL])
    same_all = tokens_all = 0
    for task in TASKS:
        s, same, tokens, asked = Source(f"draft-{task}", test=True), 0, 0, 0
        while asked < o.questions:
            group = make_group(task, s, EFFORTS[asked % 3], 2, 1000)
            head = prefix(group, random_date(s))
            for ask, _ in branches(group, keep_analysis=True)[:o.questions - asked]:
                agreed, written = agreement(o.rose, encode(o.rose, head + ask), stops)
                same, tokens, asked = same + agreed, tokens + written, asked + 1
        print(json.dumps({"task": task, "questions": asked, "tokens": tokens, "agreement": round(same / tokens, 4)}), flush=True)
        same_all, tokens_all = same_all + same, tokens_all + tokens
    rate = same_all / tokens_all
    print(json.dumps({"task": "all", "tokens": tokens_all, "agreement": round(rate, 4), "must": MUST}))
    return rate < MUST


if __name__ == "__main__":
    sys.exit(main())
