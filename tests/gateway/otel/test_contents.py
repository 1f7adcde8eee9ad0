"""Texts of models and tools: noted where they are wanted, redacted, and cut from their end that matters least."""

import json
from typing import Any

import pytest

from agent.core.ids import RunId
from agent.core.messages import FilePart, Message, Part, TextPart, Thinking, ToolResult, ToolUse, text_message
from agent.providers.provider import Request, SystemPrompt
from agent.providers.replies import Reply
from gateway.otel.contents import ModelContent, NotedContents, ToolContent, attributes_of
from gateway.telemetry.redaction import Redactor

RUN = RunId("run")


def content(*messages: Message, reply: tuple[Part, ...] = (), system: str = "") -> ModelContent:
    request = Request(system=SystemPrompt(stable=system), messages=messages)
    return ModelContent(request, messages, Reply(parts=reply, stop_reason="end_turn"))


def read(about: ModelContent, key: str, most: int = 1_000, secrets: tuple[str, ...] = ()) -> Any:
    return json.loads(attributes_of(about, most, Redactor(secrets))[key])


@pytest.mark.requirement("G-125")
def test_messages_are_written_in_the_conventions_form() -> None:
    call = ToolUse(id="c1", name="read", input={"path": "a.txt"})
    messages = (
        text_message("user", "look"),
        Message(role="assistant", parts=(Thinking(thinking="hm", signature="s"), call)),
        Message(role="user", parts=(ToolResult(tool_use_id="c1", content="seven"),)),
        Message(role="user", parts=(FilePart(path="sent/x", mime_type="image/png", name="x", size=1),)),
    )
    about = content(*messages, reply=(TextPart(text="It is seven."),), system="Be brief.")
    assert read(about, "gen_ai.input.messages") == [
        {"role": "user", "parts": [{"type": "text", "content": "look"}]},
        {
            "role": "assistant",
            "parts": [{"type": "tool_call", "id": "c1", "name": "read", "arguments": '{"path": "a.txt"}'}],
        },
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "seven"}]},
        {"role": "user", "parts": [{"type": "file", "mime_type": "image/png"}]},
    ]
    assert read(about, "gen_ai.output.messages") == [
        {"role": "assistant", "parts": [{"type": "text", "content": "It is seven."}], "finish_reason": "end_turn"}
    ]
    assert read(about, "gen_ai.system_instructions") == [{"type": "text", "content": "Be brief."}]


@pytest.mark.requirement("G-125")
def test_the_newest_messages_are_told_as_far_as_there_is_room() -> None:
    about = content(*(text_message("user", f"{number}" * 50) for number in range(5)))
    found = read(about, "gen_ai.input.messages", most=120)
    assert [message["parts"][0]["content"] for message in found] == ["2" * 20, "3" * 50, "4" * 50]


@pytest.mark.requirement("G-125")
def test_secrets_are_taken_out_before_a_text_is_cut() -> None:
    about = content(text_message("user", "x" * 90 + "correct-horse-battery"))
    (message,) = read(about, "gen_ai.input.messages", most=100, secrets=("correct-horse-battery",))
    assert message["parts"][0]["content"] == "x" * 90 + "[redacted]"
    tool = ToolContent(ToolUse(id="c", name="shell", input={"command": "echo hush-hush-hush"}), "hush-hush-hush")
    assert "hush" not in str(attributes_of(tool, 100, Redactor(("hush-hush-hush",))))


def test_nothing_is_noted_until_it_is_wanted() -> None:
    wanted = False
    noted = NotedContents(lambda: wanted)
    about, use = content(text_message("user", "hello")), ToolUse(id="c", name="read")
    noted.model_answered(RUN, about.request, about.reply)
    noted.tool_ended(RUN, use, "seven")
    assert (noted.take(RUN, ""), noted.take(RUN, "c")) == (None, None)
    wanted = True
    noted.model_answered(RUN, about.request, about.reply)
    noted.tool_ended(RUN, use, "seven")
    assert noted.take(RUN, "") == about
    assert noted.take(RUN, "c") == ToolContent(use, "seven")
    assert noted.take(RUN, "c") is None, "it is given once"
