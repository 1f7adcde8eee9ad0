"""Histories in a form that a server takes which refuses calls, calls without words, long ids of calls, or a system
message. Pure.

What is made of a message is kept as long as that message lives, so that a history is encoded once here as well.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from weakref import WeakKeyDictionary

from agent.core.messages import Message, Part, RedactedThinking, TextPart, Thinking, ToolResult, ToolUse
from agent.providers.json_bytes import dumps
from agent.providers.tool_ids import short_id, wire_id


class Rewritten:
    """The messages as `change` makes them; those it gives back as they were are the same objects."""

    def __init__(self, change: Callable[[Message], Message]) -> None:
        self._change = change
        self._kept: WeakKeyDictionary[Message, Message] = WeakKeyDictionary()

    def of(self, messages: Sequence[Message]) -> Sequence[Message]:
        return [self._of(message) for message in messages]

    def _of(self, message: Message) -> Message:
        changed = self._change(message) if (kept := self._kept.get(message)) is None else kept
        if changed is not message and kept is None:
            self._kept[message] = changed
        return changed


class SystemFirst:
    """The system prompt before the first person's words."""

    def __init__(self) -> None:
        self._kept: WeakKeyDictionary[Message, tuple[str, Message]] = WeakKeyDictionary()

    def of(self, text: str, messages: Sequence[Message]) -> Sequence[Message]:
        if not text or not messages:
            return messages
        first, *rest = messages
        kept = self._kept.get(first)
        if kept is None or kept[0] != text:
            kept = self._kept[first] = (text, replace(first, parts=(TextPart(text=text), *first.parts)))
        return [kept[1], *rest]


def in_words(message: Message) -> Message:
    """The message with its calls and results told in words, for a model without tools."""
    if not message.tool_uses and not message.tool_results:
        return message
    parts = tuple(told for part in message.parts if (told := _told(part)) is not None)
    return replace(message, parts=parts)


def with_content(message: Message) -> Message:
    """The message with some content beside its calls, for a server that takes none that is null."""
    if not message.tool_uses or any(isinstance(part, TextPart) and part.text for part in message.parts):
        return message
    return replace(message, parts=(TextPart(text=" "), *message.parts))


def with_short_ids(message: Message) -> Message:
    """The message with ids of nine letters and digits, which is all that Mistral's API takes."""
    if not message.tool_uses and not message.tool_results:
        return message
    return replace(message, parts=tuple(_short(part) for part in message.parts))


def _told(part: Part) -> Part | None:
    match part:
        case ToolUse():
            return TextPart(text=f"(I called the tool {part.name} with {dumps(part.input).decode()}.)")
        case ToolResult():
            return TextPart(text=f"(The tool's {'error' if part.is_error else 'answer'}:)\n{part.content}")
        case Thinking() | RedactedThinking():
            return None  # it belongs to calls
        case _:
            return part


def _short(part: Part) -> Part:
    match part:
        case ToolUse():
            return replace(part, id=short_id(wire_id(part.id)))
        case ToolResult():
            return replace(part, tool_use_id=short_id(wire_id(part.tool_use_id)))
        case _:
            return part
