"""JSON answers that leave the path and come back, for training.

A server that holds an answer to a schema draws only tokens that fit, also where the model wanted another one. So the model
meets what it would not have written itself: letters in a string that goes nowhere, odd blanks, a property it had left
out, the beginning of another branch. A Writer writes the short answer of forms.py and now and then something else that
is allowed (a Stray, which is not taught), after which it goes on to the end in the shortest way. Within a Stray that
could go on for ever, every token is taught to be followed by the end of it.
"""

import dataclasses
import functools
import json
import pathlib
from typing import Callable

from forms import number_example, string_example
from words import COLOURS, SYLLABLES, Source


@dataclasses.dataclass(frozen=True)
class Stray:
    """Texts that the model did not choose, each encoded on its own. `drift`: any of them had better been the last."""

    parts: tuple[str, ...]
    drift: bool = False

    def __str__(self) -> str:
        return "".join(self.parts)


# ---- strings of a form --------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Unit:
    """A piece of a string of some form: the taught text, random ones, and what completes the beginning of one."""

    taught: str
    sample: Callable[[Source], str]
    finish: Callable[[str], str]
    open: bool = False  # can go on for ever


def letters(alphabet: str, low: int, high: int | None, taught: str = "") -> Unit:
    """`low` to `high` letters of an alphabet; without `high`, any number."""
    count = max(low, 3) if high is None else min(high, max(low, 3))
    taught = taught or (alphabet * (1 + count // len(alphabet)))[:count]

    def sample(s: Source) -> str:
        n = s.rng.randint(low, high) if high is not None else max(low, run_length(s))
        if s.chance(0.3):
            return s.pick(*alphabet) * n
        return "".join(s.rng.choices(alphabet, k=n))

    return Unit(taught, sample, lambda begun: "" if len(begun) >= low else (taught + alphabet[0] * low)[len(begun) : low], high is None)


def choice(*texts: str) -> Unit:
    def finish(begun: str) -> str:
        return next(t for t in texts if t.startswith(begun))[len(begun) :]

    return Unit(texts[0], lambda s: s.pick(*texts), finish)


LOWER, UPPER, DIGITS, HEX = "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "1234567890", "1234567890abcdef"
HOURS = choice("12", *(f"{h:02d}" for h in range(24)))
SIXTY = choice("00", *(f"{m:02d}" for m in range(60)))
DATE = [letters(DIGITS, 4, 4, "2024"), choice("-"), choice("01", *(f"{m:02d}" for m in range(1, 13))), choice("-"),
        choice("01", *(f"{d:02d}" for d in range(1, 29)))]
FRACTION = Unit("", lambda s: "." + "".join(s.rng.choices(DIGITS, k=run_length(s))) if s.chance(0.4) else "",
                lambda begun: "0" if begun == "." else "", True)
TIME = [HOURS, choice(":"), SIXTY, choice(":"), SIXTY, FRACTION, choice("Z", "+01:00", "-05:30", "+00:00", "z")]
OCTET = lambda taught: Unit(taught, lambda s: str(s.rng.randrange(256)), lambda begun: "" if begun else taught)


def host(taught: str) -> Unit:
    def sample(s: Source) -> str:
        labels = ["".join(plain_run(s)) for _ in range(s.rng.randint(1, 3))]
        return ".".join(labels)

    def finish(begun: str) -> str:
        if not begun or begun[-1] == ".":
            return "com" if begun else taught
        return "" if "." in begun else ".com"

    return Unit(taught, sample, finish, True)


WORD = Unit("a", lambda s: "".join(plain_run(s)), lambda begun: "" if begun and begun[-1] != "." else "a", True)
UNITS = {
    "date": DATE,
    "time": TIME,
    "date-time": DATE + [choice("T", "t")] + TIME,
    "email": [WORD, choice("@"), host("b.com")],
    "hostname": [host("a.com")],
    "uri": [choice("http", "https", "ftp"), choice("://"), host("a.com")],
    "uuid": [letters(HEX, 8, 8, "12345678"), choice("-"), letters(HEX, 4, 4, "1234"), choice("-"), letters(HEX, 4, 4, "1234"),
             choice("-"), letters(HEX, 4, 4, "1234"), choice("-"), letters(HEX, 12, 12, "123456789012")],
    "ipv4": [OCTET("1"), choice("."), OCTET("2"), choice("."), OCTET("3"), choice("."), OCTET("4")],
    "duration": [choice("P"), letters(DIGITS, 1, None, "1"), choice("D", "W", "Y", "M")],
}


class Pattern(str):
    """A regular expression that knows the units of its strings."""

    units: list[Unit]


def make_pattern(s: Source) -> Pattern:
    """A sequence of one to four units, between ^ and $."""
    shown, units, digit = "", [], 0
    for i in range(s.pick(1, 1, 2, 3, 3, 4)):
        if i and s.chance(0.7):
            mark = s.pick("-", "-", "_", ":", "/")
            shown, units = shown + mark, units + [choice(mark)]
        name, alphabet = s.pick(("[a-z]", LOWER), ("[a-z]", LOWER), ("[A-Z]", UPPER), ("[0-9]", DIGITS), ("\\d", DIGITS),
                                ("[0-9a-f]", HEX), ("|", ""))
        if name == "|":
            words = s.rng.sample(COLOURS, s.rng.randint(2, 4)) if s.chance(0.5) else [s.word() for _ in range(3)]
            shown, units = shown + "(" + "|".join(words) + ")", units + [choice(*words)]
            continue
        n = s.rng.randint(1, 6)
        times, low, high = s.pick((f"{{{n}}}", n, n), (f"{{{n}}}", n, n), ("+", 1, None), (f"{{1,{n}}}", 1, n))
        if alphabet == DIGITS:  # digits go on counting from one unit to the next
            alphabet = DIGITS[digit:] + DIGITS[:digit]
        made = letters(alphabet, low, high)
        digit = (digit + len(made.taught)) % 10 if name in ("[0-9]", "\\d") else digit
        if i and s.chance(0.15):  # an end that may be missing
            shown += f"(-{name}{times})?"
            taught = Unit("", lambda r, m=made: "-" + m.sample(r) if r.chance(0.5) else "",
                          lambda begun, m=made: m.finish(begun[1:]) if begun else "", made.open)
            units.append(taught)
            break
        shown, units = shown + name + times, units + [made]
    start = "#" if s.chance(0.15) else ""
    out = Pattern("^" + start + shown + "$")
    out.units = ([choice(start)] if start else []) + units
    return out


# ---- what a string can run into -----------------------------------------------------------------------------------


def run_length(s: Source) -> int:
    """Mostly a few, now and then hundreds."""
    p = s.rng.random()
    return s.rng.randint(1, 6) if p < 0.6 else s.rng.randint(6, 40) if p < 0.88 else s.rng.randint(40, 200)


PIECES = ["]},", "}}", ":[{", "}],", "},{", ":", ",", "{", "[", "]", "}", ":{", "1", "2", "0", "-", "--", "---", "_", ".", "__", "'", "`",
          "```", " ", "  ", ", ", " is ", " the ", " to ", " and ", "I", " I", "json", "null", "true", ".com", "://", "2024", "-01",
          "T12", "\\n", "\\\"", "\\\\", "\\u00e9", "e", "s", "t", "h", "z", "x", "l", "a", "A", "\u00c9", "\u00e4"]


@functools.cache
def tokens() -> list[str]:
    """Those of rosebud that can stand in a string as they are."""
    file = pathlib.Path(__file__).resolve().parents[2] / "models" / "rosebud" / "tokenizer.json"
    shown = [t.replace("\u0120", " ") for t in json.loads(file.read_text())["model"]["vocab"]]
    return [t for t in shown if t.isascii() and '"' not in t and "\\" not in t]


def run(s: Source, piece: Callable[[], str]) -> list[str]:
    """A few pieces, or one or several of them over and over."""
    n = run_length(s)
    p = s.rng.random()
    if p < 0.35:
        some = [piece() for _ in range(s.pick(1, 1, 1, 2, 3))]
        return (some * n)[:n]
    if p < 0.5:
        some = [piece() for _ in range(3)]
        return [s.pick(*some) for _ in range(n)]
    return [piece() for _ in range(n)]


def plain_run(s: Source) -> list[str]:
    """Letters and digits."""
    return run(s, lambda: s.pick(s.pick(*SYLLABLES), s.pick(*LOWER), s.pick(*LOWER), s.pick(*DIGITS), s.pick(*UPPER), "text"))


def free_run(s: Source, name: str) -> list[str]:
    """Anything that can stand in a string."""
    if s.chance(0.1):
        return [name] * s.rng.randint(1, 12)
    if s.chance(0.1):  # words with blanks
        return [" " + s.pick(*SYLLABLES, *COLOURS) for _ in range(run_length(s))]
    return run(s, lambda: s.pick(s.pick(*PIECES), s.pick(*PIECES), s.pick(*tokens()), s.pick(*tokens()), s.pick(*DIGITS)))


# ---- the writer ---------------------------------------------------------------------------------------------------


class Writer:
    """Writes one answer to `root` as fragments; `rate` is how often it strays where it can."""

    def __init__(self, s: Source, root: dict, subject: str | None, rate: float):
        self.s, self.root, self.subject, self.rate = s, root, subject, rate
        self.fragments: list[str | Stray] = []
        self.blank = ""  # waits for the next text
        self.floor = 0  # fragments before it are not touched any more
        self.left = s.pick(1, 2, 3, 4, 6, 10, 20)  # strays

    def answer(self) -> list[str | Stray]:
        self.value(self.root, "text", 0)
        out: list[str | Stray] = []
        for f in filter(str, self.fragments):
            if out and isinstance(f, str) and isinstance(out[-1], str):
                out[-1] += f
            else:
                out.append(f)
        return out

    def strays(self, weight: float = 1.0) -> bool:
        if self.left > 0 and self.s.rng.random() < self.rate * weight:
            self.left -= 1
            return True
        return False

    def add(self, text: str):
        if self.blank and text:
            blank, self.blank = self.blank, ""
            k = 0 if text[0].isalnum() else self.s.pick(0, 0, 0, 1, 2)
            if k:  # one token with the marks that follow
                self.stray(blank + text[:k])
                text = text[k:]
            else:
                self.stray(*([blank] if self.s.chance(0.5) else blank), drift=True)
        self.fragments.append(text)

    def stray(self, *parts: str, drift: bool = False):
        blank, self.blank = self.blank, ""
        self.fragments.append(Stray(tuple(p for p in (blank, *parts) if p), drift))

    def space(self):
        """Blanks that nobody asked for."""
        if self.strays(0.15):
            self.blank = " " if self.s.chance(0.5) else "\n" + " " * self.s.pick(0, 1, 2, 4, 8, 31, 32, self.s.rng.randint(0, 32))

    def detour(self, write: Callable[[], None], shared: int):
        """What `write` writes is not the taught choice: its first letters, a few more than `shared`, are not taught."""
        at, floor, text = len(self.fragments), self.floor, ""
        self.floor = at
        write()
        self.floor = floor
        while at < len(self.fragments) and isinstance(self.fragments[at], str):
            text += self.fragments.pop(at)
        k = min(len(text), shared + self.s.pick(1, 1, 1, 2, 3))
        before = ""  # marks that may have become one token with the first of these
        if not text[:1].isalnum() and self.s.chance(0.6):
            while at > floor and isinstance(last := self.fragments[at - 1], str):
                kept = last.rstrip('"}]:[{,')
                before, self.fragments[at - 1] = last[len(kept) :] + before, kept
                if kept:
                    break
                self.fragments.pop(at := at - 1)
        shown = before + text[:k]
        cut = self.s.rng.randint(0, len(shown)) if self.s.chance(0.3) else len(shown)
        self.fragments[at:at] = [Stray(tuple(filter(None, (shown[:cut], shown[cut:])))), text[k:]]

    # -- values

    def value(self, schema: dict, name: str, depth: int):
        schema = self.resolved(schema)
        if "const" in schema:
            return self.add(compact(schema["const"]))
        if "enum" in schema:
            return self.one_of([lambda v=v: self.add(compact(v)) for v in schema["enum"]], 0)
        branches = schema.get("anyOf") or schema.get("oneOf")
        if branches:
            kinds = [self.resolved(b).get("type") for b in branches]
            return self.one_of([lambda b=b: self.value(b, name, depth + 1) for b in branches],
                               kinds.index("null") if "null" in kinds else 0, depth)
        kind = schema.get("type", "string")
        if isinstance(kind, list):
            return self.one_of([lambda k=k: self.value(schema | {"type": k}, name, depth + 1) for k in kind],
                               kind.index("null") if "null" in kind else 0, depth)
        if kind == "boolean":
            return self.one_of([lambda: self.add("true"), lambda: self.add("false")], 0)
        if kind == "null":
            return self.add("null")
        if kind == "object":
            return self.object(schema, depth)
        if kind == "array":
            return self.array(schema, name, depth)
        if kind in ("integer", "number"):
            return self.number(schema)
        return self.string(schema, name)

    def resolved(self, schema: dict) -> dict:
        while "$ref" in schema:
            target = self.root
            for step in schema["$ref"].split("/")[1:]:
                target = target[step]
            schema = target
        return schema

    def one_of(self, writers: list[Callable[[], None]], taught: int, depth: int = 0):
        if len(writers) < 2 or depth > 9 or not self.strays():
            return writers[taught]()
        rate, self.rate, mark = self.rate, 0.0, len(self.fragments)
        writers[taught]()
        wanted = "".join(map(str, self.fragments[mark:]))
        other = self.s.pick(*(w for i, w in enumerate(writers) if i != taught))
        del self.fragments[mark:]
        other()
        found = "".join(map(str, self.fragments[mark:]))
        del self.fragments[mark:]
        self.rate = rate
        shared = next((i for i, (a, b) in enumerate(zip(wanted, found)) if a != b), min(len(wanted), len(found)))
        self.detour(other, shared)

    def object(self, schema: dict, depth: int):
        properties, required = schema.get("properties", {}), schema.get("required", [])
        more, first = schema.get("additionalProperties", True), True
        self.add("{")
        for name, sub in properties.items():
            if name in required:
                self.member(name, sub, depth, first)
            elif depth < 9 and self.strays(0.5):
                self.detour(lambda: self.member(name, sub, depth, first), 1 if first else 2)
            else:
                continue
            first = False
        while more is not False and self.strays(0.2 if more is True and properties else 0.6):
            self.stray('"' if first else ',"')
            self.stray(*[p for p in free_run(self.s, "key") if "\\" not in p], str(len(self.fragments)), drift=True)
            self.add('":')
            self.value(more if isinstance(more, dict) else {"type": "integer"}, "text", depth + 1)
            first = False
        self.space()
        self.add("}")

    def member(self, name: str, sub: dict, depth: int, first: bool):
        if not first:
            self.space()
            self.add(",")
        self.space()
        self.add('"')
        key = json.dumps(name, ensure_ascii=False)[1:-1]
        if len(key) > 1 and self.strays(0.15):  # in other tokens
            cut = self.s.rng.randrange(1, len(key))
            self.stray(*(key[:cut] if self.s.chance(0.5) else [key[:cut]]))
            key = key[cut:]
        self.add(key + '"')
        self.space()
        self.add(":")
        self.space()
        self.value(sub, name, depth + 1)

    def array(self, schema: dict, name: str, depth: int):
        self.add("[")
        self.space()
        first = schema.get("prefixItems", [])
        low = max(schema.get("minItems", 0), len(first))
        count, high = low, len(first) if schema.get("items") is False else schema.get("maxItems", 99)
        if depth < 9 and self.strays():
            count = min(high, low + self.s.pick(1, 1, 2, 3, self.s.rng.randint(1, 12)))
        for i in range(count):
            item = first[i] if i < len(first) else schema.get("items", {})

            def write():
                if i:
                    self.add(",")
                    self.space()
                self.value(item, name, depth + 1)

            self.detour(write, 1 if i else 0) if i >= low else write()
        self.space()
        self.add("]")

    def string(self, schema: dict, name: str):
        units = getattr(schema.get("pattern"), "units", None) or UNITS.get(schema.get("format"))
        self.add('"')
        if units:
            self.formed(units, name)
        else:
            text = string_example(schema, name, self.subject)
            if "pattern" not in schema and "format" not in schema and self.strays(1.5):
                text = self.garbage(json.dumps(text, ensure_ascii=False)[1:-1], schema, name)
            else:
                text = json.dumps(text, ensure_ascii=False)[1:-1]
            self.add(text)
        self.add('"')

    def garbage(self, text: str, schema: dict, name: str) -> str:
        """Writes anything; gives what must still follow."""
        kept = text[: self.s.rng.randint(0, len(text))] if self.s.chance(0.6) and "\\" not in text else ""
        low, high = schema.get("minLength", 0), schema.get("maxLength", 100_000)
        parts, size = [], len(kept)
        for part in free_run(self.s, json.dumps(name)[1:-1] or "a"):
            if "\\" in part and high < 100_000 or size + len(part) > high:
                continue
            parts.append(part)
            size += 1 if "\\" in part else len(part)
        self.add(kept)
        if parts:
            self.stray(*parts, drift=size - len(parts[-1]) >= low and len(kept) >= low)
        if not low and high == 100_000 and self.s.chance(0.03):
            self.stray("\\")
            return "n"
        return "a" * max(0, low - size)

    def formed(self, units: list[Unit], name: str):
        if not self.strays(1.5):
            return self.add("".join(u.taught for u in units))
        at, other = self.s.rng.randrange(len(units)), self.s.chance(0.5)
        before = "".join(u.sample(self.s) if other else u.taught for u in units[:at])
        self.stray(before[:60]) if other and len(before) <= 60 else self.add("".join(u.taught for u in units[:at]))
        unit = units[at]
        begun = unit.sample(self.s)
        if unit is WORD and self.s.chance(0.4):
            begun = "".join(c for c in name if c.isalnum()) or "a"
        begun = begun if unit.open and self.s.chance(0.7) else begun[: self.s.rng.randint(0, len(begun))]
        rest = unit.finish(begun)
        parts = list(begun) if self.s.chance(0.6) else [begun]
        if begun:
            self.stray(*parts, drift=unit.open and not rest.isalnum())
        self.add(rest + "".join(u.taught for u in units[at + 1 :]))

    def number(self, schema: dict):
        taught = compact(number_example(schema))
        if not self.strays():
            return self.add(taught)
        s, keys = self.s, ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
        if any(k in schema for k in keys):
            step = schema.get("multipleOf", 1)
            low = int(schema.get("minimum", schema.get("exclusiveMinimum", min(0, schema.get("maximum", 0)) - 50) + 1))
            high = int(schema.get("maximum", schema.get("exclusiveMaximum", max(low, 0) + 1000) - 1))
            value = str(s.rng.randint(-(-low // step), max(-(-low // step), high // step)) * step)
            k = s.rng.randint(1, len(value))
            self.stray(*value[:k])
            done = value[:k] != "-" and low <= int(value[:k]) <= high and int(value[:k]) % step == 0
            return self.add("" if done else value[k:])
        digits = [s.pick("-", "") + s.pick(*"123456789")] + run(s, lambda: s.pick(*DIGITS))
        self.stray(*digits, drift=True)
        if schema["type"] == "number" and s.chance(0.4):
            self.stray(".")
            self.stray(s.pick(*DIGITS), *run(s, lambda: s.pick(*DIGITS)), drift=True) if s.chance(0.7) else self.add("0")


def compact(value) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
