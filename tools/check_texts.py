#!/usr/bin/env python3
"""What no file of the repository may contain: work without an issue, and one machine's paths.

Also holds code to ASCII. Prints `file:line: reason`; exits 1 if there was any.
"""
import pathlib
import re
import subprocess
import sys

CODE = {".h", ".cc", ".cu", ".cuh", ".py", ".sh", ".cmake"}
# Texts of others, kept byte for byte.
DATA = ("tests/data/", "fuzz/corpus/", "models/")
# Built from pieces, so that this file passes its own check.
RULES = [
    (re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "X" * 3]) + r")\b(?!\(#\d+\))"),
     "open work needs an issue: TO" + "DO(#123)"),
    (re.compile(r"(?<![\w.])/(" + "|".join(["work", "root", "home"]) + r")/\w"),
     "a path of one machine"),
    (re.compile(r"<{7} |>{7} "), "a merge conflict"),
    (re.compile(r"[ \t]+$"), "blanks at the end of the line"),
]


def tracked(root):
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=root, check=True,
                           capture_output=True, text=True).stdout.splitlines()
    return [n for n in names if not n.startswith(DATA) and (root / n).is_file()]


def offences(name, text):
    code = pathlib.Path(name).suffix in CODE
    for number, line in enumerate(text.splitlines(), 1):
        for pattern, reason in RULES:
            if pattern.search(line):
                yield f"{name}:{number}: {reason}"
        if code and not line.isascii():
            yield f"{name}:{number}: code is ASCII; write \\u escapes in strings"
    if text and not text.endswith("\n"):
        yield f"{name}: no newline at the end"


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    found, count = [], 0
    for name in tracked(root):
        try:
            text = (root / name).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # binary
        count += 1
        found += offences(name, text)
    print("\n".join(found + [f"texts: {count} files, {len(found)} offences"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
