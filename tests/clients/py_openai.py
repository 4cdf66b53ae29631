"""PyPI openai, as its users write it: every check is about what the package hands to the caller."""
import json
from importlib.metadata import version
from typing import Literal

import openai
from openai import AsyncOpenAI, OpenAI
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import BaseModel, TypeAdapter
from scenarios import BASE_URL, MODEL, run, scenario

client = OpenAI(base_url=BASE_URL, api_key="none", max_retries=0)
ASK = "What is the weather in Paris?"
WEATHER = {"type": "object", "properties": {"location": {"type": "string"}}, "required": ["location"],
           "additionalProperties": False}
TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "Gets the current weather in a city.",
                                           "parameters": WEATHER}},
         {"type": "function", "function": {"name": "get_time", "description": "Gets the current time in a city.",
                                           "parameters": {"type": "object", "properties": {"city": {"type": "string"}},
                                                          "required": ["city"]}}}]
FLAT_TOOLS = [{"type": "function", "strict": False, **tool["function"]} for tool in TOOLS]


class Person(BaseModel):
    name: str
    age: int
    colour: Literal["red", "green", "blue"]


RECORD = "Fill in the record. name: Anna, age: 42, colour: green."


def user(text):
    return [{"role": "user", "content": text}]


@scenario
def models():
    ids = [model.id for model in client.models.list()]
    assert MODEL in ids and "rosebud" in ids, ids
    found = client.models.retrieve(MODEL)  # the package sends the slash as %2F
    assert found.id == MODEL and found.object == "model" and isinstance(found.created, int) and found.owned_by, found


@scenario
def chat():
    answer = client.chat.completions.create(
        model=MODEL, messages=[{"role": "developer", "content": [{"type": "text", "text": "Be brief."}]}, *user("What is 12 + 30?")],
        temperature=0, seed=7, reasoning_effort="low", max_completion_tokens=200, user="u", store=False,
        metadata={"k": "v"}, stop=None, logit_bias={}, service_tier="auto")
    choice, usage = answer.choices[0], answer.usage
    assert choice.message.content == "12 + 30 = 42" and choice.message.reasoning, choice
    assert choice.finish_reason == "stop" and choice.index == 0 and choice.message.role == "assistant"
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens > 0
    assert 0 < usage.completion_tokens_details.reasoning_tokens < usage.completion_tokens
    assert usage.prompt_tokens_details.cached_tokens >= 0
    assert answer.id.startswith("chatcmpl-") and answer.object == "chat.completion" and answer._request_id


@scenario
def chat_stream():
    text = thought = ""
    usage, reasons, ids = None, [], set()
    for chunk in client.chat.completions.create(model=MODEL, messages=user("What is 12 + 30?"), temperature=0, stream=True,
                                                stream_options={"include_usage": True}):
        ids.add((chunk.id, chunk.created, chunk.model, chunk.object))
        usage = chunk.usage or usage
        for choice in chunk.choices:
            text += choice.delta.content or ""
            thought += getattr(choice.delta, "reasoning", None) or ""
            reasons.append(choice.finish_reason)
    assert text == "12 + 30 = 42" and thought and usage.completion_tokens, (text, thought, usage)
    assert [r for r in reasons if r] == ["stop"] and len(ids) == 1, (reasons, ids)


@scenario
def chat_n_2_and_logprobs():
    answer = client.chat.completions.create(model=MODEL, messages=user("Hi"), n=2, logprobs=True, top_logprobs=2,
                                            temperature=1, seed=3)
    assert [choice.index for choice in answer.choices] == [0, 1]
    for choice in answer.choices:
        entries = choice.logprobs.content
        assert "".join(entry.token for entry in entries).endswith(choice.message.content)
        assert all(entry.logprob <= 0 and len(entry.top_logprobs) == 2 for entry in entries)


@scenario
def chat_stop_at_the_length_limit():
    answer = client.chat.completions.create(model=MODEL, messages=user("Hi"), max_tokens=3)
    assert answer.choices[0].finish_reason == "length" and answer.usage.completion_tokens == 3


@scenario
def chat_tool_loop_with_the_message_dumped():
    messages = user(ASK)
    answer = client.chat.completions.create(model=MODEL, messages=messages, tools=TOOLS, temperature=0)
    message = answer.choices[0].message
    call = message.tool_calls[0]
    assert answer.choices[0].finish_reason == "tool_calls" and call.type == "function" and message.content is None
    assert (call.function.name, json.loads(call.function.arguments)) == ("get_weather", {"location": "Paris"})
    messages += [message.model_dump(), {"role": "tool", "tool_call_id": call.id, "content": '{"result":4217}'}]
    answer = client.chat.completions.create(model=MODEL, messages=messages, tools=TOOLS, temperature=0)
    assert "4217" in answer.choices[0].message.content, answer.choices[0].message


