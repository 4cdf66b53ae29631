#!/usr/bin/env python3
"""Replays what 27 clients sent (tests/data/clients/requests.jsonl.xz) and checks that each could use its answer.

    python3 tests/clients/replay.py http://127.0.0.1:8000 [--only TEXT] [--jobs 8] [--show]

Bodies and meaningful headers go out as they were recorded. A line for each request that was answered in a way that its
client could not use; at the end "N passed, N failed"; exits with 1 if one failed.
"""
import argparse
import concurrent.futures
import copy
import http.client
import itertools
import json
import lzma
import pathlib
import sys
import urllib.parse

import shapes
import shapes_chat
import shapes_completions
import shapes_responses
from shapes import Wrong, check_fields, need, parse_json

FILE = pathlib.Path(__file__).resolve().parents[1] / "data" / "clients" / "requests.jsonl.xz"
SECONDS = 60  # without a byte, the longest
ATTEMPTS = 3  # most requests set no limit, and a very small model does not always find an end
ENDPOINTS = {"/v1/chat/completions": (shapes_chat, shapes_chat.ChatFacts),
             "/v1/completions": (shapes_completions, shapes_completions.CompletionFacts),
             "/v1/responses": (shapes_responses, shapes_responses.ResponseFacts)}
# Hop-by-hop, or written by http.client itself.
OWN_HEADERS = {"connection", "transfer-encoding", "expect", "content-length", "host"}


def text_of(content) -> str:
    return "".join(part["text"] for part in content) if isinstance(content, list) else content or ""


class Reply:
    def __init__(self, status: int, headers, text: str):
        self.status, self.headers, self.text = status, headers, text


