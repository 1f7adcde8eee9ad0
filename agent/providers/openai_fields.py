"""Fields beside Chat Completions proper that servers send and want back: reasoning, and what they alone read. Pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent.core.messages import Message, Part, RedactedThinking, Thinking

REASONING_FIELDS = ("reasoning_content", "reasoning")  # what servers call it
DETAILS = "reasoning_details"  # OpenRouter's


@dataclass(frozen=True, slots=True)
class Opaque:
    """What one reply held for its own endpoint and model, `origin`: fields of its calls by their ids, and details.

    Gemini refuses a call that comes back without its signature; other servers refuse fields they do not know.
    """

    origin: str
    calls: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    details: Sequence[Mapping[str, Any]] = ()

    def written(self) -> str:
        """As the data of a RedactedThinking."""
        return json.dumps(
            {"origin": self.origin, "calls": self.calls, "details": list(self.details)}, ensure_ascii=False
        )


NO_FIELDS = Opaque("")


def is_reasoning(part: Part, family: str) -> bool:
    """Whether the part goes back inside its own tool loop."""
    if isinstance(part, RedactedThinking):
        return part.family == family
    return isinstance(part, Thinking) and part.family == family and part.signature in REASONING_FIELDS


def opaque_of(message: Message, family: str, origin: str) -> Opaque:
    """What of the message goes back to `origin` alone."""
    for part in message.parts:
        if isinstance(part, RedactedThinking) and part.family == family:
            try:
                read = json.loads(part.data)
            except ValueError:
                continue
            if isinstance(read, dict) and origin and read.get("origin") == origin:
                return Opaque(origin, read.get("calls") or {}, read.get("details") or ())
    return NO_FIELDS


def joined_details(pieces: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The details of a stream as the whole reply would hold them: a text in pieces is one text."""
    found: list[dict[str, Any]] = []
    for piece in pieces:
        last = found[-1] if found else None
        if last is None or (last.get("type"), last.get("index")) != (piece.get("type"), piece.get("index")):
            found.append(dict(piece))
            continue
        for name, value in piece.items():
            if name in ("text", "summary", "data") and isinstance(value, str) and isinstance(last.get(name), str):
                last[name] += value
            elif value is not None:
                last[name] = value
    return found
