"""What nobody needs any more goes, and nothing else."""

import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import anyio
import pytest
from sqlalchemy import Connection, select

from agent.core.clock import SystemClock
from agent.core.ids import ConversationId
from agent.core.outbox import Say
from agent.inbox import Incoming
from agent.storage import inbox_rows, outbox_rows
from agent.storage.database import Database
from agent.storage.errors import StorageTrouble
from agent.storage.moments import to_us
from agent.storage.payloads import decode_incoming, encode_incoming
from agent.storage.retries import SteadyDatabase
from agent.storage.tables import inbox, outbox
from gateway.config.sections import MOST_DAYS, RetentionSettings
from gateway.running.upkeep import EVERY_S, FIRST_S, Upkeep
from gateway.storage.retention import BATCH
from tests.fakes.clock import FakeClock
from tests.fakes.running import running
from tests.fakes.waiting import until

KEY = ConversationId("telegram:77")
RETENTION = RetentionSettings(attachment_days=5, inbox_days=10, outbox_days=20, backups=2)


class House:
    def __init__(self, database: Database, clock: FakeClock, home: Path) -> None:
        self.database, self.clock, self.home = database, clock, home
        self.retention = RETENTION
        self.upkeep = Upkeep(
            database,
            clock=clock,
            home=home,
            retention=lambda: self.retention,
            ledger_days=lambda: 90,
            miss_days=lambda: 90,
        )

    async def said(self, text: str, days: float, status: str) -> None:
        """A message of so many days ago, and the answer to it."""
        at = self.clock.now() - timedelta(days=days)
        payload = encode_incoming(Incoming(text=text, received_at=at))

        def work(conn: Connection) -> None:
            admitted = inbox_rows.admit(
                conn, conversation=KEY, kind="message", dedup=text, payload=payload, at=to_us(at), limit=None
            )
            assert admitted.id is not None
            row = outbox_rows.add(
                conn, conversation=KEY, inbox_id=admitted.id, part=0, dedup=text, say=Say(text=text), at=to_us(at)
            )
            assert row is not None
            if status != "new":
                inbox_rows.finish(conn, [admitted.id], status)  # type: ignore[arg-type] # one of them
                outbox_rows.mark_sent(conn, row, ["1"])

        await self.database.write(work)

    async def left(self) -> tuple[list[str], int]:
        """The messages that are left, and how many answers."""

        def read(conn: Connection) -> tuple[list[str], int]:
            rows = conn.execute(select(inbox.c.payload).order_by(inbox.c.id)).scalars()
            answers = conn.execute(select(outbox.c.id)).all()
            return [decode_incoming(row).text for row in rows], len(answers)

        return await self.database.read(read)

    def file(self, path: str, days: float) -> Path:
        """A file or (with a slash at the end) folder last written so many days ago."""
        whole = self.home / path
        if path.endswith("/"):
            whole.mkdir(parents=True, exist_ok=True)
        else:
            whole.parent.mkdir(parents=True, exist_ok=True)
            whole.write_text("x")
        at = (self.clock.now() - timedelta(days=days)).timestamp()
        os.utime(whole, (at, at))
        return whole


@pytest.fixture
async def house(sqlite_database: Database, clock: FakeClock, tmp_path: Path) -> House:
    return House(sqlite_database, clock, tmp_path)


async def test_ended_rows_go_when_they_are_old_and_open_ones_never(house: House) -> None:
    await house.said("old and done", 11, "done")
    await house.said("old and refused", 11, "refused")
    await house.said("old and dead", 11, "dead")
    await house.said("ancient and done", 21, "done")
    await house.said("ancient and new", 21, "new")
    await house.said("young and done", 9, "done")
    await house.upkeep.tidy()
    assert await house.left() == (["ancient and new", "young and done"], 5)


async def test_the_longest_times_that_the_settings_take_can_be_kept(house: House) -> None:
    days = ("attachment_days", "workspace_days", "output_days", "inbox_days", "outbox_days", "audit_days")
    house.retention = RetentionSettings(**dict.fromkeys(days, MOST_DAYS))
    assert house.retention.mistakes() == []
    await house.said("old and done", 11, "done")
    await house.upkeep.tidy()
    assert (await house.left())[0] == ["old and done"]


async def test_many_go_in_pieces(house: House, clock: FakeClock) -> None:
    at = to_us(house.clock.now() - timedelta(days=11))
    row = {"conv": KEY, "kind": "message", "status": "done", "created_at": at}
    row["payload"] = encode_incoming(Incoming(text="x", received_at=house.clock.now()))
    rows = [row | {"dedup": str(number)} for number in range(2 * BATCH + 10)]
    await house.said("stays", 1, "new")
    await house.database.write(lambda conn: conn.execute(inbox.insert(), rows))
    async with running(house.upkeep.tidy):

        async def all_gone() -> bool:
            if clock.sleepers:
                clock.advance(1)
            return (await house.left())[0] == ["stays"]

        await until(all_gone)


