"""Failpoints: named places at which a test makes the running program kill itself, to prove what a crash leaves.

`TIELINE_CRASH_AT` names a file that holds `<point>` or `<point>:<n>`: at the n-th pass of that point (the first unless
told) the file is removed and the process gets SIGKILL, once. While there is no such file nothing happens; without the
variable, as always outside tests, `failpoint` does nothing. A new point is a word in `Point` and a call.
"""

import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

ENVIRONMENT = "TIELINE_CRASH_AT"

Point = Literal[
    "arrival.before",  # an ingress has parsed the message, nothing of it is stored
    "arrival.commit",  # in the transaction that stores it for a worker
    "arrival.after",  # it is stored, no worker has told what became of it
    "arrival.taken",  # a worker has taken it in, the row is still there
    "admit.before",  # the message is parsed, nothing of it is stored
    "admit.commit",  # in the transaction that stores it
    "admit.after",  # it is stored
    "acknowledge",  # the adapter is about to tell its platform so
    "intake.commit",  # in the transaction that stores the person's words and opens the run
    "stage.cleared",  # results gave way to notices in memory; nothing of it is stored
    "stage.folded",  # the same, of pairs that gave way to their summaries
    "stage.pruned",
    "stage.mid",
    "stage.high",
    "stage.hard",
    "stage.reactive",
    "stage.digest",
    "window.commit",  # in the transaction that stores what a stage hid and placed
    "window.after",  # it is stored, the model is not asked yet
    "model.before",  # they are stored, the model is about to be asked
    "model.stream",  # a piece of the model's answer has come
    "tool.started",  # the call is recorded as begun
    "tool.ended",  # it has run, nobody has written so
    "text.committed",  # the model's words before a question are in the outbox; nobody is asked yet
    "approval.asked",  # a person was asked about a call; nobody has answered
    "approval.decided",  # the answer is stored; the call has not begun
    "approval.executed",  # the call counts as run; it has not begun
    "commit.before",  # the run, or a command, is over; nothing of its end is stored
    "commit.within",  # in the transaction that stores it
    "commit.after",  # it is stored, delivery is not told
    "preview.shown",  # on the screen; its note is not written
    "status.shown",  # on the screen; its note is not written
    "question.open",  # asked and noted; nobody has answered
    "speech.made",  # an answer's sound is on the disk; the platform is not called
    "send.before",  # the row is marked as being sent, the platform is not called
    "send.noted",  # the call is noted, it has not begun
    "send.piece",  # one piece of several has arrived and is noted
    "send.after",  # the platform has it; the row does not know
    "goal.judged",  # the supervisor has answered, nothing of it is stored
    "goal.within",  # in the transaction that stores what a check found
    "goal.after",  # it is stored, nobody is told
    "schedule.within",  # in the transaction of what was due
    "schedule.after",  # it is stored, nobody is woken
    "linger",  # nothing is left to do, the agent waits for the next message
    "drain",  # told to end: nothing new begins
    "file.part",  # a part of a large file is stored, nothing names it
    "file.stored",  # the bytes of a file are stored, its row is not
    "migration.within",  # in the transaction that brings the tables up to date
    "transfer.within",  # in the transaction that stores a batch of rows on their way to PostgreSQL
    "transfer.after",  # it is stored
    "transfer.verified",  # all rows are there and compared; no gateway may use them yet
    "transfer.finish",  # in the transaction that lets one
]


class Armed:
    """Counts passes of the point that the file names."""

    def __init__(self, file: Path, kill: Callable[[], None]) -> None:
        self._file = file
        self._kill = kill
        self._order = ""
        self._passes = 0

    def __call__(self, point: Point) -> None:
        try:
            order = self._file.read_text().strip()
        except FileNotFoundError:
            order = ""
        if order != self._order:
            self._order, self._passes = order, 0
        wanted, _, number = order.partition(":")
        if wanted != point:
            return
        self._passes += 1
        if self._passes >= int(number or 1):
            self._file.unlink()
            self._kill()


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def bound(environment: Mapping[str, str]) -> Callable[[Point], object]:
    """The function that `failpoint` is in such an environment: outside tests a built-in one that changes nothing."""
    file = environment.get(ENVIRONMENT)
    return Armed(Path(file), _die) if file else len


failpoint: Callable[[Point], object] = bound(os.environ)  # bound once, at import: a pass costs no call of ours
