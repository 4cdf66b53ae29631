#!/usr/bin/env python3
"""Compares `rose render --messages` and `rose parse --json` with openai-harmony on random input.

    tests/quality/harmony_reference.py build/rose LIBRARY.so [--cases 20000] [--seed 1]

LIBRARY.so is the extension module in the wheel of openai-harmony (`make reference` installs
it). Both sides read the same JSON; every answer must be equal token by token, and what one refuses
the other must refuse. Prints the first few differences and exits 1 if there is one.

Left out, because rose decides otherwise (docs/chat.md): lone surrogates, headers that the library reads
in a way that the format does not mean, and numbers beyond the range of a double where a repeated key
takes their place.
"""
import argparse
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import random
import subprocess
import sys

MARKERS = ["<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|call|>", "<|return|>",
           "<|endoftext|>", "<|reserved_200018|>"]
PIECES = ["a", "the", "weather", " Paris", "null", "nullify", "functions", "json", "1", "42", "3.14", " ", "  ",
          "\n", "\n\n", "\r\n", "\r", "\t", "\x0b", "\x00", "\x7f", "\u2028", "\u0085", "\u00a0", "\u00e9", "e\u0301",
          "\u4f60\u597d", "\U0001f999", "\U0001f469\u200d\U0001f680", "\ufeff", "\ufffd", "\u0415\u0449\u0451", "//", "// ",
          "#", "`", "'", "\"", "\\", "\\n", "{", "}", "[", "]", ",", ":", ";", "|", " | ", "=>", "any", "type", "don't",
          "CamelCaseWords", "snake_case", "A" * 40, "-" * 17, "to=", " to=functions.f", "is", "a b"] + MARKERS
WORDS = ["a", "b", "name", "x", "city", "get_weather", "web-search", "a.b", "A1", "_", "\u00e9", "a b", "", "<|end|>",
         "oneOf", "null", "\"q\""]


