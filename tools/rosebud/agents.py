"""What programs that use a model ask for: tool loops, shell commands, forced calls, hand-overs, records by a tool, code in a
block, and a few simple wishes. Training only; in the way of well-known clients, with names and texts made up.
"""

from calls import VERBS, arguments_shown, compact, request, tool_set
from forms import example, make_form, simple_field, subject_of
from noise import noise
from questions import Group, Item, Output, Result, by_effort, instructions
from words import CITIES, PEOPLE, Source

HELPERS = [
    "Help.",
    "Be brief.",
    "You are a helpful assistant.",
    "Use the tool.",
    "You are a helpful AI assistant.",
    "You are a helpful AI assistant. Solve tasks using your tools. Reply with TERMINATE when the task has been completed.",
    "Answer in French.",
    "You can use tools.",
]


def helper(s: Source) -> str:
    return s.pick(*HELPERS) if s.chance(0.6) else instructions(s, 0.5)


def function(name: str, description: str, properties: dict, required: list | None = None, **more) -> dict:
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(properties) if required is None else required,
    }
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters | more}}


def thought(effort: str, name: str, arguments: dict, first: str = "") -> str:
    valued = arguments_shown(arguments)
    return first + by_effort(
        effort,
        f"I call {name}.",
        f"The tool for this is {name}. {valued} I call {name}.",
        f"The user wants something that a tool can do. I look at the tools. The tool for this is {name}. "
        f"{valued} Now I know all that I need. I call {name}.",
    )


def call(effort: str, name: str, arguments: dict, first: str = "", **more) -> Output:
    return Output(thought(effort, name, arguments, first), call=(name, arguments), **more)


def told(effort: str, text: str, final: str) -> Output:
    return Output(
        by_effort(
            effort,
            "I have the result.",
            "I have the result of the tool. I tell the user.",
            "I called the tool and it gave a result. This is what the user wants to know. I tell the user.",
        ),
        final,
    )


# ---- weather and its like -----------------------------------------------------------------------------------------


def topic_tool(s: Source) -> tuple[dict, str, str, str]:
    """(tool, parameter, topic as in a question, kind of argument)"""
    topic, kind = s.pick(
        ("weather", "city"),
        ("weather", "city"),
        ("weather", "city"),
        ("temperature", "city"),
        ("time", "city"),
        ("price", "word"),
        ("news", "city"),
        ("population", "city"),
        ("status", "word"),
    )
    parameter = (
        s.pick("city", "city", "location", "place", "city_name", "q")
        if kind == "city"
        else s.pick("name", "item", "id", "query")
    )
    name = s.pick(
        f"get_{topic}",
        f"get_{topic}",
        f"get_{topic}",
        f"w-get_{topic}",
        f"get_current_{topic}",
        f"{topic}",
        f"get{topic.capitalize()}",
        f"{topic}_lookup",
        f"{s.word()}-get_{topic}",
    )
    schema = {"type": "string"}
    if s.chance(0.3):
        schema = {"title": parameter.capitalize()} | schema
    if s.chance(0.3):
        schema["description"] = s.pick(f"the {parameter}", f"name of the {parameter}", f"The {parameter}.")
    properties, required = {parameter: schema}, [parameter]
    if s.chance(0.15):
        properties["unit"] = {"type": "string", "enum": ["celsius", "fahrenheit"]}
    more = {"additionalProperties": False} if s.chance(0.5) else {}
    if s.chance(0.2):
        more["title"] = f"{name}_args"
    described = s.pick(
        f"{topic.capitalize()} of a {kind if kind == 'city' else 'thing'}",
        f"{topic.capitalize()} of a {parameter}.",
        f"Get the {topic} of a {parameter}",
        f"Gets the current {topic}.",
        "",
    )
    tool = function(name, described, properties, required, **more)
    if s.chance(0.3):
        tool["function"]["strict"] = True
    return tool, parameter, topic, kind


def topic_result(s: Source, x: str, topic: str) -> str:
    n = s.number(1, 2)
    text = s.pick(
        f"{n} C",
        f"{n} C in {x}",
        f"sunny, {n} C in {x}",
        f"{n} degrees",
        "sunny",
        "rain",
        "cloudy",
        f"{n}",
        s.value(),
        f"It is {n} degrees in {x}.",
        f'{{"temp": {n}}}',
        f'{{"temp":{n},"city":"{x}"}}',
        f'{{"{topic}": "sunny"}}',
    )
    return text


