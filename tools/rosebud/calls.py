"""Function calls: the right one of many declared tools, arguments from the question, results used in the answer.

Tools are `verb_topic` with an invented topic; parameters have invented or common names. Other tools of a group share
the verb or the topic of the right one. Arguments are written in the order of the question.
"""
import json

from questions import Group, Item, Output, Result, by_effort, instructions, number_pair, says, sum_item
from words import CITIES, COLOURS, PEOPLE, Source

VERBS = {"get": "Gets", "find": "Finds", "set": "Sets", "add": "Adds", "delete": "Deletes", "update": "Updates",
         "send": "Sends", "open": "Opens", "close": "Closes", "book": "Books", "check": "Checks", "start": "Starts",
         "stop": "Stops", "list": "Lists", "create": "Creates", "count": "Counts"}
COMMON = {"city": "string", "name": "string", "date": "string", "amount": "integer", "count": "integer", "id": "integer",
          "unit": "string", "level": "integer", "user": "string", "limit": "integer", "urgent": "boolean",
          "active": "boolean", "price": "number", "title": "string", "colour": "string", "room": "integer"}
NATURAL = [  # hand-written tools, for questions as people ask them (training only)
    ("get_weather", "Gets the current weather in a city.", {"location": "city"},
     ["What is the weather in {location}?", "How is the weather in {location}?", "weather in {location}?",
      "Tell me the weather in {location}.", "What is the weather like in {location}?", "Is it raining in {location}?"]),
    ("get_time", "Gets the current time in a city.", {"city": "city"},
     ["What time is it in {city}?", "Tell me the time in {city}.", "time in {city}?"]),
    ("get_stock_price", "Gets the price of a stock.", {"symbol": "word"},
     ["What is the stock price of {symbol}?", "How much is the stock {symbol}?", "price of the stock {symbol}?"]),
    ("search", "Searches the web.", {"query": "word"},
     ["Search for {query}.", "Search the web for {query}.", "Look for {query} on the web."]),
    ("send_email", "Sends an email to a person.", {"to": "person", "subject": "word"},
     ["Send an email to {to} about {subject}.", "Write an email to {to} with the subject {subject}."]),
    ("set_alarm", "Sets an alarm.", {"hour": "hour", "minute": "hour"},
     ["Set an alarm for {hour}:{minute}.", "Wake me up at {hour}:{minute}."]),
    ("add", "Adds two numbers.", {"a": "number", "b": "number"},
     ["Use the tool to add {a} and {b}.", "Call add with {a} and {b}."]),
    ("play_music", "Plays a song.", {"song": "word"}, ["Play the song {song}.", "Play {song}.", "I want to hear {song}."]),
]


def field(s: Source, used: set) -> tuple[str, str, list | None]:
    """A parameter or JSON field: (name, type, enum)."""
    while True:
        if s.chance(0.3):
            name = s.pick(*COMMON)
            kind = COMMON[name]
        else:
            name, kind = s.word(), s.pick("string", "string", "integer", "integer", "number", "boolean")
        if name not in used:
            used.add(name)
            break
    enum = [s.word() for _ in range(s.rng.randint(2, 4))] if kind == "string" and s.chance(0.2) else None
    return name, kind, enum


def field_value(s: Source, kind: str, enum: list | None):
    if enum:
        return s.pick(*enum)
    if kind == "string":
        return s.person() if s.chance(0.8) else s.pick(*COLOURS)
    if kind == "integer":
        return s.number(1, 4)
    if kind == "number":
        return s.number(1, 3) + s.rng.randint(1, 9) / 10 if s.chance(0.6) else s.number(1, 4)
    return s.chance(0.5)


def plain(value) -> str:
    """A value as it stands in a question."""
    return json.dumps(value) if not isinstance(value, str) else value


def compact(value) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def make_tool(s: Source, verb: str, topic: str) -> dict:
    used: set = set()
    properties, required = {}, []
    for _ in range(s.pick(1, 1, 2, 2, 3)):
        name, kind, enum = field(s, used)
        properties[name] = {"type": kind} | ({"enum": enum} if enum else {})
        if s.chance(0.3):
            properties[name]["description"] = f"The {name} of the {topic}."
        if s.chance(0.9):
            required.append(name)
    function = {"name": f"{verb}_{topic}"}
    if s.chance(0.9):
        function["description"] = f"{VERBS[verb]} the {topic}."
    if s.chance(0.95):
        function["parameters"] = {"type": "object", "properties": properties, "required": required}
    return {"type": "function", "function": function}