class Generator:
    """Random conversations as JSON text: keys may repeat and numbers have odd forms."""

    def __init__(self, seed):
        self.r = random.Random(seed)

    def chance(self, p):
        return self.r.random() < p

    def text(self, most=8):
        return "".join(self.r.choice(PIECES) for _ in range(self.r.randrange(most + 1)))

    def string(self, text=None):
        return json.dumps(self.text() if text is None else text, ensure_ascii=self.chance(0.5))

    def word(self):
        return self.r.choice(WORDS) if self.chance(0.8) else self.text(3)

    def number(self):
        r = self.r
        kind = r.randrange(8)
        if kind == 0:
            return str(r.choice([0, 1, -1, 10, 2**53, 2**63 - 1, 2**63, -2**63, -2**63 - 1, 2**64 - 1, 2**64, 10**25]))
        if kind == 1:
            return r.choice(["-0", "-0.0", "0.0", "1.0", "100000.0", "1e16", "1E5", "1e+5", "0.00001", "1e-6", "1e-5",
                             "123456789012345680.0", "1e15", "1e17", "5e-324", "1.7976931348623157e308", "2e-308",
                             "1.50", "0.1", "1e-400", "0e999", "0e9999999999", "1e-9999999999"])
        if kind == 2:
            return str(r.randint(-10**r.randrange(1, 30), 10**r.randrange(1, 30)))
        if kind == 3:
            return repr(r.uniform(-1, 1) * 10.0 ** r.randrange(-30, 30))
        if kind == 4:
            return f"{r.randrange(10)}.{r.randrange(10**r.randrange(1, 20))}{r.choice('eE')}{r.randrange(-320, 307)}"
        if kind == 5:
            return f"{r.uniform(0, 10**r.randrange(1, 20)):.{r.randrange(8)}f}"
        return str(r.randrange(100))

    def any_json(self, depth=2):
        kind = self.r.randrange(8)
        if kind == 0 and depth > 0:
            return self.object([(self.word(), self.any_json(depth - 1)) for _ in range(self.r.randrange(3))])
        if kind == 1 and depth > 0:
            return self.list([self.any_json(depth - 1) for _ in range(self.r.randrange(4))])
        return self.r.choice([self.string, self.string, self.number, self.number, lambda: "null", lambda: "true",
                              lambda: "false"])()

    def object(self, members):
        return "{" + ", ".join(f"{json.dumps(k)}: {v}" for k, v in members) + "}"

    def list(self, items):
        return "[" + ",".join(items) + "]"

    def strings(self, most=4):
        items = [self.string(self.word()) for _ in range(self.r.randrange(most))]
        if self.chance(0.2):
            items.insert(self.r.randrange(len(items) + 1), self.any_json(1))
        return self.list(items)

    def schema(self, depth):
        """A schema: most keys as they should be, some of another type, some twice."""
        r = self.r
        if self.chance(0.04):
            return self.any_json()
        types = ["string"] * 4 + ["number", "integer", "boolean", "null", "strin", "array", "array"] + ["object"] * 3
        kind = r.choice(types if depth > 0 else types[:9])
        members = []
        if self.chance(0.9):
            members.append(("type", json.dumps(kind)))
        if self.chance(0.05):
            members.append(("type", self.strings()))
        if self.chance(0.04):
            members.append(("type", self.list([json.dumps(r.choice(types)) for _ in range(r.randrange(4))])))
        if kind == "object" or self.chance(0.03):
            if self.chance(0.9):
                count = r.randrange(5)
                members.append(("properties", self.object([(self.word(), self.schema(depth - 1)) for _ in range(count)])
                                if depth > 0 and self.chance(0.96) else self.any_json()))
            if self.chance(0.6):
                members.append(("required", self.strings()))
        if (kind == "array" and self.chance(0.85)) or self.chance(0.02):
            members.append(("items", self.schema(depth - 1) if depth > 0 else "{}"))
        if self.chance(0.12) and depth > 0:
            members.append(("oneOf", self.list([self.variant(depth - 1) for _ in range(r.randrange(5))])))
        optional = [("description", 0.4, lambda: self.string(r.choice(["same", "", "a\nb", self.text()]))),
                    ("title", 0.12, self.string), ("default", 0.25, self.default), ("enum", 0.2, self.strings),
                    ("examples", 0.12, self.strings), ("nullable", 0.15, lambda: r.choice(["true", "true", "false"])),
                    ("anyOf", 0.04, lambda: self.list([self.schema(0)])), ("const", 0.03, self.any_json),
                    ("$ref", 0.02, self.string), ("minimum", 0.03, self.number), ("format", 0.02, self.string),
                    ("additionalProperties", 0.05, lambda: "false"), ("oneOf", 0.01, self.any_json)]
        for key, chance, make in optional:
            if self.chance(chance):
                members.append((key, make() if self.chance(0.93) else self.any_json()))
        if self.chance(0.5):
            r.shuffle(members)
        return self.object(members)

    def default(self):
        return self.string(self.word()) if self.chance(0.4) else self.any_json()

    def variant(self, depth):
        return self.schema(depth)

    def tools(self):
        names = ["functions"] * 6 + ["browser", "python", "a", "Functions", "", "z\u00e9"]
        members = []
        for _ in range(self.r.choice([0, 1, 1, 1, 2, 3])):
            key = self.r.choice(names)
            name = key if self.chance(0.8) else self.word()
            tools = []
            for _ in range(self.r.choice([0, 1, 1, 2, 3])):
                parameters = "null" if self.chance(0.15) else self.schema(self.r.randrange(5))
                tool = [("name", self.string(self.word())), ("description", self.string(self.text(6)))]
                if self.chance(0.95):
                    tool.append(("parameters", parameters))
                tools.append(self.object(tool))
            space = [("name", self.string(name)), ("tools", self.list(tools))]
            if self.chance(0.6):
                space.insert(1, ("description", "null" if self.chance(0.3) else self.string()))
            members.append((key, self.object(space)))
        return self.object(members)

    def maybe(self, members, key, chance, make):
        if self.chance(chance):
            members.append((key, make() if self.chance(0.9) else "null"))

    def system(self):
        m = [("type", '"system_content"')]
        self.maybe(m, "model_identity", 0.7, self.string)
        self.maybe(m, "reasoning_effort", 0.7,
                   lambda: json.dumps(self.r.choice(["Low", "Medium", "High"] * 6 + ["low", ""])))
        self.maybe(m, "conversation_start_date", 0.5, lambda: self.r.choice(['"2025-06-28"', self.string()]))
        self.maybe(m, "knowledge_cutoff", 0.6, lambda: self.r.choice(['"2024-06"', self.string()]))
        self.maybe(m, "channel_config", 0.7, lambda: self.object([
            ("valid_channels", self.list([self.string(self.r.choice(["analysis", "commentary", "final", self.word()]))
                                          for _ in range(self.r.randrange(4))])),
            ("channel_required", self.r.choice(["true", "true", "false"]))]))
        self.maybe(m, "tools", 0.3, self.tools)
        return self.object(m)

    def developer(self):
        m = [("type", '"developer_content"')]
        self.maybe(m, "instructions", 0.7, self.string)
        self.maybe(m, "tools", 0.7, self.tools)
        return self.object(m)

    def message(self):
        r = self.r
        role = r.choice(["system", "developer", "user", "assistant", "assistant", "assistant", "tool"])
        m = [("role", json.dumps(role))]
        if role == "tool":
            self.maybe(m, "name", 0.98, lambda: self.string("functions." + self.word()))
        else:
            self.maybe(m, "name", 0.1, lambda: self.string(self.word()))
        self.maybe(m, "recipient", 0.3, lambda: self.string(
            r.choice(["all", "assistant", "functions.f", "python", "user", self.word()])))
        self.maybe(m, "channel", 0.6 if role != "user" else 0.1,
                   lambda: self.string(r.choice(["analysis"] * 4 + ["commentary", "final", "final", self.word()])))
        self.maybe(m, "content_type", 0.25, lambda: self.string(
            r.choice(["json", "code", "<|constrain|>json", "<|constrain|>", "<|constrain|> json", "x<|constrain|>json",
                      "<|constrain|><|constrain|>json", self.word()])))
        text = lambda: self.object([("type", '"text"'), ("text", self.string(self.text(12)))])
        if self.chance(0.1):
            content = self.string()
        else:
            parts = [text() for _ in range(r.choice([0, 1, 1, 1, 2, 3]))]
            if role == "system" or self.chance(0.01):
                parts.insert(r.randrange(len(parts) + 1), self.system())
            if role == "developer" or self.chance(0.01):
                parts.insert(r.randrange(len(parts) + 1), self.developer())
            if role in ("system", "developer") and self.chance(0.7):
                parts = [p for p in parts if "_content\"" in p]
            content = self.list(parts)
        m.append(("content", content))
        return self.object(m)

    def conversation(self):
        purpose = self.r.choice(["completion", "completion", "conversation", "training"])
        role = self.r.choice(["assistant"] * 6 + ["user", "system", "developer", "tool"])
        messages = self.list([self.message() for _ in range(self.r.choice([0, 1, 1, 2, 2, 3, 4, 6, 9]))])
        return messages, purpose, role, self.chance(0.75)

    def deep(self):
        """One schema nested near the depth that both sides refuse, or with a number that they do."""
        depth = self.r.choice([0, 1, 3] + list(range(20, 70)))
        schema = '{"default": %s}' % self.r.choice(["1", "2.5e308", "1e400", "-1e99999999999", "1" + "0" * 310])
        for _ in range(depth):
            schema = (f'{{"type":"array","items":{schema}}}' if self.chance(0.5) else
                      f'{{"type":"object","properties":{{"p":{schema}}}}}')
        tools = f'{{"functions":{{"name":"functions","tools":[{{"name":"f","description":"","parameters":{schema}}}]}}}}'
        messages = f'[{{"role":"developer","content":[{{"type":"developer_content","tools":{tools}}}]}}]'
        return messages, "conversation", "assistant", True


