"""The JSON lines of a session (B-47)."""

import json
from datetime import UTC, datetime

import pytest

from agent.core.messages import FilePart, Message, TextPart, Thinking, ToolResult, ToolUse
from agent.sessions.export import lines_of

AT = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
STAMP = "2026-01-01T12:00:00+00:00"
FILE = FilePart(path="p", mime_type="image/png", name="a.png", size=3)


@pytest.mark.requirement("B-47")
@pytest.mark.parametrize(
    ("message", "lines"),
    [
        pytest.param(
            Message(role="user", parts=(TextPart(text="hí"),), created_at=AT),
            [{"role": "user", "content": "hí", "timestamp": STAMP}],
            id="a person",
        ),
        pytest.param(
            Message(
                role="assistant",
                parts=(
                    Thinking(thinking="hidden", signature="s"),
                    TextPart(text="Look."),
                    ToolUse(id="c1", name="echo", input={"text": "x"}),
                ),
                created_at=AT,
            ),
            [
                {
                    "role": "assistant",
                    "content": "Look.",
                    "timestamp": STAMP,
                    "tool_calls": [{"id": "c1", "name": "echo", "arguments": {"text": "x"}}],
                }
            ],
            id="the model, with a call and without its thinking",
        ),
        pytest.param(
            Message(
                role="user",
                parts=(
                    ToolResult(tool_use_id="c1", content="x"),
                    ToolResult(tool_use_id="c2", content="no", is_error=True),
                ),
                created_at=AT,
            ),
            [
                {"role": "tool", "tool_call_id": "c1", "content": "x", "timestamp": STAMP},
                {"role": "tool", "tool_call_id": "c2", "content": "no", "timestamp": STAMP, "is_error": True},
            ],
            id="two tools",
        ),
        pytest.param(
            Message(role="user", parts=(FILE, TextPart(text="see")), created_at=AT),
            [{"role": "user", "content": "[file: a.png, image/png, 3 bytes]\nsee", "timestamp": STAMP}],
            id="a file is named",
        ),
    ],
)
def test_lines_of(message: Message, lines: list[dict[str, object]]) -> None:
    written = list(lines_of(message))
    assert [json.loads(line) for line in written] == lines
    assert all(line.endswith("\n") for line in written)
