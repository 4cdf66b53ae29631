#!/usr/bin/env python3
"""Minutes of random mixed load on a server of rose, with clients that leave: nothing may be lost, and nothing may grow.

    python3 tests/gpu/soak.py build/rose models/rosebud --minutes 8
    python3 tests/gpu/soak.py build/rose --like 20b --minutes 2 --max-tokens 64

Starts the server itself, on a free port. Requests have 16 to 2,500 tokens in and up to --max-tokens out, greedy or
drawn, streamed or not, with prefixes that many share; some clients close the connection at once or amid the answer. At
every mark, one JSON line: requests, leavers, memory of the device (nvidia-smi: of the process, or of all where it does
not tell them apart), memory and descriptors of the process. Exits 1 if a request got no whole answer, if the server
ends or still computes once all are gone, if the memory of the device grew by more than 2 MiB or that of the process by
more than 16 MiB and 5 % since the first mark, or if a descriptor is left. Options behind these go to `rose serve`;
--kv-memory is 2G where it is not given, so that the prefix cache is full, and what is kept about it as large as it
will be, before the first mark (on a CPU, whose cache becomes resident page by page, give less). Needs nothing but
Python 3.10.
"""
import argparse
import http.client
import json
import pathlib
import random
import socket
import subprocess
import sys
import threading
import time

WORKERS = 16
VOCAB = 1000               # of prompts: ids that every model has
SHARED = [[random.Random(i).randrange(VOCAB) for _ in range(600)] for i in range(8)]


class Load:
    def __init__(self, port: int, max_tokens: int):
        self.port, self.max_tokens = port, max_tokens
        self.lock = threading.Lock()
        self.done, self.left, self.tokens, self.lost = 0, 0, 0, []
        self.stop = threading.Event()

    def body(self, r: random.Random) -> dict:
        length = int(16 * (2500 / 16) ** r.random())
        prompt = r.choice(SHARED)[:length] if r.random() < 0.5 else []
        prompt = prompt[:r.randrange(len(prompt) + 1)]
        prompt += [r.randrange(VOCAB) for _ in range(max(1, length - len(prompt)))]
        body = {"prompt": prompt, "max_tokens": r.randint(4, self.max_tokens), "ignore_eos": r.random() < 0.7,
                "temperature": r.choice([0, 0, 0.7, 1]), "stream": r.random() < 0.6}
        if r.random() < 0.2:
            body |= {"top_p": 0.9, "top_k": 40}
        if r.random() < 0.1:
            body |= {"logprobs": 3}
        if r.random() < 0.1:
            body |= {"frequency_penalty": 0.5}
        if body["stream"]:
            body |= {"stream_options": {"include_usage": True}}
        return body

    def ask(self, r: random.Random) -> None:
        body = self.body(r)
        leaves = r.random() < 0.25
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
            if leaves and (not body["stream"] or r.random() < 0.3):
                time.sleep(r.random() * 0.05)
                return self.count(left=1)
            reply = connection.getresponse()
            if reply.status != 200:
                return self.lose(f"HTTP {reply.status}: {reply.read()[:200]!r}")
            if leaves:
                reply.read1(1 + r.randrange(3000))
                return self.count(left=1)
            self.check(body, reply.read())
        except (OSError, http.client.HTTPException) as e:
            self.lose(f"{type(e).__name__}: {e}")
        finally:
            connection.close()

    def check(self, body: dict, raw: bytes) -> None:
        if body["stream"]:
            events = [e[6:] for e in raw.decode().split("\n\n") if e.startswith("data: ")]
            if not events or events[-1] != "[DONE]":
                return self.lose(f"a stream without end: {raw[-200:]!r}")
            chunks = [json.loads(e) for e in events[:-1]]
            reasons = [c["finish_reason"] for e in chunks for c in e.get("choices", []) if c.get("finish_reason")]
            usage = chunks[-1].get("usage")
        else:
            answer = json.loads(raw)
            reasons, usage = [answer["choices"][0]["finish_reason"]], answer.get("usage")
        if len(reasons) != 1 or not usage or usage["prompt_tokens"] != len(body["prompt"]):
            return self.lose(f"finish reasons {reasons}, usage {usage}")
        if reasons[0] == "length" and usage["completion_tokens"] != body["max_tokens"]:
            return self.lose(f"{usage['completion_tokens']} tokens of {body['max_tokens']}")
        self.count(done=1, tokens=usage["completion_tokens"])

    def count(self, done: int = 0, left: int = 0, tokens: int = 0) -> None:
        with self.lock:
            self.done, self.left, self.tokens = self.done + done, self.left + left, self.tokens + tokens

    def lose(self, why: str) -> None:
        with self.lock:
            self.lost.append(why)

    def work(self, seed: int) -> None:
        r = random.Random(seed)
        while not self.stop.is_set() and len(self.lost) < 20:
            self.ask(r)


def ask_smi(query: str) -> list[list[int]]:
    out = subprocess.run(["nvidia-smi", query, "--format=csv,noheader,nounits", "-i", "0"],
                         capture_output=True, text=True, timeout=20).stdout
    return [[int(field) for field in line.split(",")] for line in out.splitlines() if line]


