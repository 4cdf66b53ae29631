"""PyPI anthropic over /v1/messages: text, thinking, tools, streams, as its users write them."""
from importlib.metadata import version

import anthropic
from scenarios import BASE_URL, MODEL, run, scenario

client = anthropic.Anthropic(base_url=BASE_URL.removesuffix("/v1"), api_key="none", max_retries=0)
TOOLS = [{"name": "get_weather", "description": "Gets the current weather in a city.",
          "input_schema": {"type": "object", "properties": {"location": {"type": "string"}}, "required": ["location"]}}]
CITIES = {"Paris": "4217", "Oslo": "805", "Rome": "93"}


def ask(text, **more):
    return {"model": MODEL, "max_tokens": 1000, "extra_body": {"temperature": 0}, "messages": [{"role": "user", "content": text}], **more}


@scenario
def text():
    answer = client.messages.create(**ask("What is 12 + 30?", system="Be brief."))
    texts = [block.text for block in answer.content if block.type == "text"]
    assert texts == ["12 + 30 = 42"] and answer.stop_reason == "end_turn" and answer.role == "assistant", answer
    assert answer.id.startswith("msg_") and answer.type == "message" and answer.model == MODEL
    assert answer.usage.input_tokens > 0 and answer.usage.output_tokens > 0


@scenario
def thinking():
    answer = client.messages.create(**ask("What is 12 + 30?", thinking={"type": "enabled", "budget_tokens": 1024}, max_tokens=2000))
    assert [block.type for block in answer.content] == ["thinking", "text"] and answer.content[0].thinking, answer.content


@scenario
def cut_at_max_tokens():
    answer = client.messages.create(**ask("Who are you?", max_tokens=4))
    assert answer.stop_reason == "max_tokens" and answer.usage.output_tokens == 4, answer


@scenario
def three_questions_with_tools_streamed():
    """Whole messages go back, thinking blocks with them."""
    messages, ids = [], []
    for city, value in CITIES.items():
        messages.append({"role": "user", "content": f"What is the weather in {city}?"})
        for turn in range(2):
            with client.messages.stream(model=MODEL, max_tokens=1000, extra_body={"temperature": 0}, messages=messages, tools=TOOLS) as stream:
                kinds = {event.type for event in stream}
                answer = stream.get_final_message()
            assert {"message_start", "content_block_start", "content_block_stop", "message_delta", "message_stop"} <= kinds, kinds
            messages.append({"role": "assistant", "content": answer.content})
            if turn == 0:
                call = answer.content[-1]
                assert answer.stop_reason == "tool_use" and call.type == "tool_use" and call.input == {"location": city}, answer
                ids.append(call.id)
                messages.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": value}]})
        assert value in answer.content[-1].text and answer.stop_reason == "end_turn", answer
    assert len(set(ids)) == 3


@scenario
def tool_runner():
    """The client's own loop. It leaves the history to the server unless it is told that it must not."""
    asked = []

    @anthropic.beta_tool
    def get_weather(location: str) -> str:
        """Gets the current weather in a city.

        Args:
            location: the city
        """
        asked.append(location)
        return CITIES[location]

    for stream in (False, True):
        runner = client.beta.messages.tool_runner(stream=stream, tools=[get_weather], **ask("What is the weather in Paris?"))
        answers = [turn.get_final_message() if stream else turn for turn in runner]
        assert [answer.stop_reason for answer in answers] == ["tool_use", "end_turn"], answers
        assert CITIES["Paris"] in answers[-1].content[-1].text, answers
    assert asked == ["Paris", "Paris"], asked


@scenario
def text_stream():
    with client.messages.stream(**ask("What is 12 + 30?")) as stream:
        assert "".join(stream.text_stream) == "12 + 30 = 42" == stream.get_final_text()
        usage = stream.get_final_message().usage
    assert usage.input_tokens > 0 and usage.output_tokens > 0


@scenario
def tokens_counted():
    count = client.messages.count_tokens(model=MODEL, messages=ask("Hi")["messages"], tools=TOOLS)
    answer = client.messages.create(**ask("Hi", tools=TOOLS))
    usage = answer.usage  # what came out of the cache is counted apart
    assert count.input_tokens == usage.input_tokens + usage.cache_read_input_tokens, (count, usage)


@scenario
def errors_are_typed():
    for kind, request in ((anthropic.NotFoundError, {"model": "no-such"}), (anthropic.BadRequestError, {"max_tokens": 0})):
        try:
            client.messages.create(**{**ask("Hi"), **request})
        except kind as error:
            assert error.body["type"] == "error" and error.body["error"]["message"], error.body
        else:
            raise AssertionError(f"no {kind.__name__}")


run("anthropic " + version("anthropic"))
