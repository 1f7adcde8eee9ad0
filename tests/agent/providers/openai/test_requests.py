"""Histories for servers that refuse a part of the form."""

import json
import re
from typing import Any

import pytest

from agent.core.messages import Message, TextPart, Thinking, ToolResult, ToolUse, text_message
from agent.core.tools import ToolSpec
from agent.providers.openai.requests import Dialect, Encoder, SystemFirst
from agent.providers.provider import Request, SystemPrompt, ToolSchema

TOOL = ToolSpec(name="echo", description="", schema={"type": "object", "properties": {}})


def history() -> list[Message]:
    first = (Thinking(thinking="hm", signature="reasoning", family="openai"), ToolUse(id="call_1", name="echo"))
    second = (ToolUse(id="call_1", name="echo"), ToolUse(id="abcdefgh9", name="echo"))
    return [
        text_message("user", "go"),
        Message(role="assistant", parts=first),
        Message(role="user", parts=(ToolResult(tool_use_id="call_1", content="one"),)),
        Message(role="assistant", parts=second),
        Message(
            role="user",
            parts=(
                ToolResult(tool_use_id="call_1", content="two", is_error=True),
                ToolResult(tool_use_id="abcdefgh9", content="three"),
                TextPart(text="go on"),
            ),
        ),
    ]


def encoded(encoder: Encoder, messages: list[Message], owner: object = None, **refused: bool) -> dict[str, Any]:
    system = SystemPrompt("You are one.", "Today.")
    request = Request(system=system, messages=messages, tools=ToolSchema((TOOL,)), owner=owner)
    body: dict[str, Any] = json.loads(encoder.body(request, model="m", dialect=Dialect(**refused)))
    return body


def test_without_tools_calls_and_results_are_words() -> None:
    body = encoded(Encoder("openai"), history(), tools=False)
    assert "tools" not in body
    assert [message["role"] for message in body["messages"]] == [
        "system",
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
    ]
    assert all(set(message) == {"role", "content"} for message in body["messages"])
    assert body["messages"][-1]["content"].endswith("error:)\ntwo\n\n(The tool's answer:)\nthree\n\ngo on")


def test_short_ids_are_of_nine_letters_and_digits_and_unique() -> None:
    body = encoded(Encoder("openai"), history(), long_ids=False)
    made = [call["id"] for message in body["messages"] for call in message.get("tool_calls", [])]
    answered = [message["tool_call_id"] for message in body["messages"] if message["role"] == "tool"]
    assert made == answered
    assert len(set(made)) == 3
    assert all(re.fullmatch(r"[A-Za-z0-9]{9}", id) for id in made)
    assert made[2] == "abcdefgh9"


@pytest.mark.requirement("Z-17")
def test_the_system_prompt_stands_before_the_first_words() -> None:
    messages = history()
    body = encoded(Encoder("openai"), messages, system=False)
    assert [message["role"] for message in body["messages"]][:2] == ["user", "assistant"]
    assert body["messages"][0]["content"] == "You are one.\n\nToday.\n\ngo"
    assert messages[0].content == "go"


def test_what_was_made_is_made_once_so_that_the_history_stays_sealed() -> None:
    encoder, messages, owner = Encoder("openai"), history(), text_message("user", "stands for the conversation")
    refused = {"tools": False, "system": False, "repeats": False}
    first = encoded(encoder, messages, owner, **refused)
    longer = [*messages, text_message("assistant", "well"), text_message("user", "then")]
    second = encoded(encoder, longer, owner, **refused)
    assert second["messages"][: len(first["messages"])] == first["messages"]
    joined = SystemFirst()
    assert joined.of("You are one.", messages)[0] is joined.of("You are one.", longer)[0]
