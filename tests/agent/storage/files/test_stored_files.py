"""Files of two data directories on one PostgreSQL database: written with one, read with the other."""

import os
import signal
import stat
import sys
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import anyio
import pytest
from sqlalchemy import Connection, func, select, update

from adapters.web.attachment_store import AttachmentStore
from agent.core.errors import Fenced, ToolError
from agent.core.failpoints import ENVIRONMENT
from agent.core.ids import ConversationId
from agent.core.messages import FilePart
from agent.documents.documents import Documents
from agent.documents.settings import DocumentSettings
from agent.storage import conversation_rows
from agent.storage.database import Database, Dialect
from agent.storage.files import rows
from agent.storage.files.cache import PART
from agent.storage.files.stored_files import StoredFiles
from agent.storage.process_tables import file, file_content, file_part
from agent.tools.output_files import Outputs
from gateway.storage.repair import open_database
from tests.agent.documents.make import SAMPLES
from tests.fakes.clock import FakeClock

T = TypeVar("T")
PATH = "files/telegram_77_1/0-plan.bin"
CHAT = ConversationId("telegram:77")
WORK = "workspaces/telegram%3A77"
MUCH, MANY = 1 << 30, 1000


class Counted:
    """The database, with how often it was asked and for what."""

    dialect: Dialect = "postgresql"

    def __init__(self, inner: Database) -> None:
        self.inner = inner
        self.asked: list[str] = []

    async def write(self, work: Callable[[Connection], T]) -> T:
        self.asked.append("write")
        return await self.inner.write(work)

    async def read(self, work: Callable[[Connection], T]) -> T:
        self.asked.append(work.func.__name__ if isinstance(work, partial) else "read")
        return await self.inner.read(work)

    async def aclose(self) -> None:
        await self.inner.aclose()


class Home:
    """A process with its own data directory."""

    def __init__(self, database: Database, home: Path, clock: FakeClock) -> None:
        home.mkdir()
        self.home, self.clock = home, clock
        self.database = Counted(database)
        self.files = StoredFiles(self.database, home, clock)

    def again(self) -> "Home":
        """The next process in the same directory: it remembers nothing."""
        later = Home.__new__(Home)
        later.home, later.clock = self.home, self.clock
        later.database = Counted(self.database.inner)
        later.files = StoredFiles(later.database, self.home, self.clock)
        return later

    def write(self, path: str, data: bytes) -> Path:
        to = self.home / path
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(data)
        return to

    async def put(self, path: str, data: bytes) -> None:
        self.write(path, data)
        await self.files.put(path)

    async def need(self, path: str) -> bytes | None:
        await self.files.need(path)
        there = self.home / path
        return there.read_bytes() if there.exists() else None

    async def push(self, epoch: int = 0) -> None:
        await self.files.push(WORK, epoch=epoch, most_bytes=MUCH, most_files=MANY)

    def workspace(self) -> dict[str, bytes]:
        top = self.home / WORK
        return {str(one.relative_to(top)): one.read_bytes() for one in top.rglob("*") if one.is_file()}


@pytest.fixture
async def database(postgres_url: str, tmp_path: Path) -> AsyncIterator[Database]:
    opened = await open_database(postgres_url, tmp_path)
    await opened.write(lambda conn: conversation_rows.ensure(conn, CHAT, 0))
    yield opened
    await opened.aclose()


@pytest.fixture
def one(database: Database, tmp_path: Path, clock: FakeClock) -> Home:
    return Home(database, tmp_path / "one", clock)


@pytest.fixture
def two(database: Database, tmp_path: Path, clock: FakeClock) -> Home:
    return Home(database, tmp_path / "two", clock)


async def counts(database: Database) -> tuple[int, int, int]:
    """Files, contents and parts."""

    def count(conn: Connection) -> tuple[int, int, int]:
        files, contents, parts = (
            conn.execute(select(func.count()).select_from(table)).scalar_one()
            for table in (file, file_content, file_part)
        )
        return files, contents, parts

    return await database.read(count)


@pytest.mark.requirement("G-144")
async def test_what_one_process_stored_another_reads(one: Home, two: Home) -> None:
    await one.put(PATH, b"the plan")
    assert await two.need(PATH) == b"the plan"
    there = (two.home / PATH).stat()
    assert stat.S_IMODE(there.st_mode) == 0o600, "for its owner alone"
    assert there.st_mtime_ns == (one.home / PATH).stat().st_mtime_ns, "retention goes by it"
    assert await two.need("files/telegram_77_1/1-other.bin") is None, "what nobody stored is missing as ever"
    assert not list(two.home.rglob("*.part"))


