#!/usr/bin/env python3
"""Which test stands for which fault that other servers of this model shipped.

A test named Case012 is about the fault number 12 of the list below: of its whole kind, not of one input.
Prints `number  kind: the tests` and exits 1 if a fault has none.
"""
import pathlib
import re
import sys

KINDS = {
    1: "header parser bound to positions",
    3: "content type mistaken for a recipient",
    4: "control tokens leak into fields of the API",
    7: "channel or text used where the recipient decides",
    8: "parsing and rendering are not inverse",
    9: "special token rendered as text",
    11: "a missing <|start|> ends the answer",
    12: "text is lost at the end of the stream",
    15: "stop ids differ by endpoint",
    16: "a call is bound to one closing token",
    17: "made-up messages of others are trusted",
    19: "arguments are judged and thrown away",
    20: "preamble misfiled",
    21: "streamed and whole answers disagree",
    23: "text taken apart in place of tokens",
    24: "silent default for an unknown family",
    26: "roles mapped wrongly",
    27: "instructions are lost",
    28: "optional fields of a tool",
    29: "schema printer is not total",
    30: "encoded twice",
    31: "a call's id to its function",
    33: "old thoughts",
    34: "thoughts inside a tool loop",
    35: "sampled -> API -> prompt is not the same",
    37: "where a continued message's parser starts",
    38: "one token a step assumed",
    41: "names of the reasoning field",
    43: "where the grammar starts",
    45: "accepted and not enforced",
    47: "grammar without progress",
    48: "tool_choice",
    49: "several calls in a turn",
    50: "tool_choice none",
    51: "order of events",
    53: "answers that are cut",
    54: "tools of an unknown type",
    55: "stored responses grow without a bound",
    58: "usage",
    60: "quadratic tokenizer",
    61: "invalid UTF-8 of the model",
    62: "characters over several tokens",
    63: "ids outside the vocabulary",
    65: "downloads at run time",
    72: "reuse of prefixes with windows",
    74: "two pools of pages",
    75: "pages of several groups move",
    78: "weights cut for several devices",
    86: "names of the rope configuration",
    89: "drafts change the answer",
    93: "no progress",
    94: "clients that leave",
    96: "huge n",
    97: "numbers that are none",
    99: "recursion without a bound",
    102: "special tokens in a user's text",
    104: "cache shared between tenants",
    105: "own output refused as input",
    106: "form of stream chunks",
    107: "events of reasoning",
    109: "hidden defaults",
    110: "prefix changes with the time of day",
}
# What they are about is not there yet.
LATER = {75}

TEST_NAME = re.compile(r"\bTEST(?:_F|_P)?\(\s*Case(\d{3})\w*\s*,\s*(\w+)\s*\)|\bdef (test_case_?(\d{3})\w*)")


def find_tests(root):
    found = {}
    for path in sorted(root.rglob("*")):
        if path.suffix not in (".cc", ".cu", ".py"):
            continue
        for match in TEST_NAME.finditer(path.read_text()):
            number = int(match[1] or match[4])
            found.setdefault(number, []).append(f"{path.parent.name}/{path.stem}: {match[2] or match[3]}")
    return found


def main():
    tests = find_tests(pathlib.Path(__file__).resolve().parents[1] / "tests")
    missing = []
    for number, kind in KINDS.items():
        names = tests.get(number, [])
        if not names and number not in LATER:
            missing.append(number)
        later = "later" if number in LATER else "NONE"
        print(f"{number:3}  {kind}: {', '.join(names) or later}")
    print(f"cases: {len(KINDS)} kinds of faults, {len(missing)} without a test {missing or ''}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
