"""The journal of a dead process, and what it proves about its calls; then a whole delivery that is killed."""

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url, select

from agent.core.ids import ConversationId
from agent.storage import outbox_rows
from agent.storage.conversation_rows import ensure
from agent.storage.database import Database
from agent.storage.outbox_rows import IN_ROW
from agent.storage.postgres import PostgresDatabase
from agent.storage.tables import outbox
from gateway.channels.channel import Capabilities
from gateway.channels.errors import ChannelBusy, ChannelUnsure
from gateway.delivery.egress import Found, Guard
from gateway.delivery.outbox import rows
from gateway.delivery.outbox.call_journal import FOLDER, SLOTS, CallJournal, open_journal
from gateway.storage.rekey import rekey
from tests.fakes.channel import DEFAULT
from tests.fakes.clock import FakeClock
from tests.gateway.delivery.world import World, key

FLAG = "(This may be a repeat: the connection broke off while I was sending.)\n"
PARTS = "word " * 1000  # two messages
NONCE = replace(DEFAULT, idempotent_send="nonce")
LOOKUP = replace(DEFAULT, idempotent_send="lookup")


def file_of(home: Path, run: str) -> Path:
    return home / FOLDER / run


def left_by(home: Path, *notes: tuple[int, int, int]) -> str:
    """A process that noted these calls (row, attempt, piece) and died; its run."""
    dead = open_journal(home)
    assert dead.run is not None
    for note in notes:
        assert dead.note(*note)
    dead.close()
    return dead.run


def next_one(home: Path, *runs: str) -> CallJournal:
    """The next process, which has read what these runs left; it makes no file of its own."""
    journal = CallJournal(home)
    journal.recover(runs)
    return journal


@pytest.mark.parametrize(
    ("noted", "asked", "begun"),
    [
        pytest.param([(7, 1, 0)], (7, 1, 0), True, id="it was noted"),
        pytest.param([(8, 1, 0)], (7, 1, 0), False, id="another row was"),
        pytest.param([], (7, 1, 0), False, id="nothing was"),
        pytest.param([(7, 1, 0)], (7, 1, 1), False, id="the piece before was"),
        pytest.param([(7, 1, 0), (7, 1, 1)], (7, 1, 1), True, id="one piece after another"),
        pytest.param([(7, 1, 3)], (7, 1, 0), True, id="a later piece was"),
        pytest.param([(7, 1, 0)], (7, 2, 0), False, id="an earlier attempt was, which surely did not arrive"),
        pytest.param([(7, 2, 0)], (7, 1, 5), True, id="a later attempt was: this is an older state of the database"),
    ],
)
def test_what_was_noted_may_have_begun_and_nothing_else(
    tmp_path: Path, noted: list[tuple[int, int, int]], asked: tuple[int, int, int], begun: bool
) -> None:
    run = left_by(tmp_path, *noted)
    assert next_one(tmp_path, run).may_have_begun(run, *asked) is begun


def _other_line(number: int) -> Callable[[Path], object]:
    """As on another boot or another host: the header names it."""

    def spoil(path: Path) -> None:
        content = path.read_bytes()
        lines = content[:256].rstrip(b"\0").split(b"\n")
        lines[number] = b"x" * len(lines[number])
        path.write_bytes(b"\n".join(lines).ljust(256, b"\0") + content[256:])

    return spoil


@pytest.mark.requirement("W-13")
@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(_other_line(0), id="another format"),
        pytest.param(_other_line(1), id="another boot"),
        pytest.param(_other_line(2), id="another host"),
        pytest.param(_other_line(3), id="another run"),
        pytest.param(lambda path: path.write_bytes(path.read_bytes()[:-1]), id="cut short"),
        pytest.param(lambda path: path.write_bytes(path.read_bytes() + b"\0"), id="too long"),
        pytest.param(lambda path: path.write_bytes(b""), id="empty"),
        pytest.param(lambda path: path.unlink(), id="gone"),
        pytest.param(lambda path: (path.unlink(), path.mkdir()), id="no file"),
    ],
)
def test_a_file_that_proves_nothing_clears_no_row(tmp_path: Path, spoil: Callable[[Path], object]) -> None:
    run = left_by(tmp_path, (8, 1, 0))
    assert not next_one(tmp_path, run).may_have_begun(run, 7, 1, 0)
    spoil(file_of(tmp_path, run))
    assert next_one(tmp_path, run).may_have_begun(run, 7, 1, 0)


