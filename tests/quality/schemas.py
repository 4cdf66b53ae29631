#!/usr/bin/env python3
"""Asks a running server for answers to random JSON Schemas, and checks every one with another validator.

    rose serve models/rosebud --port 8000 &
    .cache/clients/venv/bin/python tests/quality/schemas.py http://127.0.0.1:8000 --schemas 1000

Three of four schemas are asked for with response_format, the fourth as the parameters of a tool that must be called.
Besides the random ones come the parameters of all tools in tests/data/harmony/render.jsonl. Prints one JSON line:
how many ended by themselves, how many of those validate, how many of the answers cut by length are the beginning of
a valid one, and how many schemas were refused (golden ones only: with a 400 that says why). Exits 1 if an answer is
wrong, a random schema is refused, or less than 99 % end within the limit. With --hostile it sends schemas made to do
harm instead, while other requests go on. Needs jsonschema (scripts/setup.sh --clients).
"""
import argparse
import collections
import concurrent.futures
import json
import pathlib
import random
import sys
import threading
import time
import urllib.error
import urllib.request

import jsonschema

FORMATS = jsonschema.Draft202012Validator.FORMAT_CHECKER
ROOT = pathlib.Path(__file__).resolve().parents[2]
WORDS = ("name age city country colour size weight price total count code status kind title note tags items address "
         "street phone email date owner parts level score active visible first last next parent").split()


class Schemas:
    """Random schemas, seeded: records as programs ask for them, with every keyword that is enforced."""

    def __init__(self, seed: str):
        self.rng = random.Random(seed)

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def names(self, n: int) -> list[str]:
        return [w + self.rng.choice(("", "", "", "_id", "_2", "Of")) for w in self.rng.sample(WORDS, n)]

    def string(self) -> dict:
        r = self.rng
        return r.choice((
            lambda: {"type": "string"},
            lambda: {"type": "string", "maxLength": r.randint(1, 40)},
            lambda: {"type": "string", "minLength": 1, "maxLength": r.randint(3, 12)},
            lambda: {"type": "string", "enum": r.sample(WORDS, r.randint(1, 6))},
            lambda: {"type": "string", "pattern": r.choice(("^[A-Z]{3}-[0-9]{4}$", "^[a-z]+(-[a-z]+)?$", "^\\d{1,5}$",
                                                            "^(red|green|blue)$", "^#[0-9a-f]{6}$"))},
            lambda: {"type": "string", "format": r.choice(("date", "date-time", "email", "uuid", "ipv4", "time"))},
        ))()

    def number(self) -> dict:
        r = self.rng
        low = r.randint(-50, 50)
        return r.choice((
            lambda: {"type": "integer"},
            lambda: {"type": "number"},
            lambda: {"type": "integer", "minimum": low, "maximum": low + r.randint(0, 200)},
            lambda: {"type": "number", "minimum": low, "exclusiveMaximum": low + r.randint(1, 9)},
            lambda: {"type": "integer", "minimum": 0, "maximum": 1000, "multipleOf": r.choice((2, 5, 10))},
        ))()

    def scalar(self) -> dict:
        r = self.rng
        made = r.choice((self.string, self.string, self.number, lambda: {"type": "boolean"}))()
        if "enum" not in made and self.chance(0.1):
            return {"anyOf": [made, {"type": "null"}]}
        if list(made) == ["type"] and self.chance(0.1):
            return {"type": [made["type"], "null"]}
        if self.chance(0.05):
            return {"const": r.choice(("fixed", 7, True, None))}
        return made | ({"description": "The " + r.choice(WORDS) + "."} if self.chance(0.3) else {})

    def array(self, depth: int) -> dict:
        r = self.rng
        if self.chance(0.15):
            return {"type": "array", "prefixItems": [self.scalar() for _ in range(r.randint(1, 3))], "items": False}
        items = self.object(depth + 1) if depth < 3 and self.chance(0.3) else self.scalar()
        low = r.choice((0, 0, 1, 2))
        return {"type": "array", "items": items} | ({"minItems": low} if low else {}) | (
            {"maxItems": low + r.randint(1, 4)} if self.chance(0.6) else {})

    def value(self, depth: int) -> dict:
        roll = self.rng.random()
        if depth < 3 and roll < 0.15:
            return self.object(depth + 1)
        if roll < 0.3:
            return self.array(depth)
        return self.scalar()

    def object(self, depth: int = 0) -> dict:
        r = self.rng
        names = self.names(r.randint(1, 7 if depth == 0 else 4))
        made = {"type": "object", "properties": {n: self.value(depth) for n in names}}
        required = [n for n in names if self.chance(0.8)]
        made |= {"required": required} if required else {}
        roll = r.random()
        if roll < 0.5:
            made["additionalProperties"] = False
        elif roll < 0.55:
            made["additionalProperties"] = {"type": "integer"}
        return made

    def union(self) -> dict:
        kinds = self.rng.sample(WORDS, self.rng.randint(2, 3))
        branches = []
        for kind in kinds:
            branch = self.object(2)
            branch["properties"] = {"kind": {"const": kind}} | {k: v for k, v in branch["properties"].items() if k != "kind"}
            branch["required"] = ["kind"] + [n for n in branch.get("required", []) if n != "kind"]
            branches.append(branch)
        if self.chance(0.5):
            return {"type": "object", "properties": {"choice": {"anyOf": branches}}, "required": ["choice"],
                    "additionalProperties": False}
        return {"type": "object", "properties": {"choice": {"oneOf": [{"$ref": f"#/$defs/{k}"} for k in kinds]}},
                "required": ["choice"], "additionalProperties": False, "$defs": dict(zip(kinds, branches))}

    def recursive(self) -> dict:
        name, link = self.names(2)
        node = {"type": "object", "properties": {name: self.scalar(), link: {"anyOf": [{"$ref": "#/$defs/node"},
                                                                                      {"type": "null"}]}},
                "required": [name, link], "additionalProperties": False}
        return {"type": "object", "properties": {"root": {"$ref": "#/$defs/node"}}, "required": ["root"],
                "additionalProperties": False, "$defs": {"node": node}}

    def make(self) -> dict:
        roll = self.rng.random()
        return self.union() if roll < 0.1 else self.recursive() if roll < 0.15 else self.object()


