"""The answers of /v1/responses, whole and as events in the order that the accumulators of the SDKs insist on."""
from shapes import check_call, check_fields, check_text_of_format, check_usage, need, parse_json

NAMES = ("input", "output")
PREFIXES = {"reasoning": "rs_", "function_call": "fc_", "message": "msg_"}
ENDS = {"completed": "response.completed", "incomplete": "response.incomplete"}
PARTS = {"reasoning_text": "response.reasoning_text", "output_text": "response.output_text"}


class ResponseFacts:
    """What a request asked for, as far as its answer shows it."""

    def __init__(self, body: dict, default_model: str):
        self.model = body.get("model") or default_model
        self.limit, self.ignore_eos = body.get("max_output_tokens"), bool(body.get("ignore_eos"))
        self.tools = {tool["name"]: (tool.get("parameters"), tool.get("strict")) for tool in body.get("tools") or []}
        choice = body.get("tool_choice") or "auto"
        self.forced = choice not in ("auto", "none")
        if isinstance(choice, dict):
            self.tools = {choice["name"]: self.tools[choice["name"]]}
        self.one_call = body.get("parallel_tool_calls") is False
        wanted = (body.get("text") or {}).get("format") or {}
        self.json = wanted.get("type") in ("json_schema", "json_object")
        self.schema = wanted.get("schema")
        self.previous = body.get("previous_response_id")
        items = body["input"] if isinstance(body["input"], list) else []
        self.old_call_ids = {item["call_id"] for item in items if item.get("type") == "function_call"}


def check_response(response: dict, facts: ResponseFacts, status: str | None = None):
    """A response object; `status` if only this one will do."""
    check_fields(response, "response", id=str, object=str, created_at=(int, float), status=str, model=str, output=list,
                 error=None, incomplete_details=(dict, None), instructions=(str, None), metadata=(dict, None),
                 parallel_tool_calls=bool, tool_choice=(str, dict), tools=list, temperature=(int, float, None),
                 top_p=(int, float, None), previous_response_id=(str, None), text=dict)
    need(response["id"].startswith("resp_") and response["object"] == "response", "id or object", response)
    need(response["model"] == facts.model and response["previous_response_id"] == facts.previous, "model or previous", response)
    need(status is None or response["status"] == status, f"status is not {status}", response)
    if response["status"] not in ENDS:
        return
    check_usage(response["usage"], "usage", NAMES)
    tokens = response["usage"]["output_tokens"]
    need(tokens > 0 and (not facts.limit or tokens <= facts.limit), "output_tokens", response["usage"])
    need(not facts.ignore_eos or tokens == facts.limit, "ignore_eos ended before the limit", response["usage"])
    cut = response["status"] == "incomplete"
    need((response["incomplete_details"] == {"reason": "max_output_tokens"}) == cut, "incomplete_details", response)
    check_output(response["output"], facts, cut)


def check_output(output: list, facts: ResponseFacts, cut: bool):
    need(output, "an empty output")
    for item in output:
        check_item(item, facts, cut=cut and item is output[-1])
    calls = [item for item in output if item["type"] == "function_call"]
    ids = [call["call_id"] for call in calls]
    need(len(set(ids)) == len(ids) and not facts.old_call_ids & set(ids), "a call id twice in a conversation", ids)
    need(not facts.one_call or len(calls) < 2, "several calls though one was allowed", calls)
    need(cut or calls or any(item["type"] == "message" for item in output), "neither a message nor a call", output)
    need(cut or calls or not facts.forced, "a forced call was not made", output)


def check_item(item: dict, facts: ResponseFacts, cut: bool):
    check_fields(item, "item", id=str, type=str, status=str)
    need(item["type"] in PREFIXES, "a type of item that clients do not know", item)
    need(item["id"].startswith(PREFIXES[item["type"]]), "id of an item", item)
    # The limit may fall between two items: then the last one is complete.
    need(item["status"] == "completed" or (cut and item["status"] == "incomplete"), "status of an item", item)
    cut = item["status"] == "incomplete"
    if item["type"] == "function_call":
        check_fields(item, "function_call", call_id=str, name=str, arguments=str)
        need(item["call_id"], "an empty call_id", item)
        if not cut:
            check_call(item["name"], item["arguments"], facts.tools, "function_call", facts.forced)
        return
    check_fields(item, "item", content=list)
    for part in item["content"]:
        check_part(part)
    if item["type"] == "reasoning":
        check_fields(item, "reasoning", summary=list)
        need(all(part["type"] == "reasoning_text" and part["text"] for part in item["content"]), "content of a reasoning item", item)
        return
    check_fields(item, "message", role=str)
    need(item["role"] == "assistant" and all(part["type"] == "output_text" for part in item["content"]), "a message", item)
    if facts.json and not cut:
        check_text_of_format("".join(part["text"] for part in item["content"]), facts.schema, "output_text")


def check_part(part: dict):
    check_fields(part, "part", type=str, text=str)
    need(part["type"] in PARTS, "a type of part that clients do not know", part)
    if part["type"] == "output_text":
        check_fields(part, "output_text", annotations=list, logprobs=list)