def test_a_row_that_names_no_run_or_one_that_nobody_read_may_have_begun(tmp_path: Path) -> None:
    run = left_by(tmp_path)
    assert next_one(tmp_path, run).may_have_begun(None, 7, 1, 0)
    assert next_one(tmp_path).may_have_begun(run, 7, 1, 0)


def test_a_process_that_lives_may_yet_begin(tmp_path: Path) -> None:
    """With PostgreSQL another one may own the database while it is frozen."""
    living = open_journal(tmp_path)
    assert living.run is not None
    other = next_one(tmp_path, living.run)
    assert other.may_have_begun(living.run, 7, 1, 0)
    next_one(tmp_path)  # nor does anybody take its file away
    assert file_of(tmp_path, living.run).exists()
    living.close()
    assert not next_one(tmp_path, living.run).may_have_begun(living.run, 7, 1, 0)


@pytest.mark.requirement("W-13")
def test_a_note_outlives_a_process_that_is_killed(tmp_path: Path) -> None:
    code = """
import os, signal, sys
from pathlib import Path
from gateway.delivery.outbox.call_journal import open_journal
journal = open_journal(Path(sys.argv[1]))
assert journal.note(7, 1, 0)
print(journal.run, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    killed = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    run = killed.stdout.strip()
    after = next_one(tmp_path, run)
    assert (killed.returncode, after.may_have_begun(run, 7, 1, 0), after.may_have_begun(run, 8, 1, 0)) == (
        -9,
        True,
        False,
    )


def test_the_file_does_not_grow_and_what_it_forgets_may_have_begun(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    assert journal.run is not None
    file = file_of(tmp_path, journal.run)
    size = file.stat().st_size
    assert journal.note(1, 1, 0)  # stays open through all of it
    for row in range(2, 3 * SLOTS):
        assert journal.note(row, 1, 0)
        journal.release(row)
    journal.close()
    assert file.stat().st_size == size < 64_000
    after = next_one(tmp_path, journal.run)
    assert after.may_have_begun(journal.run, 1, 1, 0)
    assert after.may_have_begun(journal.run, 2, 1, 0), "written over, so nobody knows"
    assert not after.may_have_begun(journal.run, 3 * SLOTS, 1, 0)


def test_more_at_once_than_there_is_room_for_cannot_be_noted(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    assert all(journal.note(row, 1, 0) for row in range(1, SLOTS + 1))
    assert not journal.note(SLOTS + 1, 1, 0)
    journal.release(1)
    assert journal.note(SLOTS + 1, 1, 0)
    journal.close()


def test_a_start_takes_away_what_no_row_names(tmp_path: Path) -> None:
    named, other = left_by(tmp_path), left_by(tmp_path)
    now = open_journal(tmp_path)
    now.recover([named])
    assert {path.name for path in (tmp_path / FOLDER).iterdir()} == {named, now.run}
    assert other not in {named, now.run}
    now.close()


def test_without_a_place_to_note_it_is_another_process_that_notes_nothing(tmp_path: Path) -> None:
    (tmp_path / FOLDER).write_text("no folder")
    journal = open_journal(tmp_path)
    assert journal.run is None
    assert journal.note(7, 1, 0), "its rows name no run"
    journal.recover(["0123456789abcdef"])


# -- deliveries


async def noted_by(world: World) -> list[str | None]:
    return await world.database.read(
        lambda conn: list(conn.execute(select(outbox.c.noted_by).order_by(outbox.c.id)).scalars())
    )


@pytest.mark.requirement("B-52", "W-13")
@pytest.mark.parametrize("capabilities", [DEFAULT, NONCE, LOOKUP], ids=["none", "nonce", "lookup"])
async def test_a_kill_between_the_commit_and_the_call_makes_no_repeat(
    database: Database, clock: FakeClock, tmp_path: Path, capabilities: Capabilities
) -> None:
    world = World(database, clock, tmp_path, capabilities)
    await world.commit("one", "two")
    await world.take()
    assert await world.statuses() == ["sending", "new"]
    async with world.process():
        await world.until_idle()
    assert world.screen().texts == ["one", "two"]
    assert not world.screen().made("find"), "there is nothing to look for"


@pytest.fixture
def world(sqlite_database: Database, clock: FakeClock, tmp_path: Path) -> World:
    return World(sqlite_database, clock, tmp_path)


@pytest.mark.requirement("B-52", "W-13")
@pytest.mark.parametrize(
    ("noted", "flagged"),
    [
        pytest.param((), False, id="no piece was begun"),
        pytest.param((0,), False, id="the first has arrived"),
        pytest.param((0, 1), True, id="the second was begun"),
    ],
)
async def test_of_several_pieces_only_one_that_was_begun_may_be_a_repeat(
    world: World, noted: tuple[int, ...], flagged: bool
) -> None:
    await world.commit(PARTS)
    row = await world.take()
    for piece in noted:
        assert world.journal.note(row.id, row.attempt, piece)
        if piece == 0:
            arrived = partial(outbox_rows.mark_progress, row_id=row.id, sent_refs=["m0"], noted_by=world.journal.run)
            await world.database.write(arrived)
    async with world.process():
        await world.until_idle()
    assert len(world.screen().texts) == (1 if noted else 2)
    assert world.screen().texts[-1].startswith(FLAG.strip()) is flagged


@pytest.mark.requirement("B-52", "W-13")
async def test_what_may_have_arrived_stays_so_through_a_process_that_did_not_come_to_send_it(world: World) -> None:
    world.screen().hold("send")
    async with world.process():
        await world.commit("one")
        await world.still()
    world.screen().gates.clear()
    world.dies()
    assert (await world.take()).cut_off
    async with world.process():
        await world.until_idle()
    assert world.screen().texts == [f"{FLAG}one"]


async def test_what_surely_did_not_arrive_and_was_taken_again_is_no_repeat(world: World) -> None:
    world.screen().fail("send", ChannelBusy("later", after_s=5.0))
    async with world.process():
        await world.commit("one")
        await world.still()
    assert await world.statuses() == ["new"]
    world.clock.advance(10.0)
    assert (await world.take()).attempt == 2  # by the same process, which noted the first
    async with world.process():
        await world.until_idle()
    assert world.screen().texts == ["one"]


def read_only(home: Path) -> CallJournal:
    """As on a disk that has become read-only."""
    journal = open_journal(home)
    assert journal.run is not None
    journal.close()
    return CallJournal(home, journal.run, os.open(file_of(home, journal.run), os.O_RDONLY))


@pytest.mark.requirement("B-48", "W-13")
async def test_a_call_that_cannot_be_noted_is_made_and_may_be_a_repeat(world: World) -> None:
    world.journals = read_only
    world.screen().hold("send")
    async with world.process():
        await world.commit("one")
        await world.still()
        assert (await world.statuses(), await noted_by(world)) == (["sending"], [None])
    world.journals = open_journal
    world.screen().gates.clear()
    async with world.process():
        await world.until_idle()
    assert world.screen().texts == [f"{FLAG}one"]


async def test_a_row_that_moves_while_nobody_knows_whether_it_arrived_may_be_a_repeat(world: World) -> None:
    """Its old worker finds it no more; that of its new place must not believe that nothing had begun."""
    old, new = (ConversationId(str(key(name))) for name in ("1", "2"))
    world.screen().fail("send", ChannelUnsure("cut"))
    await world.database.write(lambda conn: ensure(conn, old, 1))
    async with world.process() as delivery:
        await world.commit("one")
        await world.still()
        assert await noted_by(world) == [world.journal.run]
        await world.database.write(lambda conn: rekey(conn, old, new))
        delivery.wake(key("2"))
        await world.until_idle()
    assert world.screen("2").texts == [f"{FLAG}one"]


# -- PostgreSQL: the rows tell, also a process on another machine


class Machines:
    """Two machines on one PostgreSQL, each with a home of its own; people see one screen."""

    def __init__(self, one: World, other: World) -> None:
        self.one, self.other = one, other
        other.screens = one.screens


@pytest.fixture
async def machines(postgres_url: str, clock: FakeClock, tmp_path: Path) -> AsyncIterator[Machines]:
    url = make_url(postgres_url).set(drivername="postgresql+psycopg")
    databases = [PostgresDatabase(url) for _ in range(2)]
    homes = [tmp_path / name for name in ("one", "other")]
    for home in homes:
        home.mkdir()
    yield Machines(*(World(database, clock, home) for database, home in zip(databases, homes, strict=True)))
    for database in databases:
        await database.aclose()


@pytest.mark.requirement("G-148")
@pytest.mark.parametrize(
    ("called", "texts"),
    [
        pytest.param(False, ["one"], id="it died before the call"),
        pytest.param(True, [f"{FLAG}one"], id="it died in the call"),
    ],
)
async def test_another_machine_knows_which_call_had_begun(machines: Machines, called: bool, texts: list[str]) -> None:
    await machines.one.commit("one")
    row = await machines.one.take()
    if called:
        await machines.one.database.write(partial(outbox_rows.mark_called, row_id=row.id, attempt=row.attempt, piece=0))
    assert not (machines.one.home / FOLDER).exists(), "nothing of it lies on the machine that died"
    async with machines.other.process():
        await machines.other.until_idle()
    assert machines.other.screen().texts == texts
    assert await machines.other.statuses() == ["sent"]


@pytest.mark.requirement("G-148")
async def test_each_piece_is_noted_in_its_row_before_the_platform_is_called(machines: Machines) -> None:
    gate = machines.one.screen().hold("send")
    async with machines.one.process():
        await machines.one.commit(PARTS)
        await machines.one.still()
        assert await noted(machines.one) == (IN_ROW, 0)
        machines.one.screen().gates.clear()
        second = machines.one.screen().hold("send")
        gate.set()
        await machines.one.still()
        assert await noted(machines.one) == (IN_ROW, 1)
        second.set()
        machines.one.screen().gates.clear()
        await machines.one.until_idle()
    assert len(machines.one.screen().texts) == 2


@pytest.mark.requirement("G-148")
async def test_of_two_that_believe_a_row_to_be_theirs_the_one_that_took_it_last_sends_it(machines: Machines) -> None:
    """The first was frozen between its commit and its call, and wakes up while the other is sending."""
    await machines.one.commit("one")
    frozen = await machines.one.take()
    async with machines.other.process():
        await machines.other.until_idle()
    with pytest.raises(outbox_rows.RowTaken):
        await machines.one.database.write(
            partial(outbox_rows.mark_called, row_id=frozen.id, attempt=frozen.attempt, piece=0)
        )
    assert machines.other.screen().texts == ["one"]


@pytest.mark.requirement("G-148")
async def test_a_process_whose_row_was_taken_sends_nothing_and_writes_nothing(machines: Machines) -> None:
    one, other = machines.one, machines.other
    engine = create_engine(one.database.url)  # type: ignore[attr-defined]
    taking = partial(rows.claim, key=ConversationId(str(key())), now=1, journal=other.journal, is_free=lambda row: True)

    def taken_meanwhile(text: str) -> tuple[Found, ...]:
        with engine.begin() as conn:
            taking(conn)
        return ()

    one.guard = Guard(taken_meanwhile)
    await one.commit("one")
    async with one.process():
        await one.still()
        assert one.screen().texts == []
        assert await one.statuses() == ["sending"], "it is the other's"
    engine.dispose()


async def noted(world: World) -> tuple[str | None, int | None]:
    """By whom the calls of the first row are noted, and the piece."""
    query = select(outbox.c.noted_by, outbox.c.called_piece).order_by(outbox.c.id)
    found = await world.database.read(lambda conn: conn.execute(query).first())
    assert found is not None
    return found.noted_by, found.called_piece


async def test_a_row_that_an_earlier_version_took_is_judged_by_its_file(machines: Machines) -> None:
    one = machines.one
    await one.commit("one", "two")
    earlier = open_journal(one.home)
    one.journal = earlier
    row = await one.take()
    assert earlier.note(row.id, row.attempt, 0)
    earlier.close()
    async with one.process():
        await one.until_idle()
    assert one.screen().texts == [f"{FLAG}one", "two"]
