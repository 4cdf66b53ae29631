"""Look-ups in tables and texts: one fact among many, wherever it stands.

The answer is found by matching a key and copying what follows it. The thought therefore first writes the key, then
copies its line or sentence, then gives the value.
"""
from questions import Group, Item, Output, by_effort, instructions, says
from words import COLOURS, Source

COLUMNS = ("price code colour owner height age number place size weight door stock team day room key shelf level score "
           "count").split()

# name: (header, row, tokens of a row about); {c} is the column's name
TABLES = {
    "equals": ("", "{k}={v}", 7),
    "colon": ("", "{k}: {v}", 8),
    "list": ("", "- {k}: {v}", 10),
    "csv": ("name,{c}\n", "{k},{v}", 7),
    "pipes": ("| name | {c} |\n|---|---|\n", "| {k} | {v} |", 10),
    "labelled": ("", "{k}: {c} {v}", 9),
    "arrow": ("", "{k} -> {v}", 9),
}
SENTENCES = ["The {c} of {k} is {v}.", "We know that the {c} of {k} is {v}.", "The {c} of {k} was found to be {v}.",
             "Note that the {c} of {k} is now {v}.", "In the book the {c} of {k} is given as {v}.",
             "As for the {c} of {k}, it is {v}."]
FILLERS_A = ["In the morning", "Late at night", "After the long winter", "By the river", "On the second day",
             "Behind the old house", "Near the harbour", "In those years", "Now and then", "Before the war",
             "On the way home", "In the small town"]
FILLERS_B = ["the road was quiet", "nobody spoke a word", "the wind came from the sea", "the children went to school",
             "a light was burning in the window", "the market was full of people", "two men carried a heavy box",
             "the rain did not stop", "the old clock was still going", "a letter lay on the table",
             "the snow covered all the fields", "someone was playing a song", "the ship left for the islands"]


def lookup_group(s: Source, effort: str, n: int, max_tokens: int) -> Group:
    group = (table_group if s.chance(0.65) else text_group)(s, effort, n, max_tokens)
    if len(group.items) > 1 and s.chance(0.1):  # the first question was asked before; the others follow without the table
        first = group.items.pop(0)
        group.past, group.shared = [Item(group.shared + first.ask, first.steps)], ""
    return group


def length(s: Source, max_tokens: int) -> int:
    """The wanted length in tokens: evenly spread in tests, towards the long end in training."""
    if s.test:
        return s.rng.randint(200, max_tokens)
    return int(max_tokens * max(s.rng.random(), s.rng.random())) + 40


def rows_for(s: Source, tokens: int, per_row: float) -> int:
    return max(51 if s.test else 4, int(tokens / per_row))