async def test_old_files_and_empty_folders_go(house: House) -> None:
    old, young = house.file("files/a/0-x.txt", 6), house.file("files/b/0-x.txt", 4)
    being_filled, left_empty = house.file("files/c/", 0), house.file("files/d/", 6)
    export, fresh_export = house.file("exports/old.jsonl", 1.1), house.file("exports/new.jsonl", 0.9)
    output, fresh_output = house.file("outputs/telegram%3A1/a.txt", 7.1), house.file("outputs/telegram%3A1/b.txt", 6.9)
    other = house.file("agents/default/AGENT.md", 400)
    await house.upkeep.tidy()
    assert [path.exists() for path in (old, left_empty, export, output)] == [False] * 4
    assert [path.exists() for path in (young, being_filled, fresh_export, fresh_output, other)] == [True] * 5


@pytest.mark.parametrize("days", [31, 1], ids=["old", "young"])
async def test_folders_in_folders_without_end_stop_no_tidying(house: House, days: float) -> None:
    """A command in the sandbox makes them until no path names the last of them, nor Python recurses so far."""
    workspace = house.home / "workspaces" / "telegram%3A77"
    workspace.mkdir(parents=True)
    moment = (house.clock.now() - timedelta(days=days)).timestamp()
    at = os.open(workspace, os.O_RDONLY)
    for _ in range(1_500):
        os.mkdir("deeper", dir_fd=at)
        inner = os.open("deeper", os.O_RDONLY, dir_fd=at)
        os.utime(at, (moment, moment))
        os.close(at)
        at = inner
    os.close(os.open("a.txt", os.O_WRONLY | os.O_CREAT, dir_fd=at))
    os.utime(at, (moment, moment))
    os.close(at)
    house.retention = replace(RETENTION, workspace_days=30)
    after = house.file("exports/old.jsonl", 1.1)
    try:
        await house.upkeep.tidy()
        left = (await anyio.run_process(["find", str(workspace), "-type", "d"])).stdout.count(b"\n")
    finally:
        await anyio.run_process(["rm", "-rf", str(workspace)])  # pytest cannot tidy such a tree away
    assert (left < 70) is (days > 30)
    assert not after.exists()


async def test_links_in_a_workspace_go_when_they_are_old_and_lead_nowhere(house: House) -> None:
    secret = house.file("gateway.toml", 400)
    other = house.file("elsewhere/a.txt", 400)
    workspace = house.file("workspaces/telegram%3A77/", 0)
    for name, to in (("file", secret), ("folder", other.parent)):
        (workspace / name).symlink_to(to)
        os.utime(workspace / name, (0, 0), follow_symlinks=False)
    (house.home / "outputs").symlink_to(other.parent)
    await house.upkeep.tidy()
    assert list(workspace.iterdir()) == []
    assert (secret.exists(), other.exists()) == (True, True)


async def test_the_newest_backups_stay_and_so_do_copies_of_other_kinds(house: House) -> None:
    for day in range(4):
        house.file(f"backups/tieline-20260101-12000{day}.db", day)
    for name in ("mine.db", "tieline-r0001.db"):
        house.file(f"backups/{name}", 100)
    await house.upkeep.tidy()
    left = sorted(path.name for path in (house.home / "backups").iterdir())
    assert left == ["mine.db", "tieline-20260101-120000.db", "tieline-20260101-120001.db", "tieline-r0001.db"]


async def test_a_database_that_takes_nothing_keeps_no_file_from_going(
    house: House, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    steady = SteadyDatabase(house.database, clock=SystemClock(), on_trouble=lambda reason: None)
    house = House(steady, clock, house.home)
    await house.said("old and done", 11, "done")
    await steady.write(lambda conn: conn.exec_driver_sql("PRAGMA query_only = ON"))
    old = house.file("files/a/0-x.txt", 6)
    async with running(house.upkeep.run):
        await until(lambda: clock.sleepers == 1)
        clock.advance(FIRST_S)
        await until(lambda: not old.exists())
        await until(lambda: "tidying up failed" in caplog.text)


async def test_it_works_every_hour_and_a_failure_waits_for_the_next(
    house: House, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[int] = []

    def retention() -> RetentionSettings:
        asked.append(1)
        if len(asked) <= 2:  # by the files' half and the rows'
            raise StorageTrouble("the disk is full")
        return RETENTION

    upkeep = Upkeep(
        house.database, clock=clock, home=house.home, retention=retention, ledger_days=lambda: 90, miss_days=lambda: 90
    )
    old = house.file("files/a/0-x.txt", 6)
    async with running(upkeep.run):
        await until(lambda: clock.sleepers == 1)
        clock.advance(FIRST_S)
        await until(lambda: len(asked) == 2 and clock.sleepers == 1)
        assert "tried again in an hour: the disk is full" in caplog.text
        assert old.exists()
        clock.advance(EVERY_S)
        await until(lambda: not old.exists())
