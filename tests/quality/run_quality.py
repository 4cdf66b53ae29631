#!/usr/bin/env python3
"""Asks a running server the questions that rosebud is made for, and checks every answer.

    rose serve models/rosebud --port 8000 &
    python3 tests/quality/run_quality.py http://127.0.0.1:8000 --questions 500

The questions come from tools/rosebud/questions.py, made of words, names, tools and schemas that never occur in the
training text. Prints one JSON line a task, {"task", "right", "asked", "rate", "must", ...}, and exits 1 if a task
misses its must. Needs nothing but Python 3.10.
"""
import argparse
import concurrent.futures
import json
import pathlib
import sys
import threading
import time
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "rosebud"))
from questions import EFFORTS, Group, Item, Output, make_group  # noqa: E402
from words import Source  # noqa: E402

MUSTS = {"sums": 0.95, "memory": 0.90, "lookups": 0.90, "calls": 0.90, "two_calls": 0.90, "schemas": 0.90, "chat": 0.90,
         "columns": None, "products": None, "forms": None}  # measured but no must
LONGEST = 3000             # tokens of a table or text, about


class Client:
    def __init__(self, base: str, timeout: float):
        self.url = base.rstrip("/").removesuffix("/v1") + "/v1/chat/completions"
        self.timeout = timeout
        self.lock = threading.Lock()
        self.tokens, self.longest_prompt, self.reasoning = 0, 0, dict.fromkeys(EFFORTS, (0, 0))

    def ask(self, group: Group, messages: list[dict]) -> dict:
        """The assistant's message, or {"error": ...}."""
        body = {"messages": messages, "reasoning_effort": group.effort, "temperature": 0, "max_completion_tokens": 400}
        if group.tools:
            body["tools"] = group.tools
        if group.response_format:
            body["response_format"] = group.response_format
        request = urllib.request.Request(self.url, json.dumps(body).encode(), {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=self.timeout) as reply:
                answer = json.load(reply)
        except urllib.error.HTTPError as e:
            return {"error": f"HTTP {e.code}: {e.read()[:300]!r}"}
        except (OSError, ValueError) as e:
            return {"error": str(e)}
        message, usage = answer["choices"][0]["message"], answer.get("usage", {})
        with self.lock:
            self.tokens += usage.get("completion_tokens", 0)
            self.longest_prompt = max(self.longest_prompt, usage.get("prompt_tokens", 0))
            n, words = self.reasoning[group.effort]
            self.reasoning[group.effort] = (n + 1, words + len((message.get("reasoning") or "").split()))
        return message


def try_item(client: Client, group: Group, item: Item) -> tuple[bool, str]:
    """Goes through the steps of an item as a client would, the server's own reasoning sent back; all must be right."""
    reasonings: list[str | None] = []
    for i in range(0, len(item.steps), 2):
        step = item.steps[i]
        assert isinstance(step, Output)
        messages = group.messages(item, i)
        own = [m for m in messages[len(messages) - i:] if m["role"] == "assistant"] if i else []
        for message, reasoning in zip(own, reasonings):
            if reasoning:
                message["reasoning"] = reasoning
        got = client.ask(group, messages)
        if "error" in got or not step.right(got):
            wanted = step.call or step.final
            seen = got.get("error") or got.get("tool_calls") or got.get("content")
            return False, f"asked {item.ask!r} ({group.effort}), step {i // 2 + 1}: wanted {wanted!r}, got {seen!r}"
        reasonings.append(got.get("reasoning"))
    return True, ""


def make_items(task: str, count: int, seed: str) -> list[tuple[Group, Item]]:
    """`count` questions, at most four on one table or one set of tools, one on one schema; efforts in turn."""
    s, out, i = Source(f"{seed}-{task}", test=True), [], 0
    while len(out) < count:
        group = make_group(task, s, EFFORTS[i % 3], 1 if task == "schemas" else 4, LONGEST)
        out += [(group, item) for item in group.items]
        i += 1
    return out[:count]


def main() -> int:
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("base", help="such as http://127.0.0.1:8000")
    a.add_argument("--questions", type=int, default=500, help="a task")
    a.add_argument("--tasks", default=",".join(MUSTS), help="some of " + ", ".join(MUSTS))
    a.add_argument("--concurrency", type=int, default=16)
    a.add_argument("--seed", default="quality")
    a.add_argument("--timeout", type=float, default=600)
    a.add_argument("--show", type=int, default=3, help="wrong answers to show a task, on stderr")
    o = a.parse_args()
    missed = []
    for task in o.tasks.split(","):
        client, began = Client(o.base, o.timeout), time.time()
        items = make_items(task, o.questions, o.seed)
        with concurrent.futures.ThreadPoolExecutor(o.concurrency) as pool:
            results = list(pool.map(lambda gi: try_item(client, *gi), items))
        right = sum(ok for ok, _ in results)
        line = {"task": task, "right": right, "asked": len(items), "rate": round(right / len(items), 4), "must": MUSTS[task]}
        line |= {"by_effort": {e: "{}/{}".format(sum(ok for (g, _), (ok, _) in zip(items, results) if g.effort == e),
                                                 sum(g.effort == e for g, _ in items)) for e in EFFORTS},
                 "reasoning_words": {e: round(w / n, 1) for e, (n, w) in client.reasoning.items() if n},
                 "longest_prompt": client.longest_prompt, "completion_tokens": client.tokens,
                 "seconds": round(time.time() - began, 1)}
        print(json.dumps(line), flush=True)
        for _, why in [r for r in results if not r[0]][:o.show]:
            print("  " + why[:600], file=sys.stderr, flush=True)
        if MUSTS[task] is not None and right < MUSTS[task] * len(items):
            missed.append(task)
    if missed:
        print("missed: " + ", ".join(missed), file=sys.stderr)
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