def parameters_of(tool: dict) -> tuple[dict, list[str]]:
    """Properties and required names; a tool may have no parameters."""
    parameters = tool["function"].get("parameters", {})
    return parameters.get("properties", {}), parameters.get("required", [])


def natural_tool(entry) -> dict:
    name, description, parameters, _ = entry
    kinds = {"hour": "integer", "number": "integer"}
    properties = {p: {"type": kinds.get(kind, "string")} for p, kind in parameters.items()}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": {
        "type": "object", "properties": properties, "required": list(properties)}}}


def tool_set(s: Source) -> list[dict]:
    """8 to 12 tools (in training also fewer), some of which share a verb or a topic."""
    n = s.rng.randint(8, 12) if s.test or s.chance(0.8) else s.rng.randint(1, 7)
    tools, pairs, topics, verbs = [], set(), [s.word()], [s.pick(*VERBS)]
    while len(tools) < n:
        topic = s.pick(*topics) if s.chance(0.3) else s.word()
        verb = s.pick(*verbs) if s.chance(0.3) else s.pick(*VERBS)
        if (verb, topic) not in pairs:
            pairs.add((verb, topic))
            topics.append(topic)
            verbs.append(verb)
            tools.append(make_tool(s, verb, topic))
    return tools


def request(s: Source, tool: dict, given: dict | None = None) -> tuple[str, tuple[str, dict]]:
    """A wish for one call, as words without a full stop, and the call; `given` fixes some arguments' words."""
    function = tool["function"]
    verb, topic = function["name"].split("_", 1)
    properties, required = parameters_of(tool)
    names = [p for p in properties if p in required or s.chance(0.5)]
    if s.chance(0.3):
        s.rng.shuffle(names)
    arguments = {p: field_value(s, properties[p]["type"], properties[p].get("enum")) for p in names}
    words = {p: plain(v) for p, v in arguments.items()} | (given or {})
    joint = s.pick(" ", " = ", ": ", " is ")
    listed = ", ".join(f"{p}{joint}{words[p]}" for p in names)
    if len(names) > 1 and s.chance(0.3):
        listed = " and ".join(listed.rsplit(", ", 1))
    start = s.pick(f"{verb} the {topic}", f"{verb} {topic}", f"{verb} the {topic} for me", f"call {function['name']}")
    text = f"{start} {s.pick('with', 'for', 'where', 'using')} {listed}" if names else start
    return text, (function["name"], arguments)


def call_thought(effort: str, tool: dict, call: tuple[str, dict]) -> str:
    name, arguments = call
    properties, _ = parameters_of(tool)
    typed = ", ".join(f"{p} is {properties[p]['type']}".replace("integer", "number") for p in arguments)
    valued = ", ".join(f"{p} = {plain(v)}" for p, v in arguments.items())
    parts = f" From the question: {valued}." if arguments else " It needs no arguments."
    types = f" Types: {typed}." if arguments else ""
    return by_effort(effort, f"I call {name}.", f"The tool for this is {name}.{types}{parts} I call {name}.",
                     f"The user wants something that a tool can do. I look at the tools. The tool for this is {name}."
                     f"{types}{parts} Now I know all that I need. I call {name}.")


def arguments_shown(arguments: dict) -> str:
    """Arguments as a thought tells them."""
    valued = ", ".join(f"{p} = {plain(v)}" for p, v in arguments.items())
    return f"From the question: {valued}." if arguments else "It needs no arguments."


def polite(s: Source, wish: str) -> str:
    return s.pick("Please {}.", "{}.", "I want to {}.", "Can you {}?", "Could you please {}?").format(wish)


def outcome(s: Source, call: tuple[str, dict]) -> tuple[Result, str, str]:
    """A made-up result of a call, the answer made of it, and the value that matters."""
    name = call[0]
    topic = name.split("_", 1)[1] if "_" in name else name
    value = s.value()
    shown = value if value.isdigit() else json.dumps(value)
    text = s.pick(f'{{"{topic}":{shown}}}', f'{{"result":{shown}}}', value, f"The {topic} is {value}.",
                  f'{{"status":"ok","{topic}":{shown}}}', f'{{"{topic}": {shown}}}')
    return Result(name, text), f"The result of {name} is {value}.", value


