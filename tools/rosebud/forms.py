"""Random JSON schemas of every common keyword, and the short JSON that rosebud is taught to answer with.

The answer to a schema is a function of the schema and of the subject that the question names ("Describe Paris."): fields
that name things take the subject, other strings their own name, numbers the smallest value above zero that is allowed,
lists as few entries as they must have, and optional fields are left out. So an answer is short, ends soon, and is valid.
"""

import json
import re

from calls import COMMON, compact
from questions import Group, Item, Output, by_effort, instructions
from words import CITIES, PEOPLE, Source

NAMES = (
    "name title city location place person subject topic country company product capital author user query label "
    "owner full_name"
).split()
FIELDS = (
    "id age count population price tags items list value values text note notes comment address street zip phone email "
    "status type kind category level score rating date time start end width height size weight colour color "
    "description summary answer reason steps result results data options settings details active enabled done "
    "temperature unit language currency amount total quantity children parent left right next members points x y z "
    "first_name last_name created_at updated_at is_valid is_open has_more max_value min_value item_count "
    "firstName lastName createdAt isValid itemCount"
).split()
FORMATS = {
    "date": "2024-01-01",
    "time": "12:00:00Z",
    "date-time": "2024-01-01T12:00:00Z",
    "email": "a@b.com",
    "uri": "http://a.com",
    "uuid": "12345678-1234-1234-1234-123456789012",
    "ipv4": "1.2.3.4",
    "hostname": "a.com",
    "ipv6": "::1",
    "duration": "P1D",
}
PATTERNS = {
    "^[a-z]+$": "abc",
    "^[A-Z]{3}$": "ABC",
    "^[A-Z]{2}$": "AB",
    "^[0-9]{4}$": "1234",
    "^\\d{3}-\\d{4}$": "123-4567",
    "^[0-9]+$": "123",
    "^(yes|no)$": "yes",
    "^[a-z]{2,5}$": "abc",
    "^#[0-9a-f]{6}$": "#123456",
    "^\\d{5}$": "12345",
    "^[A-Za-z_][A-Za-z0-9_]*$": "abc",
    "^\\S+@\\S+$": "a@b",
    "^a+b+$": "ab",
    "[a-z]": "a",
    "^\\w+$": "abc",
    "^\\d{4}-\\d{2}-\\d{2}$": "2024-01-01",
    "^[^@]+@[^@]+\\.[a-z]{2,3}$": "a@b.com",
    "^[A-Z][a-z]+$": "Abc",
}


# ---- schemas ------------------------------------------------------------------------------------------------------


