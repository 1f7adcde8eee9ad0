"""Retention deletes expired rows and files, and nothing else."""

import os
from collections.abc import Callable, Coroutine
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from sqlalchemy import Connection, select

from agent.compaction.settings import MemorySettings
from agent.core.clock import SystemClock
from agent.core.ids import ConversationId
from agent.core.outbox import OutgoingMessage
from agent.inbox import Incoming
from agent.memory.memory import Memory
from agent.storage import inbox_rows, outbox_rows
from agent.storage.database import Database, RetryingDatabase
from agent.storage.errors import StorageTrouble
from agent.storage.payloads import decode_incoming, encode_incoming
from agent.storage.tables import inbox, outbox
from agent.storage.timestamps import to_timestamp
from gateway.config.sections import MOST_DAYS, RetentionSettings
from gateway.running.retention import EVERY_S, FIRST_S, Upkeep
from gateway.scheduler.process_scheduler import ProcessScheduler
from gateway.storage.retention import BATCH
from tests.fakes.clock import FakeClock
from tests.fakes.running import running
from tests.fakes.waiting import until

KEY = ConversationId("telegram:77")
RETENTION = RetentionSettings(attachment_days=5, inbox_days=10, outbox_days=20, backups=2)


def hourly(upkeep: Upkeep, clock: FakeClock) -> Callable[[], Coroutine[Any, Any, None]]:
    """The periodic job of the services, on a clock that a test moves."""
    scheduler = ProcessScheduler(clock, late_s=0.0)
    return partial(scheduler.repeat, "upkeep", upkeep.run_once, every_s=EVERY_S, first_s=FIRST_S)


async def nothing_of_turns() -> None:
    """No turn is traced."""


async def nothing_of_groups() -> None:
    """No place is read along in."""


