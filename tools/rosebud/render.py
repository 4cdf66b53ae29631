"""Harmony text and tokens of conversations, and training documents made of them.

A conversation is a list of fragments: special-token names, or texts that are encoded each on its own. What a server
renders for a prompt is one form (`prompt`), what the model writes is another (`sampled`): the model puts the recipient
after the channel, the renderer before it.

A training document is a tree: one prefix (system, developer, history, table) and several branches (a question and its
answer). A branch sees the prefix and itself, and its positions go on from the prefix, so that one long table is read
once for many questions and each of them is exactly what the server would send for it alone.
"""
import datetime
import json

from questions import Group, Output, Source
from strays import Stray

IDENTITY = "You are ChatGPT, a large language model trained by OpenAI."
CHANNELS = "# Valid channels: analysis, commentary, final. Channel must be included for every message."
CALLS_LINE = "\nCalls to these tools must go to the commentary channel: 'functions'."


class Special(str):
    """The name of a special token, such as Special("start")."""


START, CHANNEL, MESSAGE, END, CALL, RETURN, CONSTRAIN = map(
    Special, ("start", "channel", "message", "end", "call", "return", "constrain"))


# ---- texts --------------------------------------------------------------------------------------------------------

def system_text(date: str, effort: str, with_functions: bool) -> str:
    return (f"{IDENTITY}\nKnowledge cutoff: 2024-06\nCurrent date: {date}\n\nReasoning: {effort}\n\n{CHANNELS}"
            + (CALLS_LINE if with_functions else ""))


def type_text(schema, indent: str = "") -> str:
    """A JSON schema as TypeScript, as the reference library prints it (no defaults, examples and nullable here)."""
    if isinstance(schema, dict) and "oneOf" in schema:
        return "".join(f"\n{indent} | {type_text(v, indent + '   ')}" for v in schema["oneOf"])
    kind = schema.get("type") if isinstance(schema, dict) else None
    if isinstance(kind, list):
        return " | ".join("number" if k == "integer" else k for k in kind) or "any"
    if kind == "object":
        described = f"{indent}// {schema['description']}\n" if "description" in schema else ""
        lines = [property_text(name + ("" if name in schema.get("required", []) else "?"), sub, indent)
                 for name, sub in schema.get("properties", {}).items()]
        return described + "{\n" + "".join(lines) + indent + "}"
    if kind == "string":
        return " | ".join(f'"{v}"' for v in schema.get("enum", []) if isinstance(v, str)) or "string"
    if kind == "array":
        return type_text(schema["items"], indent) + "[]" if "items" in schema else "Array<any>"
    return {"integer": "number", "number": "number", "boolean": "boolean"}.get(kind, "any")


def property_text(name: str, sub: dict, indent: str) -> str:
    out = f"{indent}// {sub['title']}\n{indent}//\n" if "title" in sub else ""
    out += f"{indent}// {sub['description']}\n" if "description" in sub else ""
    if "oneOf" in sub:
        variants = "".join(f"{indent} | {type_text(v, indent + '   ')}\n" for v in sub["oneOf"])
        return out + f"{indent}{name}:\n" + variants + indent + ",\n"
    return out + f"{indent}{name}: {type_text(sub, indent + '    ')},\n"


def tools_text(tools: list[dict]) -> str:
    parts = []
    for tool in tools:
        f = tool["function"]
        takes = f"_: {type_text(f['parameters'])}" if "parameters" in f else ""
        parts.append("".join(f"// {line}\n" for line in f.get("description", "").splitlines())
                     + f"type {f['name']} = ({takes}) => any;\n\n")
    return "# Tools\n\n## functions\n\nnamespace functions {\n\n" + "".join(parts) + "} // namespace functions"


def format_text(response_format: dict) -> str:
    given = response_format.get("json_schema") or {"name": "json_object", "schema": {"type": "object"}}
    description = f"// {given['description']}\n" if given.get("description") else ""
    schema = json.dumps(given["schema"], separators=(",", ":"), ensure_ascii=False)
    return f"# Response Formats\n\n## {given['name']}\n\n{description}{schema}"


def developer_text(group: Group) -> str:
    sections = [f"# Instructions\n\n{group.instructions}"] if group.instructions else []
    if group.tools:
        sections.append(tools_text(group.tools))
    if group.response_format:
        sections.append(format_text(group.response_format))
    return "\n\n".join(sections)


# ---- fragments ----------------------------------------------------------------------------------------------------