class Maker:
    """Makes one random schema; `defs` collects what $ref points to."""

    def __init__(self, s: Source, strict: bool, budget: int):
        self.s, self.strict, self.budget, self.defs = s, strict, budget, {}
        self.titles, self.descriptions = s.chance(0.4), s.chance(0.3)

    def key(self, used) -> str:
        s = self.s
        while True:
            name = s.pick(
                s.pick(*NAMES),
                s.pick(*FIELDS),
                s.pick(*FIELDS),
                s.pick(*COMMON),
                s.word(),
                s.word() + "_" + s.pick(*FIELDS),
                s.odd().lower(),
                s.pick("field", "f", "a", "x", "prop", "key_", s.word()) + str(s.rng.randint(0, 30)),
                s.pick("a", "b", "c", "n", "k", s.word() + "-" + s.word(), s.word() + " " + s.word()),
            )
            if name not in used:
                used.add(name)
                return name

    def any(self, depth: int) -> dict:
        s = self.s
        self.budget -= 1
        kinds = (
            ["string"] * 5 + ["integer"] * 3 + ["number"] * 2 + ["boolean"] * 2 + ["enum"] * 2 + ["null", "const", "list"]
        )
        if depth < 4 and self.budget > 0:
            kinds += ["array"] * 3 + ["object"] * 3 + ["anyOf", "ref", "map", "tuple"]
        return getattr(self, s.pick(*kinds) + "_")(depth)

    def string_(self, depth):
        s, out = self.s, {"type": "string"}
        p = s.rng.random()
        if p < 0.06:
            out["format"] = s.pick(*FORMATS)
        elif p < 0.14:
            out["pattern"] = s.pick(*PATTERNS)
        elif p < 0.2:
            out["minLength"] = s.pick(1, 1, 2, 3, 5)
        if 0.14 < p < 0.22:
            out["maxLength"] = s.pick(8, 10, 20, 50, 100, 200)
        return out

    def bounds(self, out):
        s = self.s
        if s.chance(0.3):
            low = s.pick(0, 0, 1, 1, s.number(1, 3), -s.number(1, 2))
            out[s.pick("minimum", "minimum", "exclusiveMinimum")] = low
            if s.chance(0.6):
                out[s.pick("maximum", "maximum", "exclusiveMaximum")] = low + s.pick(
                    2, 5, 9, 10, 100, 1000, s.number(2, 4) + 2
                )
        elif s.chance(0.08):
            out["maximum"] = s.pick(10, 100, 5)
        elif out["type"] == "integer" and s.chance(0.03):
            out["multipleOf"] = s.pick(2, 5, 10)
        return out

    def integer_(self, depth):
        return self.bounds({"type": "integer"})

    def number_(self, depth):
        return self.bounds({"type": "number"})

    def boolean_(self, depth):
        return {"type": "boolean"}

    def null_(self, depth):
        return {"type": "null"}

    def enum_(self, depth):
        s = self.s
        p = s.rng.random()
        if p < 0.7:
            words = [
                (
                    s.word()
                    if s.chance(0.5)
                    else s.pick("low", "medium", "high", "open", "closed", "new", "yes", "no", "A", "B")
                )
                for _ in range(s.rng.randint(1, 5))
            ]
            words = list(dict.fromkeys(words))
            return {"type": "string", "enum": words} if s.chance(0.7) else {"enum": words}
        if p < 0.85:
            return {"type": "integer", "enum": sorted({s.number(1, 3) for _ in range(s.rng.randint(2, 4))})}
        return {"enum": s.rng.sample(["a", 1, None, True, "no", 2.5, False, 0], s.rng.randint(2, 4))}

    def const_(self, depth):
        s = self.s
        return {"const": s.pick(s.word(), s.number(1, 3), True, None, s.pick(*FIELDS))}

    def list_(self, depth):  # several types
        return {"type": self.s.rng.sample(["string", "integer", "null", "boolean", "number"], 2)}

    def array_(self, depth):
        s = self.s
        out = {"type": "array", "items": self.any(depth + 1)} if s.chance(0.93) else {"type": "array"}
        if s.chance(0.3):
            out["minItems"] = s.pick(1, 1, 1, 2, 3)
        if s.chance(0.2):
            out["maxItems"] = out.get("minItems", 0) + s.pick(0, 1, 2, 5) or 3
        return out

    def tuple_(self, depth):
        return {
            "type": "array",
            "prefixItems": [self.any(depth + 1) for _ in range(self.s.rng.randint(1, 3))],
            "items": False,
        }

    def map_(self, depth):
        return {"type": "object", "additionalProperties": self.any(depth + 1)}

    def anyOf_(self, depth):
        s = self.s
        variants = [self.any(depth + 1)] + ([{"type": "null"}] if s.chance(0.6) else [self.any(depth + 1)])
        return {s.pick("anyOf", "anyOf", "oneOf"): variants}

    def ref_(self, depth):
        s = self.s
        if not self.defs or s.chance(0.5) and len(self.defs) < 3:
            name = s.word().capitalize()
            self.defs[name] = {}
            made = self.object_(depth + 1) if s.chance(0.8) else self.enum_(depth)
            if made.get("properties") and s.chance(0.3):  # a tree
                made["properties"]["children"] = {"type": "array", "items": {"$ref": f"#/$defs/{name}"}}
                if self.strict:
                    made["required"].append("children")
            self.defs[name] = made
            return {"$ref": f"#/$defs/{name}"}
        done = [n for n, d in self.defs.items() if d]
        return {"$ref": f"#/$defs/{s.pick(*done)}"} if done else self.string_(depth)

    def object_(self, depth):
        s, used, properties = self.s, set(), {}
        for _ in range(s.rng.randint(1, 6 if depth == 0 else 3)):
            name = self.key(used)
            sub = self.any(depth + 1)
            extra = {"title": name.replace("_", " ").title()} if self.titles else {}
            if self.descriptions and s.chance(0.5):
                extra["description"] = s.pick(f"The {name}.", f"{name} of the {s.word()}", "Required.")
            properties[name] = sub | extra if s.chance(0.5) else extra | sub
        needed = list(properties) if self.strict or s.chance(0.5) else [n for n in properties if s.chance(0.6)]
        out = {"type": "object", "properties": properties}
        if self.titles and s.chance(0.5):
            out["title"] = s.word().capitalize()
        if needed or s.chance(0.5):
            out["required"] = needed
        if self.strict or s.chance(0.4):
            out["additionalProperties"] = False
        if s.chance(0.2):
            keys = list(out)
            s.rng.shuffle(keys)
            out = {k: out[k] for k in keys}
        return out