def device_mib(pid: int) -> int | None:
    """What the process has of the device; where nvidia-smi does not say, what all have; None without a GPU."""
    try:
        used = [mib for user, mib in ask_smi("--query-compute-apps=pid,used_memory") if user == pid]
        if used:
            return used[0]
    except (OSError, ValueError, subprocess.SubprocessError):
        pass
    try:
        return ask_smi("--query-gpu=memory.used")[0][0]
    except (OSError, ValueError, IndexError, subprocess.SubprocessError):
        return None


def process(pid: int) -> tuple[float, int]:
    """Resident MiB and open descriptors."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    rss = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    return rss / 1024, len(list(pathlib.Path(f"/proc/{pid}/fd").iterdir()))


def get(port: int, path: str) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("GET", path)
        reply = connection.getresponse()
        if reply.status != 200:
            raise OSError(f"{path}: HTTP {reply.status}")
        return reply.read().decode()
    finally:
        connection.close()


def wait_ready(server: subprocess.Popen, port: int) -> None:
    for _ in range(1200):
        if server.poll() is not None:
            sys.exit(f"the server ended with {server.returncode}")
        try:
            get(port, "/health")
            return
        except OSError:
            time.sleep(0.1)
    sys.exit("the server does not answer")


def wait_idle(port: int) -> str:
    """Until nothing runs or waits; what does so after 30 s."""
    busy = ""
    for _ in range(300):
        busy = " ".join(line for line in get(port, "/metrics").splitlines()
                        if line.startswith(("vllm:num_requests_running", "vllm:num_requests_waiting"))
                        and not line.endswith(" 0"))
        if not busy:
            time.sleep(0.5)    # connections that are being closed
            return ""
        time.sleep(0.1)
    return busy


def watch(server: subprocess.Popen, load: Load, seconds: float, every: float) -> list[dict]:
    marks, began = [], time.time()
    while not load.lost and server.poll() is None and time.time() - began < seconds:
        time.sleep(min(every, max(0.0, seconds - (time.time() - began))))
        if server.poll() is not None:
            break
        rss, descriptors = process(server.pid)
        marks.append({"seconds": round(time.time() - began), "requests": load.done, "left": load.left,
                      "tokens": load.tokens, "lost": len(load.lost), "device_mib": device_mib(server.pid),
                      "process_mib": round(rss, 1), "descriptors": descriptors})
        print(json.dumps(marks[-1]), flush=True)
    return marks


def find_faults(server: subprocess.Popen, load: Load, marks: list[dict], before: int) -> list[str]:
    faults = [f"lost: {why}" for why in load.lost[:5]]
    if server.poll() is not None:
        return faults + [f"the server ended with {server.returncode}"]
    if busy := wait_idle(load.port):
        faults.append(f"still busy when all were gone: {busy}")
    rss, descriptors = process(server.pid)
    first, device = marks[0], device_mib(server.pid)
    print(json.dumps({"idle": True, "requests": load.done, "left": load.left, "lost": len(load.lost),
                      "device_mib": device, "process_mib": round(rss, 1), "descriptors": descriptors,
                      "descriptors_before": before}), flush=True)
    if device is not None and max(device, marks[-1]["device_mib"]) > first["device_mib"] + 2:
        faults.append(f"memory of the device grew from {first['device_mib']} to {device} MiB")
    if marks[-1]["process_mib"] > max(first["process_mib"] + 16, 1.05 * first["process_mib"]):
        faults.append(f"memory of the process grew from {first['process_mib']} to {marks[-1]['process_mib']} MiB")
    if descriptors > before:
        faults.append(f"{descriptors} descriptors, {before} before")
    return faults


def main() -> int:
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("rose", help="the program")
    a.add_argument("model", nargs="?", help="a checkpoint; or give --like")
    a.add_argument("--like", help="made-up weights, such as 20b")
    a.add_argument("--device", default="cuda")
    a.add_argument("--minutes", type=float, default=8)
    a.add_argument("--mark", type=float, default=60, help="seconds between marks")
    a.add_argument("--max-tokens", type=int, default=256)
    a.add_argument("--seed", type=int, default=1)
    o, options = a.parse_known_args()
    if (o.model is None) == (o.like is None):
        a.error("give a checkpoint or --like")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    model = [o.model] if o.model else ["--like", o.like]
    if not any(option.startswith("--kv-memory") for option in options):
        options += ["--kv-memory", "2G"]
    server = subprocess.Popen([o.rose, "serve", *model, "--device", o.device, "--port", str(port), "--access-log", "off",
                               *options])
    try:
        wait_ready(server, port)
        load = Load(port, o.max_tokens)
        load.ask(random.Random(0))  # what is opened once is open
        wait_idle(port)
        before = process(server.pid)[1]
        workers = [threading.Thread(target=load.work, args=(o.seed * 1000 + i,)) for i in range(WORKERS)]
        for worker in workers:
            worker.start()
        marks = watch(server, load, 60 * o.minutes, o.mark)
        load.stop.set()
        for worker in workers:
            worker.join()
        faults = find_faults(server, load, marks, before) if marks else ["no mark was reached"] + load.lost[:5]
    finally:
        server.terminate()
        server.wait(60)
    for fault in faults:
        print(fault, file=sys.stderr)
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