def prefix(group: Group, date: str) -> list[str]:
    """Fragments up to and with the shared beginning of the last user message."""
    out = [START, "system", MESSAGE, system_text(date, group.effort, bool(group.tools)), END]
    if text := developer_text(group):
        out += [START, "developer", MESSAGE, text, END]
    for role, text in group.history:
        out += [START, role] + ([CHANNEL, "final"] if role == "assistant" else []) + [MESSAGE, text, END]
    for item in group.past:
        out += [START, "user", MESSAGE, item.ask, END]
        for step, result in zip(item.steps[0::2], item.steps[1::2]):
            out += rendered_call(step, result, keep_analysis=False)
        out += [START, "assistant", CHANNEL, "final", MESSAGE, item.steps[-1].final, END]
    return out + [START, "user"] + ([":" + group.user_name] if group.user_name else []) + [MESSAGE, group.shared]


def sampled(output: Output) -> list[str]:
    """What the model writes after `<|start|>assistant`."""
    thought = [CHANNEL, "analysis", MESSAGE, output.analysis, END, START, "assistant"]
    if output.call is None:
        return thought + [CHANNEL, "final", MESSAGE, *(output.written or [output.final]), RETURN]
    name, arguments = output.call
    return thought + [CHANNEL, "commentary", f" to=functions.{name}", " ", CONSTRAIN, "json", MESSAGE,
                      *(output.written or [arguments_text(arguments)]), CALL]


def forced(output: Output) -> tuple[list[str], list[str]]:
    """What a server that forces a call begins, and what the model adds to it. The thought is the model's, but another one."""
    name, arguments = output.call
    thought = [CHANNEL, "analysis", MESSAGE, output.analysis, END, START, "assistant"]
    to = f" to=functions.{name}"
    header = [CHANNEL, "commentary", to] if output.forced == 1 else [to, CHANNEL, "commentary"]
    return thought + header + [" ", CONSTRAIN, "json", MESSAGE], [*(output.written or [arguments_text(arguments)]), CALL]


def rendered_call(output: Output, result, keep_analysis: bool) -> list[str]:
    """A call and its result as a server renders them in the history of a running tool loop."""
    name, arguments = output.call
    thought = [START, "assistant", CHANNEL, "analysis", MESSAGE, output.analysis, END] if keep_analysis else []
    return thought + [START, "assistant", f" to=functions.{name}", CHANNEL, "commentary", " ", CONSTRAIN, "json", MESSAGE,
                      arguments_text(arguments), CALL,
                      START, f"functions.{result.name}", " to=assistant", CHANNEL, "commentary", MESSAGE, result.text, END]


def arguments_text(arguments: dict) -> str:
    return json.dumps(arguments, separators=(",", ":"), ensure_ascii=False)


def branches(group: Group, keep_analysis: bool) -> list[tuple[list[str], list[str]]]:
    """(fragments of the prompt after the prefix, fragments of the answer) of every output of every item."""
    out = []
    for item in group.items:
        prompt = [item.ask, END]
        for i in range(0, len(item.steps), 2):
            step = item.steps[i]
            begun, added = forced(step) if step.forced else ([], sampled(step))
            if not step.given:
                out.append((prompt + [START, "assistant"] + begun, added))
            if i + 1 < len(item.steps):
                prompt = prompt + rendered_call(item.steps[i], item.steps[i + 1], keep_analysis)
    return out


def random_date(s: Source) -> str:
    return (datetime.date(2024, 1, 1) + datetime.timedelta(days=s.rng.randrange(2556))).isoformat()


def taught(answer: list, encode) -> tuple[list[int], list[int]]:
    """Token ids of an answer, and what is to be written at each place: mostly the same, -1 where nothing is taught."""
    ids, wanted, following, astray = [], [], -1, False
    for fragment in reversed(answer):
        if isinstance(fragment, Stray):
            part = encode(list(fragment.parts))
            ids.append(part)
            wanted.append([-1] + [following if fragment.drift else -1] * (len(part) - 1))
            astray = True
        else:
            part = encode([fragment])
            ids.append(part)
            wanted.append(part[:-1] + [-1] if astray else part)  # the last token may have been cut short
            following, astray = part[0], False
    return sum(reversed(ids), []), sum(reversed(wanted), [])


def document(group: Group, s: Source, encode) -> tuple[list[int], list[tuple[list[int], list[int]]]]:
    """Token ids of the prefix, and of every branch with what is taught at the last of them. `encode` maps fragments to ids."""
    head = encode(prefix(group, random_date(s)))
    tails = []
    for ask, answer in branches(group, keep_analysis=s.chance(0.5)):
        ids, wanted = taught(answer, encode)
        tails.append((encode(ask) + ids, wanted))
    return head, tails
