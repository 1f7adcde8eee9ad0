"""The newest warnings and errors of each conversation, in this process, for /log. Bounded, and never with a secret."""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from copy import copy
from datetime import UTC, datetime

from agent.core.bounded_map import BoundedMap
from agent.core.untrusted_text import without_steering
from gateway.telemetry.logging import Redaction

CONVERSATIONS, LINES = 500, 50  # that are remembered, and of each
LONGEST = 300  # characters of a line
NAME = "tieline-recent"


class RecentLog(logging.Handler):
    """Hears every logger from `install` on. Lines that belong to no conversation are left to the log itself."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        super().__init__(logging.WARNING)
        self.set_name(NAME)
        self.addFilter(Redaction(redact))
        self._lines: BoundedMap[str, deque[str]] = BoundedMap(CONVERSATIONS)

    def install(self) -> None:
        """Take the place of the one before."""
        root = logging.getLogger()
        for old in [old for old in root.handlers if old.get_name() == NAME]:
            root.removeHandler(old)
        root.addHandler(self)

    def of(self, conversation: str, most: int) -> Sequence[str]:
        """Its newest lines, the oldest first."""
        self.acquire()
        try:
            return tuple(self._lines.get(conversation, ()))[-most:]
        finally:
            self.release()

    def handle(self, record: logging.LogRecord) -> bool:
        """Of a copy: what other handlers see is not changed."""
        return super().handle(copy(record))

    def emit(self, record: logging.LogRecord) -> None:
        conversation = getattr(record, "conversation", None)
        if not conversation:
            return
        at = datetime.fromtimestamp(record.created, UTC)
        told = [record.getMessage()]
        if record.exc_text:
            told.append(record.exc_text.rstrip().rpartition("\n")[2])  # the exception itself, without the way to it
        text = " ".join(without_steering(" | ".join(told)).split())[:LONGEST]
        name = record.name.removeprefix("tieline.")
        lines = self._lines.setdefault(str(conversation), deque(maxlen=LINES))
        lines.append(f"{at:%m-%d %H:%M:%S} {record.levelname.lower()} {name}: {text}")
        self._lines.move_to_end(str(conversation))
