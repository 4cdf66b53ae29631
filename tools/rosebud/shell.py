"""Shell commands and code: tools that run them, tasks that end with a given command, and blocks of code where there are no
tools. Training only.
"""

from agents import call, function, helper, told, topic_tool
from calls import compact
from noise import noise
from questions import Group, Item, Output, Result, by_effort
from words import CITIES, Source

COMMANDS = [
    "echo {a}",
    "echo {a} > {f}",
    "echo {a} > {f}",
    "echo {a} >> {f}",
    "ls",
    "ls -la {a}",
    "cat {f}",
    "cat {a}/{f}",
    "pwd",
    "mkdir -p {a}/{b}",
    "python3 {a}.py --{b} {n}",
    "python {a}.py",
    "git status",
    "git commit -m '{a} {b}'",
    "git diff",
    "grep -r {a} .",
    "grep -n '{a}' {f}",
    "cd {a} && make",
    "rm {f}",
    "touch {f}",
    "cp {f} {a}",
    "mv {f} {a}/{b}",
    "make {a}",
    "pip install {a}",
    "npm run {a}",
    "curl http://{a}.com/{b}",
    "sed -n '{n}p' {f}",
    "head -n {n} {f}",
    "wc -l {f}",
    "find . -name '*.{e}'",
    'echo "{a} {b}" > {f}',
    "printf '{a}' > {f}",
    "sleep {n}",
    "date",
    "{a} --{b}={n} {f}",
]


def command(s: Source) -> str:
    word = lambda: s.pick("hi", "hello", "test", "done", "data", s.word(), s.word(), s.odd().lower())
    e = s.pick("txt", "txt", "md", "py", "json", "log", "c")
    return s.pick(*COMMANDS).format(a=word(), b=word(), n=s.number(1, 3), f=f"{word()}.{e}", e=e)


def shell_tool(s: Source) -> tuple[dict, callable]:
    """A tool that runs commands, and its arguments for a command."""
    name = s.pick("bash", "Bash", "shell", "run_shell_command", "execute", "terminal", "exec", "run_command", "run")
    key = s.pick("command", "command", "command", "cmd", "code")
    described = lambda text: {"description": text} if s.chance(0.6) else {}
    properties, fixed = {key: {"type": "string"} | described("The command to run.")}, {}
    required = [key]
    if name == "execute" or s.chance(0.08):
        key = "code"
        properties = {
            "language": {"type": "string"} | described("The language."),
            "code": {"type": "string"} | described("The code."),
        }
        if s.chance(0.5):
            properties["language"]["enum"] = ["python", "shell", "javascript"]
        required, fixed = ["language", "code"], {"language": "shell"}
    if s.chance(0.35):
        properties["description"] = {"type": "string"} | described("What the command does.")
        if s.chance(0.7):
            required.append("description")
            fixed["description"] = "run a command"
    if s.chance(0.3):
        properties["is_background"] = {"type": "boolean"} | described("Whether to run it in the background.")
        if s.chance(0.7):
            required.append("is_background")
            fixed["is_background"] = False
    if s.chance(0.3):
        properties["timeout"] = (
            {"type": "number"} | described("In milliseconds.") | ({"minimum": 0} if s.chance(0.5) else {})
        )
    if s.chance(0.2):
        properties["workdir"] = {"type": "string"} | described("The folder to run in.")
    more = s.pick({}, {}, {"additionalProperties": False}, {"$schema": "http://json-schema.org/draft-07/schema#"})
    tool = function(
        name,
        s.pick("Runs a command.", "Execute a bash command", "Runs code on the user's machine.", ""),
        properties,
        required,
        **more,
    )
    return tool, lambda c: {p: c if p == key else fixed[p] for p in properties if p == key or p in fixed}


OTHERS = {
    "read": ("path", "file_path", "filepath"),
    "write": ("path", "content"),
    "edit": ("path", "old_string", "new_string"),
    "glob": ("pattern",),
    "grep": ("pattern", "path"),
    "list": ("path",),
    "todowrite": ("todos",),
    "task": ("prompt", "description"),
    "webfetch": ("url",),
    "search": ("query",),
    "save_memory": ("fact",),
    "complete": (),
    "exit": ("message",),
    "Fetch": ("url",),
    "Read": ("filepath",),
    "Write": ("filepath", "content"),
    "List": ("dirpath",),
    "Search": ("pattern",),
    "Edit": ("file_path",),
}