@pytest.mark.requirement("G-144")
async def test_a_large_file_travels_in_small_rows(one: Home, two: Home, database: Database) -> None:
    data = os.urandom(20 * 1024 * 1024 + 5)
    await one.put(PATH, data)
    sizes = await database.read(lambda conn: conn.execute(select(func.length(file_part.c.data))).scalars().all())
    assert len(sizes) == 21
    assert max(sizes) == PART
    assert await two.need(PATH) == data


@pytest.mark.requirement("G-144")
@pytest.mark.parametrize("size", [0, 1, PART, PART + 1])
async def test_a_file_of_any_size(one: Home, two: Home, size: int) -> None:
    await one.put(PATH, b"x" * size)
    assert await two.need(PATH) == b"x" * size


@pytest.mark.requirement("G-144")
async def test_many_readers_fetch_a_file_once(one: Home, two: Home) -> None:
    data = os.urandom(3 * PART)
    await one.put(PATH, data)
    read: list[bytes | None] = []

    async def reader() -> None:
        read.append(await two.need(PATH))

    async with anyio.create_task_group() as group:
        for _ in range(50):
            group.start_soon(reader)
    assert read == [data] * 50
    assert two.database.asked.count("part") == 3, "each part once"


@pytest.mark.requirement("G-144")
async def test_a_file_that_is_here_is_not_fetched_again(one: Home, two: Home) -> None:
    await one.put(PATH, b"the plan")
    await two.need(PATH)
    asked = len(two.database.asked)
    await two.need(PATH)
    assert two.database.asked[asked:] == ["find"], "one look at its row"
    later = two.again()
    assert await later.need(PATH) == b"the plan"
    assert later.database.asked == ["find"], "the next process compares the hash"


@pytest.mark.requirement("G-144")
async def test_a_file_with_another_hash_is_fetched_anew(one: Home, two: Home) -> None:
    await one.put(PATH, b"the plan")
    await two.need(PATH)
    here = two.home / PATH
    before = here.stat()
    here.write_bytes(b"THE PLAN")
    os.utime(here, ns=(before.st_mtime_ns, before.st_mtime_ns))
    assert await two.again().need(PATH) == b"the plan"
    await one.put(PATH, b"the new plan")
    assert await two.need(PATH) == b"the new plan"


async def test_bytes_damaged_in_the_database_are_not_taken(one: Home, two: Home, database: Database) -> None:
    await one.put(PATH, b"the plan")
    await database.write(lambda conn: conn.execute(update(file_part).values(data=b"the plot")))
    with pytest.raises(OSError, match="is damaged in the database"):
        await two.files.need(PATH)
    assert not (two.home / PATH).exists()
    assert not list(two.home.rglob("*.part"))


async def test_a_link_in_the_place_of_a_folder_is_not_followed(one: Home, two: Home, tmp_path: Path) -> None:
    await one.put(PATH, b"the plan")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (two.home / "files").mkdir()
    (two.home / "files" / "telegram_77_1").symlink_to(elsewhere)
    await two.files.need(PATH)
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("path", ["../one/secret", "/etc/passwd", "files/../../secret", "secret"])
async def test_a_path_that_leaves_the_data_directory_is_refused(one: Home, path: str) -> None:
    with pytest.raises(OSError, match="is no file below the data directory"):
        await one.files.put(path)


async def test_equal_files_are_stored_once(one: Home, two: Home, database: Database) -> None:
    await one.put(PATH, b"the plan")
    await two.put("files/telegram_77_2/0-copy.bin", b"the plan")
    assert await counts(database) == (2, 1, 1)
    (one.home / PATH).unlink()
    await one.files.settle(PATH)
    assert await counts(database) == (1, 1, 1), "the other file has it still"
    assert await one.need("files/telegram_77_2/0-copy.bin") == b"the plan"


