"""What clients need in an answer, checked strictly: the parts that all endpoints share.

Every rule here broke a real client when a server got it wrong. A check raises Wrong with the path and the value.
"""
import json

import jsonschema


class Wrong(AssertionError):
    """An answer that a client could not use."""


def need(condition, what: str, value=None):
    if not condition:
        raise Wrong(f"{what}: {json.dumps(value)[:300]}" if value is not None else what)


def is_int(value) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def check_fields(value, path: str, **kinds):
    """`value` is an object whose named members are there and of these types; None stands for null."""
    need(isinstance(value, dict), f"{path} is no object", value)
    for name, kind in kinds.items():
        need(name in value, f"{path}.{name} is missing", value)
        kinds_allowed = kind if isinstance(kind, tuple) else (kind,)
        member = value[name]
        right = any(member is None if k is None else is_int(member) if k is int else isinstance(member, k) for k in kinds_allowed)
        need(right, f"{path}.{name} has the wrong type", value)


def parse_json(text, path: str):
    try:
        return json.loads(text)
    except ValueError as error:
        raise Wrong(f"{path} is no JSON ({error}): {text[:200]!r}") from None


def check_error(body: dict, status: int):
    """Spec E.12: a sentence, and a code that is a string or null (a client for Rust loses the error otherwise)."""
    check_fields(body, "body", error=dict)
    check_fields(body["error"], "error", message=str, type=str, param=(str, None), code=(str, None))
    need(len(body["error"]["message"]) > 10, "error.message says too little", body)
    kinds = {400: ("BadRequestError",), 404: ("NotFoundError", "invalid_request_error")}  # the latter: an unknown response
    need(body["error"]["type"] in kinds[status], f"error.type of a {status}", body)


def check_usage(usage, path: str, names=("prompt", "completion")):
    """Integers everywhere, both objects of details, and a sum that is one. `names`: of the two counts and their details."""
    first, second = (f"{name}_tokens" for name in names)
    check_fields(usage, path, **{first: int, second: int, "total_tokens": int, f"{first}_details": dict, f"{second}_details": dict})
    check_fields(usage[f"{first}_details"], path, cached_tokens=int)
    check_fields(usage[f"{second}_details"], path, reasoning_tokens=int)
    need(usage["total_tokens"] == usage[first] + usage[second], f"{path} does not add up", usage)
    need(usage[first] > 0 and 0 <= usage[f"{first}_details"]["cached_tokens"] <= usage[first], f"{path}: tokens of the prompt", usage)
    need(0 <= usage[f"{second}_details"]["reasoning_tokens"] <= usage[second], f"{path}: tokens of the answer", usage)


def check_model(model: dict):
    check_fields(model, "model", id=str, object=str, created=int, owned_by=str, max_model_len=int)
    need(model["object"] == "model", "model.object", model)


def events_of(text: str) -> list[tuple[str | None, str]]:
    """The server-sent events of a stream, as (name or None, data)."""
    need(text.endswith("\n\n"), f"the stream ends inside an event: {text[-80:]!r}")
    events = []
    for block in text[:-2].split("\n\n"):
        name, data = None, []
        for line in block.split("\n"):
            if line.startswith("event: "):
                name = line[len("event: "):]
            elif line.startswith("data: "):
                data.append(line[len("data: "):])
            else:
                need(line.startswith(":"), f"a line that is no event, data or comment: {line[:80]!r}")
        if data:
            events.append((name, "\n".join(data)))
    return events


def check_text_of_format(text: str, schema: dict | None, path: str):
    """JSON, an object, and valid under `schema` if there is one."""
    value = parse_json(text, path)
    need(isinstance(value, dict), f"{path} is no JSON object", value)
    if schema:
        check_schema(value, schema, path)


def check_schema(value, schema: dict, path: str):
    try:
        jsonschema.validate(value, schema)
    except jsonschema.ValidationError as error:
        raise Wrong(f"{path} breaks its schema: {error.message[:200]}") from None


def check_call(name: str, arguments, tools: dict, path: str, enforced: bool):
    """A call. Arguments are text; where the schema is enforced, valid text.

    A free choice may name a function that was not declared: that is what the model wrote, and the client's to answer.
    """
    need(name and isinstance(arguments, str), f"{path}: name or arguments", {"name": name, "arguments": arguments})
    need(name in tools or not enforced, f"{path} names a function that was not declared", name)
    schema, strict = tools.get(name, (None, False))
    if strict or enforced:
        value = parse_json(arguments, f"{path}: arguments")
        if schema:
            check_schema(value, schema, f"{path}: arguments")
