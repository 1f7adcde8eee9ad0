"""The beginning of a history as one piece of bytes, kept for as long as its conversation is awake.

What was said is sent again with every request and never changes: joining it anew would make each turn dearer than the
one before.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from agent.core.messages import Message
from agent.providers.tool_ids import Ids

MOST_PIECES = 64  # copying half a megabyte takes longer than all the rest of a request

# A message on the wire, b"" if nothing of it is sent, and its call ids.
Encode = Callable[[Message], tuple[bytes, Ids | None]]


@dataclass(slots=True)
class EncodedPrefix:
    """`pieces` hold `messages`, each one or more of them; `uses` are the ids of their tool calls.

    `has_calls`: calls or results are among them.
    """

    messages: tuple[Message, ...] = ()
    pieces: list[bytes] = field(default_factory=list)
    uses: set[str] = field(default_factory=set)
    has_calls: bool = False


def laid_out(head: Sequence[bytes], messages: Sequence[bytes]) -> bytes:
    """The whole body of a request: the fields of an object that is still open, then its messages. Copied once."""
    parts = [b",".join(head), b',"messages":[']
    for number, message in enumerate(messages):
        if number:
            parts.append(b",")
        parts.append(message)
    parts.append(b"]}")
    return b"".join(parts)


class EncodedPrefixCache:
    """By owner: whatever object lives as long as its conversation does."""

    def __init__(self, encode: Encode) -> None:
        self._encode = encode
        self._kept: WeakKeyDictionary[object, EncodedPrefix] = WeakKeyDictionary()

    def of(self, owner: object, messages: Sequence[Message], end: int) -> EncodedPrefix | None:
        """The first `end` messages; None where two of their calls have one id, which the whole request must mend."""
        kept = self._kept.get(owner)
        wanted = tuple(messages[:end])
        if kept is None or wanted[: len(kept.messages)] != kept.messages:  # messages are compared by identity
            kept = EncodedPrefix()
        for message in wanted[len(kept.messages) :]:
            body, ids = self._encode(message)
            kept.has_calls = kept.has_calls or ids is not None
            for id in ids.uses if ids else ():
                if id in kept.uses:
                    self._kept.pop(owner, None)
                    return None
                kept.uses.add(id)
            if body:
                kept.pieces.append(body)
        if len(kept.pieces) > MOST_PIECES:
            kept.pieces = [b",".join(kept.pieces)]
        kept.messages = wanted
        self._kept[owner] = kept
        return kept
