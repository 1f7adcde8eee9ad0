"""Provenance of the values of a tool call: the earlier result that gave them, and whether the model still sees it."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from agent.core.messages import Message, SummaryPart, TextPart, ToolResult, ToolUse

SHORTEST = 3  # characters: a shorter value proves nothing
LONGEST = 200  # a longer one is text that the model composed


class Sources:
    """All messages and results so far, in full, whatever became of them in the window."""

    def __init__(self) -> None:
        self._results: list[str] = []
        self._said: list[str] = []

    def note(self, message: Message) -> None:
        """The message is in the session."""
        for part in message.parts:
            if isinstance(part, ToolResult):
                self._results.append(part.content)
            elif message.role == "user" and isinstance(part, TextPart):
                self._said.append(part.text)

    def taken(self, uses: Sequence[ToolUse]) -> list[str]:
        """The values of the calls that an earlier result holds and that no person said."""
        values = dict.fromkeys(value for use in uses for value in values_of(use.input))
        return [
            value
            for value in values
            if any(holds(text, value) for text in reversed(self._results))
            and not any(holds(text, value) for text in self._said)
        ]


def values_of(arguments: Mapping[str, Any]) -> Iterator[str]:
    """The texts and numbers among the arguments, however deep, that are long enough to be told from chance."""
    for leaf in _leaves(arguments):
        if isinstance(leaf, bool) or not isinstance(leaf, str | int | float):
            continue
        value = str(leaf).strip()
        if SHORTEST <= len(value) <= LONGEST:
            yield value


def holds(text: str, value: str) -> bool:
    """Whether the value stands in the text as a word of its own, not as a piece of a longer one."""
    at = text.find(value)
    while at >= 0:
        before, after = text[at - 1 : at], text[at + len(value) : at + len(value) + 1]
        if not (_is_wordy(before) or _is_wordy(after)):
            return True
        at = text.find(value, at + 1)
    return False


class Readable:
    """Messages as one text each, as a model reads them."""

    def __init__(self) -> None:
        self._texts: WeakKeyDictionary[Message, str] = WeakKeyDictionary()

    def text(self, message: Message) -> str:
        found = self._texts.get(message)
        if found is None:
            found = self._texts[message] = "\n".join(_written(message))
        return found

    def any_holds(self, messages: Iterable[Message], value: str) -> bool:
        """Whether one of the messages shows the value."""
        return any(holds(self.text(message), value) for message in messages)


def _written(message: Message) -> Iterator[str]:
    for part in message.parts:
        match part:
            case TextPart() | SummaryPart():
                yield part.text
            case ToolUse():
                yield f"{part.name} {json.dumps(dict(part.input), ensure_ascii=False)}"
            case ToolResult():
                yield part.content
            case _:
                pass


def _leaves(value: Any) -> Iterator[Any]:
    match value:
        case Mapping():
            for item in value.values():
                yield from _leaves(item)
        case list() | tuple():
            for item in value:
                yield from _leaves(item)
        case _:
            yield value


def _is_wordy(character: str) -> bool:
    return character.isalnum() or character == "_"