def make_form(s: Source) -> dict:
    """A schema; mostly an object at the top."""
    while True:
        maker = Maker(s, s.chance(0.5), s.pick(3, 6, 10, 16, 24))
        out = maker.object_(0) if s.chance(0.93) else maker.any(1)
        if maker.defs:
            out = out | {"$defs": maker.defs} if s.chance(0.7) else {"$defs": maker.defs} | out
        if s.chance(0.05):
            out = {"$schema": "https://json-schema.org/draft/2020-12/schema"} | out
        try:
            if len(compact(example(out, None))) < 500 and len(compact(out)) < 2500:
                return out
        except (RecursionError, ValueError):
            continue


# ---- the taught answer --------------------------------------------------------------------------------------------


def number_example(schema: dict):
    low = schema.get("minimum", schema.get("exclusiveMinimum", 0) + 1 if "exclusiveMinimum" in schema else None)
    high = schema.get("maximum", schema["exclusiveMaximum"] - 1 if "exclusiveMaximum" in schema else None)
    value = schema.get("multipleOf", 1)
    if low is not None and low > value:
        value = low
    if high is not None and high < value:
        value = high
    return value


def string_example(schema: dict, name: str, subject: str | None) -> str:
    if schema.get("format") in FORMATS:
        return FORMATS[schema["format"]]
    if "pattern" in schema:
        return PATTERNS[schema["pattern"]]
    text = subject if subject and name in NAMES else name
    while len(text) < schema.get("minLength", 0):
        text += " " + text
    return text[: schema.get("maxLength", len(text))]


def example(schema: dict, subject: str | None, name: str = "text", root: dict | None = None, depth: int = 0):
    """The answer; raises ValueError for a schema that no short value satisfies."""
    root = root or schema
    if depth > 12:
        raise ValueError("too deep")
    if "$ref" in schema:
        target = root
        for step in schema["$ref"].split("/")[1:]:
            target = target[step]
        return example(target, subject, name, root, depth + 1)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    for word in ("anyOf", "oneOf"):
        if word in schema:
            null = any(v.get("type") == "null" for v in schema[word])
            return None if null else example(schema[word][0], subject, name, root, depth + 1)
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = "null" if "null" in kind else kind[0]
    if kind == "object":
        properties, required = schema.get("properties", {}), schema.get("required", [])
        return {n: example(sub, subject, n, root, depth + 1) for n, sub in properties.items() if n in required}
    if kind == "array":
        if "prefixItems" in schema:
            return [example(sub, subject, name, root, depth + 1) for sub in schema["prefixItems"]]
        count = schema.get("minItems", 0)
        return [example(schema.get("items", {}), subject, name, root, depth + 1) for _ in range(count)]
    if kind in ("integer", "number"):
        return number_example(schema)
    return {"boolean": True, "null": None}.get(
        kind, string_example(schema, name, subject) if kind in ("string", None) else None
    )


# ---- the check ----------------------------------------------------------------------------------------------------