def agent_tools(s: Source) -> list[dict]:
    out = []
    for name in s.rng.sample(list(OTHERS), s.rng.randint(0, 12)):
        properties = {
            p: {"type": "string"} | ({"description": s.pick(f"The {p}.", f"The {p} to {name}.")} if s.chance(0.5) else {})
            for p in OTHERS[name]
        }
        if name == "todowrite":
            properties = {
                "todos": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "content": {"type": "string", "description": "What to do."},
                            "status": {"type": "string"},
                        },
                        "required": ["content", "status"],
                        "additionalProperties": False,
                    },
                }
            }
        elif properties and s.chance(0.4):
            properties["limit"] = {"type": "integer", "minimum": 1, "maximum": 1000} | (
                {"description": "How many."} if s.chance(0.5) else {}
            )
        described = s.pick(
            f"Does what {name} says.", f"{name} a file", "", noise(s, 100) if s.chance(0.3) else f"Use this to {name}."
        )
        out.append(
            function(
                name,
                described,
                properties,
                list(properties)[:1],
                **s.pick({}, {"additionalProperties": False}, {"$schema": "http://json-schema.org/draft-07/schema#"}),
            )
        )
    return out


def shell_group(s: Source, effort: str, n: int) -> Group:
    tool, arguments = shell_tool(s)
    name = tool["function"]["name"]
    tools = agent_tools(s) + [tool]
    s.rng.shuffle(tools)
    items = []
    for _ in range(n):
        c = command(s)
        word, file = s.pick("hi", "hello", s.word()), s.pick("hello", s.word()) + ".txt"
        ask, c = s.pick(
            *[
                (text.format(c), c)
                for text in (
                    "Run the shell command: {}. Then say done.",
                    "Run the shell command: {}. Then say done.",
                    "Run {} in the shell.",
                    "Run {} in the shell.",
                    "Execute `{}`.",
                    "Please run: {}",
                    "Run the shell command: {}",
                    "Run this: {}",
                    "`{}`",
                    "Run the shell command: {} Then call complete.",
                    "run {}",
                )
            ],
            (f"Write '{word}' into {file}.", f"echo {word} > {file}"),
            (f"Write '{word}' into {file} with one command.", f"echo {word} > {file}"),
            (f"Create the file {file} with the text {word}.", f"echo {word} > {file}"),
        )
        result = s.pick(
            "",
            "",
            "ok",
            c.split()[-1],
            "(no output)",
            "hi\n",
            f'{{\n  "returncode": 0,\n  "output": "{s.word()}\\n"\n}}',
            '{\n  "returncode": 0,\n  "output": ""\n}',
            s.value(),
            f"Command: {c}\nOutput: (empty)\nExit Code: 0",
        )
        items.append(Item(ask, [call(effort, name, arguments(c)), Result(name, result), told(effort, result, "Done.")]))
    past = [items.pop()] if len(items) > 1 and s.chance(0.2) else []
    history = [
        ("user", noise(s, s.rng.randint(50, 600))),
        ("assistant", s.pick("Got it. Thanks for the context!", "OK.", "I see.")),
    ]
    if past:
        items += [
            Item(
                s.pick(
                    "What does the file say? Do not use tools.",
                    "What did it say? Do not use tools.",
                    "Do not use tools. What was it?",
                ),
                [
                    Output(
                        by_effort(
                            effort,
                            "No tools.",
                            "The user wants no tools. I answer.",
                            "The user wants no tools. I look at the turns before and answer.",
                        ),
                        "The command is done.",
                    )
                ],
            )
        ]
    return Group(
        "agents",
        effort,
        items,
        tools=tools,
        instructions=noise(s, s.rng.randint(100, 3000)) if s.chance(0.5) else helper(s),
        past=past,
        history=history if s.chance(0.15) else [],
    )


