"""Lookup of a reference that a person was told: `tieline find`. Looks through the database; changes nothing."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, or_, select

from agent.storage.database import Database
from agent.storage.payloads import decode_incoming, decode_outgoing
from agent.storage.tables import approval, inbox, outbox, tool_call, turn
from agent.storage.timestamps import from_timestamp
from gateway.web.control import OperationError as Refusal

LEAST = 4  # characters of a run's id; fewer would find anything
MOST = 10  # things that one reference may stand for
LONGEST = 200  # characters of a text that is shown

Json = Any


@dataclass(frozen=True, slots=True)
class Finding:
    """Over one open database."""

    database: Database

    def table(self) -> Mapping[str, Callable[[Mapping[str, Json]], Awaitable[Json]]]:
        """By the names that `tieline` uses."""
        return {"find": self.find}

    async def find(self, arguments: Mapping[str, Json]) -> Json:
        """Each message that the reference stands for, with what became of it. Raises Refusal where there is none."""
        ref = reference_in(str(arguments.get("ref", "")))
        found = await self.database.read(lambda conn: _found(conn, ref))
        if not found:
            raise Refusal(
                f"nothing in the database has the reference {ref!r}",
                fix="give it as the person was told, such as 60db5234 or in-12; old messages go with [retention], "
                "and the log may still have lines with it",
            )
        return found


def reference_in(text: str) -> str:
    """The reference as somebody repeats it, without what stands around it."""
    return text.strip().strip("().").lower().removeprefix("reference ").strip()


def is_number(ref: str) -> bool:
    """Whether it stands for one message by its number, `in-12` or `out-7`, and not for the beginning of an id."""
    return ref.startswith(("in-", "out-"))


def runs_meant(conn: Connection, ref: str) -> Sequence[str]:
    """References that lines of the log carry where a person was told this one: ids of runs, and `in-12`."""
    number = ref.removeprefix("out-")
    if number == ref:
        found = [row.id for row in _rows(conn, ref)]
    elif number.isdecimal() and len(number) < LEAST + 15:
        answered = select(outbox.c.inbox_id).where(outbox.c.id == int(number), outbox.c.inbox_id.is_not(None))
        found = list(conn.scalars(answered))
    else:
        found = []
    runs = conn.scalars(select(turn.c.run_id).where(turn.c.inbox_id.in_(found), turn.c.run_id.is_not(None)))
    return [*runs, *(f"in-{id}" for id in found)]


def _found(conn: Connection, ref: str) -> list[dict[str, Json]]:
    number = ref.removeprefix("out-")
    if number != ref:
        return _refused(conn, int(number)) if number.isdecimal() and len(number) < LEAST + 15 else []
    return [_told(conn, row) for row in _rows(conn, ref)]


def _refused(conn: Connection, number: int) -> list[dict[str, Json]]:
    """A refused message by its number: with the message that it answers, and why the platform did not take it."""
    sent = conn.execute(select(outbox).where(outbox.c.id == number)).first()
    if sent is None:
        return []
    row = conn.execute(select(inbox).where(inbox.c.id == sent.inbox_id)).first()
    told = {"person": "", "run": "", "said": "", "calls": []} if row is None else _told(conn, row)
    return [
        told
        | {
            "message": f"out-{number}",
            "conversation": sent.conv,
            "at": from_timestamp(sent.created_at).isoformat(timespec="seconds"),
            "state": sent.status,
            "why": sent.note or "",
            "answered": [_short(_text_of(sent.payload))],
        }
    ]


def _rows(conn: Connection, ref: str) -> Sequence[Any]:
    """The inbox rows that are meant: by run, by number, by a question's id, or by what was noted."""
    number = ref.removeprefix("in-")
    if number.isdecimal() and len(number) < LEAST + 15:
        by_number: list[ColumnElement[bool]] = [inbox.c.id == int(number)]
    else:
        by_number = []
    if ref.startswith("in-") or (number.isdecimal() and len(number) < LEAST):
        meant = or_(*by_number) if by_number else None
    elif len(ref) < LEAST or not ref.replace("-", "").isalnum():
        meant = None
    else:
        runs = select(turn.c.inbox_id).where(turn.c.run_id.startswith(ref, autoescape=True))
        asked = select(approval.c.inbox_id).where(approval.c.id == ref)
        meant = or_(
            *by_number, inbox.c.id.in_(runs), inbox.c.id.in_(asked), inbox.c.note.contains(f"({ref})", autoescape=True)
        )
    if meant is None:
        return ()
    return conn.execute(select(inbox).where(meant).order_by(inbox.c.id.desc()).limit(MOST)).all()


def _told(conn: Connection, row: Any) -> dict[str, Json]:
    """One message: who wrote what, when, how its run ended and why, what was answered, and what the log calls it."""
    run = conn.execute(select(turn).where(turn.c.inbox_id == row.id)).first()
    answers = conn.execute(select(outbox.c.payload).where(outbox.c.inbox_id == row.id).order_by(outbox.c.id)).scalars()
    calls = conn.execute(
        select(tool_call.c.tool, tool_call.c.verdict).where(tool_call.c.inbox_id == row.id).order_by(tool_call.c.id)
    )
    try:
        said = decode_incoming(row.payload)
        person, text = said.person or "", said.text
    except ValueError:
        person, text = "", "(unreadable)"
    return {
        "message": f"in-{row.id}",
        "conversation": row.conv,
        "person": person,
        "at": from_timestamp(row.created_at).isoformat(timespec="seconds"),
        "state": run.state if run is not None and _tells(run.state, row.status) else row.status,
        "why": row.note or "",
        "run": run.run_id if run is not None else "",
        "said": _short(text),
        "answered": [_short(_text_of(payload)) for payload in answers],
        "calls": [f"{call.tool}: {call.verdict}" for call in calls],
    }


def _tells(run: str, status: str) -> bool:
    """Whether the run tells more of a message than its row: how it ended, or that it is under work."""
    return status == "done" or (status == "new" and run in ("running", "waiting"))


def _text_of(payload: str) -> str:
    try:
        return decode_outgoing(payload).text
    except ValueError:
        return "(unreadable)"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"