class Replayer:
    def __init__(self, url: str, requests: list[dict]):
        self.address = urllib.parse.urlsplit(url).netloc
        self.requests = requests
        models = json.loads(self.send("GET", "/v1/models", {}, None).text)
        self.model = models["data"][0]["id"]
        self.vocabulary = self.largest_id() + 1

    def largest_id(self) -> int:
        """Of the model's tokens; recorded prompts of ids may be of a larger vocabulary."""
        low, high = 0, 1 << 20
        while low < high:
            middle = (low + high + 1) // 2
            body = json.dumps({"tokens": [middle]})
            if self.send("POST", "/detokenize", {}, body).status == 200:
                low = middle
            else:
                high = middle - 1
        return low

    def send(self, method: str, path: str, headers: dict, body: str | None) -> Reply:
        connection = http.client.HTTPConnection(self.address, timeout=SECONDS)
        try:
            data = body.encode() if body is not None else None
            chunked = any(name.lower() == "transfer-encoding" for name in headers)
            kept = {name: value for name, value in headers.items() if name.lower() not in OWN_HEADERS}
            if "Expect" in headers:
                kept["Expect"] = headers["Expect"]
            payload = iter([data[i:i + 65536] for i in range(0, len(data), 65536)]) if data and chunked else data
            connection.request(method, path, payload, kept, encode_chunked=chunked)
            response = connection.getresponse()
            raw = response.read()  # raises if the body does not end as HTTP says
            return Reply(response.status, response.headers, raw.decode("utf-8"))
        finally:
            connection.close()

    def replay(self, request: dict):
        """Raises Wrong if the client of `request` could not use the answer."""
        body, path = request["body"], request["path"]
        if body is None:
            self.replay_without_body(request)
            return
        text = body["raw"] if set(body) == {"raw"} else json.dumps(body)
        reply = self.send(request["method"], path, request["headers"], text)
        refused = self.refusal_of(path, body)
        if refused:
            need(reply.status == refused, f"status {reply.status} instead of {refused}", reply.text)
            shapes.check_error(parse_json(reply.text, "body"), refused)
            if body.get("previous_response_id"):
                self.replay_after_its_first_turn(request)
            return
        need(reply.status == 200, f"status {reply.status}", reply.text)
        self.check_answer(path, body, reply)
        if path == "/v1/chat/completions":
            self.check_meaning(body)

    def check_meaning(self, body: dict):
        """What the client said reaches the model: every text, call and tool of the request is in the prompt, in order."""
        reply = self.send("POST", "/v1/chat/completions/render", {}, json.dumps(body))
        need(reply.status == 200, f"status {reply.status} of render", reply.text)
        ids = parse_json(reply.text, "render")["token_ids"]
        prompt = json.loads(self.send("POST", "/detokenize", {}, json.dumps({"tokens": ids})).text)["prompt"]
        for tool in body.get("tools") or []:
            if body.get("tool_choice") != "none":
                need(f"type {tool['function']['name']} = " in prompt, "a tool is not in the prompt", tool["function"]["name"])
        leading = list(itertools.takewhile(lambda m: m["role"] in ("system", "developer"), body["messages"]))
        place = 0
        for number, message in enumerate(body["messages"]):
            if number == len(leading):
                place = prompt.index("<|start|>", prompt.index("<|start|>developer") + 1) if "<|start|>developer" in prompt else 0
            calls = [text for call in message.get("tool_calls") or [] for text in (call["function"]["name"], call["function"]["arguments"])]
            for text in [text_of(message.get("content"))] + calls:
                found = prompt.find(text.strip(), place if number >= len(leading) else 0)
                need(found >= 0, f"messages[{number}] is not in the prompt, or not in its place", text)
                if number >= len(leading):
                    place = found + len(text.strip())

    def refusal_of(self, path: str, body: dict) -> int | None:
        """The status with which this very request must fail, or None."""
        if set(body) == {"raw"}:
            return 400
        if body.get("previous_response_id"):
            return 404
        ids = body.get("prompt") if isinstance(body.get("prompt"), list) else []
        if any(isinstance(i, int) and i >= self.vocabulary for i in ids):
            return 400
        return None

    def check_answer(self, path: str, body: dict, reply: Reply) -> dict | None:
        """Returns the response where there is one to continue."""
        kind = reply.headers["Content-Type"]
        if path in ENDPOINTS:
            module, facts_of = ENDPOINTS[path]
            facts = facts_of(body, self.model)
            if body.get("stream"):
                need(kind.startswith("text/event-stream"), "content type of a stream", kind)
                return module.check_stream(shapes.events_of(reply.text), facts)
            need(kind.startswith("application/json"), "content type", kind)
            answer = parse_json(reply.text, "body")
            (shapes_responses.check_response if module is shapes_responses else module.check_answer)(answer, facts)
            return answer
        answer = parse_json(reply.text, "body")
        if path == "/tokenize":
            check_fields(answer, "body", count=int, max_model_len=int, tokens=list)
            need(answer["count"] == len(answer["tokens"]) > 0, "count", answer)
        else:
            need(path == "/detokenize", "a path that is not known here", path)
            check_fields(answer, "body", prompt=str)
        return None

    def replay_after_its_first_turn(self, request: dict):
        """The turn before is sent, and the ids that it gave put in for the recorded ones."""
        turns = [r for r in self.requests if (r["client"], r["scenario"]) == (request["client"], request["scenario"])]
        first = turns[turns.index(request) - 1]
        reply = self.send("POST", first["path"], first["headers"], json.dumps(first["body"]))
        response = self.check_answer(first["path"], first["body"], reply)
        calls = [item for item in response["output"] if item["type"] == "function_call"]
        need(calls, "the first turn made no call, so the second one cannot be replayed", response["output"])
        body = copy.deepcopy(request["body"])
        body["previous_response_id"] = response["id"]
        for item, call in zip([i for i in body["input"] if i["type"] == "function_call_output"], calls):
            item["call_id"] = call["call_id"]
        reply = self.send("POST", request["path"], request["headers"], json.dumps(body))
        need(reply.status == 200, f"status {reply.status} after the first turn", reply.text)
        self.check_answer(request["path"], body, reply)

    def replay_without_body(self, request: dict):
        method, path = request["method"], request["path"]
        reply = self.send(method, path, request["headers"], None)
        if path == "/v1/nothing":
            need(reply.status == 404, f"status {reply.status} instead of 404")
            shapes.check_error(parse_json(reply.text, "body"), 404)
        elif path == "/metrics":
            # The client asks again only if the first answer is 200.
            need(reply.status in (200, 404), f"status {reply.status}")
            need(method != "HEAD" or reply.text == "", "an answer to HEAD has a body", reply.text)
            need(self.send("HEAD", path, {}, None).status == self.send("GET", path, {}, None).status, "HEAD and GET differ")
        else:
            need(reply.status == 200, f"status {reply.status}", reply.text)
            if path == "/v1/models":
                answer = parse_json(reply.text, "body")
                check_fields(answer, "body", object=str, data=list)
                for model in answer["data"]:
                    shapes.check_model(model)
            elif path.startswith("/v1/models/"):
                shapes.check_model(parse_json(reply.text, "body"))
                need(json.loads(reply.text)["id"] == urllib.parse.unquote(path.removeprefix("/v1/models/")), "id of the model", reply.text)


def read_requests() -> list[dict]:
    with lzma.open(FILE, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("url", help="the server, such as http://127.0.0.1:8000")
    arguments.add_argument("--only", default="", help="requests whose client, scenario or path hold this text")
    arguments.add_argument("--jobs", type=int, default=8, help="requests at a time")
    arguments.add_argument("--show", action="store_true", help="a line for those that passed, too")
    options = arguments.parse_args()
    replayer = Replayer(options.url, read_requests())
    chosen = [(number, request) for number, request in enumerate(replayer.requests)
              if options.only in f"{request['client']} / {request['scenario']} / {request['path']}"]
    failed = 0

    def verdict(numbered):
        number, request = numbered
        name = f"{number} {request['client']} / {request['scenario']} / {request['method']} {request['path']}"
        for attempt in range(1, ATTEMPTS + 1):
            try:
                replayer.replay(request)
                return True, f"ok    {name}"
            except TimeoutError as late:
                error = late
            except Exception as other:  # the verdict, whatever it is
                return False, f"FAIL  {name}: {other if isinstance(other, Wrong) else repr(other)}"
        return False, f"FAIL  {name}: {error!r}, {attempt} times"

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for right, line in pool.map(verdict, chosen):
            failed += not right
            if options.show or not right:
                print(line, flush=True)
    print(f"replayed requests: {len(chosen) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