class House:
    def __init__(self, database: Database, clock: FakeClock, home: Path) -> None:
        self.database, self.clock, self.home = database, clock, home
        self.retention = RETENTION
        self.upkeep = Upkeep(
            database,
            clock=clock,
            home=home,
            files=None,
            retention=lambda: self.retention,
            memory=Memory(database, clock, settings=MemorySettings),
            groups=nothing_of_groups,
            traces=nothing_of_turns,
            events=nothing_of_turns,
            ledger_days=lambda: 90,
            miss_days=lambda: 90,
        )

    async def said(self, text: str, days: float, status: str) -> None:
        """A message of so many days ago, and the answer to it."""
        at = self.clock.now() - timedelta(days=days)
        payload = encode_incoming(Incoming(text=text, received_at=at))

        def work(conn: Connection) -> None:
            admitted = inbox_rows.admit(
                conn, conversation=KEY, kind="message", dedup=text, payload=payload, at=to_timestamp(at), limit=None
            )
            assert admitted.id is not None
            row = outbox_rows.add(
                conn,
                conversation=KEY,
                inbox_id=admitted.id,
                part=0,
                dedup=text,
                say=OutgoingMessage(text=text, kind="reply"),
                at=to_timestamp(at),
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
async def services(sqlite_database: Database, clock: FakeClock, tmp_path: Path) -> House:
    return House(sqlite_database, clock, tmp_path)


async def test_ended_rows_go_when_they_are_old_and_open_ones_never(services: House) -> None:
    await services.said("old and done", 11, "done")
    await services.said("old and refused", 11, "refused")
    await services.said("old and dead", 11, "dead")
    await services.said("ancient and done", 21, "done")
    await services.said("ancient and new", 21, "new")
    await services.said("young and done", 9, "done")
    await services.upkeep.tidy()
    assert await services.left() == (["ancient and new", "young and done"], 5)


async def test_the_longest_times_that_the_settings_take_can_be_kept(services: House) -> None:
    days = ("attachment_days", "workspace_days", "output_days", "inbox_days", "outbox_days", "audit_days")
    services.retention = RetentionSettings(**dict.fromkeys(days, MOST_DAYS))
    assert services.retention.mistakes() == []
    await services.said("old and done", 11, "done")
    await services.upkeep.tidy()
    assert (await services.left())[0] == ["old and done"]


async def test_many_go_in_pieces(services: House, clock: FakeClock) -> None:
    at = to_timestamp(services.clock.now() - timedelta(days=11))
    row = {"conv": KEY, "kind": "message", "status": "done", "created_at": at}
    row["payload"] = encode_incoming(Incoming(text="x", received_at=services.clock.now()))
    rows = [row | {"dedup": str(number)} for number in range(2 * BATCH + 10)]
    await services.said("stays", 1, "new")
    await services.database.write(lambda conn: conn.execute(inbox.insert(), rows))
    async with running(services.upkeep.tidy):

        async def all_gone() -> bool:
            if clock.sleepers:
                clock.advance(1)
            return (await services.left())[0] == ["stays"]

        await until(all_gone)


async def test_old_files_and_empty_folders_go(services: House) -> None:
    old, young = services.file("files/a/0-x.txt", 6), services.file("files/b/0-x.txt", 4)
    being_filled, left_empty = services.file("files/c/", 0), services.file("files/d/", 6)
    export, fresh_export = services.file("exports/old.jsonl", 1.1), services.file("exports/new.jsonl", 0.9)
    output, fresh_output = (
        services.file("outputs/telegram%3A1/a.txt", 7.1),
        services.file("outputs/telegram%3A1/b.txt", 6.9),
    )
    other = services.file("agents/default/AGENT.md", 400)
    await services.upkeep.tidy()
    assert [path.exists() for path in (old, left_empty, export, output)] == [False] * 4
    assert [path.exists() for path in (young, being_filled, fresh_export, fresh_output, other)] == [True] * 5


@pytest.mark.parametrize("days", [31, 1], ids=["old", "young"])
async def test_folders_in_folders_without_end_stop_no_tidying(services: House, days: float) -> None:
    """A command in the sandbox makes them until no path names the last of them, nor Python recurses so far."""
    workspace = services.home / "workspaces" / "telegram%3A77"
    workspace.mkdir(parents=True)
    moment = (services.clock.now() - timedelta(days=days)).timestamp()
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
    services.retention = replace(RETENTION, workspace_days=30)
    after = services.file("exports/old.jsonl", 1.1)
    try:
        await services.upkeep.tidy()
        left = (await anyio.run_process(["find", str(workspace), "-type", "d"])).stdout.count(b"\n")
    finally:
        await anyio.run_process(["rm", "-rf", str(workspace)])  # pytest cannot tidy such a tree away
    assert (left < 70) is (days > 30)
    assert not after.exists()


async def test_links_in_a_workspace_go_when_they_are_old_and_lead_nowhere(services: House) -> None:
    secret = services.file("gateway.toml", 400)
    other = services.file("elsewhere/a.txt", 400)
    workspace = services.file("workspaces/telegram%3A77/", 0)
    for name, to in (("file", secret), ("folder", other.parent)):
        (workspace / name).symlink_to(to)
        os.utime(workspace / name, (0, 0), follow_symlinks=False)
    (services.home / "outputs").symlink_to(other.parent)
    await services.upkeep.tidy()
    assert list(workspace.iterdir()) == []
    assert (secret.exists(), other.exists()) == (True, True)


async def test_the_newest_backups_stay_and_so_do_copies_of_other_kinds(services: House) -> None:
    for day in range(4):
        services.file(f"backups/tieline-20260101-12000{day}.db", day)
    for name in ("mine.db", "tieline-r0001.db"):
        services.file(f"backups/{name}", 100)
    await services.upkeep.tidy()
    left = sorted(path.name for path in (services.home / "backups").iterdir())
    assert left == ["mine.db", "tieline-20260101-120000.db", "tieline-20260101-120001.db", "tieline-r0001.db"]


async def test_a_database_that_takes_nothing_keeps_no_file_from_going(
    services: House, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    steady = RetryingDatabase(services.database, clock=SystemClock(), on_trouble=lambda reason: None)
    services = House(steady, clock, services.home)
    await services.said("old and done", 11, "done")
    await steady.write(lambda conn: conn.exec_driver_sql("PRAGMA query_only = ON"))
    old = services.file("files/a/0-x.txt", 6)
    async with running(hourly(services.upkeep, clock)):
        await until(lambda: clock.sleepers == 1)
        clock.advance(FIRST_S)
        await until(lambda: not old.exists())
        await until(lambda: "tidying up failed" in caplog.text)


async def test_it_works_every_hour_and_a_failure_waits_for_the_next(
    services: House, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[int] = []

    def retention() -> RetentionSettings:
        asked.append(1)
        if len(asked) <= 2:  # by the files' half and the rows'
            raise StorageTrouble("the disk is full")
        return RETENTION

    upkeep = Upkeep(
        services.database,
        clock=clock,
        home=services.home,
        files=None,
        retention=retention,
        memory=Memory(services.database, clock, settings=MemorySettings),
        groups=nothing_of_groups,
        traces=nothing_of_turns,
        events=nothing_of_turns,
        ledger_days=lambda: 90,
        miss_days=lambda: 90,
    )
    old = services.file("files/a/0-x.txt", 6)
    async with running(hourly(upkeep, clock)):
        await until(lambda: clock.sleepers == 1)
        clock.advance(FIRST_S)
        await until(lambda: len(asked) == 2 and clock.sleepers == 1)
        assert "tried again in an hour: the disk is full" in caplog.text
        assert old.exists()
        clock.advance(EVERY_S)
        await until(lambda: not old.exists())
