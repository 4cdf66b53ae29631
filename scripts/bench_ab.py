#!/usr/bin/env python3
"""Compares two builds of rose by one of its benches, run in turn, so that clocks and temperature are
the same for both: A B, then B A, and so on.

  scripts/bench_ab.py build-old/rose build/rose ops --like 20b --op experts --tokens 1,8,64
  scripts/bench_ab.py --rounds 4 build-old/rose build/rose decode --like 20b --users 1,16

Prints a line for each result: medians over the rounds, B's time over A's, and how far rounds of the
same program are apart. A difference within that is none. Ends with 1 if a run fails.
"""
import argparse
import json
import statistics
import subprocess
import sys

# What tells one result from another, and the time of each bench.
KEYS = ("model", "op", "format", "tokens", "context", "users", "prompt_tokens", "chunk")
TIMES = ("us", "step_ms", "ms")


def run(program, arguments):
    """One run: {what was measured: its time}."""
    done = subprocess.run([program, "bench", *arguments], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"bench_ab: {program} ended with {done.returncode}")
    results = {}
    for line in done.stdout.splitlines():
        result = json.loads(line)
        name = " ".join(f"{key}={result[key]}" for key in KEYS if key in result)
        time = next((key for key in TIMES if key in result), None)
        if time is None:
            sys.exit(f"bench_ab: no time in {line}")
        results[f"{name} {time}"] = result[time]
    return results


def spread(values):
    """How far apart the rounds of one program are, of their median."""
    return (max(values) - min(values)) / statistics.median(values)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("a")
    parser.add_argument("b")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="of rose bench")
    options = parser.parse_args()
    if options.rounds < 1 or not options.arguments:
        parser.error("a number of rounds from 1, and what to bench, are needed")
    times = ({}, {})
    for turn in range(options.rounds):
        for which in (0, 1) if turn % 2 == 0 else (1, 0):
            for name, time in run((options.a, options.b)[which], options.arguments).items():
                times[which].setdefault(name, []).append(time)
    for name in times[0]:
        if name not in times[1]:
            continue
        a, b = times[0][name], times[1][name]
        print(f"{statistics.median(a):12.3f} {statistics.median(b):12.3f}  B/A {statistics.median(b) / statistics.median(a):.3f}"
              f"  rounds apart {spread(a):.3f} {spread(b):.3f}  {name}")


if __name__ == "__main__":
    main()
