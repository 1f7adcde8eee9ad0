"""A session as JSON lines: user `{role, content, timestamp}`, assistant with `tool_calls`, tool with `tool_call_id`.

The shapes are those of B-47. Hidden thinking and what people have undone are left out.
"""

import json
from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection

from agent.core.ids import SessionId
from agent.core.messages import Message, TextPart, ToolResult, ToolUse, flatten
from agent.sessions.store import transcript


def exported(conn: Connection, session: SessionId) -> Iterator[str]:
    """The lines of the session, each ending with a newline, oldest first."""
    for stored in transcript(conn, session):
        if stored.message.user_visible:
            yield from lines_of(stored.message)


def lines_of(message: Message) -> Iterator[str]:
    """The lines of one message: one for each tool result, then one for the rest."""
    timestamp = message.created_at.isoformat() if message.created_at is not None else None
    for result in message.tool_results:
        line: dict[str, Any] = {
            "role": "tool",
            "tool_call_id": result.tool_use_id,
            "content": result.content,
            "timestamp": timestamp,
        }
        if result.taco is not None:  # shortened by a model before it was stored (Z-144)
            line["shortened"] = {"from_tokens": result.taco.original_tokens, "to_tokens": result.taco.compressed_tokens}
        yield _line(line | ({"is_error": True} if result.is_error else {}))
    rest = tuple(part for part in message.parts if not isinstance(part, ToolResult | ToolUse))
    if message.role == "assistant":
        text = "".join(part.text for part in rest if isinstance(part, TextPart))
        line = {"role": "assistant", "content": text, "timestamp": timestamp}
        if message.tool_uses:
            line["tool_calls"] = [
                {"id": use.id, "name": use.name, "arguments": dict(use.input)} for use in message.tool_uses
            ]
        yield _line(line)
    elif rest:
        yield _line({"role": message.role, "content": flatten(rest), "timestamp": timestamp})


def _line(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False) + "\n"
