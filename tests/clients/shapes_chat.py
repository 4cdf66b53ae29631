"""The answers of /v1/chat/completions, whole and streamed."""
from shapes import check_call, check_fields, check_text_of_format, check_usage, need, parse_json

REASONS = ("stop", "length", "tool_calls")


class ChatFacts:
    """What a request asked for, as far as its answer shows it."""

    def __init__(self, body: dict, default_model: str):
        self.model = body.get("model") or default_model
        self.choices = body.get("n") or 1
        self.limit = body.get("max_completion_tokens") or body.get("max_tokens")
        self.stops = [body["stop"]] if isinstance(body.get("stop"), str) else body.get("stop") or []
        self.ignore_eos = bool(body.get("ignore_eos"))
        functions = [tool["function"] for tool in body.get("tools") or []]
        self.tools = {f["name"]: (f.get("parameters"), f.get("strict")) for f in functions}
        choice = body.get("tool_choice") or ("auto" if self.tools else "none")
        self.forced = choice != "auto" and choice != "none"
        self.call_reason = "stop" if isinstance(choice, dict) else "tool_calls"  # as OpenAI does for a named choice
        if isinstance(choice, dict):
            self.tools = {name: self.tools[name] for name in [choice["function"]["name"]]}
        if choice == "none":
            self.tools = {}
        self.one_call = body.get("parallel_tool_calls") is False
        self.logprobs = body.get("top_logprobs", 0) if body.get("logprobs") else None
        wanted = body.get("response_format") or {}
        self.json = wanted.get("type") in ("json_schema", "json_object")
        self.schema = wanted.get("json_schema", {}).get("schema")
        options = body.get("stream_options") or {}
        self.include_usage = bool(options.get("include_usage"))
        self.continuous_usage = self.include_usage and bool(options.get("continuous_usage_stats"))
        self.old_call_ids = {call["id"] for message in body["messages"] for call in message.get("tool_calls") or []}


def check_answer(body: dict, facts: ChatFacts):
    check_fields(body, "body", id=str, object=str, created=int, model=str, choices=list, usage=dict)
    need(body["object"] == "chat.completion" and body["id"].startswith("chatcmpl-"), "object or id", body)
    need(body["model"] == facts.model, "model", body["model"])
    check_usage(body["usage"], "usage")
    need([choice.get("index") for choice in body["choices"]] == list(range(facts.choices)), "indexes of choices", body["choices"])
    for choice in body["choices"]:
        check_fields(choice, "choice", message=dict, finish_reason=str, logprobs=(dict, None))
        check_fields(choice["message"], "message", role=str, content=(str, None), refusal=None)
        check_choice(choice["message"], choice["finish_reason"], choice["logprobs"], facts)
    check_limit(body["usage"], facts)


def check_limit(usage: dict, facts: ChatFacts):
    tokens = usage["completion_tokens"]
    need(tokens > 0 and (not facts.limit or tokens <= facts.limit * facts.choices), "completion_tokens", usage)
    need(not facts.ignore_eos or tokens == facts.limit, "ignore_eos ended before the limit", usage)


def check_choice(message: dict, reason: str, logprobs, facts: ChatFacts):
    """One message, sent whole or put together from a stream."""
    need(message["role"] == "assistant", "role", message)
    need(reason in REASONS, "finish_reason", reason)
    need(message.get("reasoning") == message.get("reasoning_content"), "reasoning and its twin differ", message)
    calls = message.get("tool_calls") or []
    need("tool_calls" not in message or calls, "an empty list of tool calls", message)
    need(not calls or reason in (facts.call_reason, "length"), "finish_reason beside calls", reason)
    need(reason != "tool_calls" or calls, "finish_reason without calls", message)
    ids = [call["id"] for call in calls]
    need(len(set(ids)) == len(ids) and not facts.old_call_ids & set(ids), "a tool call id twice in a conversation", ids)
    need(not facts.one_call or len(calls) < 2, "several calls though one was allowed", calls)
    for call in calls:
        check_fields(call, "call", id=str, type=str, function=dict)
        need(call["id"] and call["type"] == "function", "id or type of a call", call)
        cut = reason == "length" and call is calls[-1]
        need(cut or call["function"]["arguments"] != "", "a call without arguments", call)
        if not cut:
            check_call(call["function"]["name"], call["function"]["arguments"], facts.tools, "call", facts.forced)
    content = message.get("content")
    if reason == "stop" and not calls:
        need(not facts.forced or facts.stops, "a forced call was not made", message)
        need(isinstance(content, str), "no content at all", message)
        if facts.json and not facts.stops:
            check_text_of_format(content, facts.schema, "content")
    need(not any(stop in (content or "") for stop in facts.stops), "the stop string is in the text", content)
    if facts.logprobs is not None:
        check_logprobs(logprobs, content or "", facts.logprobs)


