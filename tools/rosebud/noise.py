"""Long texts of no meaning to the task: what stands before the question when a coding agent asks (training only).

Half is prose with code in it, cut from the documentation of Python's own language (`pydoc_data`, part of every Python),
half is made up here: rules, lists, tags, blocks of code and JSON.
"""

import json

from chat import ANY, QUESTIONS, KNOWN
from lookups import FILLERS_A, FILLERS_B
from words import CITIES, COLOURS, PEOPLE, Source

try:
    from pydoc_data.topics import topics

    PROSE = [text for _, text in sorted(topics.items())]
except ImportError:
    PROSE = []

RULES = [
    "Always {a} the {x} before you {b} it.",
    "Never {a} a {x}.",
    "Keep the {x} short.",
    "Use the {x} tool to {a} the {y}.",
    "If the {x} is {c}, {a} the {y} first.",
    "You can {a} files and {b} commands.",
    "Do not {a} more than {n} {x}s.",
    "When you are done, {a} the {x}.",
    "The {x} must not {b} the {y}.",
    "You are an agent that can {a} the {x} of the user.",
    "Prefer {x} over {y}.",
    "Answer in at most {n} lines.",
    "Think about the {x} before you {a} it.",
]
VERBS = "read write edit run check open close list search find test build start stop use call make move copy send".split()
HEADS = [
    "Rules",
    "Tools",
    "Tone and style",
    "Environment",
    "Examples",
    "Code",
    "Tasks",
    "Notes",
    "Safety",
    "Workflow",
    "Memory",
]


def fill(s: Source, text: str) -> str:
    word = lambda: s.word() if s.chance(0.3) else s.pick(*ANY)
    return text.format(
        a=s.pick(*VERBS),
        b=s.pick(*VERBS),
        x=word(),
        y=word(),
        c=s.pick(*COLOURS),
        n=s.rng.randint(1, 9),
        p=s.pick(*CITIES),
        q=s.pick(*CITIES),
    )


def sentence(s: Source) -> str:
    if s.chance(0.6):
        return fill(s, s.pick(*RULES))
    if s.chance(0.5):
        return s.pick(*FILLERS_A) + " " + s.pick(*FILLERS_B) + "."
    return s.pick(*QUESTIONS).format(
        x=s.word(), y=s.pick(*ANY), p=s.pick(*CITIES), q=s.pick(*CITIES), c=s.pick(*COLOURS), n=s.pick(*PEOPLE)
    )


def block(s: Source) -> str:
    """One piece of made-up text."""
    kind = s.rng.randrange(7)
    if kind == 0:
        return f"{'#' * s.rng.randint(1, 3)} {s.pick(*HEADS)}\n"
    if kind == 1:
        return "\n".join(f"{s.pick('-', '-', '*')} {sentence(s)}" for _ in range(s.rng.randint(2, 7))) + "\n"
    if kind == 2:
        return "\n".join(f"{i}. {sentence(s)}" for i in range(1, s.rng.randint(3, 7))) + "\n"
    if kind == 3:
        tag = s.pick("env", "example", "context", "important", "rules", "thinking", s.word())
        lines = "\n".join(f"{s.word()}: {s.value()}" for _ in range(s.rng.randint(1, 5)))
        return f"<{tag}>\n{s.pick(lines, sentence(s))}\n</{tag}>\n"
    if kind == 4:
        code = s.pick(
            f"def {s.word()}({s.word()}: str) -> str:\n    return {s.word()}\n",
            f"{s.word()} --{s.word()} {s.number(1, 3)}\n",
            json.dumps({s.word(): s.value(), s.word(): [s.number(1, 3)]}, indent=s.pick(2, None)) + "\n",
            f"const {s.word()} = await {s.word()}({{ {s.word()}: '{s.word()}' }});\n",
            f"user: {sentence(s)}\nmodel: {sentence(s)}\n",
        )
        return f"```{s.pick('', 'python', 'bash', 'json', 'text')}\n{code}```\n"
    if kind == 5:
        return f"{s.pick('user', 'assistant', 'User', 'A')}: {s.pick(*s.pick(*KNOWN.values())[1])}\n{sentence(s)}\n"
    return " ".join(sentence(s) for _ in range(s.rng.randint(2, 6))) + "\n"


def noise(s: Source, characters: int) -> str:
    """About so many characters."""
    parts, size = [], 0
    while size < characters:
        if PROSE and s.chance(0.12):
            text = s.pick(*PROSE)
            at = s.rng.randrange(max(1, len(text) - 500))
            part = text[at : at + s.rng.randint(200, 2500)] + "\n"
        else:
            part = block(s)
        parts.append(part)
        size += len(part) + 1
    return "\n".join(parts).rstrip()
