"""Queue modes: what becomes of a message while its conversation is busy (B-65…B-67). Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import Enum
from typing import Literal

from agent.inbox import Incoming
from agent.storage.inbox_rows import InboxRow

QueueMode = Literal["queue", "drop", "interrupt"]


class Verdict(Enum):
    ADMIT = "store it; its turn comes"
    REFUSE_BUSY = "tell the person that it is busy; store it as refused"
    ADMIT_AND_CANCEL = "store it, then cancel the running turn"


def verdict(mode: QueueMode, *, is_running: bool, preemptible: bool = False) -> Verdict:
    """`is_running`: a turn is under way; `preemptible`: one of a plan or goal, which people need not wait for."""
    match mode:
        case "drop" if is_running and not preemptible:
            return Verdict.REFUSE_BUSY
        case "interrupt" if is_running:
            return Verdict.ADMIT_AND_CANCEL
        case _:
            return Verdict.ADMIT


# Rows of the next run: one, or several texts of one person in quick succession (G-13). Pure.

LONGEST = 16_000  # characters of a merged text; half of what one message may have


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """`row` is run with `incoming`; the rows in `absorbed` are in it and end as merged."""

    row: InboxRow
    incoming: Incoming
    absorbed: tuple[int, ...] = ()


def choose(rows: Sequence[InboxRow], *, within: timedelta) -> Choice | None:
    """The next run; `rows` are in the order in which they must be done. None: there is nothing to do.

    A run that was begun before (attempts > 0) is never given other words than it had.
    """
    if not rows:
        return None
    first = rows[0]
    incoming, absorbed = first.incoming, list[int]()
    if _may_merge(first):
        before = first.incoming
        for row in rows[1:]:
            if not _may_merge(row) or not _belong_together(before, row.incoming, within):
                break
            if len(incoming.text) + len(row.incoming.text) >= LONGEST:
                break
            # The answer goes below the newest of them.
            incoming = replace(
                incoming, text=f"{incoming.text}\n{row.incoming.text}", message_ref=row.incoming.message_ref
            )
            absorbed.append(row.id)
            before = row.incoming
    return Choice(row=first, incoming=incoming, absorbed=tuple(absorbed))


def _may_merge(row: InboxRow) -> bool:
    """A plain text of a person that no run has begun; commands, files and interactions stand alone."""
    said = row.incoming
    return (
        row.kind == "message"
        and row.attempts == 0
        and not said.files
        and not said.ambient
        and said.interaction is None
        and not said.text.lstrip().startswith("/")
    )


def _belong_together(earlier: Incoming, later: Incoming, within: timedelta) -> bool:
    return (
        later.quoted is None
        and (earlier.person, earlier.role, earlier.roles) == (later.person, later.role, later.roles)
        and abs(later.received_at - earlier.received_at) < within
    )