def golden() -> list[dict]:
    """The parameters of all tools in the golden conversations, each once."""
    found: dict[str, dict] = {}
    def walk(value):
        if isinstance(value, list):
            for item in value:
                walk(item)
        elif isinstance(value, dict):
            if isinstance(value.get("parameters"), dict):
                found[json.dumps(value["parameters"], sort_keys=True)] = value["parameters"]
            for item in value.values():
                walk(item)
    for line in (ROOT / "tests/data/harmony/render.jsonl").read_text().splitlines():
        walk(json.loads(line))
    return list(found.values())


def begun(text: str):
    """The value that a cut JSON text has begun, closed where it was cut; the last unfinished part is left out."""
    decoder, stack, at = json.JSONDecoder(), [], 0
    result = [None]
    def put(value):
        if not stack:
            result[0] = value
        elif isinstance(stack[-1], list):
            stack[-1].append(value)
        else:
            stack[-1][keys.pop()] = value
    keys: list[str] = []
    expect_key = False
    while at < len(text):
        c = text[at]
        if c in " \n\r\t,:":
            expect_key = expect_key or (c == "," and bool(stack) and isinstance(stack[-1], dict))
            at += 1
        elif c in "{[":
            value = {} if c == "{" else []
            put(value)
            stack.append(value)
            expect_key = c == "{"
            at += 1
        elif c in "}]":
            stack.pop()
            expect_key = False
            at += 1
        else:
            try:
                value, end = decoder.raw_decode(text, at)
            except ValueError:
                return result[0]  # cut within a string, a word or a number
            if end == len(text) and not isinstance(value, str):
                return result[0]  # a number that may have gone on
            if expect_key:
                keys.append(value)
                expect_key = False
            else:
                put(value)
            at = end
    return result[0]