@pytest.mark.requirement("G-146")
async def test_what_was_removed_is_gone_from_the_database_and_every_directory(
    one: Home, two: Home, database: Database
) -> None:
    await one.put(PATH, b"the plan")
    await one.put("files/telegram_77_1/0-plan.bin.read/text.txt", b"its text")
    assert await two.need(PATH) == b"the plan"
    await two.files.need_below("files/telegram_77_1/0-plan.bin.read")
    (one.home / PATH).unlink()
    (one.home / "files/telegram_77_1/0-plan.bin.read/text.txt").unlink()
    for gone in (PATH, f"{PATH}.read"):
        await one.files.settle(gone)
    assert await counts(database) == (0, 0, 0)
    assert await two.need(PATH) is None, "it is not read from the cache either"
    text = two.home / f"{PATH}.read/text.txt"
    os.utime(text, (0, 0))
    await two.files.tidy()
    assert not text.exists(), "what nobody asks for goes with the next hour"


@pytest.mark.requirement("G-146")
async def test_old_files_go_and_newer_ones_stay(one: Home, two: Home, database: Database, clock: FakeClock) -> None:
    now = clock.now().timestamp()
    for path, age_s in ((PATH, 1000.0), ("files/telegram_77_2/0-new.bin", 10.0), (f"{WORK}/old.txt", 1000.0)):
        os.utime(one.write(path, path.encode()), (now - age_s, now - age_s))
    await one.files.put(PATH)
    await one.files.put("files/telegram_77_2/0-new.bin")
    await one.push()
    await two.need(PATH)
    await two.files.expire("files", now - 500)
    assert await database.read(lambda conn: sorted(conn.execute(select(file.c.path)).scalars())) == [
        "files/telegram_77_2/0-new.bin",
        f"{WORK}/old.txt",
    ]
    await two.files.expire("workspaces", now - 500)
    assert (await counts(database))[0] == 1
    await two.files.tidy()
    assert not (two.home / PATH).exists()


@pytest.mark.requirement("G-146")
async def test_the_oldest_files_of_a_person_go_where_there_is_no_room(one: Home, two: Home) -> None:
    folder = "web/chat/web/ann/files"
    for number in range(4):
        os.utime(one.write(f"{folder}/{number}", b"x" * 100), (number + 1, number + 1))
        await one.files.put(f"{folder}/{number}", most_in_folder=250)
    await two.files.need_below(folder)
    assert sorted(one.name for one in (two.home / folder).iterdir()) == ["2", "3"]


async def test_bytes_of_a_killed_writer_go_after_an_hour(one: Home, database: Database, clock: FakeClock) -> None:
    await one.put(PATH, b"the plan")
    at = rows_time(clock)
    await database.write(lambda conn: rows.begin_content(conn, "abandoned", at=at))
    await database.write(partial(rows.add_part, content="abandoned", number=0, data=b"half"))
    await one.files.tidy()
    assert await counts(database) == (1, 2, 2), "it may still be written"
    clock.advance(3601)
    await one.files.tidy()
    assert await counts(database) == (1, 1, 1)


WRITER = """
import sys
from pathlib import Path

import anyio

from agent.core.clock import SystemClock
from agent.storage.files.stored_files import StoredFiles
from agent.storage.postgres import PostgresDatabase
from sqlalchemy import make_url

async def main():
    database = PostgresDatabase(make_url(sys.argv[1]).set(drivername="postgresql+psycopg"))
    await StoredFiles(database, Path(sys.argv[2]), SystemClock()).put(sys.argv[3])

anyio.run(main)
"""


@pytest.mark.requirement("G-144")
@pytest.mark.parametrize("point", ["file.part:2", "file.stored"])
async def test_a_process_killed_before_the_row_has_stored_nothing(
    one: Home, two: Home, database: Database, postgres_url: str, tmp_path: Path, clock: FakeClock, point: str
) -> None:
    data = os.urandom(3 * PART)
    one.write(PATH, data)
    (tmp_path / "crash").write_text(point)
    command = [sys.executable, "-c", WRITER, postgres_url, str(one.home), PATH]
    environment = {**os.environ, ENVIRONMENT: str(tmp_path / "crash")}

    async def written() -> int:
        return (await anyio.run_process(command, env=environment, check=False, stderr=None)).returncode

    assert await written() == -signal.SIGKILL
    assert (await counts(database))[0] == 0
    assert await two.need(PATH) is None, "half a file is none"
    assert await written() == 0, "the message comes again, and with it the file"
    assert await two.need(PATH) == data
    clock.advance(10 * 365 * 86_400)
    await one.files.tidy()
    assert await counts(database) == (1, 1, 3)


def rows_time(clock: FakeClock) -> int:
    return int(clock.now().timestamp() * 1e6)


