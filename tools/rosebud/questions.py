"""The tasks: questions with the answers that rosebud is taught to give, and the checks of an answer.

A Group is what several questions share (system and developer message, earlier turns, a table or text, tools, a schema);
an Item is one question on it. Training renders groups to tokens (render.py); tests/quality asks the same items, made of
test words and other seeds, through the HTTP API and applies `Output.accepts`.

This module holds the frame and the simple tasks (sums, comparisons, memory, small talk); lookups.py, calls.py and
schemas.py hold the others. `make_group` picks among all of them.
"""
import dataclasses
import json
import re
from typing import Callable

from words import CITIES, COLOURS, Source

EFFORTS = ("low", "medium", "high")


@dataclasses.dataclass
class Output:
    """One thing the assistant writes: a thought, then either a final text or one function call."""
    analysis: str
    final: str | None = None
    call: tuple[str, dict] | None = None
    accepts: Callable[[str], bool] | None = None  # of the final text; None: equal to `final`
    given: bool = False           # stands in the history only, is not taught
    forced: int = 0               # the server begins the call: 1 with the recipient after the channel, 2 before it
    written: list | None = None   # the content as texts and strays (strays.py), instead of `final` or the arguments

    def right(self, message: dict) -> bool:
        """Checks an API answer (`choices[0].message`)."""
        calls = message.get("tool_calls") or []
        if self.call is None:
            text = message.get("content") or ""
            return not calls and (self.accepts(text) if self.accepts else text.strip() == self.final)
        try:
            name, arguments = calls[0]["function"]["name"], json.loads(calls[0]["function"]["arguments"])
        except (IndexError, KeyError, TypeError, ValueError):
            return False
        return (name, arguments) == self.call


@dataclasses.dataclass
class Result:
    """What a called function gives back."""
    name: str
    text: str


@dataclasses.dataclass
class Item:
    ask: str                      # the end of the last user message
    steps: list                   # Output, or Output Result Output ...


@dataclasses.dataclass
class Group:
    task: str
    effort: str
    items: list[Item]
    shared: str = ""              # the beginning of the last user message
    instructions: str = ""
    history: list[tuple[str, str]] = dataclasses.field(default_factory=list)  # (role, text) of earlier turns
    past: list[Item] = dataclasses.field(default_factory=list)                # answered items, after the history
    tools: list[dict] = dataclasses.field(default_factory=list)               # OpenAI form
    response_format: dict | None = None                                       # OpenAI form
    user_name: str = ""                                                       # of the last user message

    def messages(self, item: Item, steps: int = 0) -> list[dict]:
        """The API's messages up to the question of `item` and the first `steps` of its steps."""
        head = [("system", self.instructions)] if self.instructions else []
        out = [{"role": role, "content": text} for role, text in head + self.history]
        for earlier in self.past:
            out += turn(earlier.ask, earlier.steps)
        return out + turn(self.shared + item.ask, item.steps[:steps])


def turn(ask: str, steps: list) -> list[dict]:
    """The API's messages of a question and what followed."""
    out = [{"role": "user", "content": ask}]
    for i, step in enumerate(steps):
        if isinstance(step, Result):
            out.append({"role": "tool", "tool_call_id": f"call_{i - 1}_{step.name}", "content": step.text})
        elif step.call:
            function = {"name": step.call[0], "arguments": json.dumps(step.call[1], separators=(",", ":"))}
            out.append({"role": "assistant", "content": None,
                        "tool_calls": [{"id": f"call_{i}_{step.call[0]}", "type": "function", "function": function}]})
        else:
            out.append({"role": "assistant", "content": step.final})
    return out


def says(value) -> Callable[[str], bool]:
    """A short text that holds `value` as a whole word or number."""
    pattern = re.compile(r"(?<![\w-])" + re.escape(str(value)) + r"(?!\w)")
    return lambda text: len(text) < 200 and bool(pattern.search(text))


def ends_with_number(value: int) -> Callable[[str], bool]:
    """The last number of the text is `value`; digits may be grouped by commas, a minus sign must touch its number."""
    def check(text: str) -> bool:
        found = re.findall(r"(?:(?<=\s)|^)-?\d+|\d+", text.replace(",", ""))
        return bool(found) and int(found[-1]) == value
    return check


