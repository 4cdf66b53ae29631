#!/usr/bin/env python3
"""What HTTP costs one user: `rose serve` against `rose bench decode`, same prompts and answers.

    tests/gpu/http_against_bench.py build/rose [--like 20b] [--prompt 1024] [--tokens 200]

Prints one line of JSON. Exit code 1 unless the server gives at least 95 % of the bench's tokens a
second, and its first token at most 10 ms later.
"""
import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
import urllib.request

REQUESTS = 8
LEAST_RATE = 0.95
MOST_LATER_MS = 10


def run(command):
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def write_requests(path, count, args, seed):
    """Completions of token ids, so that the server computes as many as the bench; none alike."""
    ids = random.Random(seed)
    with open(path, "w") as file:
        for _ in range(count):
            body = {"prompt": [ids.randrange(args.ids) for _ in range(args.prompt)], "temperature": 0,
                    "max_tokens": args.tokens, "min_tokens": args.tokens, "ignore_eos": True, "stream": True}
            file.write(json.dumps(body) + "\n")


def wait_until_healthy(url, server):
    while server.poll() is None:
        try:
            urllib.request.urlopen(url + "/health")
            return
        except OSError:
            time.sleep(0.1)
    sys.exit(f"rose serve ended with exit code {server.returncode}")


def measure_server(args):
    url = f"http://127.0.0.1:{args.port}"
    server = subprocess.Popen([args.rose, "serve", "--like", args.like, "--port", str(args.port),
                               "--access-log", "off"], stderr=subprocess.DEVNULL)
    try:
        wait_until_healthy(url, server)
        with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
            for count, seed in ((2, 1), (REQUESTS, 2)):  # the first two warm up
                write_requests(file.name, count, args, seed)
                result = run([args.rose, "bench", "serve", url, "--file", file.name,
                              "--warmup", "0"])
        return result
    finally:
        server.terminate()
        server.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rose", help="the program")
    parser.add_argument("--like", default="20b")
    parser.add_argument("--prompt", type=int, default=1024)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--ids", type=int, default=190_000, help="prompts are of ids below")
    parser.add_argument("--port", type=int, default=8765)
    args = parser.parse_args()
    bench = run([args.rose, "bench", "decode", "--like", args.like, "--users", "1", "--prompt",
                 str(args.prompt), "--tokens", str(args.tokens), "--runs", "3"])
    served = measure_server(args)
    rate = 1000 / served["per_token_ms"]["p50"]
    figures = {
        "bench_tokens_per_s": bench["median_tokens_per_s"],
        "http_tokens_per_s": round(rate, 1),
        "share": round(rate / bench["median_tokens_per_s"], 4),
        "bench_first_token_ms": bench["first_token_ms"],
        "http_first_token_ms": served["first_token_ms"]["p50"],
        "failed": served["failed"],
    }
    print(json.dumps(figures))
    later = figures["http_first_token_ms"] - figures["bench_first_token_ms"]
    return 0 if figures["share"] >= LEAST_RATE and later <= MOST_LATER_MS else 1


if __name__ == "__main__":
    sys.exit(main())
