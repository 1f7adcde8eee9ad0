"""The demo: says what it is, calls tools for real, and is the same every time."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.core.clock import SystemClock
from agent.core.messages import FilePart, Message, TextPart, ToolResult, ToolUse, text_message
from agent.core.tools import ToolSpec
from agent.goals.goal import completion_pattern
from agent.goals.settings import GoalSettings
from agent.providers.demo.replies import LONG, MARKDOWN, Call, Conversation, Words, reply_to
from agent.providers.provider import ToolSchema, Usage
from agent.providers.registry import LazyProvider, ProviderDeps
from agent.providers.settings import ProviderSettings
from agent.tools.calculate import TimeTools, calculate
from tests.contracts.provider_contract import asks, hear

SPECS: dict[str, ToolSpec] = {spec.name: spec for spec in (calculate.spec, TimeTools.current_time.spec)}


def answer(text: str, tools: dict[str, ToolSpec] = SPECS) -> Words | Call:
    return reply_to(Conversation(messages=[text_message("user", text)], tools=tools))


@pytest.mark.parametrize(
    ("text", "tool", "arguments"),
    [
        ("what time is it", "current_time", {}),
        ("What's the time?", "current_time", {}),
        ("what time is it in Europe/Berlin please", "current_time", {"zone": "Europe/Berlin"}),
        ("what is 12*7", "calculate", {"expression": "12*7"}),
        ("what is 12 × 7?", "calculate", {"expression": "12 * 7"}),
        ("calculate (1 + 2) ^ 3, please", "calculate", {"expression": "(1 + 2) ** 3"}),
        ("10-3", "calculate", {"expression": "10-3"}),
        ("how much is 10 - 3?", "calculate", {"expression": "10 - 3"}),
    ],
)
def test_it_calls_tools(text: str, tool: str, arguments: dict[str, Any]) -> None:
    reply = answer(text)
    assert isinstance(reply, Call)
    assert (reply.tool, reply.arguments) == (tool, arguments)


@pytest.mark.parametrize("text", ["meet me on 2026-11-21", "call 030-1234-56", "I have 3 cats", "what is 12*7"])
def test_it_does_not_calculate_what_is_no_sum_or_without_a_tool(text: str) -> None:
    assert isinstance(answer(text, {} if "*" in text else SPECS), Words)


@pytest.mark.parametrize("text", ["hello", "Hi!", "/start", "help", "tell me about love", ""])
def test_it_says_that_it_is_a_demo_and_how_to_get_a_real_model(text: str) -> None:
    reply = answer(text)
    assert isinstance(reply, Words)
    assert "demo" in reply.text
    assert "ANTHROPIC_API_KEY" in reply.text
    assert "tieline init" in reply.text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("echo  **exactly** this\n ", "**exactly** this"),
        ("markdown", MARKDOWN),
        ("a long answer please", LONG),
        ("count to 3", "1 2 3"),
    ],
)
def test_samples(text: str, said: str) -> None:
    reply = answer(text)
    assert isinstance(reply, Words)
    assert reply.text == said


def test_nothing_that_it_says_by_itself_reaches_a_goal() -> None:
    reaches = completion_pattern(GoalSettings().completion_phrases)
    assert reaches is not None
    for text in ("hello", "help", "thanks", "bye", "markdown", "a long answer please", "count to 20", "something else"):
        reply = answer(text)
        assert isinstance(reply, Words)
        assert not reaches.search(reply.text), text


def test_the_samples_hold_what_they_promise() -> None:
    for mark in ("```python", "| --- |", "- [x]", "> ", "1. ", "👩‍🚀", "](https://"):
        assert mark in MARKDOWN
    assert len(LONG) > 6000
    assert LONG.count("```") % 2 == 0


@pytest.mark.parametrize(
    ("use", "result", "said"),
    [
        (("calculate", {"expression": "12*7"}), ("84", False), "`12*7` is **84**."),
        (("current_time", {}), ("2026-01-01T12:00:00Z", False), "The clock says: **2026-01-01T12:00:00Z**."),
        (("calculate", {"expression": "1/0"}), ("division by zero", True), "That did not work: division by zero"),
        (("schedule_deferred", {}), ("#1 [reminder]", False), "It is set, and it will come. `/schedules` shows it."),
        (("other", {}), ("so be it", False), "so be it"),
    ],
)
def test_it_tells_what_a_tool_said(use: tuple[str, dict[str, Any]], result: tuple[str, bool], said: str) -> None:
    messages = [
        text_message("user", "go"),
        Message(role="assistant", parts=(ToolUse(id="c1", name=use[0], input=use[1]),)),
        Message(role="user", parts=(ToolResult(tool_use_id="c1", content=result[0], is_error=result[1]),)),
    ]
    assert reply_to(Conversation(messages=messages, tools=SPECS)) == Words(text=said)


def test_it_names_files() -> None:
    file = FilePart(path="a", mime_type="image/png", name="cat.png", size=12345)
    reply = reply_to(Conversation(messages=[Message(role="user", parts=(TextPart(text="look"), file))], tools={}))
    assert isinstance(reply, Words)
    assert "**cat.png** (image/png, 12,345 bytes)" in reply.text
    assert "look" in reply.text


@pytest.mark.slow
async def test_it_counts_all_that_a_model_would_have_to_read(tmp_path: Path) -> None:
    demo = LazyProvider(ProviderSettings(name="demo", type="demo"), ProviderDeps(home=tmp_path, clock=SystemClock()))
    short, tools = asks("hello"), asks("hello", tools=ToolSchema(specs=tuple(SPECS.values())))
    long = replace(short, messages=(*(text_message("user", "x" * 4000),) * 3, *short.messages))
    counted = []
    for request in (short, tools, long):
        heard = await hear(demo, request)
        counted.append(sum(chunk.prompt for chunk in heard.chunks if isinstance(chunk, Usage)))
    assert counted[1] > counted[0] + 50
    assert counted[2] > counted[0] + 2_900


async def test_the_same_question_has_the_same_answer(tmp_path: Path) -> None:
    settings = ProviderSettings(name="demo", type="demo")
    first = LazyProvider(settings, ProviderDeps(home=tmp_path, clock=SystemClock()))
    second = LazyProvider(settings, ProviderDeps(home=tmp_path, clock=SystemClock()))
    one, two = await hear(first, asks("hello")), await hear(second, asks("hello"))
    assert one.chunks == two.chunks
    assert (first.model, first.prices) == ("demo", second.prices)