def topic_group(s: Source, effort: str, n: int) -> Group:
    tool, parameter, topic, kind = topic_tool(s)
    name = tool["function"]["name"]
    tools = [tool] + (tool_set(s)[: s.rng.randint(1, 4)] if s.chance(0.3) else [])
    s.rng.shuffle(tools)

    def subject() -> str:
        return (
            (s.pick(*CITIES, "San Francisco", "New York", "Rome") if s.chance(0.7) else s.person())
            if kind == "city"
            else s.word()
        )

    def step(x: str, first: str = "") -> Output:
        return call(effort, name, {parameter: x}, first)

    def item(follow: bool = False) -> Item:
        x = subject()
        where = "in" if kind == "city" else "of"
        if not follow and s.chance(0.15):
            y = subject()
            a, b = topic_result(s, x, topic), topic_result(s, y, topic)
            ask = s.pick(
                f"{topic.capitalize()} {where} {x} and {where} {y}? Call the tool for each.",
                f"What is the {topic} {where} {x} and {where} {y}?",
                f"Compare the {topic} {where} {x} and {y}.",
            )
            return Item(
                ask,
                [
                    step(x, "First. "),
                    Result(name, a),
                    step(y, "Now the second call. "),
                    Result(name, b),
                    told(effort, b, f"The {topic} {where} {x}: {a}\nThe {topic} {where} {y}: {b}"),
                ],
            )
        result = topic_result(s, x, topic)
        ask = (
            s.pick(f"And now {where} {x}?", f"And {where} {x}?", f"What about {x}?", f"And {x}?", f"now {x}")
            if follow
            else s.pick(
                f"What is the {topic} {where} {x}?",
                f"{topic.capitalize()} {where} {x}?",
                f"How is the {topic} {where} {x}?",
                f"Tell me the {topic} {where} {x}.",
                f"I need the {topic} {where} {x}.",
                f"{topic} {x}",
            )
            + s.pick(
                "",
                "",
                " Use the tool.",
                " Use the tool, then answer in one sentence.",
                " Use the tools.",
                " Answer briefly.",
            )
        )
        return Item(ask, [step(x), Result(name, result), told(effort, result, f"The {topic} {where} {x}: {result}")])

    past = [item()] if s.chance(0.35) else []
    items = [item(bool(past) and s.chance(0.7)) for _ in range(n)]
    group = Group("agents", effort, items, tools=tools, instructions=helper(s), past=past)
    if s.chance(0.15):
        as_record(s, group, topic, kind)
    elif s.chance(0.1):  # the tools are gone when the answer is asked for
        group.tools = []
        for i in items:
            for step in i.steps[:-1:2]:
                step.given = True
    return group


def as_record(s: Source, group: Group, topic: str, kind: str):
    """The last answer is wanted in JSON."""
    schema = {
        "type": "object",
        "properties": {
            s.pick("city", "place", "name"): {"type": "string"},
            topic: {"type": "string"},
            "temperature": {"type": "number"},
        },
        "required": [],
    }
    for name in s.rng.sample(list(schema["properties"]), s.rng.randint(0, 1)):
        del schema["properties"][name]
    schema["required"] = list(schema["properties"])
    if s.chance(0.6):
        schema["properties"] = {n: {"title": n.capitalize()} | sub for n, sub in schema["properties"].items()}
        schema |= {"title": "Report", "additionalProperties": False}
    title = s.pick("final_output", "Report", "answer")
    group.response_format = {"type": "json_schema", "json_schema": {"name": title, "schema": schema}}
    for item in group.items:
        subject = next(iter(item.steps[0].call[1].values()))
        item.steps[-1] = Output(
            by_effort(
                group.effort,
                f"JSON {title}. It is about {subject}.",
                f"I have the result. The answer is JSON of the format {title}. It is about {subject}.",
                f"I called the tool and it gave a result. The answer is JSON of the format {title}. "
                f"It is about {subject}. I keep it short.",
            ),
            compact(example(schema, subject)),
        )


