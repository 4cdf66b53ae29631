"""JSON answers to a schema given by response_format, and a validator for the kinds of schema made here."""
import json

from calls import compact, field, field_value, plain
from questions import Group, Item, Output, by_effort, instructions
from words import CITIES, COLOURS, Source


def make_schema(s: Source, depth: int = 0, used: set | None = None) -> dict:
    """A flat object, or one with a nested object; no field name occurs twice."""
    used = set() if used is None else used
    properties = {}
    for _ in range(s.rng.randint(2, 6) if depth == 0 else s.rng.randint(1, 3)):
        name, kind, enum = field(s, used)
        if depth == 0 and s.chance(0.1):
            properties[name] = make_schema(s, 1, used)
        elif s.chance(0.12):
            properties[name] = {"type": "array", "items": {"type": s.pick("string", "integer")}}
        else:
            properties[name] = {"type": kind} | ({"enum": enum} if enum else {})
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return schema | ({"additionalProperties": False} if s.chance(0.7) else {})


def make_value(s: Source, schema: dict):
    if schema["type"] == "object":
        return {name: make_value(s, sub) for name, sub in schema["properties"].items()}
    if schema["type"] == "array":
        return [field_value(s, schema["items"]["type"], None) for _ in range(s.rng.randint(1, 3))]
    return field_value(s, schema["type"], schema.get("enum"))


def default_value(name: str, schema: dict):
    """What to write for a field that the question says nothing about."""
    kind = schema["type"]
    if kind == "object":
        return {n: default_value(n, sub) for n, sub in schema["properties"].items()}
    if kind == "array":
        return []
    if kind == "string":
        return schema["enum"][0] if "enum" in schema else name
    return {"integer": 1, "number": 1, "boolean": True}[kind]


def valid(value, schema: dict) -> bool:
    """JSON Schema validation of `type`, `properties`, `required`, `additionalProperties`, `items` and `enum`."""
    kind = schema.get("type")
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind == "object":
        properties = schema.get("properties", {})
        return (isinstance(value, dict) and all(name in value for name in schema.get("required", []))
                and (schema.get("additionalProperties", True) or all(name in properties for name in value))
                and all(valid(v, properties[name]) for name, v in value.items() if name in properties))
    if kind == "array":
        return isinstance(value, list) and all(valid(v, schema.get("items", {})) for v in value)
    if kind == "string" and not isinstance(value, str) or kind == "boolean" and not isinstance(value, bool):
        return False
    if kind == "integer" and not (is_number and value == int(value)) or kind == "number" and not is_number:
        return False
    return value in schema["enum"] if "enum" in schema else True


def valid_text(text: str, schema: dict) -> bool:
    try:
        return valid(json.loads(text), schema)
    except ValueError:
        return False


def told(name: str, value, joint: str) -> list[str]:
    """The fields of a value as words of a question."""
    if isinstance(value, dict):
        return [line for n, v in value.items() for line in told(n, v, joint)]
    if isinstance(value, list):
        value = " and ".join(plain(v) for v in value)
        return [f"{name}{joint}{value}"]
    return [f"{name}{joint}{plain(value)}"]


NATURAL = {"name": ("string", "{}"), "age": ("integer", "is {} years old"), "city": ("string", "lives in {}"),
           "colour": ("string", "likes {}"), "phone": ("integer", "has the phone number {}"),
           "job": ("string", "works as {}")}


def natural_item(s: Source, fields: list[str]) -> tuple[str, dict]:
    """A sentence about a person, and the record of it (training only)."""
    make = {"name": s.person, "age": lambda: s.number(2, 2), "city": lambda: s.pick(*CITIES),
            "colour": lambda: s.pick(*COLOURS), "phone": lambda: s.number(3, 5), "job": s.word}
    value = {f: make[f]() for f in fields}
    parts = [NATURAL[f][1].format(value[f]) for f in fields if f != "name"]
    sentence = f"{value['name']} " + ", ".join(parts[:-1]) + (" and " if len(parts) > 1 else "") + parts[-1] + "."
    return s.pick("", "Extract the data: ", "Extract: ", "Read this: ", "Who is this? ") + sentence, value


def schema_group(s: Source, effort: str, n: int) -> Group:
    schema, title, natural = make_schema(s), s.word(), None
    if not s.test and s.chance(0.15):
        natural = ["name"] + s.rng.sample(list(NATURAL)[1:], s.rng.randint(1, 4))
        title = s.pick("person", "record", "answer", title)
        schema = {"type": "object", "properties": {f: {"type": NATURAL[f][0]} for f in natural}, "required": natural}
    response_format = {"type": "json_schema", "json_schema": {"name": title, "schema": schema}}
    if s.chance(0.5):
        response_format["json_schema"]["description"] = s.pick(f"A {title}.", f"The data of a {title}.", "The answer.")
    names = ", ".join(f"{name} is {sub['type']}" for name, sub in schema["properties"].items())
    analysis = by_effort(effort, f"I write {title} as JSON.", f"The answer is JSON of the format {title}. {names}.",
                         f"The user wants an answer in JSON. The format is {title}. I look at its fields: {names}. "
                         "I fill the fields in this order with what the user said and write nothing else.")
    items = []
    for _ in range(n):
        if natural and s.chance(0.8):
            ask, value = natural_item(s, natural)
        elif s.chance(0.2):
            value = {name: default_value(name, sub) for name, sub in schema["properties"].items()}
            ask = s.pick(f"Give me an example of a {title}.", f"Write any {title}.", f"Make up a {title}.",
                         "Give me an example.", f"An example of {title}, please.")
        else:
            value = make_value(s, schema)
            joint = s.pick(": ", " = ", " is ")
            fields = told("", value, joint)
            if s.chance(0.2):
                s.rng.shuffle(fields)
            ask = s.pick("Fill in the record. ", f"Write the {title} with ", f"Here is a {title}: ", "Data: ",
                         f"Answer with the {title}: ", "Convert this to JSON: ") + s.pick(", ", "; ").join(fields) + "."
        items.append(Item(ask, [Output(analysis, compact(value), accepts=lambda t: valid_text(t, schema))]))
    return Group("schemas", effort, items, response_format=response_format, instructions=instructions(s, 0.3))
