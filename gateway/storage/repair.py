"""Ailments of a database that no turn mends by itself, and their cures. Looking changes nothing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError
from sqlalchemy import Connection, func, not_, or_, select, update

from agent.core.clock import SystemClock
from agent.providers.models import USEFUL_WINDOW
from agent.storage import inbox_rows, outbox_rows
from agent.storage.connect import BackUp, Schema
from agent.storage.connect import open_database as open_with
from agent.storage.database import OwnedDatabase
from agent.storage.payloads import decode_incoming, decode_outgoing
from agent.storage.tables import conversation, inbox, model_fact, outbox, session, turn
from agent.storage.timestamps import to_timestamp
from gateway.storage.migrations import FORMER_TABLES, LAST_TO_KNOW_ALL, SQUASHED
from gateway.storage.tables import metadata, schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class Ailment:
    """`count` rows suffer from it; `text` says from what, `mended` what was done.

    `advice` is for a person where no cure is without loss; then nothing is mended.
    """

    count: int
    text: str
    mended: str = ""
    advice: str = ""


Cure = Callable[[Connection, bool], Ailment]
NAMED = 3  # conversations that a finding names


def ailments(conn: Connection) -> Sequence[Ailment]:
    """Ailments; none when all is well."""
    return [found for cure in _CURES if (found := cure(conn, False)).count]


def mend(conn: Connection) -> Sequence[Ailment]:
    """Mend it; the same list."""
    return [found for cure in _CURES if (found := cure(conn, True)).count]


def _lost_sessions(conn: Connection, mending: bool) -> Ailment:
    lost = conversation.c.session_id.is_not(None) & conversation.c.session_id.not_in(select(session.c.id))
    count = conn.execute(select(func.count()).select_from(conversation).where(lost)).scalar_one()
    if mending and count:
        conn.execute(update(conversation).where(lost).values(session_id=None))
    return Ailment(
        count=count,
        text="conversations point to a session that is not there",
        mended="conversations begin a new session with their next message",
    )


def _abandoned_runs(conn: Connection, mending: bool) -> Ailment:
    # A dead letter may be tried again (`tieline dead retry`), and its run goes on where it was.
    waiting = select(inbox.c.id).where(inbox.c.status.in_(("new", "dead")))
    abandoned = (turn.c.state == "running") & turn.c.inbox_id.not_in(waiting)
    count = conn.execute(select(func.count()).select_from(turn).where(abandoned)).scalar_one()
    if mending and count:
        conn.execute(update(turn).where(abandoned).values(state="failed", checkpoint=None))
    return Ailment(
        count=count,
        text="runs count as running although their message is done",
        mended="runs that nobody takes up again are ended",
    )


def _done_twice(conn: Connection, mending: bool) -> Ailment:
    ended = select(turn.c.inbox_id).where(turn.c.state != "running")
    over = (inbox.c.status == "new") & inbox.c.id.in_(ended)
    count = conn.execute(select(func.count()).select_from(inbox).where(over)).scalar_one()
    if mending and count:
        conn.execute(update(inbox).where(over).values(status="done"))
    return Ailment(
        count=count,
        text="messages wait although their run has ended",
        mended="messages whose run has ended are done",
    )


def _unreadable(conn: Connection, mending: bool) -> Ailment:
    """Delivery and dispatch would find them too, one conversation at a time, when its turn comes."""
    waiting = conn.execute(select(inbox.c.id, inbox.c.payload).where(inbox.c.status == "new")).all()
    open_rows = conn.execute(select(outbox.c.id, outbox.c.payload).where(outbox.c.status.in_(("new", "sending")))).all()
    messages = [row.id for row in waiting if not _reads(decode_incoming, row.payload)]
    answers = [row.id for row in open_rows if not _reads(decode_outgoing, row.payload)]
    if mending:
        why = "its payload cannot be read"
        inbox_rows.finish(conn, messages, status="dead", note=why)
        for row in answers:
            outbox_rows.mark_dead(conn, row, why)
    return Ailment(
        count=len(messages) + len(answers),
        text="messages or answers that wait cannot be read",
        mended="unreadable messages and answers are dead letters now",
    )


def _reads(decode: Callable[[str], object], payload: str) -> bool:
    try:
        decode(payload)
    except ValidationError:
        return False
    return True


def refused_histories(conn: Connection) -> Sequence[Ailment]:
    """Conversations whose present session goes on without messages that a model refused (W-39)."""
    here = (turn.c.inbox_id == inbox.c.id) & (turn.c.session_id == conversation.c.session_id)
    rows = conn.execute(
        select(inbox.c.conv, func.count().label("times"))
        .select_from(
            inbox.join(turn, turn.c.inbox_id == inbox.c.id).join(conversation, conversation.c.key == turn.c.conv)
        )
        .where(here, inbox.c.note.contains(inbox_rows.SET_ASIDE, autoescape=True))
        .group_by(inbox.c.conv)
        .order_by(inbox.c.conv)
    ).all()
    text = "conversations go on without messages that a model refused: " + _some([row.conv for row in rows])
    advice = "nothing is lost: search still finds them; /new there begins without the gap"
    return [Ailment(count=len(rows), text=text, advice=advice)] if rows else []


def homeless_schedules(conn: Connection, accounts: Sequence[str], *, mend_at: int | None = None) -> Sequence[Ailment]:
    """Active reminders and schedules of accounts that are not configured.

    `accounts` are channel types, such as `telegram@second`. With `mend_at` (UTC microseconds) they are paused: their
    words and rules stay, and `/schedules` can resume them when the account is back.
    """
    served = or_(False, *(schedule.c.conv.startswith(f"{account}:", autoescape=True) for account in accounts))
    homeless = (schedule.c.state == "active") & not_(served)
    places = conn.execute(select(schedule.c.conv).where(homeless).order_by(schedule.c.id)).scalars().all()
    if mend_at is not None and places:
        off = {"due_at": None, "due_key": None, "next_at": None, "held": False}
        values = {"state": "paused", "note": "its account is not configured", "updated_at": mend_at}
        conn.execute(update(schedule).where(homeless).values(**values, **off))
    text = "reminders or schedules belong to accounts that are not configured: " + _some(places)
    mended = "reminders and schedules of accounts that are gone are paused, /schedules resumes them"
    return [Ailment(count=len(places), text=text, mended=mended)] if places else []


def _some(places: Sequence[str]) -> str:
    named = list(dict.fromkeys(places))
    more = f" and {len(named) - NAMED} more" if len(named) > NAMED else ""
    return ", ".join(named[:NAMED]) + more


def _small_windows(conn: Connection, mending: bool) -> Ailment:
    """Models that something as short as this was too long for: rather an outage than a window."""
    small = model_fact.c.refused.is_not(None) & (model_fact.c.refused < USEFUL_WINDOW)
    rows = conn.execute(select(model_fact.c.provider, model_fact.c.refused).where(small)).all()
    if mending and rows:
        at = to_timestamp(SystemClock().now())
        conn.execute(update(model_fact).where(small).values(refused=None, refused_at=at, refusals=0))
    named = ", ".join(f"{row.provider} ({row.refused:,} tokens)" for row in rows[:NAMED])
    return Ailment(
        count=len(rows),
        text=f"models were found to read little, by what failed: {named}",
        mended="sizes that were too long for a model are forgotten",
    )


_CURES: Sequence[Cure] = (_lost_sessions, _abandoned_runs, _done_twice, _unreadable, _small_windows)


# Schema of this version, and the opening of its database. Slow to import: loaded by name after the bind.

SCHEMA = Schema(
    head="0047_program_lists",
    migrations=Path(__file__).parent / "migrations",
    metadata=metadata,
    squashed=SQUASHED,
    last_to_know_all=LAST_TO_KNOW_ALL,
    former_tables=FORMER_TABLES,
)


async def open_database(url: str, home: Path, *, back_up: BackUp | None = None, shared: bool = False) -> OwnedDatabase:
    """The database of `[database] url`, up to date and owned by this process. Raises DatabaseUnusable with the fix.

    `back_up` keeps a PostgreSQL database before it is migrated; without one it is not migrated.
    """
    return await open_with(url, home, schema=SCHEMA, back_up=back_up, shared=shared)
