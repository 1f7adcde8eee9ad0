"""Recovery at a start: an album whose parts may still be under way waits for them, the rest goes on at once."""

from datetime import UTC, datetime
from functools import partial

from agent.core.ids import ConversationId, PersonId
from agent.inbox import Incoming
from agent.storage import inbox_rows
from agent.storage.database import Database
from agent.storage.payloads import encode_incoming
from gateway.dispatch.local import look_around, recover

START = datetime(2026, 1, 1, tzinfo=UTC)
CHAT = ConversationId("telegram:1")
S = 1_000_000
SETTLED, HELD = 2 * S, 40 * S


async def admit(database: Database, dedup: str, *, chat: ConversationId = CHAT, not_before: int | None = None) -> int:
    said = Incoming(text=dedup, person=PersonId("telegram:1"), received_at=START)
    admitted = await database.write(
        partial(
            inbox_rows.admit,
            conversation=chat,
            kind="message",
            dedup=dedup,
            payload=encode_incoming(said),
            at=0,
            not_before=not_before,
        )
    )
    assert admitted.id is not None
    return admitted.id


async def due_at(database: Database) -> list[int | None]:
    rows = await database.read(partial(inbox_rows.waiting, conversation=CHAT))
    return [row.not_before for row in rows]


async def test_an_album_waits_once_more_for_its_parts(database: Database) -> None:
    """However long we were away: the platform still has the parts that were not stored."""
    await admit(database, "album", not_before=SETTLED)
    later = 3600 * S
    assert (await database.write(partial(recover, now=later))).with_work == ()
    assert await due_at(database) == [later + 10 * S]
    assert (await database.read(partial(look_around, now=later))).next_at == later + 10 * S
    assert (await database.read(partial(look_around, now=later + 10 * S))).with_work == (CHAT,)


async def test_what_waits_longer_or_for_nothing_stays_as_it_is(database: Database) -> None:
    await admit(database, "plain")
    await admit(database, "album whose file was on its way", not_before=HELD)
    assert (await database.write(partial(recover, now=3 * S))).with_work == (CHAT,)
    assert await due_at(database) == [None, HELD]


async def test_an_album_that_a_run_has_begun_goes_on_at_once(database: Database) -> None:
    await admit(database, "album", not_before=SETTLED)
    (row,) = await database.read(partial(inbox_rows.waiting, conversation=CHAT))
    await database.write(partial(inbox_rows.begin, row=row, incoming=row.incoming))
    assert (await database.write(partial(recover, now=3 * S))).with_work == (CHAT,)