class Library:
    def __init__(self, path):
        loader = importlib.machinery.ExtensionFileLoader("openai_harmony", path)
        self.module = importlib.util.module_from_spec(
            importlib.util.spec_from_file_location("openai_harmony", path, loader=loader))
        loader.exec_module(self.module)
        self.encoding = self.module.load_harmony_encoding("HarmonyGptOss")

    def render(self, messages, purpose, role, drop):
        conversation = '{"messages": ' + messages + "}"
        config = {"auto_drop_analysis": drop}
        try:
            if purpose == "completion":
                return self.encoding.render_conversation_for_completion(conversation, role, config)
            if purpose == "training":
                return self.encoding.render_conversation_for_training(conversation, config)
            return self.encoding.render_conversation(conversation, config)
        except Exception as refused:  # whatever kind: both sides must refuse
            return str(refused)

    def parse(self, tokens):
        """Messages as rose writes them; those before an error."""
        own_start = bool(tokens) and tokens[0] == 200006
        parser = self.module.PyStreamableParser(self.encoding, None if own_start else "assistant", True)
        try:
            for token in tokens:
                parser.process(token)
            parser.process_eos()
        except Exception:  # the end within a header; other errors the generator does not make
            pass
        out = []
        for message in json.loads(parser.messages):
            content = message["content"]
            text = content if isinstance(content, str) else "".join(part["text"] for part in content)
            out.append({"role": message["name"] if message["role"] == "tool" else message["role"],
                        "channel": message.get("channel"), "recipient": message.get("recipient"),
                        "content_type": message.get("content_type"), "text": text})
        return out