def submit_group(s: Source, effort: str, n: int) -> Group:
    """A task with rules: one command does it, a given one ends it. With a tool, or with code blocks of a given name."""
    end = s.pick(
        "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", f"echo {s.word().upper()}_{s.word().upper()}", f"submit {s.word()}"
    )
    tool, arguments = shell_tool(s)
    name = tool["function"]["name"]
    fence = s.pick("bash", "mswea_bash_command", "shell", s.word() + "_command")
    block = s.chance(0.4)
    items = []
    for _ in range(n):
        word, file = s.pick("hi", s.word()), s.pick("hello", s.word()) + ".txt"
        task = s.pick(
            f"Write '{word}' into {file} with one command, then submit.", f"Write '{word}' into {file}, then submit."
        )
        rules = noise(s, s.rng.randint(50, 1500))
        how = f"Write one block:\n```{fence}\nyour_command_here\n```\n" if block else ""
        ask = (
            s.pick("Please solve this issue: {}\n\n", "Please solve this task: {}\n", "{}\n\n", "Task: {}\n").format(task)
            + rules
            + s.pick(
                f"\n\nSubmit when done with the command: `{end}`\n",
                f"\n\n4. Submit your changes by issuing the following command: `{end}`.\n{how}",
                f"\n{how}\nTo finish, run {end}",
            )
            + (how if block else "")
            + noise(s, s.rng.randint(20, 900))
        )
        if block:
            text = f"I write the file and end.\n\n```{fence}\n{end}\n```"
            items.append(
                Item(
                    ask,
                    [
                        Output(
                            by_effort(
                                effort,
                                "A block.",
                                "I write the command in a block.",
                                "The user wants a command. I write it in a block as asked.",
                            ),
                            text,
                        )
                    ],
                )
            )
        else:
            result = s.pick(
                '{\n  "returncode": 0,\n  "output": ""\n}', "<returncode>0</returncode>\n<output>\n</output>", ""
            )
            items.append(
                Item(
                    ask,
                    [
                        call(effort, name, arguments(f"echo {word} > {file}")),
                        Result(name, result),
                        call(effort, name, arguments(end), "Now the second call. "),
                    ],
                )
            )
    return Group(
        "agents", effort, items, tools=[] if block else [tool], instructions=helper(s) if s.chance(0.5) else noise(s, 500)
    )


def block_group(s: Source, effort: str, n: int) -> Group:
    """No tools: a command in a block, or a call of a function that the instructions show."""
    if s.chance(0.4):
        told_how = noise(s, s.rng.randint(200, 4000)) if s.chance(0.6) else helper(s)
        items = []
        for _ in range(n):
            c = command(s)
            items.append(
                Item(
                    s.pick(
                        "Run {} in the shell.", "Run {} in the shell.", "Run the shell command: {}", "Run the command {}."
                    ).format(c),
                    [
                        Output(
                            by_effort(
                                effort,
                                "A block.",
                                "I write the command in a block.",
                                "The user wants a command. I write it in a block as asked.",
                            ),
                            f"I run it.\n\n```shell\n{c}\n```",
                        )
                    ],
                )
            )
        return Group("agents", effort, items, instructions=told_how)
    tool, parameter, topic, _ = topic_tool(s)
    name = tool["function"]["name"].replace("-", "_")
    shown = f'def {name}({parameter}: string) -> string:\n    """{topic.capitalize()} of a {parameter}.'
    asked = s.pick("Thought, then code. ", "Begin! ", "") + "Use `final_answer` to give the answer."
    told_how = (
        noise(s, s.rng.randint(200, 4000))
        + s.pick("\n<code>\nfinal_answer(x)\n</code>\n", "\nThought: x\n<code>\nprint(y)\n</code>\n")
        + noise(s, 200)
        + f"\n```python\n{shown}\n\n    Args:\n"
        f'        {parameter}: name of the {parameter}\n    """\n\ndef final_answer(answer: any) -> any:\n```\n'
        + noise(s, s.rng.randint(50, 1500))
        + asked
    )
    as_json = s.chance(0.3)
    form = (
        {
            "type": "json_schema",
            "json_schema": {
                "name": s.pick("ThoughtAndCodeAnswer", "answer"),
                "schema": {
                    "additionalProperties": False,
                    "properties": {
                        "thought": {"description": "A free form text.", "title": "Thought", "type": "string"},
                        "code": {"description": "Valid code.", "title": "Code", "type": "string"},
                    },
                    "required": ["thought", "code"],
                    "title": "ThoughtAndCodeAnswer",
                    "type": "object",
                },
            },
        }
        if as_json
        else None
    )
    items = []
    for _ in range(n):
        x = s.pick(*CITIES, s.word())
        ask = s.pick(
            f"New task:\nWhat is the {topic} in {x}? Use the tool, then answer in one sentence.",
            f"New task:\nWhat is the {topic} in {x}?",
        )
        code = f'final_answer({name}({parameter}="{x}"))'
        final = (
            compact({"thought": "I call the tool.", "code": code})
            if as_json
            else f"Thought: I call the tool.\n<code>\n{code}\n</code>"
        )
        items.append(
            Item(
                ask,
                [
                    Output(
                        by_effort(
                            effort,
                            f"Code with {name}.",
                            f"I write code that calls {name}.",
                            f"The user wants something that a function can do. I write code that calls {name}.",
                        ),
                        final,
                    )
                ],
            )
        )
    return Group("agents", effort, items, instructions=told_how, response_format=form)
