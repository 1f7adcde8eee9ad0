"""After a copy took the database's place nothing of its schedules happens a second time (docs/backup.md)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import create_engine, update

from agent.storage.backup import back_up
from agent.storage.database import Database
from agent.storage.restore import Restored, restore
from agent.storage.tables import outbox
from agent.storage.timestamps import to_timestamp
from gateway.phrases.catalogue import read_catalogue
from gateway.scheduler.restored import put_aside
from gateway.scheduler.triggers.misfires import Misfire
from gateway.storage.repair import SCHEMA, open_database
from tests.fakes.clock import FakeClock
from tests.gateway.scheduler.test_runner import HERE, NINE, Room, in_

SINCE = timedelta(days=2)


@pytest.fixture
def lite(sqlite_database: Database, clock: FakeClock) -> Room:
    return Room(sqlite_database, clock)


@asynccontextmanager
async def restored(room: Room, home: Path, *, keep_open: bool = False) -> AsyncIterator[tuple[Restored, Room]]:
    """A copy is made now; two days later it is the database of a new process."""
    home.mkdir()  # noqa: ASYNC240 - a moment
    await back_up(room.database, home / "copy.db")
    room.clock.advance(SINCE.total_seconds())
    now = room.clock.now()
    others = partial(put_aside, now=now, phrase=read_catalogue())
    url = "sqlite:///tieline.db"
    done = restore(
        url,
        home,
        home / "copy.db",
        schema=SCHEMA,
        kept_as="x.db",
        at=to_timestamp(now),
        others=others,
        keep_open=keep_open,
    )
    database = await open_database(url, home)
    after = Room(database, room.clock)
    await after.passes(seconds=1)
    await after.passes(seconds=2)
    yield done, after
    await database.aclose()


async def test_what_was_due_since_the_copy_is_not_made_up_for(lite: Room, tmp_path: Path) -> None:
    await lite.set(in_(lite.clock, hours=1), "once")
    await lite.set(in_(lite.clock, hours=1), "transfer 100 EUR", action="ask")
    await lite.set(NINE, "often", late=Misfire(policy="all"))
    await lite.set(in_(lite.clock, days=3), "still to come")
    async with restored(lite, tmp_path / "new") as (done, after):
        assert done.others == 3
        assert (await after.said(), await after.asked()) == ([], [])
        assert await after.ledger() == [("missed", 1)] * 3
        states = {one.plan.text: (one.state, one.note) for one in await after.service.all_of(HERE)}
        why = "a backup was restored; this was due since then and may have come already"
        assert states == {
            "once": ("failed", why),
            "transfer 100 EUR": ("failed", why),
            "often": ("active", None),
            "still to come": ("active", None),
        }
        await after.passes(hours=21)
        assert await after.said() == ["⏰ often"]


async def test_a_run_that_was_under_way_is_a_dead_letter_and_is_not_tried_again(lite: Room, tmp_path: Path) -> None:
    await lite.set(in_(lite.clock, minutes=1), "transfer 100 EUR", action="ask")
    await lite.set(in_(lite.clock, minutes=1), "on its way")
    await lite.set(in_(lite.clock, minutes=1), "arrived")
    await lite.passes(minutes=1)
    await lite.write(lambda conn: conn.execute(update(outbox).where(outbox.c.id == 2).values(status="sent")))
    async with restored(lite, tmp_path / "new") as (done, after):
        assert (done.messages, done.answers, done.others) == (1, 1, 2)
        for _ in range(3):
            await after.passes(hours=1)
        assert (len(await after.asked()), len(await after.said())) == (1, 2)
        assert await after.states() == {"failed": 2}


async def test_kept_open_all_of_it_goes_on(lite: Room, tmp_path: Path) -> None:
    await lite.set(in_(lite.clock, hours=1), "once")
    async with restored(lite, tmp_path / "new", keep_open=True) as (done, after):
        assert done.others == 0
        assert len(await after.said()) == 1


def test_a_copy_of_a_version_without_schedules_has_none(clock: FakeClock) -> None:
    with create_engine("sqlite://").begin() as conn:
        assert put_aside(conn, clock.now(), read_catalogue()) == 0