def check_logprobs(logprobs, content: str, top: int):
    check_fields(logprobs, "logprobs", content=list)
    for entry in logprobs["content"]:
        check_fields(entry, "logprob", token=str, logprob=(int, float), bytes=(list, None), top_logprobs=list)
        need(entry["logprob"] <= 0 and len(entry["top_logprobs"]) == top, "a logprob", entry)
    joined = b"".join(bytes(entry["bytes"] or entry["token"].encode()) for entry in logprobs["content"])
    # Bytes that are no UTF-8 are U+FFFD in the text.
    need(content in joined.decode(errors="replace"), "logprobs do not cover the text", content)


def check_stream(events: list, facts: ChatFacts):
    """`events` as of shapes.events_of: unnamed, the last one [DONE]."""
    need(all(name is None for name, _ in events), "a named event")
    need(events[-1][1] == "[DONE]", "the stream does not end with [DONE]", events[-1][1])
    chunks = [parse_json(data, "chunk") for _, data in events[:-1]]
    same = set()
    choices = [Accumulated(facts) for _ in range(facts.choices)]
    usages = []
    for chunk in chunks:
        check_fields(chunk, "chunk", id=str, object=str, created=int, model=str, choices=list)
        same.add((chunk["id"], chunk["object"], chunk["created"], chunk["model"]))
        need(len(chunk["choices"]) < 2, "several choices in a chunk", chunk)
        for choice in chunk["choices"]:
            check_fields(choice, "choice", index=int, delta=dict, finish_reason=(str, None))
            need(0 <= choice["index"] < facts.choices, "index of a choice", choice)
            choices[choice["index"]].add(choice)
        if chunk.get("usage"):
            need(facts.continuous_usage or not chunk["choices"], "usage that was not asked for", chunk)
            usages.append(chunk["usage"])
        else:
            need(chunk["choices"] and not facts.continuous_usage, "a chunk without choices or usage", chunk)
    need(len(same) == 1, "id, object, created or model changed", sorted(map(str, same)))
    identity = next(iter(same))
    need(identity[0].startswith("chatcmpl-") and identity[1] == "chat.completion.chunk" and identity[3] == facts.model, "identity", identity)
    need(bool(usages) == facts.include_usage, "usage asked for and sent", usages)
    if usages:
        need(not chunks[-1]["choices"], "the usage chunk is not the last", chunks[-1])
        check_usage(usages[-1], "usage")
        check_limit(usages[-1], facts)
    for choice in choices:
        choice.check()


class Accumulated:
    """One choice of a stream, put together as strict clients do."""

    def __init__(self, facts: ChatFacts):
        self.facts, self.message, self.reason, self.logprobs = facts, {}, None, []

    def add(self, choice: dict):
        delta, message = choice["delta"], self.message
        need(self.reason is None, "a chunk after the finish_reason", choice)
        need(("role" in delta) == (not message), "the role is in the first chunk and there alone", choice)
        message.setdefault("role", delta.get("role"))
        message.setdefault("content", None)
        need(delta.get("reasoning") == delta.get("reasoning_content"), "reasoning and its twin differ", delta)
        for name in ("content", "reasoning", "reasoning_content"):
            if delta.get(name) is not None:
                need(isinstance(delta[name], str), "text that is no string", delta)
                message[name] = (message.get(name) or "") + delta[name]
        for call in delta.get("tool_calls") or []:
            self.add_call(call)
        if choice.get("logprobs"):
            self.logprobs += choice["logprobs"]["content"]
        self.reason = choice["finish_reason"]

    def add_call(self, delta: dict):
        check_fields(delta, "tool call delta", index=int, function=dict)
        calls = self.message.setdefault("tool_calls", [])
        if delta["index"] == len(calls):
            check_fields(delta, "opened call", id=str, type=str)
            check_fields(delta["function"], "opened call", name=str, arguments=str)
            calls.append({"id": delta["id"], "type": delta["type"], "function": dict(delta["function"])})
            return
        need(delta["index"] == len(calls) - 1, "index of a call", delta)
        need(set(delta) == {"index", "function"} and set(delta["function"]) == {"arguments"},
             "more than arguments after a call was opened", delta)
        calls[-1]["function"]["arguments"] += delta["function"]["arguments"]

    def check(self):
        need(self.reason is not None, "no finish_reason", self.message)
        if not self.message.get("tool_calls"):
            need(self.message["content"] is not None, "no content in any chunk", self.message)
        check_choice(self.message, self.reason, {"content": self.logprobs}, self.facts)