def fits(value, schema, root: dict) -> bool:
    """JSON Schema validation of the keywords used above."""
    if schema in (True, {}):
        return True
    if schema is False:
        return False
    if "$ref" in schema:
        target = root
        for step in schema["$ref"].split("/")[1:]:
            target = target[step]
        return fits(value, target, root)
    same = lambda a, b: a == b and isinstance(a, bool) == isinstance(b, bool)
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    kinds = schema.get("type", [])
    kinds = kinds if isinstance(kinds, list) else [kinds]
    is_kind = {
        "object": isinstance(value, dict),
        "array": isinstance(value, list),
        "string": isinstance(value, str),
        "boolean": isinstance(value, bool),
        "null": value is None,
        "number": number,
        "integer": number and value == int(value),
    }
    if kinds and not any(is_kind[k] for k in kinds):
        return False
    if "const" in schema and not same(value, schema["const"]):
        return False
    if "enum" in schema and not any(same(value, e) for e in schema["enum"]):
        return False
    if any(word in schema and not any(fits(value, v, root) for v in schema[word]) for word in ("anyOf", "oneOf")):
        return False
    if number and not (
        schema.get("minimum", value) <= value <= schema.get("maximum", value)
        and schema.get("exclusiveMinimum", value - 1) < value < schema.get("exclusiveMaximum", value + 1)
        and value % schema.get("multipleOf", value or 1) == 0
    ):
        return False
    if isinstance(value, str):
        return (
            schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value))
            and re.search(schema.get("pattern", ""), value) is not None
        )
    if isinstance(value, list):
        first = schema.get("prefixItems", [])
        return schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)) and all(
            fits(v, first[i] if i < len(first) else schema.get("items", {}), root) for i, v in enumerate(value)
        )
    if isinstance(value, dict):
        properties, more = schema.get("properties", {}), schema.get("additionalProperties", True)
        return all(n in value for n in schema.get("required", [])) and all(
            fits(v, properties.get(n, more), root) for n, v in value.items()
        )
    return True


def fits_text(text: str, schema: dict) -> bool:
    try:
        return fits(json.loads(text), schema, schema)
    except ValueError:
        return False


# ---- questions ----------------------------------------------------------------------------------------------------


def subject_of(s: Source) -> str:
    if s.test:
        return s.word()
    return s.pick(
        s.word,
        s.person,
        lambda: s.pick(*CITIES),
        lambda: s.pick(*CITIES),
        lambda: s.pick(*PEOPLE),
        lambda: s.pick(*PEOPLE) + " " + s.word().capitalize(),
    )()


def form_ask(s: Source) -> tuple[str, str | None]:
    """A question, and the subject that it names."""
    import chat

    if s.chance(0.55):
        x = subject_of(s)
        return (
            s.pick(
                "Describe {}.",
                "Describe {}.",
                "Describe {} as JSON.",
                "Tell me about {}.",
                "Give me the data of {}.",
                "Write a record about {}.",
                "Fill in the form for {}.",
                "Extract the data: {}",
                "Make an entry for {}.",
                "Information about {}, please.",
                "{}",
                "Create {}.",
            ).format(x),
            x,
        )
    if s.chance(0.6):
        return (
            s.pick(
                "Answer as JSON.",
                "Give me an example.",
                "Fill in the form.",
                "Return JSON.",
                "Go.",
                "Generate an object.",
                "Generate random data.",
                "Write any valid value.",
                "Give me something that fits the schema.",
                "Produce the JSON.",
                "Write the answer as JSON.",
                "Hi",
                "Hello",
                "Respond.",
                "Please answer.",
                "Make something up.",
                "Output JSON only.",
                "Create a sample.",
                "Do it.",
            ),
            None,
        )
    return chat.exchange(s)[0], None


def form_output(s: Source, effort: str, title: str, schema: dict, subject: str | None) -> Output:
    about = f" It is about {subject}." if subject else " I make up short values."
    analysis = by_effort(
        effort,
        f"JSON {title}.{about}",
        f"The answer is JSON of the format {title}.{about} I keep it short.",
        f"The user wants an answer in JSON. The format is {title}.{about} I fill what is required, keep it "
        "short and write nothing else.",
    )
    return Output(analysis, compact(example(schema, subject)), accepts=lambda t: fits_text(t, schema))


