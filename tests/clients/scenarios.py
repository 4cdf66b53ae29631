"""What the programs here share: where the server is, and a run of named scenarios with one line for each.

BASE_URL (with /v1), MODEL; ONLY=a,b runs the scenarios whose names hold one of these texts; TRACE=1 shows stack traces.
"""
import asyncio
import inspect
import os
import sys
import time
import traceback

BASE_URL = os.environ.get("BASE_URL", "http://127.0.0.1:8000/v1")
MODEL = os.environ.get("MODEL", "openai/gpt-oss-20b")
_scenarios = []


def scenario(function):
    """Registers a function, async or not; its name with spaces is the scenario's."""
    _scenarios.append((function.__name__.replace("_", " ").strip(), function))
    return function


async def _run_all(client: str) -> int:
    failed = 0
    only = [text for text in os.environ.get("ONLY", "").split(",") if text]
    for name, function in _scenarios:
        if only and not any(text in name for text in only):
            continue
        start = time.monotonic()
        try:
            result = function()
            if inspect.isawaitable(result):
                await result
            print(f"ok    {client} / {name} ({time.monotonic() - start:.1f} s)", flush=True)
        except Exception as error:  # the scenario's verdict, whatever it is
            failed += 1
            text = " ".join(str(error).split())[:400]
            where = traceback.extract_tb(error.__traceback__)
            line = next((f.lineno for f in reversed(where) if "/tests/clients/" in f.filename), 0)
            print(f"FAIL  {client} / {name}: line {line}: {type(error).__name__}: {text}", flush=True)
            if os.environ.get("TRACE"):
                traceback.print_exc()
    return failed


def run(client: str):
    """Runs the registered scenarios one after the other in one event loop; exits with 1 if one failed."""
    failed = asyncio.run(_run_all(client))
    sys.exit(1 if failed else 0)
