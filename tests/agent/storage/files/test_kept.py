"""Small files that two data directories share by one PostgreSQL: written with one, read with the other."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
from sqlalchemy import insert, make_url, select

from agent.core.ids import ConversationId
from agent.memory import notes
from agent.memory.notes import folder_of, path_of
from agent.storage.database import Database
from agent.storage.files.kept import BASES, LARGEST, FileCopy, KeptFiles, Step, step_for
from agent.storage.postgres import PostgresDatabase
from agent.storage.process_tables import kept_file
from tests.fakes.clock import FakeClock

CHAT = ConversationId("telegram:-1005/7")
FOLDER = folder_of(CHAT)


def copy(content: str, at: int = 0) -> FileCopy:
    return FileCopy(content, at)


@pytest.mark.requirement("G-151")
@pytest.mark.parametrize(
    ("stored", "local", "base", "step"),
    [
        pytest.param(None, None, None, "nothing", id="there is none"),
        pytest.param(copy("a"), copy("a"), "a", "nothing", id="both are the same"),
        pytest.param(copy("a"), copy("a"), None, "nothing", id="both are the same by themselves"),
        pytest.param(copy("a"), None, None, "take", id="new elsewhere"),
        pytest.param(None, copy("a"), None, "give", id="new here"),
        pytest.param(copy("b"), copy("a"), "a", "take", id="changed elsewhere"),
        pytest.param(copy("a"), copy("b"), "a", "give", id="changed here"),
        pytest.param(None, copy("a"), "a", "take", id="removed elsewhere"),
        pytest.param(copy("a"), None, "a", "give", id="removed here"),
        pytest.param(None, copy("b"), "a", "give", id="removed elsewhere and changed here"),
        pytest.param(copy("b"), None, "a", "take", id="changed elsewhere and removed here"),
        pytest.param(copy("b", 2), copy("c", 1), "a", "take", id="changed in both, later elsewhere"),
        pytest.param(copy("b", 1), copy("c", 2), "a", "give", id="changed in both, later here"),
    ],
)
def test_step_for(stored: FileCopy | None, local: FileCopy | None, base: str | None, step: Step) -> None:
    assert step_for(stored, local, base) == step


class Machine:
    """A process with a home of its own."""

    def __init__(self, database: PostgresDatabase, clock: FakeClock, home: Path) -> None:
        self.database, self.home = database, home
        self.files = KeptFiles(database, clock, home)
        self.path = path_of(home, CHAT)

    async def sync(self) -> None:
        await self.files.sync(FOLDER)

    @property
    def text(self) -> str | None:
        return self.path.read_text() if self.path.exists() else None


@pytest.fixture
async def machines(postgres_url: str, clock: FakeClock, tmp_path: Path) -> AsyncIterator[tuple[Machine, Machine]]:
    url = make_url(postgres_url).set(drivername="postgresql+psycopg")
    one, other = (Machine(PostgresDatabase(url), clock, tmp_path / name) for name in ("one", "other"))
    yield one, other
    await one.database.aclose()
    await other.database.aclose()


@pytest.mark.requirement("G-151")
async def test_notes_that_one_machine_writes_are_read_on_another(
    machines: tuple[Machine, Machine], clock: FakeClock
) -> None:
    one, other = machines
    notes.write(one.path, "Tea.\n", at=clock.now())
    await one.sync()
    await other.sync()
    assert other.text == "Tea.\n"
    assert (other.path.stat().st_mode & 0o777, len(notes.versions_of(other.path))) == (0o600, 1)
    clock.advance(1)
    notes.write(other.path, "Coffee.\n", at=clock.now())
    await other.sync()
    await one.sync()
    assert (one.text, len(notes.versions_of(one.path))) == ("Coffee.\n", 2)


@pytest.mark.requirement("G-151")
async def test_what_is_forgotten_on_one_machine_goes_from_the_database_and_from_each_home(
    machines: tuple[Machine, Machine], clock: FakeClock
) -> None:
    one, other = machines
    notes.write(one.path, "The safe: 1234.\nTea.\n", at=clock.now())
    for machine in machines:
        await machine.sync()
    notes.erase(one.path, lambda line: "1234" in line)
    await one.sync()
    contents = await one.database.read(lambda conn: conn.execute(select(kept_file.c.content)).scalars().all())
    assert contents
    assert not any(b"1234" in bytes(content) for content in contents)
    await other.files.sync_all()
    assert not any(b"1234" in path.read_bytes() for path in other.home.rglob("*") if path.is_file())
    notes.erase(other.path, None)
    await other.sync()
    await one.files.sync_all()
    assert one.text is None


@pytest.mark.requirement("G-151")
async def test_what_is_forgotten_of_several_conversations_goes_from_each_home(
    machines: tuple[Machine, Machine], clock: FakeClock
) -> None:
    one, other = machines
    chats = [ConversationId(f"telegram:{number}") for number in range(3)]
    for chat in chats:
        notes.write(path_of(one.home, chat), "The safe: 1234.\n", at=clock.now())
        for machine in machines:
            await machine.files.sync(folder_of(chat))
        assert path_of(other.home, chat).exists()
        notes.erase(path_of(one.home, chat), None)
        await one.files.sync(folder_of(chat))
    await other.files.sync_all()
    assert [chat for chat in chats if path_of(other.home, chat).exists()] == []


@pytest.mark.requirement("G-151")
async def test_a_change_by_hand_while_nobody_runs_counts(machines: tuple[Machine, Machine], clock: FakeClock) -> None:
    one, _ = machines
    notes.write(one.path, "Tea.\n", at=clock.now())
    await one.sync()
    one.path.write_text("Milk.\n")
    restarted = Machine(one.database, clock, one.home)
    await restarted.sync()
    assert restarted.text == "Milk.\n"
    new = Machine(one.database, clock, one.home.parent / "new")
    await new.sync()
    assert new.text == "Milk.\n"


async def test_two_that_write_at_once_end_with_the_same(machines: tuple[Machine, Machine], clock: FakeClock) -> None:
    for machine, text in zip(machines, ("Tea.\n", "Coffee.\n"), strict=True):
        notes.write(machine.path, text, at=clock.now())
    async with anyio.create_task_group() as tasks:
        for machine in machines:
            tasks.start_soon(machine.sync)
    for _ in range(2):
        for machine in machines:
            await machine.sync()
    one, other = machines
    assert one.text == other.text
    assert one.text is not None


async def test_what_is_too_large_or_leads_elsewhere_stays_where_it_is(
    machines: tuple[Machine, Machine], tmp_path: Path
) -> None:
    one, other = machines
    one.path.parent.mkdir(parents=True)
    one.path.write_bytes(b"x" * (LARGEST + 1))
    (tmp_path / "secret").write_text("secret")
    os.symlink(tmp_path / "secret", one.path.with_name("link.md"))
    await one.sync()
    await other.sync()
    assert not other.path.parent.exists()


async def test_a_file_that_has_become_too_large_is_not_taken_for_one_that_was_removed(
    machines: tuple[Machine, Machine], clock: FakeClock
) -> None:
    one, other = machines
    notes.write(one.path, "Tea.\n", at=clock.now())
    for machine in machines:
        await machine.sync()
    one.path.write_bytes(b"x" * (LARGEST + 1))
    for machine in machines:
        await machine.sync()
    assert (other.text, one.path.stat().st_size) == ("Tea.\n", LARGEST + 1)


def notes_below(root: Path) -> list[str]:
    return [path.name for path in root.rglob("*.md")]


async def test_a_name_that_leads_out_of_its_folder_is_not_written(
    machines: tuple[Machine, Machine], tmp_path: Path
) -> None:
    one, _ = machines
    names = ("../../../out.md", "/tmp/out.md", "x/../../out.md", "good.md")
    rows = [{"folder": FOLDER, "name": name, "content": b"x", "digest": name, "changed_at": 1} for name in names]
    await one.database.write(lambda conn: conn.execute(insert(kept_file), rows))
    await one.sync()
    assert notes_below(tmp_path) == ["good.md"]


async def test_without_the_database_the_local_file_is_read(machines: tuple[Machine, Machine], clock: FakeClock) -> None:
    one, _ = machines
    notes.write(one.path, "Tea.\n", at=clock.now())

    class Broken:
        dialect = "postgresql"

        async def read(self, work: object) -> None:
            raise OSError("no server")

    await KeptFiles(Broken(), clock, one.home).sync(FOLDER)  # type: ignore[arg-type]
    assert one.text == "Tea.\n"


async def test_sqlite_is_asked_for_nothing(sqlite_database: Database, clock: FakeClock, tmp_path: Path) -> None:
    await sqlite_database.aclose()  # whatever asked it would fail
    notes.write(path_of(tmp_path, CHAT), "Tea.\n", at=clock.now())
    files = KeptFiles(sqlite_database, clock, tmp_path)
    await files.sync(FOLDER)
    await files.sync_all()
    assert not (tmp_path / BASES).exists()
