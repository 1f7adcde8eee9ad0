"""Texts that go along with spans where the operator wants that: noted by reference in the turn, written out after it.

Every text is redacted and cut. The forms are those of the GenAI semantic conventions.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agent.core.bounded_map import BoundedMap
from agent.core.ids import RunId
from agent.core.messages import FilePart, Message, Part, SummaryPart, TextPart, ToolResult, ToolUse
from agent.core.untrusted_text import beginning_of
from agent.providers.provider import Request
from agent.providers.replies import Reply

MOST_NOTED = 100  # calls that were heard of and whose span was not made yet
LEAST_LEFT = 20  # characters; fewer are no text any more

Redact = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class ModelContent:
    """A request and the reply to it."""

    request: Request
    messages: tuple[Message, ...]
    reply: Reply


@dataclass(frozen=True, slots=True)
class ToolContent:
    """The arguments of a call of a tool, and its result."""

    use: ToolUse
    result: str


Content = ModelContent | ToolContent


class NotedContents:
    """Keeps the promise of `agent.run.contents.Contents`; `wanted` is asked each time."""

    def __init__(self, wanted: Callable[[], bool]) -> None:
        self._wanted = wanted
        self._noted: BoundedMap[tuple[RunId, str], Content] = BoundedMap(MOST_NOTED)

    def model_answered(self, run: RunId, request: Request, reply: Reply, /) -> None:
        if self._wanted():
            self._noted[run, ""] = ModelContent(request, tuple(request.messages), reply)

    def tool_ended(self, run: RunId, use: ToolUse, result: str, /) -> None:
        if self._wanted():
            self._noted[run, use.id] = ToolContent(use, result)

    def take(self, run: RunId, call: str) -> Content | None:
        """The content of the run's newest call of a model (`call` ""), or of that call of a tool."""
        return self._noted.pop((run, call), None)


def attributes_of(content: Content, most: int, redact: Redact) -> Mapping[str, str]:
    """The texts by attribute, at most so many characters of each."""
    match content:
        case ModelContent():
            system = "\n\n".join(filter(None, (content.request.system.stable, content.request.system.volatile)))
            said = _Budget(most, redact)
            texts = {
                "gen_ai.input.messages": json.dumps(_newest(content.messages, said), ensure_ascii=False),
                "gen_ai.output.messages": json.dumps(
                    [_message("assistant", content.reply.parts, _Budget(most, redact), content.reply.stop_reason)],
                    ensure_ascii=False,
                ),
            }
            if system:
                told = [{"type": "text", "content": beginning_of(system, most, redact)}]
                texts["gen_ai.system_instructions"] = json.dumps(told, ensure_ascii=False)
            return texts
        case ToolContent():
            return {
                "gen_ai.tool.call.arguments": beginning_of(_as_json(content.use.input), most, redact),
                "gen_ai.tool.call.result": beginning_of(content.result, most, redact),
            }


class _Budget:
    """Characters that are left for the texts of one attribute."""

    def __init__(self, most: int, redact: Redact) -> None:
        self.left = most
        self._redact = redact

    def take(self, text: str) -> str:
        """As much of the text as there is room for."""
        taken = beginning_of(text, self.left, self._redact) if self.left > 0 else ""
        self.left -= len(taken)
        return taken


def _newest(messages: tuple[Message, ...], budget: _Budget) -> list[dict[str, Any]]:
    """The newest of the messages, in their order, as far as the budget goes."""
    found: list[dict[str, Any]] = []
    for message in reversed(messages):
        if budget.left < LEAST_LEFT:
            break
        found.append(_message(message.role, message.parts, budget))
    return found[::-1]


def _message(role: str, parts: tuple[Part, ...], budget: _Budget, finish_reason: str = "") -> dict[str, Any]:
    told = list(_parts(parts, budget))
    if any(part["type"] == "tool_call_response" for part in told):
        role = "tool"
    return {"role": role, "parts": told, **({"finish_reason": finish_reason} if finish_reason else {})}


def _parts(parts: tuple[Part, ...], budget: _Budget) -> Iterator[dict[str, Any]]:
    """The parts in the conventions' words; thoughts and pictures are left out, of a file its kind is told."""
    for part in parts:
        match part:
            case TextPart() | SummaryPart():
                yield {"type": "text", "content": budget.take(part.text)}
            case ToolUse():
                arguments = budget.take(_as_json(part.input))
                yield {"type": "tool_call", "id": part.id, "name": part.name, "arguments": arguments}
            case ToolResult():
                yield {"type": "tool_call_response", "id": part.tool_use_id, "response": budget.take(part.content)}
            case FilePart():
                yield {"type": "file", "mime_type": part.mime_type}
            case _:
                pass


def _as_json(arguments: Mapping[str, Any]) -> str:
    return json.dumps(dict(arguments), ensure_ascii=False, default=str)