@pytest.mark.requirement("G-147")
async def test_what_lay_there_before_is_stored_once(one: Home, two: Home, database: Database) -> None:
    one.write(PATH, b"the plan")
    one.write(f"{WORK}/notes.txt", b"notes")
    one.write("web/chat/web/ann/journal.jsonl", b"{}")
    one.write("web/chat/web/ann/files/ab12", b"picture")
    one.write("secrets/key", b"s3cret")
    await one.files.begin()
    assert await one.need(PATH) == b"the plan", "before it is stored it is not taken for removed"
    await one.files.adopt()
    assert await two.need(PATH) == b"the plan"
    assert await two.need("web/chat/web/ann/files/ab12") == b"picture"
    await two.files.pull(WORK)
    assert two.workspace() == {"notes.txt": b"notes"}
    assert (await counts(database))[0] == 3, "and nothing else"
    (two.home / PATH).unlink()
    await two.files.settle(PATH)
    later = one.again()
    await later.files.begin()
    await later.files.adopt()
    assert (await counts(database))[0] == 2, "once: what was forgotten elsewhere does not come back"
    assert await later.need(PATH) is None


# Workspaces


@pytest.mark.requirement("G-145")
async def test_the_next_worker_has_the_workspace(one: Home, two: Home) -> None:
    script = one.write(f"{WORK}/bin/run.sh", b"#!/bin/sh")
    script.chmod(0o700)
    one.write(f"{WORK}/notes.txt", b"first")
    await one.push()
    await two.files.pull(WORK)
    assert two.workspace() == {"bin/run.sh": b"#!/bin/sh", "notes.txt": b"first"}
    assert os.access(two.home / WORK / "bin/run.sh", os.X_OK)
    two.write(f"{WORK}/notes.txt", b"second")
    (two.home / WORK / "bin/run.sh").unlink()
    two.write(f"{WORK}/new.txt", b"new")
    await two.push()
    await one.files.pull(WORK)
    assert one.workspace() == {"notes.txt": b"second", "new.txt": b"new"}


@pytest.mark.requirement("G-145")
async def test_nothing_is_asked_where_nothing_changed(one: Home) -> None:
    await one.push()
    assert one.database.asked == [], "there is no workspace"
    one.write(f"{WORK}/notes.txt", b"first")
    await one.push()
    asked = len(one.database.asked)
    await one.push()
    assert one.database.asked[asked:] == []
    await one.files.pull(WORK)
    assert one.database.asked[asked:] == ["version"], "one look before a turn"


@pytest.mark.requirement("G-145")
async def test_who_lost_the_conversation_stores_nothing(one: Home, two: Home, database: Database) -> None:
    one.write(f"{WORK}/notes.txt", b"stale")
    with pytest.raises(Fenced):
        await one.push(epoch=7)
    assert (await counts(database))[0] == 0
    await two.files.pull(WORK)
    assert two.workspace() == {}


@pytest.mark.requirement("G-145")
async def test_a_change_that_was_not_stored_yet_survives_a_pull(one: Home, two: Home) -> None:
    one.write(f"{WORK}/both.txt", b"first")
    one.write(f"{WORK}/mine.txt", b"first")
    await one.push()
    await two.files.pull(WORK)
    one.write(f"{WORK}/mine.txt", b"mine, killed before it was stored")
    one.write(f"{WORK}/fresh.txt", b"fresh")
    one.write(f"{WORK}/both.txt", b"mine")
    two.write(f"{WORK}/both.txt", b"theirs")
    await two.push()
    later = one.again()
    await later.files.pull(WORK)
    assert later.workspace() == {
        "both.txt": b"theirs",
        "mine.txt": b"mine, killed before it was stored",
        "fresh.txt": b"fresh",
    }
    await later.push()
    await two.files.pull(WORK)
    assert two.workspace() == later.workspace()


async def test_a_workspace_that_was_cleared_from_the_disk_is_fetched_again(one: Home, two: Home) -> None:
    one.write(f"{WORK}/notes.txt", b"first")
    await one.push()
    (one.home / WORK / "notes.txt").unlink()
    (one.home / WORK).rmdir()
    await one.push()
    await two.files.pull(WORK)
    await one.files.pull(WORK)
    assert one.workspace() == two.workspace() == {"notes.txt": b"first"}


