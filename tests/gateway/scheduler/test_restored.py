"""After a copy took the database's place nothing of its schedules happens a second time (docs/backup.md)."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Connection, create_engine, insert, update

from agent.storage.copies.restore import Restored, restore
from agent.storage.copies.sqlite import back_up
from agent.storage.database import Database
from agent.storage.migrate import downgrade
from agent.storage.sqlite import sqlite_engine
from agent.storage.tables import goal, outbox, plan
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


@pytest.mark.requirement("G-15")
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


def untouched(path: Path) -> None:
    """Nothing is done to it."""


def of_the_version_before(path: Path) -> None:
    """Without the counting of goals and plans."""
    engine = sqlite_engine(path, foreign_keys=False)
    with engine.begin() as conn:
        downgrade(conn, SCHEMA.migrations, "0029_feedback")
    engine.dispose()


async def numbers_after(
    lite: Room,
    home: Path,
    former: Callable[[Path], None] = untouched,
    copied: Callable[[Path], None] = untouched,
) -> tuple[int, ...]:
    """Numbers of a schedule, a goal and a plan that are set after a restore; each was set once before and once since
    the copy. `former` does something to the database that is replaced, `copied` to the copy."""
    home.mkdir()  # noqa: ASYNC240 - a moment
    url = "sqlite:///tieline.db"
    first = await open_database(url, home)
    await numbered(Room(first, lite.clock), "before")
    await back_up(first, home / "copy.db")
    assert await numbered(Room(first, lite.clock), "since") == (2, 2, 2)
    await first.aclose()
    former(home / "tieline.db")
    copied(home / "copy.db")
    for name in ("x.db", "y.db"):  # the second time of a copy that knows no more than the first
        restore(
            url, home, home / "copy.db", schema=SCHEMA, kept_as=name, at=to_timestamp(lite.clock.now()),
            others=lambda conn: 0,
        )  # fmt: skip
    after = await open_database(url, home)
    given = await numbered(Room(after, lite.clock), "after")
    await after.aclose()
    return given


async def numbered(room: Room, name: str) -> tuple[int, ...]:
    def add(conn: Connection) -> tuple[int, ...]:
        at = to_timestamp(room.clock.now())
        words = {"conv": name, "origin": name, "created_at": at, "updated_at": at}
        made = conn.execute(insert(goal).values(**words, text="", status="active"))
        planned = conn.execute(insert(plan).values(**words, goal="", status="proposed", tasks="[]"))
        return made.inserted_primary_key[0], planned.inserted_primary_key[0]  # type: ignore[index]

    return (await room.set(in_(room.clock, hours=1), "once")).id, *await room.database.write(add)


async def test_numbers_do_not_come_back(lite: Room, tmp_path: Path) -> None:
    """Buttons of messages that stay on the platforms name them."""
    assert await numbers_after(lite, tmp_path / "home") == (3, 3, 3)


@pytest.mark.parametrize("former", [untouched, of_the_version_before])
async def test_numbers_do_not_come_back_with_a_copy_of_the_version_before(
    lite: Room, tmp_path: Path, former: Callable[[Path], None]
) -> None:
    assert await numbers_after(lite, tmp_path / "home", former, of_the_version_before) == (3, 3, 3)


@pytest.mark.parametrize("former", [Path.unlink, lambda path: path.write_bytes(b"SQLite format 3\0" + b"x" * 5000)])
async def test_where_nobody_can_tell_the_numbers_many_are_left_out(
    lite: Room, tmp_path: Path, former: Callable[[Path], None]
) -> None:
    assert await numbers_after(lite, tmp_path / "home", former) == (1002, 1002, 1002)