@scenario
def chat_stream_helper_tool_loop():
    messages = user(ASK)
    with client.chat.completions.stream(model=MODEL, messages=messages, tools=TOOLS, temperature=0) as stream:
        kinds = [event.type for event in stream]
        message = stream.get_final_completion().choices[0].message
    assert "tool_calls.function.arguments.delta" in kinds and "tool_calls.function.arguments.done" in kinds
    call = message.tool_calls[0]
    assert json.loads(call.function.arguments) == {"location": "Paris"}
    messages += [message.to_dict(), {"role": "tool", "tool_call_id": call.id, "content": [{"type": "text", "text": "4217"}]}]
    with client.chat.completions.stream(model=MODEL, messages=messages, tools=TOOLS, temperature=0) as stream:
        assert "4217" in stream.until_done().get_final_completion().choices[0].message.content


@scenario
def chat_tool_choice_required_and_named():
    for choice, names in (("required", {"get_weather", "get_time"}),
                          ({"type": "function", "function": {"name": "get_time"}}, {"get_time"})):
        answer = client.chat.completions.create(model=MODEL, messages=user("Hello!"), tools=TOOLS, tool_choice=choice,
                                                parallel_tool_calls=False, temperature=0)
        call, = answer.choices[0].message.tool_calls
        arguments = json.loads(call.function.arguments)
        assert call.function.name in names, call
        assert set(arguments) == {"location" if call.function.name == "get_weather" else "city"}, arguments
    answer = client.chat.completions.create(model=MODEL, messages=user(ASK), tools=TOOLS, tool_choice="none", temperature=0)
    assert not answer.choices[0].message.tool_calls and answer.choices[0].message.content


@scenario
def chat_parse():
    answer = client.chat.completions.parse(model=MODEL, messages=user(RECORD), response_format=Person, temperature=0)
    assert answer.choices[0].message.parsed == Person(name="Anna", age=42, colour="green"), answer.choices[0].message
    with client.chat.completions.stream(model=MODEL, messages=user(RECORD), response_format=Person, temperature=0) as stream:
        assert stream.get_final_completion().choices[0].message.parsed == Person(name="Anna", age=42, colour="green")


@scenario
def chat_parse_with_a_strict_tool():
    tool = openai.pydantic_function_tool(Person, name="set_record", description="Sets the record.")
    answer = client.chat.completions.parse(model=MODEL, messages=user("set the record with name Anna, age 42, colour green"),
                                           tools=[tool], temperature=0,
                                           tool_choice={"type": "function", "function": {"name": "set_record"}})
    assert isinstance(answer.choices[0].message.tool_calls[0].function.parsed_arguments, Person)


@scenario
def chat_json_object():
    answer = client.chat.completions.create(model=MODEL, messages=user("Answer with JSON: age is 42."), temperature=0,
                                            response_format={"type": "json_object"})
    assert isinstance(json.loads(answer.choices[0].message.content), dict)


@scenario
def responses():
    answer = client.responses.create(model=MODEL, input="What is 12 + 30?", instructions="Be brief.", temperature=0,
                                     reasoning={"effort": "low", "summary": "auto"}, store=False, max_output_tokens=200,
                                     include=["reasoning.encrypted_content"], text={"verbosity": "low"}, truncation="auto")
    assert answer.output_text == "12 + 30 = 42" and answer.status == "completed", answer
    assert [item.type for item in answer.output] == ["reasoning", "message"]
    assert answer.output[0].content[0].text and answer.output[0].summary == []
    assert answer.usage.total_tokens == answer.usage.input_tokens + answer.usage.output_tokens
    assert answer.usage.output_tokens_details.reasoning_tokens > 0 and answer.usage.input_tokens_details.cached_tokens >= 0


@scenario
def responses_tool_loop_with_items_passed_back():
    items = [{"role": "user", "content": [{"type": "input_text", "text": ASK}]}]
    answer = client.responses.create(model=MODEL, input=items, tools=FLAT_TOOLS, parallel_tool_calls=False, temperature=0)
    assert [item.type for item in answer.output] == ["reasoning", "function_call"], answer.output
    call = answer.output[1]
    assert call.name == "get_weather" and json.loads(call.arguments) == {"location": "Paris"}
    items += [item.to_dict() for item in answer.output]
    items.append({"type": "function_call_output", "call_id": call.call_id, "output": "4217"})
    answer = client.responses.create(model=MODEL, input=items, tools=FLAT_TOOLS, temperature=0)
    assert "4217" in answer.output_text, answer.output