async def test_beyond_the_limit_the_largest_stay_on_the_machine(
    one: Home, two: Home, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(3):
        one.write(f"{WORK}/{number}", b"x" * (number * 100))
    await one.files.push(WORK, epoch=0, most_bytes=150, most_files=10)
    assert "1 files of workspaces/telegram%3A77 are on this machine alone" in caplog.text
    await two.files.pull(WORK)
    assert sorted(two.workspace()) == ["0", "1"]
    await one.files.pull(WORK)
    assert sorted(one.workspace()) == ["0", "1", "2"], "nothing was removed"


async def test_a_thousand_small_files_take_a_few_statements(one: Home, two: Home) -> None:
    for number in range(1_000):
        one.write(f"{WORK}/{number % 10}/{number}", str(number).encode())
    await one.push()
    assert len(one.database.asked) <= 70
    await two.files.pull(WORK)
    assert two.workspace() == one.workspace()
    assert len(two.database.asked) <= 6


async def test_a_workspace_follows_a_chat_with_a_new_name(one: Home, two: Home) -> None:
    one.write(f"{WORK}/notes.txt", b"first")
    await one.push()
    await one.files.move(WORK, "workspaces/telegram%3A-100")
    await two.files.pull("workspaces/telegram%3A-100")
    assert (two.home / "workspaces/telegram%3A-100/notes.txt").read_bytes() == b"first"


@pytest.mark.requirement("G-146")
async def test_what_was_forgotten_of_a_workspace_goes_in_every_directory(one: Home, two: Home) -> None:
    one.write(f"{WORK}/received/letter.txt", b"secret")
    one.write(f"{WORK}/notes.txt", b"notes")
    await one.push()
    await two.files.pull(WORK)
    (one.home / WORK / "received/letter.txt").unlink()
    await one.files.settle(f"{WORK}/received")
    await two.files.tidy()
    assert two.workspace() == {"notes.txt": b"notes"}


# Those who keep files


@pytest.mark.requirement("G-144")
async def test_a_document_that_was_read_is_not_read_by_the_next_process(one: Home, two: Home) -> None:
    part = FilePart(path="files/telegram_77_1/0-cups.csv", mime_type="text/csv", name="cups.csv", size=14)
    await one.put(part.path, b"cups,4\nmugs,5\n")
    first, second = (Documents(each.home, DocumentSettings, files=each.files) for each in (one, two))
    read = await first.read(part)
    assert read is not None
    assert "cups" in read.beginning
    assert await second.read(part) == read
    found, again = ((each.home / part.derived / "found.json").stat().st_mtime_ns for each in (one, two))
    assert again == found, "it was fetched, not written anew"


@pytest.mark.requirement("Z-163")
async def test_pictures_of_a_document_that_was_read_are_there_for_the_next_process(one: Home, two: Home) -> None:
    part = FilePart(path="files/telegram_77_1/0-mixed.pdf", mime_type="application/pdf", name="mixed.pdf", size=1)
    await one.put(part.path, (SAMPLES / "scans/mixed.pdf").read_bytes())
    first, second = (Documents(each.home, DocumentSettings, files=each.files) for each in (one, two))
    read = await first.read(part)
    assert read is not None
    assert await second.read(part) == read
    [page] = read.pages
    assert (two.home / page.path).read_bytes() == (one.home / page.path).read_bytes()


@pytest.mark.requirement("G-144")
async def test_a_file_of_the_web_chat_is_shown_by_every_process(one: Home, two: Home, tmp_path: Path) -> None:
    async def sent() -> AsyncIterator[bytes]:
        yield b"\x89PNG\r\n\x1a\n picture"

    folder = "web/chat/web/ann/files"
    stores = [AttachmentStore(each.home, each.home / folder, 1_000, each.files) for each in (one, two)]
    shown = await stores[0].take(sent(), name="cups.png", mime_type="image/png")
    found = await stores[1].find(shown.id)
    assert found is not None
    assert found[0] == shown
    assert found[1].read_bytes() == b"\x89PNG\r\n\x1a\n picture"
    assert await stores[1].find("0" * 32) is None


@pytest.mark.requirement("G-144")
async def test_a_long_result_is_read_on_by_the_next_process(one: Home, two: Home) -> None:
    name = await Outputs(one.home, one.files).keep(CHAT, "the long result")
    assert name is not None
    assert await Outputs(two.home, two.files).read(CHAT, name) == "the long result"
    with pytest.raises(ToolError, match="there is no output"):
        await Outputs(two.home, two.files).read(ConversationId("telegram:78"), name)
