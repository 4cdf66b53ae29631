#!/usr/bin/env python3
"""How long loading takes on a GPU, and whether --gpu-memory holds.

    python3 tests/gpu/load_times.py build/rose --like 20b
    python3 tests/gpu/load_times.py build/rose --like 120b --tokenizer FOLDER --gpu-memory 80G

Makes a checkpoint below --at (memory-backed: the file cache is what is measured; 14 or 65 GB), unless it is there, and
times: `rose generate` of one token, start to end; `rose serve` from start to /health, with and without --gpu-memory,
and its first requests. The greedy tokens must be the same each time, and the memory that nvidia-smi shows for the GPU must stay
within --gpu-memory (nobody else may use it). FOLDER has the published tokenizer.json (packed in
tests/data/tokenizer/tokenizer.json.tar.xz); without it `rose serve` is left out. Needs nothing but Python 3.10.
"""
import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

PORT = 8199
PROMPT = [100, 200, 300, 400]


def run(*command):
    began = time.monotonic()
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{command[1]} failed: {done.stderr[-1000:]}")
    return done.stdout, time.monotonic() - began


def gpu_bytes():
    out, _ = run("nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits")
    return int(out.splitlines()[0]) << 20


def post(path, body):
    request = urllib.request.Request(
        f"http://127.0.0.1:{PORT}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"})
    began = time.monotonic()
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer), time.monotonic() - began


def is_ready():
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/health", timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


def peak_memory(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) << 10


def serve(rose, folder, options):
    """Starts a server, and returns what was seen: seconds, bytes and the text of a greedy answer."""
    command = [rose, "serve", folder, "--port", str(PORT), *options]
    began = time.monotonic()
    with (tempfile.TemporaryFile("w+") as log,
          subprocess.Popen([str(word) for word in command], stdout=log, stderr=log) as server):
        try:
            while not is_ready():
                if server.poll() is not None:
                    log.seek(0)
                    sys.exit(f"rose serve ended: {log.read()[-1000:]}")
                time.sleep(0.005)
            seen = {"options": options, "health_s": round(time.monotonic() - began, 3)}
            body = {"model": folder.name, "prompt": PROMPT, "max_tokens": 8, "temperature": 0}
            answers = [post("/v1/completions", body) for _ in range(3)]
            seen["request_ms"] = [round(1e3 * seconds, 1) for _, seconds in answers]
            seen["text"] = answers[0][0]["choices"][0]["text"]
            seen["gpu_bytes"] = gpu_bytes()
            seen["host_peak_bytes"] = peak_memory(server.pid)
        finally:
            server.kill()
    print(json.dumps(seen), flush=True)
    return seen


def size_of(text):
    return int(text.removesuffix("G")) << 30


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("rose", type=pathlib.Path)
    parser.add_argument("--like", default="20b")
    parser.add_argument("--at", type=pathlib.Path, default="/dev/shm")
    parser.add_argument("--tokenizer", type=pathlib.Path)
    parser.add_argument("--gpu-memory", help="such as 80G")
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--keep", action="store_true", help="leave the checkpoint there")
    args = parser.parse_args()

    args.rose = args.rose.resolve()  # ./rose as well
    folder = args.at / f"load-times-{pathlib.Path(args.like).name}"
    if not folder.exists():
        tokenizer = ["--tokenizer", args.tokenizer] if args.tokenizer else []
        _, seconds = run(args.rose, "make-checkpoint", "--like", args.like, "--out", folder, *tokenizer)
        print(f"checkpoint made in {seconds:.1f} s", flush=True)
    size = sum(file.stat().st_size for file in folder.iterdir())
    bad = []
    try:
        texts = set()
        for _ in range(args.repeat):
            out, seconds = run(args.rose, "generate", folder, "--token-ids", ",".join(map(str, PROMPT)),
                               "--max-tokens", "1", "--temperature", "0", "--json")
            print(json.dumps({"generate_s": round(seconds, 3), "gb": round(size / 1e9, 2), "out": out.strip()}),
                  flush=True)
            texts.add(out)
        if len(texts) > 1:
            bad.append("generate: different tokens")
        if args.tokenizer:
            seen = [serve(args.rose, folder, []) for _ in range(args.repeat)]
            if args.gpu_memory:
                seen.append(serve(args.rose, folder, ["--gpu-memory", args.gpu_memory]))
                if seen[-1]["gpu_bytes"] > size_of(args.gpu_memory):
                    bad.append(f"--gpu-memory {args.gpu_memory}: {seen[-1]['gpu_bytes']} bytes are in use")
            if len({one["text"] for one in seen}) > 1:
                bad.append("serve: different answers")
    finally:
        if not args.keep:
            shutil.rmtree(folder)
    print("\n".join(bad) or "ok")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