class Streams:
    """Random streams with well-formed headers; bodies of any ordinary ids, whole or cut anywhere."""

    def __init__(self, seed, library):
        self.r = random.Random(seed)
        self.generator = Generator(seed)
        self.encode = lambda text: library.encoding.encode(text, [])

    def header(self, first):
        r = self.r
        out = []
        author = "assistant"
        if not first:
            author = r.choice(["assistant"] * 5 + ["user", "system", "developer", "functions.f", "python", "browser.open"])
            out += [200006] + self.encode(author)
        is_tool = "." in author or author == "python"
        recipient = r.choice([None, None, "functions.f", "functions.get_weather", "python", "browser.search", "all",
                              "functions.a-b"])
        if is_tool:
            recipient = "assistant"
        before = recipient and (is_tool or r.random() < 0.5)
        if before:
            out += self.encode(" to=" + recipient)
        channel = r.choice(["analysis", "commentary", "final", "final", None, "other"])
        if channel:
            out += [200005] + self.encode(channel)
        if recipient and not before:
            out += self.encode(" to=" + recipient)
        if recipient:
            kind = r.choice([None, "json", "code", "C"])
            if kind == "C":
                out += (self.encode(" ") if r.random() < 0.9 else []) + [200003] + self.encode("json")
            elif kind:
                out += self.encode(" " + kind)
        if r.random() < 0.1:
            out += self.encode(r.choice([" ", "\n", "\t "]))
        return out + [200008]

    def body(self):
        r = self.r
        if r.random() < 0.5:
            return self.encode(self.generator.text(20))
        high = r.choice([300, 5000, 199998])  # low ids are single bytes: much invalid UTF-8
        return [r.randrange(high) for _ in range(r.randrange(30))]

    def stream(self):
        r = self.r
        first = r.random() < 0.7
        out = []
        for i in range(r.choice([1, 1, 2, 3, 5])):
            out += self.header(first and i == 0) + self.body() + [r.choice([200007, 200007, 200002, 200012])]
        return out[:r.randrange(len(out) + 1)] if r.random() < 0.4 else out


def ask(program, arguments, lines):
    result = subprocess.run([program, *arguments], input="".join(line + "\n" for line in lines).encode(),
                            stdout=subprocess.PIPE, check=False)
    answers = [json.loads(line) for line in result.stdout.decode().splitlines()]
    if result.returncode not in (0, 2) or len(answers) != len(lines):
        sys.exit(f"{program} gave {len(answers)} answers to {len(lines)} lines, exit code {result.returncode}")
    return answers


def report(kind, differences, cases, refused=0):
    for given, ours, theirs in differences[:3]:
        print(f"{kind}: {given}\n  rose:      {ours}\n  reference: {theirs}")
    also = f", {refused} of them refused by both" if kind == "render" else ""
    print(f"{kind}: {cases} cases, {len(differences)} differences{also}")
    return not differences


def compare_render(program, library, cases, seed):
    generator = Generator(seed)
    jobs = [generator.deep() if i % 100 == 99 else generator.conversation() for i in range(cases)]
    lines = [f'{{"messages": {m}, "for": "{p}", "next_role": "{role}", "auto_drop_analysis": {json.dumps(drop)}}}'
             for m, p, role, drop in jobs]
    differences, refused = [], 0
    for line, job, answer in zip(lines, jobs, ask(program, ["render", "--messages"], lines)):
        theirs = library.render(*job)
        if isinstance(theirs, str):
            refused += 1
            if "error" not in answer:
                differences.append((line, answer["text"], theirs))
        elif answer.get("token_ids") != theirs or answer["text"] != library.encoding.decode_utf8(theirs):
            differences.append((line, answer.get("text", answer.get("error")), library.encoding.decode_utf8(theirs)))
    return report("render", differences, cases, refused)


def compare_parse(program, library, cases, seed):
    streams = Streams(seed, library)
    inputs = [streams.stream() for _ in range(cases)]
    answers = ask(program, ["parse", "--json"], [json.dumps(tokens) for tokens in inputs])
    differences = []
    for tokens, answer in zip(inputs, answers):
        theirs = library.parse(tokens)
        if answer.get("messages") != theirs:
            differences.append((tokens, answer, theirs))
    return report("parse", differences, cases)


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("program")
    arguments.add_argument("library")
    arguments.add_argument("--cases", type=int, default=20000)
    arguments.add_argument("--seed", type=int, default=1)
    options = arguments.parse_args()
    root = pathlib.Path(__file__).resolve().parents[2]
    os.environ["TIKTOKEN_ENCODINGS_BASE"] = str(root / "data")
    library = Library(options.library)
    rendered = compare_render(options.program, library, options.cases, options.seed)
    parsed = compare_parse(options.program, library, options.cases, options.seed)
    return 0 if rendered and parsed else 1


if __name__ == "__main__":
    sys.exit(main())