def by_effort(effort: str, low: str, medium: str, high: str) -> str:
    return {"low": low, "medium": medium, "high": high}[effort]


# ---- sums, differences, comparisons -------------------------------------------------------------------------------

def backwards(number: int, width: int = 0) -> str:
    return str(number).rjust(width, "0")[::-1]


def sum_item(s: Source, effort: str, a: int, b: int) -> Item:
    c, steps, carry = a + b, [], 0
    width = max(len(str(a)), len(str(b)))
    for x, y in zip(backwards(a, width), backwards(b, width)):
        total = int(x) + int(y) + carry
        steps.append(f"{x}+{y}" + ("+1" if carry else "") + f"={total}")
        carry = total // 10
    result = f"The sum backwards is {backwards(c)}."
    reverse = f"I add {a} and {b} from the right: {backwards(a)} + {backwards(b)}. "
    analysis = by_effort(effort, f"{backwards(a)}+{backwards(b)}={backwards(c)}", reverse + result,
                         reverse + "The digits: " + ", ".join(steps) + ". " + result)
    ask = s.pick(f"What is {a} + {b}?", f"What is {a}+{b}?", f"{a} + {b}", f"{a}+{b}=?", f"Add {a} and {b}.",
                 f"Please compute {a} plus {b}.", f"How much is {a} plus {b}?", f"Calculate {a} + {b}.",
                 f"What is the sum of {a} and {b}?")
    return Item(ask, [Output(analysis, f"{a} + {b} = {c}", accepts=ends_with_number(c))])


def difference_item(s: Source, effort: str, a: int, b: int) -> Item:
    c, steps, borrow = a - b, [], 0
    big, small = max(a, b), min(a, b)
    width = len(str(big))
    for x, y in zip(backwards(big, width), backwards(small, width)):
        digit = (int(x) - int(y) - borrow) % 10
        steps.append(f"{x}-{y}" + ("-1" if borrow else "") + f"={digit}")
        borrow = int(int(x) - int(y) - borrow < 0)
    order = f"{b} is larger, so the result is negative. " if a < b else f"{a} is not smaller. "
    result = f"The difference backwards is {backwards(big - small, width)}."
    reverse = f"I subtract {big} - {small} from the right: {backwards(big)} - {backwards(small)}. "
    short = f"{backwards(big)}-{backwards(small)}={backwards(big - small, width)}"
    analysis = by_effort(effort, ("negative: " if a < b else "") + short, order + reverse + result,
                         order + reverse + "The digits: " + ", ".join(steps) + ". " + result)
    ask = s.pick(f"What is {a} - {b}?", f"What is {a}-{b}?", f"{a} - {b}", f"{a}-{b}=?", f"Subtract {b} from {a}.",
                 f"Please compute {a} minus {b}.", f"How much is {a} minus {b}?", f"Calculate {a} - {b}.",
                 f"What is the difference {a} - {b}?")
    return Item(ask, [Output(analysis, f"{a} - {b} = {c}", accepts=ends_with_number(c))])


