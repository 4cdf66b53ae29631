#!/usr/bin/env python3
"""Runs real clients and recorded requests against `rose serve` with the shipped model.

    .cache/clients/venv/bin/python3 tests/clients/run.py build/rose [--only openai,agents,anthropic,node,faults,replay]

scripts/setup.sh --clients installs what it needs. Prints a line for each scenario, and at the end "N passed, N failed".
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

from server import MODEL, ROOT, Server

HERE = pathlib.Path(__file__).resolve().parent
NODE = ROOT / ".cache" / "clients" / "node"
PART_SECONDS = 400
PARTS = {"openai": [sys.executable, HERE / "py_openai.py"],
         "agents": [sys.executable, HERE / "py_agents.py"],
         "anthropic": [sys.executable, HERE / "py_anthropic.py"],
         "node": [pathlib.Path(sys.executable).parent / "node", NODE / "openai.mjs"],
         "faults": [sys.executable, HERE / "faults.py"],
         "replay": [sys.executable, HERE / "replay.py"]}


def run_part(name: str, url: str) -> tuple[int, int]:
    """(passed, failed) scenarios; a part that ends in any other way counts as one failed more."""
    command = PARTS[name] + ([url] if name in ("faults", "replay") else [])
    environment = {**os.environ, "BASE_URL": url + "/v1", "MODEL": MODEL, "OPENAI_API_KEY": "none", "NO_PROXY": "*", "no_proxy": "*"}
    try:
        done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, timeout=PART_SECONDS)
        output, code = done.stdout, done.returncode
    except subprocess.TimeoutExpired as late:
        output, code = (late.stdout or b"").decode(errors="replace") + f"FAIL  {name}: no end within {PART_SECONDS} s\n", 1
    print(output, end="", flush=True)
    passed, failed = (len(re.findall(rf"^{word} ", output, re.M)) for word in ("ok", "FAIL"))
    if total := re.search(r"^replayed requests: (\d+) passed, (\d+) failed$", output, re.M):
        passed, failed = int(total[1]), int(total[2])
    if (code != 0) != (failed > 0) or passed + failed == 0:
        print(f"FAIL  {name}: ended with {code}", flush=True)
        failed += 1
    return passed, failed


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("rose", help="the program, such as build/rose")
    arguments.add_argument("--only", default=",".join(PARTS), help="parts, separated by commas")
    options = arguments.parse_args()
    if not (NODE / "node_modules").is_dir():
        print("clients: nothing is installed. Run scripts/setup.sh --clients.", file=sys.stderr)
        return 2
    shutil.copy(HERE / "node" / "openai.mjs", NODE)  # imports are looked for beside the file
    passed = failed = 0
    with Server(options.rose) as server:
        for name in options.only.split(","):
            results = run_part(name, server.url)
            passed, failed = passed + results[0], failed + results[1]
        if not server.healthy():
            print("FAIL  the server is not healthy after all this", flush=True)
            failed += 1
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
