"""Warnings and errors on their way into the database: heard from every logger, equal ones counted, without secrets.

Hearing takes memory alone, within a bound, so a log that is flooded or a database that fails holds nobody up.
"""

import logging
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from hashlib import sha256

from agent.core.untrusted_text import whole, without_steering
from gateway.telemetry.logging import Redaction

MOST_WAITING = 2_000  # different lines; of more only the number is known
LONGEST_MESSAGE, LONGEST_ERROR, LONGEST_NAME = 2_000, 500, 200  # characters
HEAD, TAIL = 1_000, 3_000  # characters of a traceback: where it began, and what broke
NAME = "tieline-kept"
OWN = "tieline.logs"  # its lines go to the usual log alone
KEEPING = "log-keeping"  # the run that lines carry which come of the keeping itself


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """A line that was written `times` times. Moments are UTC microseconds.

    `ref` is the id of the run, or the reference that a person was told. `error` is the exception without the way to it.
    """

    first_at: int
    last_at: int
    times: int = 1
    level: str
    logger: str
    conversation: str = ""
    ref: str = ""
    message: str
    error: str = ""
    traceback: str = ""
    id: int = 0

    @property
    def digest(self) -> str:
        """The same for lines that differ in their moments alone."""
        parts = (self.level, self.logger, self.conversation, self.ref, self.message, self.error, self.traceback)
        return sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:32]


class LogBuffer(logging.Handler):
    """Hears from `install` on; whoever keeps the lines takes them out. Loggers may be in any thread."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        super().__init__(logging.WARNING)
        self.set_name(NAME)
        self.addFilter(Redaction(redact))
        self._waiting: dict[str, LogLine] = {}
        self._left_out = 0

    def install(self) -> None:
        """Take the place of the one before."""
        root = logging.getLogger()
        for old in [old for old in root.handlers if old.get_name() == NAME]:
            root.removeHandler(old)
        root.addHandler(self)

    def uninstall(self) -> None:
        """Hear no more."""
        logging.getLogger().removeHandler(self)

    def handle(self, record: logging.LogRecord) -> bool:
        """Of a copy: what other handlers see is not changed."""
        # A database that fails tells so each time that lines are written to it; kept, these would be its next lines.
        if record.name == OWN or getattr(record, "run", "") == KEEPING:
            return False
        return super().handle(copy(record))

    def emit(self, record: logging.LogRecord) -> None:
        if getattr(record, "run", "") == KEEPING:
            return  # by the context of the task, which the filter puts in
        self._add(line_of(record))

    def put_back(self, lines: Sequence[LogLine]) -> None:
        """Lines that could not be written: they are taken out once more. The lock is held for each alone."""
        for line in lines:
            self.acquire()
            try:
                self._add(line)
            finally:
                self.release()

    def take(self, most: int) -> Sequence[LogLine]:
        """Up to so many lines, the oldest first, and how many did not fit in. Nothing where nothing waits."""
        self.acquire()
        try:
            taken = [self._waiting.pop(digest) for digest in list(self._waiting)[:most]]
            left_out, self._left_out = self._left_out, 0
        finally:
            self.release()
        if left_out and taken:
            told = f"{left_out} more lines came at once and are in the usual log alone"
            taken.append(LogLine(first_at=taken[0].first_at, last_at=taken[-1].last_at, level="warning", logger=OWN,
                                 message=told))  # fmt: skip
        return taken

    def forget(self, conversation: str) -> None:
        """Lines of that conversation that wait go: its words are being forgotten."""
        self.acquire()
        try:
            for digest, line in list(self._waiting.items()):
                if line.conversation == conversation:
                    del self._waiting[digest]
        finally:
            self.release()

    def _add(self, line: LogLine) -> None:
        digest = line.digest
        known = self._waiting.get(digest)
        if known is not None:
            first_at, last_at = min(known.first_at, line.first_at), max(known.last_at, line.last_at)
            self._waiting[digest] = replace(known, first_at=first_at, last_at=last_at, times=known.times + line.times)
        elif len(self._waiting) < MOST_WAITING:
            self._waiting[digest] = line
        else:
            self._left_out += line.times


def line_of(record: logging.LogRecord) -> LogLine:
    """The line of a record that the redaction has gone over, such that a database takes it.

    One that it refuses would take the lines along that are written with it.
    """
    at = round(record.created * 1_000_000)
    exception = without_steering(whole(record.exc_text or "")).rstrip()
    inbox = getattr(record, "inbox", None)
    ref = getattr(record, "run", "") or getattr(record, "ref", "") or (f"in-{inbox}" if isinstance(inbox, int) else "")
    return LogLine(
        first_at=at,
        last_at=at,
        level=record.levelname.lower(),
        logger=whole(record.name)[:LONGEST_NAME],
        conversation=whole(str(getattr(record, "conversation", "") or ""))[:LONGEST_NAME],
        ref=whole(str(ref))[:LONGEST_NAME],
        message=without_steering(whole(record.getMessage()))[:LONGEST_MESSAGE],
        error=exception.rpartition("\n")[2][:LONGEST_ERROR],
        traceback=shortened(exception),
    )


def shortened(traceback: str) -> str:
    """Its beginning and its end, where it is long: what broke stands at the end."""
    if len(traceback) <= HEAD + TAIL:
        return traceback
    head, tail = traceback[:HEAD].rpartition("\n")[0], traceback[-TAIL:].partition("\n")[2]
    left = traceback.count("\n") - head.count("\n") - tail.count("\n") - 1
    return f"{head or traceback[:HEAD]}\n… {left} lines are left out …\n{tail or traceback[-TAIL:]}"
