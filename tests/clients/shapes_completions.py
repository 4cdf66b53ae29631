"""The answers of /v1/completions, whole and streamed."""
from shapes import check_fields, check_usage, is_int, need, parse_json


class CompletionFacts:
    """What a request asked for, as far as its answer shows it."""

    def __init__(self, body: dict, default_model: str):
        prompt = body["prompt"]
        self.model = body.get("model") or default_model
        several = isinstance(prompt, list) and not is_int(prompt[0])
        self.choices = (len(prompt) if several else 1) * (body.get("n") or 1)
        self.limit = body.get("max_tokens") or 16
        self.stops = body.get("stop") or []
        self.echo, self.ignore_eos = bool(body.get("echo")), bool(body.get("ignore_eos"))
        self.prompt_ids = prompt[0] if several and isinstance(prompt[0], list) else None
        self.logprobs = body.get("logprobs")
        options = body.get("stream_options") or {}
        self.include_usage = bool(options.get("include_usage"))
        self.continuous_usage = self.include_usage and bool(options.get("continuous_usage_stats"))


def check_answer(body: dict, facts: CompletionFacts):
    check_fields(body, "body", id=str, object=str, created=int, model=str, choices=list, usage=dict)
    need(body["object"] == "text_completion" and body["id"].startswith("cmpl-") and body["model"] == facts.model, "identity", body)
    need([choice.get("index") for choice in body["choices"]] == list(range(facts.choices)), "indexes of choices", body["choices"])
    for choice in body["choices"]:
        check_fields(choice, "choice", text=str, finish_reason=str, logprobs=(dict, None))
        check_choice(choice, facts)
    check_tokens(body["usage"], facts)


def check_tokens(usage: dict, facts: CompletionFacts):
    check_usage(usage, "usage")
    tokens = usage["completion_tokens"]
    need(tokens <= facts.limit * facts.choices and (not facts.ignore_eos or tokens == facts.limit), "completion_tokens", usage)


def check_choice(choice: dict, facts: CompletionFacts):
    need(choice["finish_reason"] in ("stop", "length"), "finish_reason", choice)
    need(not any(stop in choice["text"] for stop in facts.stops), "the stop string is in the text", choice)
    if facts.logprobs is None:
        need(choice["logprobs"] is None, "logprobs that were not asked for", choice)
        return
    entries = choice["logprobs"]
    check_fields(entries, "logprobs", tokens=list, token_logprobs=list, top_logprobs=list, text_offset=list)
    count = len(entries["tokens"])
    need(all(len(entries[name]) == count for name in ("token_logprobs", "top_logprobs", "text_offset")), "lengths of logprobs", entries)
    first = entries["token_logprobs"][0]
    need((first is None) == facts.echo, "the first token of an echoed prompt, and no other, has no logprob", entries)
    need(all(isinstance(p, (int, float)) and p <= 0 for p in entries["token_logprobs"][1:]), "logprobs", entries)
    need(all(isinstance(top, dict) and top for top in entries["top_logprobs"][1:]), "top_logprobs", entries)
    need("".join(entries["tokens"]) == choice["text"], "tokens and text differ", choice)
    if facts.echo and facts.prompt_ids:
        # The evaluation client counts entries: one for each token of the prompt, then those of the answer.
        need(len(facts.prompt_ids) < count <= len(facts.prompt_ids) + facts.limit, "entries of an echoed prompt", entries)


def check_stream(events: list, facts: CompletionFacts):
    need(all(name is None for name, _ in events) and events[-1][1] == "[DONE]", "the stream does not end with [DONE]")
    chunks = [parse_json(data, "chunk") for _, data in events[:-1]]
    same, reasons, usages = set(), {}, []
    for chunk in chunks:
        check_fields(chunk, "chunk", id=str, object=str, created=int, model=str, choices=list)
        same.add((chunk["id"], chunk["object"], chunk["created"], chunk["model"]))
        for choice in chunk["choices"]:
            check_fields(choice, "choice", index=int, text=str, finish_reason=(str, None), logprobs=(dict, None))
            need(choice["index"] not in reasons, "a chunk after the finish_reason", choice)
            if choice["finish_reason"]:
                reasons[choice["index"]] = choice["finish_reason"]
        if chunk.get("usage"):
            usages.append(chunk["usage"])
        else:
            need(chunk["choices"] and not facts.continuous_usage, "a chunk without choices or usage", chunk)
    need(len(same) == 1 and next(iter(same))[1] == "text_completion", "id, object, created or model", sorted(map(str, same)))
    need(sorted(reasons) == list(range(facts.choices)), "a finish_reason for each choice", reasons)
    need(bool(usages) == facts.include_usage, "usage asked for and sent", usages)
    if usages:
        check_tokens(usages[-1], facts)
