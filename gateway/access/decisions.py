"""The last messages that were not answered, and why: what `/why` tells. In memory and bounded."""

from collections import OrderedDict, deque
from dataclasses import dataclass
from datetime import datetime

PER_CONVERSATION, CONVERSATIONS = 5, 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Unanswered:
    message_id: str
    person: str
    why: str
    at: datetime


class Decisions:
    """Remembers the newest few of each conversation; the conversation longest untouched is forgotten first."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, deque[Unanswered]] = OrderedDict()

    def note(self, conversation: str, unanswered: Unanswered) -> None:
        kept = self._kept.pop(conversation, None) or deque(maxlen=PER_CONVERSATION)
        kept.append(unanswered)
        self._kept[conversation] = kept
        if len(self._kept) > CONVERSATIONS:
            self._kept.popitem(last=False)

    def of(self, conversation: str) -> tuple[Unanswered, ...]:
        """Newest first."""
        return tuple(reversed(self._kept.get(conversation, ())))
