"""PyPI openai-agents over both of its models: loops of tool calls whose items, reasoning included, go back."""
import json
from importlib.metadata import version

from agents import (Agent, ModelSettings, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, SQLiteSession,
                    function_tool, set_tracing_disabled)
from openai import AsyncOpenAI
from openai.types.shared import Reasoning
from pydantic import BaseModel
from scenarios import BASE_URL, MODEL, run, scenario

set_tracing_disabled(True)  # nothing is sent elsewhere
client = AsyncOpenAI(base_url=BASE_URL, api_key="none", max_retries=0)
KINDS = {"responses": OpenAIResponsesModel, "chat": OpenAIChatCompletionsModel}


class Person(BaseModel):
    name: str
    age: int


@function_tool
def get_weather(location: str) -> str:
    """Gets the current weather in a city."""
    return {"Paris": "4217", "Oslo": "805", "Rome": "93"}[location]


@function_tool
def get_bakum(name: str) -> str:
    """Gets the bakum."""
    return '{"bakum":731}'


@function_tool
def open_lorin(level: int) -> str:
    """Opens the lorin."""
    return f'{{"result":{level + 1000}}}'


def agent(kind: str, **more) -> Agent:
    settings = ModelSettings(temperature=0, reasoning=Reasoning(effort="medium", summary="auto"), include_usage=True,
                             store=False, parallel_tool_calls=False)
    return Agent(name="A", instructions="Use the tools when needed.", model=KINDS[kind](MODEL, client),
                 **{"tools": [get_weather, get_bakum, open_lorin], "model_settings": settings, **more})


def calls_of(result) -> list:
    return [(item.raw_item.name, json.loads(item.raw_item.arguments)) for item in result.new_items if item.type == "tool_call_item"]


def kinds_of(result) -> list:
    return [item.type for item in result.new_items]


for kind in KINDS:
    async def three_turns_of_one_run(kind=kind):
        """Two calls, the second one with the first one's result, then the answer: the model is asked three times."""
        result = await Runner.run(agent(kind), "First get the bakum with name kelor, then open the lorin with level the result.")
        assert calls_of(result) == [("get_bakum", {"name": "kelor"}), ("open_lorin", {"level": 731})], calls_of(result)
        assert "1731" in result.final_output and len(result.raw_responses) == 3, result.final_output
        assert kinds_of(result).count("reasoning_item") == 3, kinds_of(result)
        assert result.context_wrapper.usage.total_tokens > 0

    async def three_questions_streamed_in_a_session(kind=kind):
        """The whole history is sent again with every question, reasoning items and ids of earlier answers with it."""
        session = SQLiteSession("s")
        for city, value in (("Paris", "4217"), ("Oslo", "805"), ("Rome", "93")):
            result = Runner.run_streamed(agent(kind), f"What is the weather in {city}?", session=session)
            raw = [event.data.type async for event in result.stream_events() if event.type == "raw_response_event"]
            calls = calls_of(result)
            # A small model may ask twice.
            assert calls and all(call == ("get_weather", {"location": city}) for call in calls), calls
            assert value in result.final_output and raw.count("response.completed") == len(calls) + 1, (result.final_output, raw)
            assert kinds_of(result) == ["reasoning_item", "tool_call_item", "tool_call_output_item"] * len(calls) + [
                "reasoning_item", "message_output_item"], kinds_of(result)
        items = await session.get_items()
        ids = [item["call_id"] for item in items if item.get("type") == "function_call"]
        assert len(set(ids)) == len(ids) >= 3, ids

    async def output_type(kind=kind):
        result = await Runner.run(agent(kind, tools=[], output_type=Person), "Fill in the record. name: Anna, age: 42.")
        assert result.final_output == Person(name="Anna", age=42)

    for function in (three_turns_of_one_run, three_questions_streamed_in_a_session, output_type):
        function.__name__ = f"{kind}_{function.__name__}"
        scenario(function)

run("openai-agents " + version("openai-agents"))