def form_group(s: Source, effort: str, n: int) -> Group:
    """Questions on one random schema."""
    if not s.test and s.chance(0.1):
        return json_object_group(s, effort, n)
    schema = make_form(s)
    title = s.pick(
        s.word(), s.word().capitalize(), "response", "output", "answer", "City", "Report", "final_output", "schema"
    )
    if s.test:
        title = s.word()
    response_format = {"type": "json_schema", "json_schema": {"name": title, "schema": schema}}
    if s.chance(0.2):
        response_format["json_schema"]["description"] = s.pick(f"A {title}.", "The answer.", f"The data of a {title}.")
    items = []
    for _ in range(n):
        ask, subject = form_ask(s)
        items.append(Item(ask, [form_output(s, effort, title, schema, subject)]))
    return Group("forms", effort, items, response_format=response_format, instructions=instructions(s, 0.4))


def simple_field(s: Source, subject: str) -> tuple[str, object]:
    name = s.pick(*NAMES, *FIELDS)
    if name in (
        "population",
        "age",
        "count",
        "price",
        "id",
        "level",
        "score",
        "rating",
        "width",
        "height",
        "size",
        "weight",
        "amount",
        "total",
        "quantity",
        "temperature",
        "x",
        "y",
        "z",
        "points",
    ):
        return name, 1
    return name, subject if name in NAMES else [] if name in ("tags", "items", "list", "values", "children") else name


def json_object_group(s: Source, effort: str, n: int) -> Group:
    """JSON without a schema in the format: fields named in the question, or a schema in the instructions, or neither."""
    items, told, schema = [], instructions(s, 0.4), None
    kind = s.pick("fields", "fields", "schema", "schema", "free")
    fence = kind == "schema" and s.chance(0.3)
    if kind == "schema":
        while schema is None or schema.get("type") != "object":
            schema = make_form(s)
        shown = json.dumps(schema, indent=s.pick(2, 2, 4, None), ensure_ascii=False)
        told = s.pick(
            "Give the objects in JSON that match this json_schema:\n\n{}\n\nReturn an instance, not the schema.",
            "Answer in JSON of this schema:\n{}",
            "You must answer with JSON that matches the json_schema {}",
            "As an expert, read the content and give the parsed objects in json that match the following "
            "json_schema:\n\n\n{}\n\nMake sure to return an instance of the JSON, not the schema itself\n",
        ).format(shown)
    for _ in range(n):
        ask, subject = form_ask(s)
        subject = subject or "JSON"
        if kind == "schema":
            value = example(schema, subject if subject in ask else None)
        elif kind == "fields":
            fields = dict(simple_field(s, subject) for _ in range(s.rng.randint(1, 4)))
            value, names = fields, list(fields)
            listed = ", ".join(names[:-1]) + (" and " if len(names) > 1 else "") + names[-1]
            ask = s.pick(
                f"Describe {subject} as JSON with {listed}.",
                f"Give me JSON about {subject} with the fields {listed}.",
                f"Write {subject} as a JSON object with {listed}.",
            )
        else:
            value = {"answer": subject}
        about = f"It is about {subject}."
        analysis = by_effort(
            effort,
            f"JSON. {about}",
            f"The answer is a JSON object. {about} I keep it short.",
            f"The user wants an answer in JSON. {about} I fill what is asked for, keep it short and write " "nothing else.",
        )
        final = compact(value)
        if kind == "schema" and fence:
            ask = (
                ask
                + s.pick("\n\n", "\n")
                + "Return the correct JSON response within a ```json codeblock. not the JSON_SCHEMA"
            )
            final = f"```json\n{final}\n```"
        items.append(Item(ask, [Output(analysis, final)]))
    if fence:
        return Group("forms", effort, items, instructions=told)
    form = {"type": "json_object"} if kind == "free" or s.chance(0.75) else None
    return Group("forms", effort, items, response_format=form, instructions=told)