def check_stream(events: list, facts: ResponseFacts) -> dict:
    """Returns the final response."""
    if events[-1][1] == "[DONE]":
        events = events[:-1]
    parsed = [parse_json(data, "event") for _, data in events]
    for number, ((name, _), event) in enumerate(zip(events, parsed)):
        check_fields(event, "event", type=str, sequence_number=int)
        need(name == event["type"], "the event's name and its type", event)
        need(event["sequence_number"] == number, "sequence_number", event)
    stream = Accumulated(facts)
    for event in parsed:
        stream.add(event)
    need(stream.final is not None, "no terminal event")
    return stream.final


class Accumulated:
    """A response put together from its events, each checked against what came before."""

    def __init__(self, facts: ResponseFacts):
        self.facts, self.id, self.items, self.open, self.final, self.count = facts, None, [], None, None, 0

    def add(self, event: dict):
        need(self.final is None, "an event after the terminal one", event)
        kind = event["type"]
        if self.count == 0:
            need(kind == "response.created", "the first event is not response.created", event)
        self.count += 1
        if kind in ("response.created", "response.in_progress"):
            check_response(event["response"], self.facts, "in_progress")
            need(event["response"]["output"] == [] and event["response"].get("usage") is None, "output before it is made", event)
            self.id = self.id or event["response"]["id"]
            need(event["response"]["id"] == self.id, "the id changed", event)
        elif kind in ENDS.values():
            self.end(event)
        elif kind == "response.output_item.added":
            self.open_item(event)
        elif kind == "response.output_item.done":
            self.close_item(event)
        else:
            self.inside(event, kind)

    def end(self, event: dict):
        self.final = event["response"]
        check_response(self.final, self.facts, event["type"].removeprefix("response."))
        need(self.open is None, "an item was not closed", self.open)
        need(self.final["id"] == self.id, "the id changed", self.final)
        need(self.final["output"] == self.items, "the final output is not what the events said", {"events": self.items, "final": self.final["output"]})

    def open_item(self, event: dict):
        item = event["item"]
        need(self.open is None and event["output_index"] == len(self.items), "output_item.added out of turn", event)
        check_fields(item, "item", id=str, type=str, status=str)
        need(item["status"] == "in_progress", "status of an added item", item)
        if item["type"] == "function_call":
            check_fields(item, "added function_call", call_id=str, name=str, arguments=str)
            need(item["arguments"] == "", "arguments of an added call", item)
        else:
            need(item["content"] == [] and (item["type"] != "reasoning" or item["summary"] == []), "content of an added item", item)
        self.open = {"item": item, "text": "", "parts": [], "part": None, "done": False}

    def close_item(self, event: dict):
        need(self.open is not None and event["output_index"] == len(self.items), "output_item.done out of turn", event)
        item, begun = event["item"], self.open["item"]
        need((item["id"], item["type"]) == (begun["id"], begun["type"]), "identity of an item", item)
        if item["type"] == "function_call":
            need((item["call_id"], item["name"]) == (begun["call_id"], begun["name"]), "identity of a call", item)
            need(self.open["done"] and item["arguments"] == self.open["text"], "arguments differ from the deltas", item)
        else:
            need(self.open["part"] is None, "a part was not closed", event)
            need([part["text"] for part in item["content"]] == self.open["parts"], "text differs from the deltas", item)
        self.items.append(item)
        self.open = None

    def inside(self, event: dict, kind: str):
        """Deltas and parts of the open item."""
        need(self.open is not None, "an event of an item before output_item.added", event)
        item = self.open["item"]
        check_fields(event, "event", item_id=str, output_index=int)
        need(event["item_id"] == item["id"] and event["output_index"] == len(self.items), "item_id or output_index", event)
        if item["type"] == "function_call":
            self.arguments(event, kind)
            return
        check_fields(event, "event", content_index=int)
        need(event["content_index"] == len(self.open["parts"]), "content_index", event)
        expected = "reasoning_text" if item["type"] == "reasoning" else "output_text"
        if kind in ("response.content_part.added", "response.content_part.done"):
            self.part(event, kind.rsplit(".", 1)[1] == "added", expected)
            return
        need(kind in (PARTS[expected] + ".delta", PARTS[expected] + ".done"), "an event that clients do not know here", event)
        need(self.open["part"] == "open", "text outside of a part", event)
        if expected == "output_text":
            check_fields(event, "event", logprobs=list)
        if kind.endswith(".delta"):
            check_fields(event, "event", delta=str)
            self.open["text"] += event["delta"]
        else:
            need(event["text"] == self.open["text"], "the text differs from its deltas", event)
            self.open["part"] = "done"

    def part(self, event: dict, added: bool, expected: str):
        check_part(event["part"])
        need(event["part"]["type"] == expected, "type of a part", event)
        if added:
            need(self.open["part"] is None and event["part"]["text"] == "", "content_part.added", event)
            self.open["part"], self.open["text"] = "open", ""
        else:
            need(self.open["part"] == "done" and event["part"]["text"] == self.open["text"], "content_part.done", event)
            self.open["parts"].append(self.open["text"])
            self.open["part"] = None

    def arguments(self, event: dict, kind: str):
        if kind == "response.function_call_arguments.delta":
            check_fields(event, "event", delta=str)
            need(not self.open["done"], "arguments after their end", event)
            self.open["text"] += event["delta"]
            return
        need(kind == "response.function_call_arguments.done", "an event that clients do not know here", event)
        need(event["arguments"] == self.open["text"], "arguments differ from the deltas", event)
        self.open["done"] = True