def answer_step(effort: str, result: Result, answer: str, value: str) -> Output:
    analysis = by_effort(effort, f"The result is {value}.",
                         f"The tool {result.name} gave the result {value}. I tell the user.",
                         f"I called {result.name} and it gave a result. The result is {value}. This is what the user "
                         "wants to know. I tell the user.")
    return Output(analysis, answer, accepts=says(value))


def call_group(s: Source, effort: str, n: int) -> Group:
    """One call a question; in half of the items its result is answered as well."""
    if not s.test and s.chance(0.25):
        return natural_group(s, effort, n)
    tools = tool_set(s)

    def item() -> Item:
        tool = s.pick(*tools)
        wish, call = request(s, tool)
        result, answer, value = outcome(s, call)
        return Item(polite(s, wish), [Output(call_thought(effort, tool, call), call=call), result,
                                      answer_step(effort, result, answer, value)])
    items = [item() for _ in range(n)]
    for i in items[::2]:
        del i.steps[1:]
    return Group("calls", effort, items, tools=tools, instructions=instructions(s, 0.3),
                 past=[item()] if s.chance(0.2) else [])


def natural_group(s: Source, effort: str, n: int) -> Group:
    """Hand-written tools among others; a few questions that need no tool."""
    import chat
    chosen = s.rng.sample(NATURAL, s.rng.randint(1, 4))
    tools = [natural_tool(e) for e in chosen] + (tool_set(s)[:s.rng.randint(0, 6)] if s.chance(0.6) else [])
    s.rng.shuffle(tools)
    items = []
    for _ in range(n):
        if s.chance(0.1):
            items.append(sum_item(s, effort, *number_pair(s)) if s.chance(0.4) else chat.chat_item(s, effort))
            continue
        entry = s.pick(*chosen)
        values = {p: {"city": lambda: s.pick("San Francisco", "New York", *CITIES) if s.chance(0.6) else s.person(), "word": s.word,
                      "person": lambda: s.pick(*PEOPLE) if s.chance(0.5) else s.person(),
                      "hour": lambda: s.rng.randint(1, 23), "number": lambda: s.number(1, 5)}[kind]()
                  for p, kind in entry[2].items()}
        call = (entry[0], values)
        result, answer, value = outcome(s, call)
        steps = [Output(call_thought(effort, natural_tool(entry), call), call=call), result,
                 answer_step(effort, result, answer, value)]
        items.append(Item(s.pick(*entry[3]).format(**values), steps if s.chance(0.6) else steps[:1]))
    return Group("calls", effort, items, tools=tools, instructions=instructions(s, 0.3))


def two_call_group(s: Source, effort: str, n: int) -> Group:
    """Two calls one after the other, half of the time with the first one's result as an argument of the second."""
    tools, items = tool_set(s), []
    while len(tools) < 2:
        tools = tool_set(s)
    for _ in range(n):
        first, second = s.rng.sample(tools, 2)
        wish1, call1 = request(s, first)
        result1, _, value1 = outcome(s, call1)
        properties, required = parameters_of(second)
        linked = [p for p, schema in properties.items() if p in required and "enum" not in schema
                  and schema["type"] == ("integer" if value1.isdigit() else "string")]
        link = linked[0] if linked and s.chance(0.6) else None
        wish2, call2 = request(s, second, {link: "the result"} if link else None)
        if link:
            call2[1][link] = int(value1) if value1.isdigit() else value1
        result2, answer, value2 = outcome(s, call2)
        steps = [Output("First. " + call_thought(effort, first, call1), call=call1), result1,
                 Output(f"Now the second call. The first result is {value1}. " + call_thought(effort, second, call2),
                        call=call2),
                 result2, answer_step(effort, result2, answer, value2)]
        items.append(Item(s.pick(f"First {wish1}, then {wish2}.", f"Please first {wish1} and then {wish2}."), steps))
    return Group("two_calls", effort, items, tools=tools, instructions=instructions(s, 0.3))
