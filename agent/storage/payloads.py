"""JSON in the database: the only place that knows its bytes.

Every field is written, also one that holds its default, so that a default may change without changing what was stored.
"""

from typing import Annotated, TypeVar

from pydantic import Field, TypeAdapter
from pydantic_core import PydanticSerializationError

from agent.core.messages import (
    CompactionPart,
    FilePart,
    Part,
    RedactedThinking,
    SummaryPart,
    TextPart,
    Thinking,
    ToolResult,
    ToolUse,
)
from agent.core.outbox import OutgoingMessage
from agent.core.untrusted_text import whole_data
from agent.inbox import Incoming

T = TypeVar("T")

_AnyPart = Annotated[
    TextPart | ToolUse | ToolResult | Thinking | RedactedThinking | FilePart | SummaryPart | CompactionPart,
    Field(discriminator="kind"),
]
_INCOMING: TypeAdapter[Incoming] = TypeAdapter(Incoming)
_SAY: TypeAdapter[OutgoingMessage] = TypeAdapter(OutgoingMessage)
_PARTS: TypeAdapter[tuple[_AnyPart, ...]] = TypeAdapter(tuple[_AnyPart, ...])


def encode_incoming(incoming: Incoming) -> str:
    return dump(_INCOMING, incoming)


def decode_incoming(text: str) -> Incoming:
    """Raises pydantic's ValidationError for anything but an encoded Incoming."""
    return _INCOMING.validate_json(text)


def encode_outgoing(say: OutgoingMessage) -> str:
    return dump(_SAY, say)


def decode_outgoing(text: str) -> OutgoingMessage:
    """Raises pydantic's ValidationError for anything but an encoded Say."""
    return _SAY.validate_json(text)


def encode_parts(parts: tuple[Part, ...]) -> str:
    return dump(_PARTS, parts)


def decode_parts(text: str) -> tuple[Part, ...]:
    """Raises pydantic's ValidationError for anything but encoded message parts."""
    return _PARTS.validate_json(text)


def dump(adapter: TypeAdapter[T], value: T) -> str:
    """Its JSON, also where a text in it holds half an emoji."""
    try:
        return adapter.dump_json(value).decode()
    except PydanticSerializationError:
        # Platforms deliver half an emoji now and then; UTF-8 has no bytes for it, and one message must not stop a chat.
        return adapter.dump_json(adapter.validate_python(whole_data(adapter.dump_python(value)))).decode()