# ---- hand-overs, final answers, records ---------------------------------------------------------------------------


def transfer_group(s: Source, effort: str, n: int) -> Group:
    word = s.pick("weather", s.word())
    name = f"transfer_to_{word}_agent"
    hand = function(
        name, f"Handoff to the {word.capitalize()} agent to handle the request.", {}, [], additionalProperties=False
    )
    tool, parameter, topic, _ = topic_tool(s)
    ask = lambda x: s.pick(
        f"What is the {topic} in {x}? Use the tool, then answer in one sentence.", f"What is the {topic} in {x}?"
    )
    given = f'{{"assistant": "{word.capitalize()} agent"}}'
    items = []
    if s.chance(0.5):
        for _ in range(n):
            items.append(Item(ask(s.pick(*CITIES)), [call(effort, name, {})]))
        return Group("agents", effort, items, tools=[hand], instructions=f"Hand {topic} questions to the {word} agent.")
    for _ in range(n):
        x, own = s.pick(*CITIES), tool["function"]["name"]
        result = topic_result(s, x, topic)
        items.append(
            Item(
                ask(x),
                [
                    call(effort, name, {}, given=True),
                    Result(name, given),
                    call(effort, own, {parameter: x}),
                    Result(own, result),
                    told(effort, result, f"The {topic} in {x}: {result}"),
                ],
            )
        )
    return Group("agents", effort, items, tools=[tool], instructions=s.pick("Use the tool.", "Help.", ""))


def observed_group(s: Source, effort: str, n: int) -> Group:
    """Results that come as a user message, and a tool for the last answer."""
    tool, parameter, topic, _ = topic_tool(s)
    name = tool["function"]["name"]
    last = function(
        "final_answer",
        "Provides a final answer to the given problem.",
        {"answer": {"type": "any", "description": "The final answer to the problem"}},
    )
    items, x = [], s.pick(*CITIES)
    question = f"New task:\nWhat is the {topic} in {x}? Use the tool, then answer in one sentence."
    told_how = noise(s, s.rng.randint(100, 3000)) if s.chance(0.7) else helper(s)
    if s.chance(0.4):
        items = [Item(question, [call(effort, name, {parameter: x})])]
        return Group("agents", effort, items, tools=[tool, last], instructions=told_how)
    made = {"id": s.word(), "type": "function", "function": {"name": name, "arguments": {parameter: x}}}
    shown = f"Calling tools:\n[{made}]"
    for _ in range(n):
        result = topic_result(s, x, topic)
        items.append(Item(f"Observation:\n{result}", [call(effort, "final_answer", {"answer": result})]))
    return Group(
        "agents",
        effort,
        items,
        tools=[tool, last],
        instructions=told_how,
        history=[("user", question), ("assistant", shown)],
    )


def form_tool(s: Source, name: str) -> dict:
    schema = None
    while not schema or schema.get("type") != "object" or not schema.get("properties"):
        schema = make_form(s)
    return {
        "type": "function",
        "function": {"name": name, "description": s.pick(f"Makes the {name}.", f"A {name}.", ""), "parameters": schema}
        | ({"strict": True} if s.chance(0.5) else {}),
    }


def record_group(s: Source, effort: str, n: int) -> Group:
    """A tool whose arguments are a record, as libraries for structured output declare it."""
    schema, title = None, s.pick("City", "Report", "Small", "record", "return_direct_response", s.word().capitalize())
    if s.chance(0.4):
        fields = dict(simple_field(s, "x") for _ in range(s.rng.randint(1, 4)))
        kinds = {int: {"type": "integer"}, str: {"type": "string"}, list: {"type": "array", "items": {"type": "string"}}}
        schema = {
            "type": "object",
            "properties": {
                n: ({"title": n.capitalize()} if s.chance(0.5) else {}) | kinds[type(v)] for n, v in fields.items()
            },
            "required": list(fields),
        }
    while not schema or schema.get("type") != "object" or not schema.get("properties"):
        schema = make_form(s)
    described = s.pick(
        f"Correctly extracted `{title}` with all the required parameters with correct types", f"A {title}.", "", "A city."
    )
    tool = {"type": "function", "function": {"name": title, "description": described, "parameters": schema}}
    items = []
    for _ in range(n):
        x = subject_of(s)
        ask = s.pick(
            "Describe {}.", "Describe {}.", "Tell me about {}.", "Extract the data: {}", "Make a record of {}."
        ).format(x)
        arguments = example(schema, x)
        items.append(
            Item(
                ask,
                [
                    Output(
                        by_effort(
                            effort,
                            f"I call {title}.",
                            f"The tool for this is {title}. It is about {x}. I call {title}.",
                            f"The user wants something that a tool can do. The tool for this is {title}. It is about "
                            f"{x}. I call {title}.",
                        ),
                        call=(title, arguments),
                        forced=s.pick(0, 0, 1, 2),
                    )
                ],
            )
        )
    return Group("agents", effort, items, tools=[tool], instructions=helper(s))


