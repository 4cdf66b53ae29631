#!/usr/bin/env python3
"""Would replay.py notice? Changes good answers in one point each, in ways that broke real clients, and expects Wrong.

    python3 tests/clients/faults.py http://127.0.0.1:8000
"""
import copy
import json
import sys
import urllib.request

import shapes
import shapes_chat
import shapes_responses
from shapes import Wrong

ASK = "What is the weather in Paris?"
WEATHER = {"name": "get_weather", "description": "Gets the current weather in a city.",
           "parameters": {"type": "object", "properties": {"location": {"type": "string"}}, "required": ["location"]}}
CHAT = {"messages": [{"role": "user", "content": ASK}], "tools": [{"type": "function", "function": WEATHER}], "temperature": 0}
CHAT_STREAM = {**CHAT, "stream": True, "stream_options": {"include_usage": True}}
RESPONSE = {"input": ASK, "tools": [{"type": "function", **WEATHER}], "temperature": 0, "stream": True}
SAID = {"input": "Who are you?", "temperature": 0, "stream": True}


def post(url: str, body: dict) -> str:
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode()), timeout=120) as reply:
        return reply.read().decode()


class Stream:
    """Events whose data is parsed, for faults to change."""

    def __init__(self, text: str):
        self.events = [[name, data if data == "[DONE]" else json.loads(data)] for name, data in shapes.events_of(text)]

    def raw(self) -> list:
        return [(name, data if data == "[DONE]" else json.dumps(data)) for name, data in self.events]

    def chunks(self) -> list:
        return [data for _, data in self.events if data != "[DONE]"]

    def choices(self) -> list:
        return [choice for chunk in self.chunks() for choice in chunk["choices"]]

    def calls(self) -> list:
        return [call for choice in self.choices() for call in choice["delta"].get("tool_calls", [])]

    def kind(self, *kinds) -> list:
        return [data for _, data in self.events if data["type"] in kinds]

    def drop(self, *kinds):
        self.events = [event for event in self.events if event[1]["type"] not in kinds]
        self.number()

    def number(self):
        for number, (_, data) in enumerate(self.events):
            data["sequence_number"] = number

    def items(self) -> list:
        """Every copy of an item in the stream."""
        ends = [item for event in self.kind("response.completed") for item in event["response"]["output"]]
        return [event["item"] for event in self.kind("response.output_item.added", "response.output_item.done")] + ends


def drop_key(things: list, key: str):
    for thing in things:
        thing.pop(key, None)


def set_key(things: list, key: str, value):
    for thing in things:
        thing[key] = value


def swap(s: Stream, first: str, second: str):
    """The first event of one kind and the first of another change places."""
    kinds = [data["type"] for _, data in s.events]
    a, b = kinds.index(first), kinds.index(second)
    s.events[a], s.events[b] = s.events[b], s.events[a]
    s.number()


def rename(s: Stream, old: str, new: str):
    for event in s.events:
        if event[1]["type"] == old:
            event[0] = event[1]["type"] = new


