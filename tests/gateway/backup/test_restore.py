"""An archive brings everything back into an empty data directory; a spoiled one is refused and changes nothing."""

import hashlib
import json
import os
import tarfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import anyio
import pytest
from sqlalchemy import Connection
from sqlalchemy import text as sql

from agent.core.ids import ConversationId
from agent.storage import inbox_rows, migrate
from agent.storage.connect import State, revision
from agent.storage.copies.inspection import look, read
from agent.storage.database import Database
from agent.storage.errors import BackupRefused, DatabaseUnusable
from agent.storage.files.stored_files import StoredFiles
from gateway.backup.archive import MAGIC, MANIFEST, RECEIVED, is_archive
from gateway.backup.request import ENCRYPTED, Archived, Wanted, archive
from gateway.backup.restore import Place, RestoredArchive, restore_archive, verify
from gateway.storage import settings_rows
from gateway.storage.queues import inbox_entries
from gateway.storage.repair import SCHEMA, open_database
from gateway.telemetry.redaction import Redactor
from tests.fakes.agents import admit
from tests.fakes.clock import FakeClock
from tests.fakes.databases import PostgresServer, no_copy

pytestmark = pytest.mark.requirement("G-36")

AT = datetime(2026, 11, 20, 3, 15, tzinfo=UTC)
NOW = 1_800_000_000_000_000
CHAT = ConversationId("telegram:1")
URL = "sqlite:///tieline.db"
TOKEN = "12345678:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw"
FILES = {
    "gateway.toml": f'[[channels]]\ntype = "telegram"\ntoken = "{TOKEN}"\n',
    "agents/helper/AGENT.md": "You help.",
    "skills/tidy/SKILL.md": "Tidy up.",
    "memory/telegram_1/MEMORY.md": "likes tea",
    "files/telegram_1/0-photo.png": "a photo",
    "outputs/telegram_1/1.txt": "a long output",
    "workspaces/telegram_1/deep/er/run.sh": "#!/bin/sh",
    "web/chat/one.jsonl": "{}",
}
SECRET_FILES = {"secrets/telegram": "a token"}
NOT_KEPT = {"dumps/1.json": "words", "web/session.key": "key", "exports/x.jsonl": "old", "backups/old.db": "old"}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A data directory with something of everything."""
    home = tmp_path / "home"
    for name, text in {**FILES, **SECRET_FILES, **NOT_KEPT}.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    (home / "workspaces/telegram_1/deep/er/run.sh").chmod(0o755)
    os.utime(home / "files/telegram_1/0-photo.png", (1_700_000_000, 1_700_000_000))
    return home


async def make(database: Database, home: Path, to: Path, *, passphrase: str | None = None, **more: bool) -> Archived:
    wanted = Wanted(home=home, source=None, redact=Redactor({TOKEN}), passphrase=passphrase, **more)
    return await archive(database, to, wanted, at=AT)


def none(_: object) -> int:
    return 0


def put_back(file: Path, home: Path, passphrase: str | None = None, *, url: str = URL, **more: bool) -> RestoredArchive:
    source = home / "gateway.toml"
    environ = {"TIELINE_HOME": str(home), "TIELINE__DATABASE__URL": url}
    place = Place(home=home, source=source if source.exists() else None, url=url, environ=environ)
    return restore_archive(file, place, passphrase, kept_as="before.db", at=NOW, others=none, **more)


def files_in(home: Path) -> dict[str, str]:
    return {
        str(path.relative_to(home)): path.read_text()
        for path in home.rglob("*")
        if path.is_file() and not path.name.startswith("tieline.db")
    }


def hidden_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith(".")]


async def put_in(database: Database) -> None:
    """An answered message, and one that waits."""
    done = (await admit(database, CHAT, "answered", dedup="a")).id
    assert done is not None
    await database.write(lambda conn: inbox_rows.finish(conn, [done], "done"))
    await admit(database, CHAT, "tab\tand\nline \\N", dedup="b")


async def archived(url: str, home: Path, folder: Path) -> Path:
    """An archive of a database with both messages."""
    database = await open_database(url, folder)
    await put_in(database)
    await make(database, home, folder / "all.tar")
    await database.aclose()
    return folder / "all.tar"


async def holds_the_messages(url: str, home: Path) -> None:
    """Raises AssertionError where the restored database does not go on from the copy."""
    database = await open_database(url, home, back_up=no_copy)
    try:
        dead = await database.read(inbox_entries.dead)
        assert [json.loads(letter.payload)["text"] for letter in dead] == ["tab\tand\nline \\N"]
        assert (await admit(database, CHAT, "answered", dedup="a")).duplicate
        fresh = await admit(database, CHAT, "since", dedup="c")
        assert fresh.id is not None
        assert fresh.id > 2, "numbers go on"
    finally:
        await database.aclose()


@pytest.mark.parametrize("passphrase", [None, "correct horse"], ids=["plain", "encrypted"])
async def test_everything_comes_back_into_an_empty_home(
    home: Path, sqlite_database: Database, tmp_path: Path, passphrase: str | None
) -> None:
    await put_in(sqlite_database)
    file = tmp_path / f"all{ENCRYPTED}"
    made = await make(sqlite_database, home, file, passphrase=passphrase)
    assert file.stat().st_mode & 0o777 == 0o600
    assert is_archive(file)
    assert hidden_in(tmp_path) == [], "nothing is left beside it"
    held = verify(file, passphrase)
    assert (held.database, held.secrets, len(held.members)) == ("sqlite", passphrase is not None, made.files)

    done = put_back(file, tmp_path / "new", passphrase)
    found = files_in(tmp_path / "new")
    if passphrase:
        assert found == {**FILES, **SECRET_FILES}
        assert TOKEN.encode() not in file.read_bytes()
        assert b"likes tea" not in file.read_bytes()
    else:
        config = found.pop("gateway.toml")
        assert 'token = "file:secrets/channels-0-.token"' in config
        assert TOKEN not in config
        assert found == {name: text for name, text in FILES.items() if name != "gateway.toml"}
        assert [one.partition(":")[0] for one in held.left_out] == ["1 literal secret in gateway.toml", "secrets/"]
    assert (done.placed, done.stayed, done.database.messages) == (made.files - 1, (), 1)
    assert (tmp_path / "new/workspaces/telegram_1/deep/er/run.sh").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "new/files/telegram_1/0-photo.png").stat().st_mtime == 1_700_000_000, "retention goes by it"
    assert hidden_in(tmp_path / "new") == []
    await holds_the_messages(URL, tmp_path / "new")


async def test_postgresql_comes_back_into_an_empty_database(
    home: Path, postgres_url: str, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    database = await open_database(postgres_url, tmp_path)
    await put_in(database)
    made = await make(database, home, tmp_path / "all.tar")
    await admit(database, CHAT, "after the copy", dedup="d")
    await database.aclose()
    held = verify(tmp_path / "all.tar", None)
    assert held.database == "postgresql"
    assert {table.name: table.rows for table in held.tables}["inbox"] == 2
    with pytest.raises(BackupRefused, match="holds tables already, which stay as they are"):
        put_back(tmp_path / "all.tar", tmp_path / "refused", url=postgres_url)
    assert not (tmp_path / "refused").exists()
    (tmp_path / "new").mkdir()
    (tmp_path / "new/gateway.toml").write_text("mine")
    with postgres_server.database(empty=True) as empty:
        done = put_back(tmp_path / "all.tar", tmp_path / "new", url=empty)
        assert (done.placed, done.stayed) == (made.files - len(held.tables) - 1, ("gateway.toml",))
        assert done.database.messages == 1
        await holds_the_messages(empty, tmp_path / "new")


@pytest.mark.requirement("G-147")
async def test_files_in_postgresql_are_in_the_archive_once(
    home: Path, postgres_url: str, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    database = await open_database(postgres_url, tmp_path)
    stored = StoredFiles(database, home, FakeClock())
    (home / "web/chat/web/ann/files").mkdir(parents=True)
    (home / "web/chat/web/ann/files/ab12").write_text("a picture")
    await stored.begin()
    await make(database, home, tmp_path / "early.tar")
    await stored.adopt()
    await make(database, home, tmp_path / "all.tar")
    await make(database, home, tmp_path / "without.tar", files=False)
    await database.aclose()
    early, held, without = (verify(tmp_path / f"{name}.tar", None) for name in ("early", "all", "without"))
    inside = {member.name.removeprefix("home/") for member in held.members if member.name.startswith("home/")}
    assert {name for name in inside if name.startswith(RECEIVED)} == {"web/chat/one.jsonl"}
    assert "home/files/telegram_1/0-photo.png" in {member.name for member in early.members}, "it was not stored yet"
    assert {table.name: table.rows for table in held.tables}["file"] == 5, "an export too, which goes after a day"
    assert not {"file", "file_content", "file_part"} & {table.name for table in without.tables}
    with postgres_server.database(empty=True) as empty:
        put_back(tmp_path / "all.tar", tmp_path / "new", url=empty)
        there = await open_database(empty, tmp_path / "new")
        new = StoredFiles(there, tmp_path / "new", FakeClock())
        await new.begin()
        await new.need("files/telegram_1/0-photo.png")
        await new.need("web/chat/web/ann/files/ab12")
        await new.pull("workspaces/telegram_1")
        await there.aclose()
    photo = tmp_path / "new/files/telegram_1/0-photo.png"
    assert (photo.read_text(), photo.stat().st_mtime) == ("a photo", 1_700_000_000)
    assert (tmp_path / "new/web/chat/web/ann/files/ab12").read_text() == "a picture"
    assert os.access(tmp_path / "new/workspaces/telegram_1/deep/er/run.sh", os.X_OK)


async def test_files_that_an_archive_brings_are_stored_with_the_next_start(
    home: Path, postgres_url: str, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    """It was made before they were in the database."""
    file = await archived(postgres_url, home, tmp_path)
    new = tmp_path / "new"
    new.mkdir()
    (new / "files-stored").write_text("another")
    with postgres_server.database(empty=True) as empty:
        put_back(file, new, url=empty)
        there = await open_database(empty, new)
        stored = StoredFiles(there, new, FakeClock())
        await stored.begin()
        await stored.need("files/telegram_1/0-photo.png")
        assert (new / "files/telegram_1/0-photo.png").exists(), "it waits to be stored"
        await stored.adopt()
        other = StoredFiles(there, tmp_path / "other", FakeClock())
        await other.need("files/telegram_1/0-photo.png")
        await there.aclose()
    assert (tmp_path / "other/files/telegram_1/0-photo.png").read_text() == "a photo"


async def test_postgresql_of_an_older_version_is_filled_as_it_was_and_migrated_by_the_start(
    home: Path, postgres_url: str, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    """It has a table that no later one has."""
    database, before, file = await open_database(postgres_url, tmp_path), "0031_expiry", tmp_path / "all.tar"
    await put_in(database)
    await database.write(partial(settings_rows.put, conversation=CHAT, key="provider", value="b", source="user", at=1))
    await database.write(partial(migrate.downgrade, migrations=SCHEMA.migrations, to=before))
    await make(database, home, file)
    await database.aclose()
    with postgres_server.database(empty=True) as empty:
        put_back(file, tmp_path / "new", url=empty)
        assert read(empty, tmp_path, revision) == before
        await holds_the_messages(empty, tmp_path / "new")
        chosen = read(empty, tmp_path, partial(settings_rows.get, conversation=CHAT, key="provider"))
        assert chosen == "b", "what was chosen is a setting now"


@pytest.mark.parametrize("older", [False, True], ids=["made now", "made before that column counted"])
async def test_a_sequence_of_a_column_of_another_name_goes_on_too(
    older: bool, home: Path, postgres_url: str, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    """Else the memory's index of a new session would be given a number that an old one has."""
    session = "INSERT INTO memory_session (session, audience, first, last) VALUES (:session, 'a', 1, 1) RETURNING no"

    def add(conn: Connection, session_id: str) -> int:
        return int(conn.execute(sql(session), {"session": session_id}).scalar_one())

    database = await open_database(postgres_url, tmp_path)
    numbers = [await database.write(partial(add, session_id=name)) for name in ("s1", "s2")]
    await make(database, home, tmp_path / "all.tar")
    await database.aclose()
    if older:
        rewritten(tmp_path / "all.tar", without_numbers)
    with postgres_server.database(empty=True) as empty:
        put_back(tmp_path / "all.tar", tmp_path / "new", url=empty)
        database = await open_database(empty, tmp_path / "new")
        assert await database.write(partial(add, session_id="s3")) == max(numbers) + 1
        await database.aclose()


