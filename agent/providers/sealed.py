"""The beginning of a history as one piece of bytes, kept for as long as its conversation is awake.

What was said is sent again with every request and never changes: joining it anew would make each turn dearer than the
one before.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from agent.core.messages import Message
from agent.providers.tool_ids import Ids

# A message on the wire, b"" if nothing of it is sent, and its call ids.
Encode = Callable[[Message], tuple[bytes, Ids | None]]


@dataclass(slots=True)
class Sealed:
    """`body` holds `messages`, joined by commas; `uses` are the ids of their tool calls."""

    messages: tuple[Message, ...] = ()
    body: bytes = b""
    uses: set[str] = field(default_factory=set)


class SealedHistories:
    """By owner: whatever object lives as long as its conversation does."""

    def __init__(self, encode: Encode) -> None:
        self._encode = encode
        self._kept: WeakKeyDictionary[object, Sealed] = WeakKeyDictionary()

    def of(self, owner: object, messages: Sequence[Message], end: int) -> Sealed | None:
        """The first `end` messages; None where two of their calls have one id, which the whole request must mend."""
        kept = self._kept.get(owner)
        wanted = tuple(messages[:end])
        if kept is None or wanted[: len(kept.messages)] != kept.messages:  # messages are compared by identity
            kept = Sealed()
        pieces = [kept.body] if kept.body else []
        for message in wanted[len(kept.messages) :]:
            body, ids = self._encode(message)
            for id in ids.uses if ids else ():
                if id in kept.uses:
                    self._kept.pop(owner, None)
                    return None
                kept.uses.add(id)
            if body:
                pieces.append(body)
        kept.messages, kept.body = wanted, b",".join(pieces)
        self._kept[owner] = kept
        return kept