def forced_group(s: Source, effort: str, n: int) -> Group:
    """Calls that the server forces, whatever was asked: only the arguments are taught."""
    import chat

    tools = tool_set(s)[: s.rng.randint(1, 6)] if s.chance(0.5) else [topic_tool(s)[0]]
    plain_tools = tools if tools[0]["function"]["name"].split("_")[0] in VERBS else []
    if s.chance(0.3):
        tools = plain_tools[:2] + [form_tool(s, s.word()) for _ in range(s.rng.randint(1, 3))]
    items = []
    for _ in range(n):
        tool = s.pick(*tools)
        schema = tool["function"].get("parameters", {"type": "object"})
        item = chat.chat_item(s, effort)
        x = s.pick(*PEOPLE, *CITIES) if s.chance(0.3) else None
        ask = f"Describe {x}." if x else item.ask
        output = Output(item.steps[0].analysis, call=(tool["function"]["name"], example(schema, x)), forced=s.pick(1, 1, 2))
        if s.chance(0.2) and tool in plain_tools and "properties" in schema:
            wish, made = request(s, tool)
            ask, output = f"Please {wish}.", Output("I call it.", call=made, forced=s.pick(1, 2))
        items.append(Item(ask, [output]))
    return Group("agents", effort, items, tools=tools, instructions=helper(s))


# ---- simple wishes ------------------------------------------------------------------------------------------------


def simple_item(s: Source, effort: str) -> Item:
    import chat

    kind = s.rng.randrange(5)
    if kind == 0:
        m = s.rng.randint(0, 20)
        ask = s.pick("Count to {}", "Count to {}.", "Count from 1 to {}.", "Please count to {}.").format(m)
        final = ", ".join(map(str, range(1, m + 1))) or "0"
    elif kind == 1:
        m = s.number(1, 4)
        final = "yes" if m % 2 == 0 else "no"
        ask = s.pick("Q: Is {} even? A:", "Is {} even?", "Is {} an even number?").format(m)
    elif kind == 2:
        final = s.pick("hi", "hello", "done", "OK", "yes", "ok", s.word(), s.word() + " " + s.word())
        ask = s.pick(*SAY).format(final)
    elif kind == 3:
        final = "A short conversation"
        ask = s.pick(*TITLE) + s.pick("", "\n" + noise(s, 100))
    else:
        final = chat.UNKNOWN
        ask = noise(s, s.rng.randint(50, 600))
    long = "The user wants something simple. I need no table and no tool for it. I do it."
    return Item(ask, [Output(by_effort(effort, "Simple.", "This is simple. I do it.", long), final)])


SAY = ["Say {}", "Say {}.", "Say {}!", "Reply with {}.", "Answer with {}.", "Repeat: {}", "Only say {}.", "Reply with exactly: {}",
       "Say the word {}."]
TITLE = ["Generate a title for this conversation:", "Write a title for this conversation.", "Generate a short title:\n"]


def simple_group(s: Source, effort: str, n: int) -> Group:
    return Group("agents", effort, [simple_item(s, effort) for _ in range(n)], instructions=helper(s))


def agent_group(s: Source, effort: str, n: int) -> Group:
    from shell import block_group, shell_group, submit_group

    make = s.pick(
        topic_group,
        topic_group,
        topic_group,
        shell_group,
        shell_group,
        submit_group,
        block_group,
        transfer_group,
        observed_group,
        record_group,
        record_group,
        forced_group,
        forced_group,
        simple_group,
    )
    return make(s, effort, n)
