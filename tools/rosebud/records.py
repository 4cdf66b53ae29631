"""Records: larger random schemas than those of forms.py, as programs send them, and answers that stray (training only)."""

from calls import compact
from forms import FIELDS, NAMES, Maker, form_ask
from questions import Group, Item, Output, by_effort, instructions
from strays import UNITS, Stray, Writer, make_pattern
from words import Source

SUFFIXES = ("", "", "", "", "_id", "_2", "Of", "_name", "s", "_at", "3", "Count", "_no")


class RecordMaker(Maker):
    """Wider and deeper, with bounds and forms of strings at most places."""

    def key(self, used) -> str:
        s = self.s
        for _ in range(9):
            name = s.pick(s.pick(*FIELDS), s.pick(*NAMES), s.word()) + s.pick(*SUFFIXES)
            if name not in used and s.chance(0.85):
                used.add(name)
                return name
        return super().key(used)

    def any(self, depth: int) -> dict:
        s = self.s
        self.budget -= 1
        kinds = ["string"] * 6 + ["integer"] * 2 + ["number"] * 2 + ["boolean"] * 3 + ["null_or"] * 2 + ["const", "list"]
        if depth < 5 and self.budget > 0:
            kinds += ["array"] * 3 + ["object"] * 3 + ["tuple", "anyOf", "ref", "map", "union"]
        out = getattr(self, s.pick(*kinds) + "_")(depth)
        return out | ({"description": f"The {s.pick(*FIELDS)}."} if "description" not in out and s.chance(0.2) else {})

    def string_(self, depth):
        s, out = self.s, {"type": "string"}
        kind = s.pick("free", "free", "max", "range", "enum", "pattern", "format")
        if kind == "max":
            out["maxLength"] = s.rng.randint(1, 60)
        elif kind == "range":
            out["minLength"] = s.pick(1, 1, 1, 2, 4)
            out["maxLength"] = out["minLength"] + s.rng.randint(0, 12)
        elif kind == "enum":
            words = [s.pick(*FIELDS) if s.chance(0.6) else s.word() for _ in range(s.rng.randint(1, 6))]
            out["enum"] = list(dict.fromkeys(words))
        elif kind == "pattern":
            out["pattern"] = make_pattern(s)
        elif kind == "format":
            out["format"] = s.pick(*UNITS, "date", "date-time", "email", "email", "time", "ipv4", "uuid")
        return out

    def bounds(self, out):
        s, p = self.s, self.s.rng.random()
        if p < 0.35:
            return super().bounds(out)
        low = s.rng.randint(-60, 60)
        if p < 0.55:
            out |= {"minimum": low, "maximum": low + s.rng.randint(0, 200)}
        elif p < 0.7:
            out |= {"minimum": low, "exclusiveMaximum": low + s.rng.randint(1, 9)}
        elif p < 0.8 and out["type"] == "integer":
            out |= {"minimum": 0, "maximum": s.pick(100, 1000), "multipleOf": s.pick(2, 5, 10)}
        return out

    def null_or_(self, depth):
        s, made = self.s, getattr(self, self.s.pick("string", "string", "integer", "number", "boolean") + "_")(depth)
        if list(made) == ["type"] and s.chance(0.4):
            return {"type": [made["type"], "null"]}
        return {"anyOf": [made, {"type": "null"}]}

    def union_(self, depth):
        """Objects that are told apart by a constant."""
        s, tag = self.s, self.s.pick("kind", "type", "tag", "t", self.s.word())
        branches = []
        for kind in dict.fromkeys(s.pick(s.pick(*FIELDS), s.word()) for _ in range(s.rng.randint(2, 3))):
            made = self.object_(max(depth, 3))
            made["properties"] = {tag: {"const": kind}} | {n: v for n, v in made["properties"].items() if n != tag}
            made["required"] = [tag] + [n for n in made.get("required", []) if n != tag]
            branches.append(made)
        if s.chance(0.5):
            names = [s.word() for _ in branches]
            self.defs |= dict(zip(names, branches))
            branches = [{"$ref": f"#/$defs/{n}"} for n in names]
        return {s.pick("anyOf", "oneOf"): branches}

    def chain_(self, depth):
        """A node with the next one, or null."""
        s, name, link = self.s, self.s.pick(*FIELDS), self.s.pick("next", "parent", "child", self.s.word())
        node = {"type": "object", "properties": {name: self.any(9), link: {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
                "required": [name, link], "additionalProperties": False}
        self.defs["node"] = node
        return {"$ref": "#/$defs/node"}

    def object_(self, depth):
        s, used, properties = self.s, set(), {}
        for _ in range(s.rng.randint(1, 7 if depth == 0 else 4)):
            name = self.key(used)
            properties[name] = self.any(depth + 1)
        out = {"type": "object", "properties": properties}
        share = s.pick(0.5, 0.8, 0.8, 1.0)
        if needed := [n for n in properties if s.chance(share)]:
            out["required"] = needed
        roll = s.rng.random()
        if roll < 0.55:
            out["additionalProperties"] = False
        elif roll < 0.65:
            out["additionalProperties"] = s.pick({"type": "integer"}, {"type": "integer"}, {"type": "string"}, True)
        return out


def make_record(s: Source) -> dict:
    """A schema of an object; now and then of something else."""
    while True:
        maker = RecordMaker(s, False, s.pick(3, 6, 10, 16, 24, 40))
        roll = s.rng.random()
        if roll < 0.1:
            out = {"type": "object", "properties": {s.pick("choice", "value", s.word()): maker.union_(2)}, "additionalProperties": False}
            out["required"] = list(out["properties"])
        elif roll < 0.15:
            out = {"type": "object", "properties": {s.pick("root", "first", s.word()): maker.chain_(1)}, "additionalProperties": False}
            out["required"] = list(out["properties"])
        elif roll < 0.18:
            out = s.pick({"type": "object"}, {"type": "object"}, {}, {"type": "object", "properties": {}})
        else:
            out = maker.object_(0) if roll < 0.94 else maker.any(1)
        if maker.defs:
            out = out | {"$defs": maker.defs}
        try:
            text = "".join(map(str, Writer(s, out, None, 0.0).answer()))
        except (RecursionError, ValueError, KeyError):
            continue
        if len(text) < 1200 and len(compact(out)) < 5000:
            return out


def written(s: Source, schema: dict, subject: str | None) -> list[str | Stray]:
    """An answer; one in five never strays."""
    rate = s.pick(0.0, 0.05, 0.15, 0.3, 0.5)
    while True:
        out = Writer(s, schema, subject, rate).answer()
        if sum(len(str(f)) if isinstance(f, str) else len(f.parts) for f in out) < 2500:
            return out


def record_ask(s: Source, title: str) -> tuple[str, str | None]:
    if s.chance(0.6):
        return form_ask(s)
    return s.pick(f"Give me an example of a {title}.", f"Write any {title}.", f"Make up a {title}.", "Give me an example.",
                  f"An example of a {title}, please.", f"Give me a {title}.", f"Call {title}."), None


def records_group(s: Source, effort: str, n: int) -> Group:
    """Questions on one schema, given as a format or as the parameters of a tool that is called."""
    schema = make_record(s)
    title = s.pick(s.word(), s.word(), "record", "answer", "response", "output", "entry", "item")
    as_tool = s.chance(0.33)
    items = []
    for _ in range(n):
        ask, subject = record_ask(s, title)
        about = f" It is about {subject}." if subject else " I make up short values."
        if as_tool:
            thought = by_effort(effort, f"I call {title}.", f"The tool for this is {title}.{about} I call {title}.",
                                f"The user wants something that a tool can do. The tool for this is {title}.{about} I call {title}.")
        else:
            thought = by_effort(effort, f"JSON {title}.{about}", f"The answer is JSON of the format {title}.{about} I keep it short.",
                                f"The user wants an answer in JSON. The format is {title}.{about} I fill what is required, keep "
                                "it short and write nothing else.")
        fragments = written(s, schema, subject)
        output = Output(thought, "", call=(title, {}) if as_tool else None, written=fragments)
        output.forced = s.pick(0, 1, 1, 2) if as_tool else 0
        items.append(Item(ask, [output]))
    group = Group("records", effort, items, instructions=instructions(s, 0.3))
    if as_tool:
        function = {"name": title, "description": s.pick(f"Takes a {title}.", f"Makes the {title}.", f"A {title}.", ""),
                    "parameters": schema, "strict": True}
        group.tools = [{"type": "function", "function": function}]
    else:
        group.response_format = {"type": "json_schema", "json_schema": {"name": title, "schema": schema}}
        if s.chance(0.2):
            group.response_format["json_schema"]["description"] = f"A {title}."
    return group