def table_group(s: Source, effort: str, n: int, max_tokens: int) -> Group:
    if not s.test and s.chance(0.33):  # asked for as the task "columns" in tests
        return two_column_group(s, effort, n, max_tokens)
    header, row, per_row = TABLES[s.pick(*TABLES)]
    column = s.pick(*COLUMNS) if "{c}" in header + row or s.chance(0.3) else "value"
    rows = [(k, s.value()) for k in s.keys(rows_for(s, length(s, max_tokens), per_row))]
    lines = [row.format(k=k, v=v, c=column) for k, v in rows]
    shared = intro(s, "table") + header.format(c=column) + "\n".join(lines) + "\n\n"
    items = []
    for i in s.rng.sample(range(len(rows)), min(n, len(rows))):
        k, v = rows[i]
        ask = s.pick(f"What is the {column} of {k}?", f"Tell me the {column} of {k}.", f"Look up the {column} of {k}.",
                     f"Which {column} belongs to {k}?", f"Find {k} in the table. What is its {column}?",
                     f"{column} of {k}?")
        items.append(Item(ask, [Output(thought(effort, "table", column, k, lines[i], v), f"The {column} of {k} is {v}.",
                                       accepts=says(v))]))
    if not s.test:
        items += [absent_item(s, effort, column, s.keys(1)[0]) for _ in range(len(items) // 12)]
    return Group("lookups", effort, items, shared=shared, instructions=instructions(s, 0.2))


def absent_item(s: Source, effort: str, column: str, k: str) -> Item:
    """A question for a key that is not there (training only)."""
    ask = s.pick(f"What is the {column} of {k}?", f"Tell me the {column} of {k}.", f"Look up the {column} of {k}.")
    return Item(ask, [Output(by_effort(effort, f"{k} is not there.", f"I look for {k} in the table. It is not there.",
                                       f"The user asks for the {column} of {k}. I look for {k} in the table. It is not there. "
                                       "So I say that I did not find it."), f"I did not find {k}.")])


def two_column_group(s: Source, effort: str, n: int, max_tokens: int) -> Group:
    """Rows with two labelled values. The choice between them is learned late: training has short ones as a task apart."""
    columns = s.rng.sample(COLUMNS, 2)
    rows = [(k, s.value(), s.value()) for k in s.keys(rows_for(s, length(s, max_tokens), 15))]
    row, cell = s.pick(("{0}: {3} {1}, {4} {2}", " "), ("- {0}: {3} {1}, {4} {2}", " "), ("{0}; {3}={1}; {4}={2}", "="))
    lines = [row.format(*r, *columns) for r in rows]
    items = []
    for i in s.rng.sample(range(len(rows)), min(n, len(rows))):
        j = s.pick(0, 1)
        k, v = rows[i][0], rows[i][1 + j]
        ask = s.pick(f"What is the {columns[j]} of {k}?", f"Tell me the {columns[j]} of {k}.",
                     f"Which {columns[j]} belongs to {k}?")
        choice = f"{lines[i]} I take {columns[j]}{cell}{v}."  # the column's name right before the value, as in the line
        items.append(Item(ask, [Output(thought(effort, "table", columns[j], k, choice, v),
                                       f"The {columns[j]} of {k} is {v}.", accepts=says(v))]))
    return Group("lookups", effort, items, shared=intro(s, "table") + "\n".join(lines) + "\n\n",
                 instructions=instructions(s, 0.2))


def text_group(s: Source, effort: str, n: int, max_tokens: int) -> Group:
    columns = s.rng.sample(COLUMNS, s.rng.randint(2, 8))
    filler = s.pick(0.0, 0.2, 0.5)
    facts, seen = [], set()
    count = rows_for(s, length(s, max_tokens), 13 + 12 * filler / (1 - filler))
    keys = iter(s.keys(count) if not s.test else ())
    while len(facts) < count:
        k = s.word() if s.test else next(keys)
        for column in s.rng.sample(columns, s.pick(1, 1, 2)):
            facts.append((column, k, s.value(), s.pick(*SENTENCES)))
    s.rng.shuffle(facts)
    parts = []
    for column, k, v, sentence in facts:
        while s.chance(filler):
            parts.append(s.pick(*FILLERS_A) + " " + s.pick(*FILLERS_B) + ".")
        parts.append(sentence.format(c=column, k=k, v=v))
    text = ""
    for i, part in enumerate(parts):
        text += part + ("\n" if i + 1 < len(parts) and s.chance(0.1) else " ")
    items = []
    for i in s.rng.sample(range(len(facts)), min(n, len(facts))):
        column, k, v, sentence = facts[i]
        quote = sentence.format(c=column, k=k, v=v)
        quote = quote[quote.index(f"the {column}") if f"the {column}" in quote else quote.index(f"The {column}") + 4:]
        quote = quote if quote.startswith("the ") else "the " + quote
        ask = s.pick(f"What is the {column} of {k}?", f"Tell me the {column} of {k}.", f"What is the {column} of {k}?",
                     f"What does the text say about the {column} of {k}?", f"Find the {column} of {k}.")
        items.append(Item(ask, [Output(thought(effort, "text", column, k, quote, v), f"The {column} of {k} is {v}.",
                                       accepts=says(v))]))
    return Group("lookups", effort, items, shared=intro(s, "text") + text.rstrip() + "\n\n",
                 instructions=instructions(s, 0.2))


def thought(effort: str, kind: str, column: str, k: str, line: str, v: str) -> str:
    return by_effort(
        effort, f"{k}: {line}",
        f"I look for {k} in the {kind}. It says: {line} So the {column} of {k} is {v}.",
        f"The user asks for the {column} of {k}. I look for {k} in the {kind}. It says: {line} "
        f"This is about {k}, so it is the right place. So the {column} of {k} is {v}.")


def intro(s: Source, kind: str) -> str:
    if kind == "table":
        return s.pick("Here is a table:\n\n", "This is the list:\n\n", "Read this table.\n\n", "Table:\n\n", "Data:\n",
                      "Use the table below.\n\n")
    return s.pick("Here is a text:\n\n", "Read this text.\n\n", "Text:\n\n", "Use the text below.\n\n")