@scenario
def responses_stream_continued_by_previous_response_id():
    with client.responses.stream(model=MODEL, input=ASK, tools=FLAT_TOOLS, temperature=0) as stream:
        kinds = [event.type for event in stream]
        first = stream.get_final_response()
    assert kinds[0] == "response.created" and kinds[-1] == "response.completed"
    assert {"response.reasoning_text.delta", "response.reasoning_text.done", "response.function_call_arguments.delta",
            "response.function_call_arguments.done"} <= set(kinds), kinds
    call = first.output[-1]
    with client.responses.stream(model=MODEL, previous_response_id=first.id, tools=FLAT_TOOLS, temperature=0,
                                 input=[{"type": "function_call_output", "call_id": call.call_id, "output": "4217"}]) as stream:
        text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
        second = stream.get_final_response()
    assert "4217" in second.output_text == text and second.previous_response_id == first.id
    assert client.responses.retrieve(second.id).output_text == text


@scenario
def responses_parse():
    answer = client.responses.parse(model=MODEL, input=RECORD, text_format=Person, temperature=0)
    assert answer.output_parsed == Person(name="Anna", age=42, colour="green"), answer.output
    with client.responses.stream(model=MODEL, input=RECORD, text_format=Person, temperature=0) as stream:
        assert stream.get_final_response().output_parsed == Person(name="Anna", age=42, colour="green")


@scenario
def completions():
    answer = client.completions.create(model=MODEL, prompt=["What is", "Hello"], max_tokens=6, logprobs=1, temperature=0)
    assert [choice.index for choice in answer.choices] == [0, 1] and answer.usage.completion_tokens <= 12
    for choice in answer.choices:
        assert "".join(choice.logprobs.tokens) == choice.text and len(choice.logprobs.token_logprobs) == len(choice.logprobs.tokens)
    text = "".join(chunk.choices[0].text for chunk in client.completions.create(
        model=MODEL, prompt="What is", max_tokens=6, temperature=0, stream=True))
    assert text == answer.choices[0].text, (text, answer.choices[0].text)


@scenario
def errors_are_typed():
    for kind, call in ((openai.NotFoundError, lambda: client.chat.completions.create(model="no-such", messages=user("Hi"))),
                       (openai.NotFoundError, lambda: client.models.retrieve("no-such")),
                       (openai.NotFoundError, lambda: client.responses.retrieve("resp_none")),
                       (openai.BadRequestError, lambda: client.chat.completions.create(model=MODEL, messages=user("Hi"), n=0)),
                       (openai.BadRequestError, lambda: client.responses.create(model=MODEL, input="Hi", max_output_tokens=-1))):
        try:
            call()
        except kind as error:
            assert error.message and isinstance(error.body, dict) and "param" in error.body, error.body
            assert error.code is None or isinstance(error.code, str)
        else:
            raise AssertionError(f"no {kind.__name__}")


@scenario
def what_is_declared_is_there():
    """The package reads leniently; its own types, taken at their word, find a field that is missing or of another type."""
    for more in ({}, {"n": 2, "logprobs": True, "top_logprobs": 2}, {"tools": TOOLS, "tool_choice": "required"}, {"max_tokens": 4}):
        request = {"model": MODEL, "messages": user(ASK), **more}
        ChatCompletion.model_validate(client.chat.completions.create(**request).to_dict())
        for chunk in client.chat.completions.create(**request, stream=True, stream_options={"include_usage": True}):
            ChatCompletionChunk.model_validate(chunk.to_dict())
    event_type = TypeAdapter(ResponseStreamEvent)
    for more in ({}, {"tools": FLAT_TOOLS, "tool_choice": "required"}, {"max_output_tokens": 5}, {"background": True},
                 {"include": ["message.output_text.logprobs"], "top_logprobs": 2, "metadata": {"a": "b"}}):
        request = {"model": MODEL, "input": ASK, **more}
        Response.model_validate(client.responses.create(**request).to_dict())
        for event in client.responses.create(**request, stream=True):
            event_type.validate_python(event.to_dict())


@scenario
async def eight_at_once():
    import asyncio
    many = AsyncOpenAI(base_url=BASE_URL, api_key="none", max_retries=0)
    answers = await asyncio.gather(*[many.chat.completions.create(model=MODEL, messages=user(f"What is {i}0 + 7?"), temperature=0)
                                     for i in range(1, 9)])
    assert [a.choices[0].message.content for a in answers] == [f"{i}0 + 7 = {i}7" for i in range(1, 9)]


run("openai " + version("openai"))