def relaxed(schema):
    """The schema without what an unfinished value cannot hold to yet."""
    if isinstance(schema, list):
        return [relaxed(s) for s in schema]
    if not isinstance(schema, dict):
        return schema
    out = {k: relaxed(v) for k, v in schema.items() if k not in ("required", "minItems", "minProperties")}
    if "oneOf" in out:
        out["anyOf"] = out.pop("oneOf")
    return out


class Server:
    def __init__(self, base: str, timeout: float = 600):
        self.url, self.timeout = base.rstrip("/").removesuffix("/v1"), timeout

    def post(self, body: dict | bytes, timeout: float | None = None) -> tuple[int, dict]:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(self.url + "/v1/chat/completions", data, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=timeout or self.timeout) as reply:
                return reply.status, json.load(reply)
        except urllib.error.HTTPError as e:
            return e.code, json.load(e)


def ask(server: Server, index: int, schema: dict, limit: int, temperature: float) -> tuple[str, str]:
    """How it went: valid, wrong, prefix (cut, but well), refused; and why."""
    body = {"messages": [{"role": "user", "content": "Give me an example of a record."}], "reasoning_effort": "low",
            "temperature": temperature, "seed": index, "max_completion_tokens": limit}
    if index % 4 == 3:
        body["tools"] = [{"type": "function", "function": {"name": "record", "description": "Takes a record.",
                                                           "parameters": schema, "strict": True}}]
        body["tool_choice"] = {"type": "function", "function": {"name": "record"}}
    else:
        body["response_format"] = {"type": "json_schema",
                                   "json_schema": {"name": "record", "schema": schema, "strict": True}}
    status, answer = server.post(body)
    if status != 200:
        return ("refused" if status == 400 else "wrong"), f"HTTP {status}: {answer['error']['message']}"
    choice = answer["choices"][0]
    calls = choice["message"].get("tool_calls") or []
    text = (calls[0]["function"]["arguments"] if calls else "") if index % 4 == 3 else choice["message"]["content"]
    try:
        if choice["finish_reason"] == "length":
            jsonschema.Draft202012Validator(relaxed(schema)).validate(begun(text or "") if text else {})
            return "prefix", text or ""
        jsonschema.Draft202012Validator(schema, format_checker=FORMATS).validate(json.loads(text or ""))
        return "valid", ""
    except (ValueError, jsonschema.ValidationError) as e:
        if choice["finish_reason"] == "length" and begun(text) is None:
            return "prefix", text
        return "wrong", f"{choice['finish_reason']}: {str(e)[:200]} in {text!r}"


def run(server: Server, o) -> bool:
    schemas, tally, random_refused, cut = Schemas(o.seed), collections.Counter(), 0, []
    cases = [(False, schemas.make()) for _ in range(o.schemas)] + [(True, s) for s in golden()]
    began = time.time()
    with concurrent.futures.ThreadPoolExecutor(o.concurrency) as pool:
        results = list(pool.map(lambda c: ask(server, c[0], c[1][1], o.limit, o.temperature), enumerate(cases)))
    for (is_golden, schema), (outcome, why) in zip(cases, results):
        tally[outcome] += 1
        random_refused += outcome == "refused" and not is_golden
        if outcome == "wrong" or (outcome == "refused" and not is_golden):
            print(f"{outcome}: {json.dumps(schema)}\n  {why}", file=sys.stderr)
        if outcome == "refused" and is_golden:
            print(f"refused: {why}"[:200], file=sys.stderr)
        if outcome == "prefix":
            cut.append((schema, why))
    for schema, text in cut[:o.show]:
        print(f"cut: {json.dumps(schema)}\n  {text[:300]!r}", file=sys.stderr)
    answered = tally["valid"] + tally["wrong"] + tally["prefix"]
    rate = tally["valid"] / max(answered, 1)
    print(json.dumps({"schemas": len(cases), "golden": sum(g for g, _ in cases), **tally, "ended": round(rate, 4),
                      "must": 0.99, "temperature": o.temperature, "limit": o.limit,
                      "seconds": round(time.time() - began, 1)}))
    return tally["wrong"] == 0 and random_refused == 0 and rate >= 0.99