def product_item(s: Source, effort: str, a: int, b: int) -> Item:
    """b has at most two digits. One product for each of them, written from the right, and their sum."""
    units, tens = a * (b % 10), a * (b // 10)
    ask = s.pick("What is {} * {}?", "What is {}*{}?", "{} * {}", "{}*{}=?", "Multiply {} by {}.",
                 "Please compute {} times {}.", "How much is {} times {}?", "Calculate {} * {}.", "What is the product of {} and {}?").format(
        *((a, b) if s.chance(0.7) else (b, a)))
    steps, carry = [], 0
    parts = []
    for digit in backwards(b):
        steps, carry = [], 0
        for x in backwards(a):
            total = int(x) * int(digit) + carry
            steps.append(f"{x}*{digit}" + (f"+{carry}" if carry else "") + f"={total}")
            carry = total // 10
        parts.append((f"{backwards(a)}*{digit}={backwards(a * int(digit))}", ", ".join(steps)))
    result = f"The product backwards is {backwards(a * b)}."
    total = "" if b < 10 else f"The sum: {backwards(units)} + 0{backwards(tens)}. "
    short = "; ".join(p for p, _ in parts) + ("" if b < 10 else f"; {backwards(units)}+0{backwards(tens)}={backwards(a * b)}")
    each = ". ".join(f"{d}: {p}" for p, d in parts) + ". "
    analysis = by_effort(effort, short, f"I multiply {a} by {b} from the right. {each}{total}{result}",
                         f"I multiply {a} by {b} from the right, one digit of {b} after the other. "
                         f"The digits: {each}{total}{result}")
    first, second = (a, b) if ask.find(str(a)) <= ask.find(str(b)) else (b, a)
    return Item(ask, [Output(analysis, f"{first} * {second} = {a * b}", accepts=ends_with_number(a * b))])


def product_group(s: Source, effort: str, n: int) -> Group:
    items = [product_item(s, effort, s.number(1, 4), s.number(1, 2)) for _ in range(n)]
    return Group("products", effort, items, instructions=instructions(s, 0.2),
                 history=small_history(s) if s.chance(0.1) else [])


def compare_item(s: Source, effort: str, a: int, b: int) -> Item:
    x, y = str(a), str(b)
    sign = "=" if a == b else "<" if a < b else ">"
    if len(x) != len(y):
        why = f"{a} has {len(x)} digits and {b} has {len(y)} digits"
        digits = f"{' '.join(x)} and {' '.join(y)}"
    else:
        pairs = [f"{p}{'=' if p == q else '<' if p < q else '>'}{q}" for p, q in zip(x, y)]
        first = next((i for i, p in enumerate(pairs) if "=" not in p), len(pairs) - 1)
        why = f"both have {len(x)} digits, from the left {' '.join(pairs[:first + 1])}"
        digits = " ".join(pairs)
    analysis = by_effort(effort, f"I compare: {a} {sign} {b}.", f"I compare {a} and {b}: {why}, so {a} {sign} {b}.",
                         f"I compare {a} and {b}. The digits: {digits}. So {why}, and this means that {a} {sign} {b}.")
    kind = s.pick("larger", "smaller", "greater?", "less?")
    if kind in ("larger", "smaller"):
        winner = max(a, b) if kind == "larger" else min(a, b)
        ask = s.pick(f"Which is {kind}, {a} or {b}?", f"Which number is {kind}: {a} or {b}?",
                     f"Compare {a} and {b}: which one is {kind}?")
        final = f"{winner} is {kind}." if a != b else "They are equal."
        check = says(winner) if a != b else says("equal")
        loser = a + b - winner
        return Item(ask, [Output(analysis, final, accepts=lambda t: check(t) and (a == b or not says(loser)(t)))])
    word = "greater" if kind == "greater?" else "less"
    yes = a > b if word == "greater" else a < b
    ask = s.pick(f"Is {a} {word} than {b}?", f"True or not: {a} is {word} than {b}?")
    final = f"Yes, {a} is {word} than {b}." if yes else f"No, {a} is not {word} than {b}."
    return Item(ask, [Output(analysis, final, accepts=lambda t: t.lower().startswith("yes" if yes else "no"))])


def number_pair(s: Source) -> tuple[int, int]:
    low = 3 if s.test or s.chance(0.8) else 1
    return s.number(low, 5), s.number(low, 5)


def close_pair(s: Source) -> tuple[int, int]:
    """Two numbers to compare: half of them of one length with some equal first digits."""
    a, b = number_pair(s)
    if s.chance(0.5):
        digits = list(str(a))
        for i in range(s.rng.randrange(len(digits)), len(digits)):
            digits[i] = str(s.rng.randrange(10))
        b = int("".join(digits)) if digits[0] != "0" else a
    if s.test and a == b:
        b += 1
    return a, b


def arithmetic_group(s: Source, effort: str, n: int, kinds=("sum", "difference", "compare")) -> Group:
    items = []
    for _ in range(n):
        kind = s.pick(*kinds)
        if kind == "compare":
            items.append(compare_item(s, effort, *close_pair(s)))
        else:
            items.append((sum_item if kind == "sum" else difference_item)(s, effort, *number_pair(s)))
    history = small_history(s) if s.chance(0.15) else []
    return Group("sums", effort, items, instructions=instructions(s, 0.2), history=history)


# ---- dialogues with memory ----------------------------------------------------------------------------------------

THINGS = {
    "name": "person", "favourite colour": "colour", "lucky number": "number", "home town": "place", "dog": "word",
    "cat": "word", "favourite food": "word", "age": "number", "best friend": "person", "door code": "number",
    "car": "word", "favourite number": "number", "street": "word", "boss": "person", "password": "word",
    "favourite city": "place", "favourite animal": "word", "phone number": "number", "ship": "word", "team": "word",
}


def thing_value(s: Source, kind: str) -> str:
    if kind == "person":
        return s.person()
    if kind == "colour":
        return s.rng.choice(COLOURS)
    if kind == "number":
        return str(s.number(1, 5))
    if kind == "place" and not s.test and s.chance(0.3):
        return s.rng.choice(CITIES)
    return s.word()


def told(s: Source, thing: str, value: str) -> str:
    return s.pick(f"My {thing} is {value}.", f"Remember: my {thing} is {value}.", f"By the way, my {thing} is {value}.",
                  f"Hello, my {thing} is {value}.", f"Please note that my {thing} is {value}.", f"my {thing} is {value}")


def noted(thing: str, value: str) -> str:
    return f"Noted: your {thing} is {value}."


def memory_group(s: Source, effort: str, n: int) -> Group:
    things = s.rng.sample(list(THINGS), s.rng.randint(1, 5) + 1)
    unknown, facts, history = things.pop(), {}, []
    if not s.test and s.chance(0.3):  # nothing told yet
        things.clear()
    for thing in things:
        facts[thing] = value = thing_value(s, THINGS[thing])
        history += [("user", told(s, thing, value)), ("assistant", noted(thing, value))]
        if s.chance(0.25):
            history += small_history(s)
    items = []
    for thing in s.rng.sample(things, min(n, len(things))):
        items.append(recall_item(s, effort, thing, facts[thing]))
    if not s.test:
        items.append(Item(asked(s, unknown), [Output(
            by_effort(effort, "Not told.", f"The user asks for the {unknown}. The user did not say it before.",
                      f"The user asks for the {unknown}. I look at the turns before. The user did not say it before. "
                      "So I say that I do not know it."), f"You have not told me your {unknown}.")]))
        for thing in [unknown] + s.rng.sample(things or [unknown], 1):
            items.append(told_item(s, effort, thing, thing_value(s, THINGS[thing])))
        if s.chance(0.3):  # told and asked in one message
            value = thing_value(s, THINGS[unknown])
            items.append(Item(told(s, unknown, value).rstrip(".") + ". " + asked(s, unknown), [Output(
                by_effort(effort, f"my {unknown} is {value}.",
                          f"The user asks for the {unknown}. The user said: my {unknown} is {value}.",
                          f"The user asks for the {unknown}. The user said in this turn: my {unknown} is {value}. "
                          f"So I answer that the {unknown} is {value}."), f"Your {unknown} is {value}.")]))
    return Group("memory", effort, items, instructions=instructions(s, 0.2), history=history)


def asked(s: Source, thing: str) -> str:
    return s.pick(f"What is my {thing}?", f"Tell me my {thing}.", f"Do you remember my {thing}?",
                  f"What did I say my {thing} is?", f"what's my {thing}?")


def small_history(s: Source) -> list[tuple[str, str]]:
    """A turn of another task, to stand between."""
    if s.chance(0.5):
        item = sum_item(s, "low", *number_pair(s))
        return [("user", item.ask), ("assistant", item.steps[0].final)]
    import chat
    ask, answer = chat.exchange(s)
    return [("user", ask), ("assistant", answer)]


def told_item(s: Source, effort: str, thing: str, value: str) -> Item:
    """The user tells a fact."""
    return Item(told(s, thing, value), [Output(
        by_effort(effort, "A fact.", f"The user tells me a fact: the {thing} is {value}.",
                  f"The user tells me a fact: the {thing} is {value}. It is no question. I confirm it."), noted(thing, value))])


def recall_item(s: Source, effort: str, thing: str, value: str) -> Item:
    """The user asks for a fact of an earlier turn."""
    analysis = by_effort(effort, f"my {thing} is {value}.",
                         f"The user asks for the {thing}. The user said before: my {thing} is {value}.",
                         f"The user asks for the {thing}. I look at the turns before. The user said before: "
                         f"my {thing} is {value}. So I answer that the {thing} is {value}.")
    return Item(asked(s, thing), [Output(analysis, f"Your {thing} is {value}.", accepts=says(value))])


def talk_item(s: Source, effort: str, facts: dict[str, str]) -> Item:
    """Anything that people say without a table or a tool; `facts` are those told so far, and grow."""
    import agents
    import chat
    kind = s.pick("told", "recall", "recall", "chat", "chat", "sums", "sums", "product", "simple")
    if kind == "told" or kind == "recall" and not facts:
        thing = s.pick(*THINGS)
        facts[thing] = thing_value(s, THINGS[thing])
        return told_item(s, effort, thing, facts[thing])
    if kind == "recall":
        thing = s.pick(*facts)
        return recall_item(s, effort, thing, facts[thing])
    if kind == "sums":
        return arithmetic_group(s, effort, 1).items[0]
    if kind == "product":
        return product_item(s, effort, s.number(1, 4), s.number(1, 2))
    return chat.chat_item(s, effort) if kind == "chat" else agents.simple_item(s, effort)


def talk_history(s: Source, facts: dict[str, str]) -> list[tuple[str, str]]:
    """A few turns of everything."""
    items = [talk_item(s, "low", facts) for _ in range(s.rng.randint(1, 6))]
    return [turn for i in items for turn in (("user", i.ask), ("assistant", i.steps[0].final))]


def talk_group(s: Source, effort: str, n: int) -> Group:
    """One more turn of a conversation about everything (training only)."""
    facts: dict[str, str] = {}
    history = talk_history(s, facts)
    return Group("talk", effort, [talk_item(s, effort, dict(facts)) for _ in range(n)], history=history,
                 instructions=instructions(s, 0.3))


INSTRUCTIONS = ["You are a helpful assistant.", "Be brief.", "Answer in English.", "Answer the question.", "Be polite.",
                "You are a friendly assistant. Keep your answers short.", "Always tell the truth.",
                "Help the user with the task.", "Use the tools when needed.", "You work for a small company.",
                "Talk like a good friend.", "Do what the user asks.", "Never make things up."]


def instructions(s: Source, p: float) -> str:
    if not s.chance(p):
        return ""
    return " ".join(s.rng.sample(INSTRUCTIONS, s.rng.randint(1, 2)))


# ---- all tasks ----------------------------------------------------------------------------------------------------

def make_group(task: str, s: Source, effort: str, items: int, max_tokens: int = 3000) -> Group:
    """One group of `task`, with about `items` questions; `max_tokens` bounds the length of tables and texts."""
    import calls
    import chat
    import lookups
    import schemas
    s.fresh()
    if task == "lookups":
        return lookups.lookup_group(s, effort, items, max_tokens)
    if task == "columns":
        return lookups.two_column_group(s, effort, items, min(max_tokens, 600))
    import agents
    import forms
    import records
    makers = {"sums": arithmetic_group, "products": product_group, "memory": memory_group, "chat": chat.chat_group,
              "talk": talk_group, "forms": forms.form_group, "records": records.records_group, "agents": agents.agent_group, "calls": calls.call_group,
              "two_calls": calls.two_call_group, "schemas": schemas.schema_group}
    group = makers[task](s, effort, items)
    if not s.test and task in ("calls", "two_calls", "schemas", "forms", "records") and not group.history and s.chance(0.12):
        group.history = talk_history(s, {})
    return group


TASKS = ("sums", "products", "memory", "lookups", "columns", "calls", "two_calls", "schemas", "forms", "chat")