def without_numbers(header: tarfile.TarInfo, data: bytes) -> tuple[tarfile.TarInfo, bytes]:
    """The list tells no number of any table."""
    if header.name != MANIFEST:
        return header, data
    manifest = json.loads(data)
    for table in manifest["tables"]:
        table["last"] = None
    return header, json.dumps(manifest).encode()


async def test_a_table_that_does_not_fit_leaves_postgresql_empty(
    home: Path, postgres_url: str, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    file = await archived(postgres_url, home, tmp_path)
    rewritten(file, with_a_wrong_table)
    with postgres_server.database(empty=True) as empty:
        with pytest.raises(BackupRefused, match=r"cannot be filled: .* nothing was changed"):
            put_back(file, tmp_path / "new", url=empty)
        assert look(empty, tmp_path, SCHEMA) is State.EMPTY
    assert not (tmp_path / "new").exists()


def with_a_wrong_table(header: tarfile.TarInfo, data: bytes) -> tuple[tarfile.TarInfo, bytes]:
    """The list names a column that its table does not have; what it says of the file fits."""
    if header.name != MANIFEST:
        return header, data
    manifest = json.loads(data)
    manifest["tables"][-1]["columns"][0] = "evil"
    return header, json.dumps(manifest).encode()


async def test_one_moment_of_postgresql_is_copied_while_others_write(
    home: Path, postgres_url: str, tmp_path: Path
) -> None:
    database = await open_database(postgres_url, tmp_path)
    written, stop = 0, False

    async def write_on() -> None:
        nonlocal written
        while not stop:
            await admit(database, f"telegram:{written % 7}", "x", limit=None)
            written += 1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(write_on)
        while written < 20:
            await anyio.lowlevel.checkpoint()
        before = written
        await make(database, home, tmp_path / "all.tar")
        stop = True
    await database.aclose()
    rows = {table.name: table.rows for table in verify(tmp_path / "all.tar", None).tables}
    assert before <= rows["inbox"] <= written
    assert rows["conversation"] == 7


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_one_kind_of_database_does_not_become_the_other(
    home: Path, request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    """A configuration that is there counts, not the archive's."""
    own, other = URL, request.getfixturevalue("postgres_url")
    if kind == "postgresql":
        own, other = other, own
    database = await open_database(own, tmp_path)
    await make(database, home, tmp_path / "all.tar")
    await database.aclose()
    (tmp_path / "new").mkdir()
    (tmp_path / "new/gateway.toml").write_text("mine")
    with pytest.raises(BackupRefused, match="so one does not become the other"):
        put_back(tmp_path / "all.tar", tmp_path / "new", url=other)
    assert files_in(tmp_path / "new") == {"gateway.toml": "mine"}


async def test_what_is_there_stays_and_the_former_database_is_kept(
    home: Path, sqlite_database: Database, tmp_path: Path
) -> None:
    await put_in(sqlite_database)
    await make(sqlite_database, home, tmp_path / "all.tar", files=False)
    there = tmp_path / "there"
    (there / "skills/tidy").mkdir(parents=True)
    (there / "skills/tidy/SKILL.md").write_text("my newer one")
    await (await open_database(URL, there)).aclose()
    done = put_back(tmp_path / "all.tar", there)
    assert done.stayed == ("skills/tidy/SKILL.md",)
    assert (there / "skills/tidy/SKILL.md").read_text() == "my newer one"
    assert not (there / "files").exists()
    assert done.database.kept == there / "backups/before.db"
    await holds_the_messages(URL, there)


async def test_no_link_leads_out_or_in(home: Path, sqlite_database: Database, tmp_path: Path) -> None:
    """A command in the sandbox may have put it in a workspace: neither backup nor restore follows it."""
    (tmp_path / "private").mkdir()
    (tmp_path / "private/key").write_text("not for the bot")
    (home / "workspaces/telegram_1/out").symlink_to(tmp_path / "private")
    (home / "workspaces/telegram_1/key").symlink_to(tmp_path / "private/key")
    os.mkfifo(home / "workspaces/telegram_1/pipe")
    made = await make(sqlite_database, home, tmp_path / "all.tar")
    (told,) = [one for one in made.left_out if "workspaces" in one]
    assert told.startswith("3 links, special or unreadable files in workspaces/: telegram_1/key, telegram_1/out, ")
    assert b"not for the bot" not in (tmp_path / "all.tar").read_bytes()
    (tmp_path / "new/workspaces/telegram_1").mkdir(parents=True)
    (tmp_path / "new/workspaces/telegram_1/deep").symlink_to(tmp_path / "private")
    with pytest.raises(BackupRefused, match=r"run.sh cannot be put back: .* is a symbolic link"):
        put_back(tmp_path / "all.tar", tmp_path / "new")
    assert [path.name for path in (tmp_path / "private").iterdir()] == ["key"]


async def test_nothing_is_overwritten_and_no_folder_is_made(
    home: Path, sqlite_database: Database, tmp_path: Path
) -> None:
    (tmp_path / "there.tar").write_text("precious")
    with pytest.raises(BackupRefused, match="exists already; name a new file"):
        await make(sqlite_database, home, tmp_path / "there.tar")
    with pytest.raises(BackupRefused, match="there is no folder"):
        await make(sqlite_database, home, tmp_path / "not/there.tar")
    assert (tmp_path / "there.tar").read_text() == "precious"
    assert hidden_in(tmp_path) == []


def members(file: Path) -> Iterator[tuple[tarfile.TarInfo, bytes]]:
    with tarfile.open(file) as tar:
        for header in tar:
            inner = tar.extractfile(header)
            yield header, inner.read() if inner else b""


def rewritten(file: Path, change: Callable[[tarfile.TarInfo, bytes], tuple[tarfile.TarInfo, bytes] | None]) -> None:
    """Write the archive anew, as somebody would who means harm."""
    changed = [one for header, data in list(members(file)) if (one := change(header, data)) is not None]
    with tarfile.open(file, "w") as tar:
        for header, data in changed:
            header.size = len(data) if header.isreg() else 0
            tar.addfile(header, BytesIO(data))


def listed(**values: Any) -> Callable[[Path], None]:
    """The list says something else."""

    def change(header: tarfile.TarInfo, data: bytes) -> tuple[tarfile.TarInfo, bytes]:
        return header, json.dumps({**json.loads(data), **values}).encode() if header.name == MANIFEST else data

    return lambda file: rewritten(file, change)


def renamed(to: str) -> Callable[[Path], None]:
    """A member has another name, in the list too."""

    def change(header: tarfile.TarInfo, data: bytes) -> tuple[tarfile.TarInfo, bytes]:
        if header.name == MANIFEST:
            return header, data.replace(b"home/skills/tidy/SKILL.md", json.dumps(to)[1:-1].encode())
        if header.name == "home/skills/tidy/SKILL.md":
            header.name = to
        return header, data

    return lambda file: rewritten(file, change)


def made_a(kind: bytes) -> Callable[[Path], None]:
    """A member is a link or a device."""

    def change(header: tarfile.TarInfo, data: bytes) -> tuple[tarfile.TarInfo, bytes]:
        if header.name == "home/skills/tidy/SKILL.md":
            header.type, header.linkname = kind, "/etc/passwd"
        return header, data

    return lambda file: rewritten(file, change)


def tampered(file: Path) -> None:
    rewritten(file, lambda header, data: (header, b"evil" if header.name.endswith("SKILL.md") else data))


def without(file: Path) -> None:
    rewritten(file, lambda header, data: None if header.name.endswith("SKILL.md") else (header, data))


def with_more(file: Path) -> None:
    with tarfile.open(file, "a") as tar:
        tar.addfile(tarfile.TarInfo("home/skills/more/SKILL.md"), BytesIO())


def with_another_database(file: Path) -> None:
    """One that fits the list: whoever writes the list can do that."""
    text = b"no database at all"
    digest = hashlib.sha256(text).hexdigest()

    def change(header: tarfile.TarInfo, data: bytes) -> tuple[tarfile.TarInfo, bytes]:
        if header.name == MANIFEST:
            manifest = json.loads(data)
            manifest["members"][0] |= {"size": len(text), "sha256": digest}
            return header, json.dumps(manifest).encode()
        return header, text if header.name == "database/tieline.db" else data

    rewritten(file, change)


def cut(part: float) -> Callable[[Path], object]:
    return lambda file: file.write_bytes(file.read_bytes()[: int(file.stat().st_size * part)])


REFUSALS = [
    pytest.param(lambda file: file.unlink(), "there is no file|no file", id="not there"),
    pytest.param(lambda file: file.write_bytes(b"x" * 9000), "no backup of Tieline", id="foreign"),
    pytest.param(lambda file: file.write_bytes(b""), "no backup of Tieline", id="empty"),
    pytest.param(cut(0.0005), "cut or damaged|no backup", id="cut in the list"),
    pytest.param(cut(0.5), "is cut", id="cut in the middle"),
    pytest.param(cut(0.98), "is cut|cut or damaged", id="cut near the end"),
    pytest.param(listed(format=2), "written by a newer Tieline .archive format 2", id="of a newer format"),
    pytest.param(listed(revision="9999"), "written by a newer Tieline .revision 9999", id="of a newer database"),
    pytest.param(listed(revision="0018_models"), "once with the program of commit", id="of a squashed revision"),
    pytest.param(listed(database="oracle"), "unknown kind", id="of another kind of database"),
    pytest.param(listed(members="none"), "its list cannot be read", id="a list that is none"),
    pytest.param(tampered, "is not what was put in", id="a changed file"),
    pytest.param(without, "is cut: 1 of 9 files are missing", id="a missing file"),
    pytest.param(with_more, "which its list does not name", id="a file too many"),
    pytest.param(with_another_database, "holds no database of Tieline", id="another database"),
    pytest.param(renamed("home/skills/../../../evil"), "would leave the data directory", id="a name that leaves"),
    pytest.param(renamed("/etc/evil"), "would leave the data directory", id="an absolute name"),
    pytest.param(renamed("home/skills//evil"), "would leave the data directory", id="a name with a hole"),
    pytest.param(renamed("home/tieline.db"), "no part of a backup", id="a name that no backup has"),
    pytest.param(renamed("home/.ssh/authorized_keys"), "no part of a backup", id="a folder that no backup has"),
    pytest.param(renamed("home/gateway.toml"), "twice", id="a name twice"),
    pytest.param(made_a(tarfile.SYMTYPE), "a link, a device or a folder", id="a symbolic link"),
    pytest.param(made_a(tarfile.LNKTYPE), "a link, a device or a folder", id="a hard link"),
    pytest.param(made_a(tarfile.CHRTYPE), "a link, a device or a folder", id="a device"),
    pytest.param(made_a(tarfile.DIRTYPE), "a link, a device or a folder", id="a folder"),
]


@pytest.mark.parametrize(("spoil", "words"), REFUSALS)
async def test_what_is_no_archive_of_ours_is_refused_and_changes_nothing(
    home: Path, sqlite_database: Database, tmp_path: Path, spoil: Callable[[Path], object], words: str
) -> None:
    file = tmp_path / "all.tar"
    await make(sqlite_database, home, file)
    spoil(file)
    with pytest.raises((BackupRefused, DatabaseUnusable), match=words):
        put_back(file, tmp_path / "new")
    assert not (tmp_path / "new").exists()
    await (await open_database(URL, tmp_path / "there")).aclose()
    before = {path.name: path.read_bytes() for path in (tmp_path / "there").iterdir()}
    with pytest.raises((BackupRefused, DatabaseUnusable), match=words):
        put_back(file, tmp_path / "there")
    after = {path.name: path.read_bytes() for path in (tmp_path / "there").iterdir()}
    assert after == before


@pytest.mark.parametrize(
    ("passphrase", "words"),
    [
        pytest.param(None, "is encrypted: name its passphrase", id="none"),
        pytest.param("wrong", "the passphrase is not that of", id="another"),
    ],
)
async def test_an_encrypted_archive_wants_its_passphrase(
    home: Path, sqlite_database: Database, tmp_path: Path, passphrase: str | None, words: str
) -> None:
    file = tmp_path / "all.tar.encrypted"
    await make(sqlite_database, home, file, passphrase="right")
    assert file.read_bytes().startswith(MAGIC)
    for attempt in (lambda: verify(file, passphrase), lambda: put_back(file, tmp_path / "new", passphrase)):
        with pytest.raises(BackupRefused, match=words):
            attempt()
    assert not (tmp_path / "new").exists()