def nested(depth: int, open_: str, inner: str, close: str) -> str:
    return open_ * depth + inner + close * depth


def hostile() -> dict[str, str]:
    many = ",".join(f'"p{i}":{{"type":"string"}}' for i in range(10_000))
    refs = ",".join('{"$ref":"#/$defs/a"}' for _ in range(20_000))
    return {
        "deep items": nested(10_000, '{"type":"array","items":', "{}", "}"),
        "a million brackets": nested(1_000_000, "[", "", "]"),
        "deep properties": nested(100, '{"type":"object","properties":{"a":', "{}", "}}"),
        "10,000 properties": '{"type":"object","properties":{' + many + "}}",
        "itself": '{"$ref":"#"}',
        "a circle": '{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}',
        "itself in allOf": '{"allOf":[{"$ref":"#"}]}',
        "20,000 references": '{"$defs":{"a":{"type":"string"}},"anyOf":[' + refs + "]}",
        "a billion items": '{"type":"array","items":{"type":"string"},"minItems":1000000000}',
        "nested groups": '{"type":"string","pattern":"' + nested(5_000, "(", "a", ")*") + '"}',
        "open groups": '{"type":"string","pattern":"' + "(" * 100_000 + '"}',
        "a product": '{"allOf":[' + ",".join(
            '{"anyOf":[' + ",".join('{"type":"object","properties":{"a%d_%d":{"minLength":2}}}' % (i, j)
                                    for j in range(4)) + "]}" for i in range(12)) + "]}",
        "a megabyte": '{"type":"string","enum":[' + ",".join(f'"{i:09d}"' for i in range(100_000)) + "]}",
        "no schema": '{"type":"object","properties":3}',
        "look-ahead": '{"type":"string","pattern":"(?=a)(?!b)(a|aa)+$"}',
    }


def run_hostile(server: Server, o) -> bool:
    """Each is refused within a second, while plain requests are answered."""
    stop, answered, failed = threading.Event(), [0], []
    plain = {"messages": [{"role": "user", "content": "Hello!"}], "max_completion_tokens": 40}
    def others():
        while not stop.is_set():
            status, answer = server.post(plain)
            answered[0] += status == 200
            if status != 200:
                failed.append(str(answer))
    thread = threading.Thread(target=others)
    thread.start()
    good, slowest = True, 0.0
    for name, schema in hostile().items():
        body = ('{"messages":[{"role":"user","content":"x"}],"max_completion_tokens":20,"response_format":{"type":'
                '"json_schema","json_schema":{"name":"x","schema":' + schema + "}}}").encode()
        before, began = answered[0], time.time()
        status, answer = server.post(body, timeout=30)
        took = time.time() - began
        slowest = max(slowest, took)
        well = status == 400 and took < 1 and "message" in answer.get("error", {})
        good = good and well
        print(f"{'ok ' if well else 'BAD'} {took:6.3f} s  HTTP {status}  {name}: "
              f"{answer.get('error', {}).get('message', answer)}"[:200], file=sys.stderr)
        # The server goes on: another request is answered after this one.
        while answered[0] == before and not failed and time.time() < began + 30:
            time.sleep(0.01)
        good = good and answered[0] > before
    stop.set()
    thread.join()
    good = good and not failed
    print(json.dumps({"hostile": len(hostile()), "good": good, "slowest_s": round(slowest, 3), "others_answered": answered[0],
                      "others_failed": len(failed)}))
    return good


def main() -> int:
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("base", help="such as http://127.0.0.1:8000")
    a.add_argument("--schemas", type=int, default=1000)
    a.add_argument("--limit", type=int, default=1000, help="tokens an answer")
    a.add_argument("--temperature", type=float, default=1.0)
    a.add_argument("--concurrency", type=int, default=16)
    a.add_argument("--seed", default="schemas")
    a.add_argument("--show", type=int, default=3, help="cut answers to show, on stderr")
    a.add_argument("--hostile", action="store_true")
    o = a.parse_args()
    server = Server(o.base)
    return 0 if (run_hostile if o.hostile else run)(server, o) else 1


if __name__ == "__main__":
    sys.exit(main())