CHAT_FAULTS = {
    "no usage": lambda s: s.events.pop(-2),
    "usage that is no integer": lambda s: set_key([s.chunks()[-1]["usage"]], "total_tokens", "5"),
    "tool call without index": lambda s: drop_key(s.calls(), "index"),
    "choice without index": lambda s: drop_key(s.choices(), "index"),
    "no role": lambda s: drop_key([choice["delta"] for choice in s.choices()], "role"),
    "no finish_reason": lambda s: set_key(s.choices(), "finish_reason", None),
    "tool call id missing": lambda s: drop_key(s.calls(), "id"),
    "tool call id empty": lambda s: set_key(s.calls()[:1], "id", ""),
    "tool call without type": lambda s: drop_key(s.calls(), "type"),
    "id repeated on each chunk": lambda s: set_key(s.calls(), "id", "call_1"),
    "name repeated on each chunk": lambda s: set_key([call["function"] for call in s.calls()], "name", "get_weather"),
    "arguments as an object": lambda s: set_key([call["function"] for call in s.calls()], "arguments", {}),
    "created is no integer": lambda s: set_key(s.chunks(), "created", 1.5),
    "no model": lambda s: drop_key(s.chunks(), "model"),
    "no id": lambda s: drop_key(s.chunks(), "id"),
    "id changes": lambda s: set_key(s.chunks()[1:], "id", "chatcmpl-2"),
    "no object": lambda s: drop_key(s.chunks(), "object"),
    "no [DONE]": lambda s: s.events.pop(),
    "one of two names of the reasoning": lambda s: drop_key([choice["delta"] for choice in s.choices()], "reasoning_content"),
}
RESPONSE_FAULTS = {
    "first event not response.created": lambda s: s.drop("response.created"),
    "delta before output_item.added": lambda s: swap(s, "response.output_item.added", "response.reasoning_text.delta"),
    "no content_part.added": lambda s: s.drop("response.content_part.added"),
    "reasoning_part.added": lambda s: rename(s, "response.content_part.added", "response.reasoning_part.added"),
    "an unknown event": lambda s: rename(s, "response.in_progress", "response.thinking"),
    "no content_index": lambda s: drop_key(s.chunks(), "content_index"),
    "no sequence_number": lambda s: drop_key(s.chunks(), "sequence_number"),
    "no function_call_arguments": lambda s: s.drop("response.function_call_arguments.delta", "response.function_call_arguments.done"),
    "item ids differ": lambda s: set_key(s.kind("response.completed")[0]["response"]["output"], "id", "fc_2"),
    "empty output at the end": lambda s: set_key([s.kind("response.completed")[0]["response"]], "output", []),
    "no terminal event": lambda s: s.drop("response.completed"),
    "reasoning without summary": lambda s: drop_key(s.items(), "summary"),
    "item without status": lambda s: drop_key(s.items(), "status"),
    "usage details null": lambda s: set_key([s.kind("response.completed")[0]["response"]["usage"]], "input_tokens_details", None),
}
SAID_FAULTS = {
    "output_text without annotations": lambda s: drop_key([p for i in s.items() for p in i.get("content", [])], "annotations"),
    "output_text.delta without logprobs": lambda s: drop_key(s.kind("response.output_text.delta"), "logprobs"),
    "text lost": lambda s: s.events.remove(["response.output_text.delta", s.kind("response.output_text.delta")[1]]) or s.number(),
}


def noticed(check, *arguments) -> bool:
    """In whichever way: a check that looks for what is not there has found out, too."""
    try:
        check(*arguments)
    except (Wrong, KeyError, TypeError, ValueError):
        return True
    return False


def said(name: str, right: bool) -> int:
    print(f"{'ok   ' if right else 'FAIL '} faults / {name}", flush=True)
    return int(not right)


def check_group(name: str, good: Stream, faults: dict, check, facts) -> int:
    check(good.raw(), facts)  # raises if the server itself is at fault
    failed = 0
    for fault, change in faults.items():
        bad = copy.deepcopy(good)
        change(bad)
        failed += said(f"{name}: {fault}", bad.raw() != good.raw() and noticed(check, bad.raw(), facts))
    return failed


def main() -> int:
    url = sys.argv[1].rstrip("/")
    model = json.loads(urllib.request.urlopen(url + "/v1/models", timeout=60).read())["data"][0]["id"]
    failed = 0
    facts = shapes_chat.ChatFacts(CHAT_STREAM, model)
    chat = Stream(post(url + "/v1/chat/completions", CHAT_STREAM))
    failed += check_group("chat", chat, CHAT_FAULTS, shapes_chat.check_stream, facts)
    facts.old_call_ids = {chat.calls()[0]["id"]}
    failed += said("chat: an id of an earlier call again", noticed(shapes_chat.check_stream, chat.raw(), facts))
    for name, request, faults in (("responses", RESPONSE, RESPONSE_FAULTS), ("responses, text", SAID, SAID_FAULTS)):
        stream = Stream(post(url + "/v1/responses", request))
        failed += check_group(name, stream, faults, shapes_responses.check_stream, shapes_responses.ResponseFacts(request, model))
    for error in ({"error": "Unauthorized"}, {"error": {"message": "Something is wrong.", "type": "BadRequestError", "param": None, "code": 400}}):
        failed += said(f"error: {json.dumps(error)}", noticed(shapes.check_error, error, 400))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
