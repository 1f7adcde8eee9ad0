"""Opening a database: what the address means, what is made, what is refused and in which words."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import URL, Connection, insert, make_url, select

from agent.storage.connect import Schema, revision, target_of
from agent.storage.connect import open_database as open_with
from agent.storage.database import Database
from agent.storage.errors import DatabaseUnusable, SchemaTooNew
from agent.storage.tables import message, session
from gateway.storage.repair import SCHEMA, open_database
from tests.fakes.agents import admit
from tests.fakes.databases import PostgresServer, no_copy

HOME = Path("/home/tieline")

NEXT = f"""
import sqlalchemy as sa
from alembic import op

revision = "next"
down_revision = "{SCHEMA.head}"


def upgrade() -> None:
    recreate = "always" if op.get_bind().dialect.name == "sqlite" else "auto"  # the table that messages refer to
    with op.batch_alter_table("session", recreate=recreate) as batch:
        batch.add_column(sa.Column("colour", sa.Text(), nullable=False, server_default="blue"))


def downgrade() -> None:
    with op.batch_alter_table("session") as batch:
        batch.drop_column("colour")
"""


@pytest.mark.parametrize(
    ("url", "target"),
    [
        pytest.param("sqlite:///tieline.db", HOME / "tieline.db", id="below the home"),
        pytest.param("sqlite:///data/x.db", HOME / "data" / "x.db", id="in a directory below the home"),
        pytest.param("sqlite:////var/lib/x.db", Path("/var/lib/x.db"), id="a full path"),
        pytest.param("postgresql://u:p@h/d", make_url("postgresql+psycopg://u:p@h/d"), id="a server"),
        pytest.param("postgres://h/d", make_url("postgresql+psycopg://h/d"), id="a server, the short way"),
        pytest.param("postgresql:///d?host=/run/x", make_url("postgresql+psycopg:///d?host=/run/x"), id="a socket"),
    ],
)
def test_what_an_address_means(url: str, target: Path | URL) -> None:
    assert target_of(url, HOME) == target


@pytest.mark.parametrize(
    ("url", "words"),
    [
        pytest.param("tieline.db", "no address of a database", id="no scheme"),
        pytest.param("sqlite://tieline.db", "two slashes where three are needed", id="two slashes"),
        pytest.param("sqlite:///:memory:", "in memory keeps nothing", id="memory"),
        pytest.param("sqlite://", "in memory keeps nothing", id="memory by omission"),
        pytest.param("mysql://h/d", "names 'mysql', which is not supported", id="another database"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused_with_the_known_forms(url: str, words: str) -> None:
    with pytest.raises(DatabaseUnusable, match=words) as caught:
        target_of(url, HOME)
    assert "sqlite:///tieline.db (below TIELINE_HOME)" in str(caught.value)


async def test_a_new_database_is_made_with_its_directory_for_its_owner_alone(tmp_path: Path) -> None:
    database = await open_database("sqlite:///deep/er/tieline.db", tmp_path)
    assert await database.read(revision) == SCHEMA.head
    assert (tmp_path / "deep" / "er" / "tieline.db").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "deep" / "er" / "tieline.db-wal").stat().st_mode & 0o777 == 0o600
    await database.aclose()


async def test_what_was_stored_is_there_after_the_next_start(tmp_path: Path) -> None:
    for expected in (False, True):
        database = await open_database("sqlite:///tieline.db", tmp_path)
        assert (await admit(database, "telegram:1", "hi", dedup="a")).duplicate is expected
        await database.aclose()


def a_file(home: Path) -> None:
    (home / "sub").write_text("")


def a_directory(home: Path) -> None:
    (home / "sub" / "tieline.db").mkdir(parents=True)


def a_text(home: Path) -> None:
    (home / "sub").mkdir()
    (home / "sub" / "tieline.db").write_text("This is no database, but a letter of more than a hundred bytes. " * 9)


def other_tables(home: Path) -> None:
    (home / "sub").mkdir()
    with closing(sqlite3.connect(home / "sub" / "tieline.db")) as other:
        other.execute("create table recipes (name text)")


def of_revision(home: Path, revision: str) -> None:
    (home / "sub").mkdir()
    with closing(sqlite3.connect(home / "sub" / "tieline.db")) as other:
        other.execute("create table alembic_version (version_num text)")
        other.execute("insert into alembic_version values (?)", [revision])
        other.commit()


def a_newer_one(home: Path) -> None:
    of_revision(home, "9999")


def a_squashed_one(home: Path) -> None:
    of_revision(home, "0018_models")


@pytest.mark.parametrize(
    ("there", "words"),
    [
        pytest.param(a_file, "cannot make the directory .*sub: ", id="the home cannot be made"),
        pytest.param(a_directory, "make it and its directory writable", id="a directory of that name"),
        pytest.param(
            a_text, "no SQLite database .*; put a backup in its place with .*, or name another file", id="another file"
        ),
        pytest.param(other_tables, "holds tables that are not Tieline's; name an empty database", id="not ours"),
        pytest.param(
            a_newer_one,
            f"written by a newer Tieline .revision 9999, this one knows {SCHEMA.head}",
            id="a newer one",
        ),
        pytest.param(
            a_squashed_one,
            "of an older Tieline .revision 0018_models.*; start it once with the program of commit f855fe18",
            id="an older one between two revisions",
        ),
    ],
)
async def test_what_cannot_be_opened_is_refused_with_the_fix(there: object, words: str, tmp_path: Path) -> None:
    assert callable(there)
    there(tmp_path)
    for _ in range(2):  # and the lock is free again
        with pytest.raises(DatabaseUnusable, match=words):
            await open_database("sqlite:///sub/tieline.db", tmp_path)


async def test_a_server_that_is_not_there_is_refused_with_the_fix_and_without_the_password(tmp_path: Path) -> None:
    with pytest.raises(DatabaseUnusable, match="check that it runs and lets this user in") as caught:
        await open_database("postgresql://tieline:geheim@127.0.0.1:9/tieline", tmp_path)
    assert "geheim" not in str(caught.value)


@pytest.fixture
def next_schema(tmp_path: Path) -> Schema:
    """This version's schema with one more revision."""
    migrations = tmp_path / "migrations"
    shutil.copytree(SCHEMA.migrations, migrations, ignore=shutil.ignore_patterns("__pycache__"))
    (migrations / "versions" / "next.py").write_text(NEXT)
    return replace(SCHEMA, head="next", migrations=migrations)


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "sqlite":
        yield "sqlite:///tieline.db"
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    with server.database(empty=True) as url:
        yield url


def furnish(conn: Connection) -> None:
    """A session with a message."""
    conn.execute(insert(session), {"id": "s", "conv": "telegram:1", "created_at": 1, "updated_at": 1})
    said = {"session_id": "s", "conv": "telegram:1", "role": "user", "parts": "[]", "created_at": 1}
    conn.execute(insert(message), said)


@pytest.mark.requirement("Z-69")
async def test_an_older_database_is_migrated_and_keeps_what_it_holds(
    address: str, next_schema: Schema, tmp_path: Path
) -> None:
    database = await open_database(address, tmp_path)
    await admit(database, "telegram:1", "hi", dedup="a")
    await database.write(furnish)
    await database.aclose()

    if address.startswith("postgresql"):
        with pytest.raises(DatabaseUnusable, match=r"was not migrated .* whoever opened it makes no backup"):
            await open_with(address, tmp_path, schema=next_schema)
    database = await open_with(address, tmp_path, schema=next_schema, back_up=no_copy)
    assert await database.read(revision) == "next"
    kept = await database.read(lambda conn: conn.execute(select(message.c.session_id)).scalars().all())
    assert kept == ["s"]  # though the table they refer to was made anew
    assert (await admit(database, "telegram:1", "hi", dedup="a")).duplicate
    await database.aclose()

    with pytest.raises(SchemaTooNew, match="install that version again; or, without what was said since"):
        await open_database(address, tmp_path)
    again = await open_with(address, tmp_path, schema=next_schema)  # who was refused holds it no longer
    await again.aclose()


@pytest.mark.requirement("Z-69")
async def test_a_file_is_copied_before_it_is_migrated(next_schema: Schema, tmp_path: Path) -> None:
    database = await open_database("sqlite:///tieline.db", tmp_path)
    await admit(database, "telegram:1", "hi", dedup="a")
    await database.aclose()
    await (await open_with("sqlite:///tieline.db", tmp_path, schema=next_schema)).aclose()

    old = await open_database(f"sqlite:///backups/tieline-{SCHEMA.head}.db", tmp_path)
    assert (await admit(old, "telegram:1", "hi", dedup="a")).duplicate
    await old.aclose()


async def test_a_migration_that_fails_changes_nothing(next_schema: Schema, tmp_path: Path) -> None:
    await (await open_database("sqlite:///tieline.db", tmp_path)).aclose()
    broken = next_schema.migrations / "versions" / "next.py"
    broken.write_text(NEXT.replace('blue"))', 'blue"))\n    raise ZeroDivisionError'))
    with pytest.raises(ZeroDivisionError):
        await open_with("sqlite:///tieline.db", tmp_path, schema=next_schema)
    assert not list((tmp_path / "backups").iterdir()), "starts that are repeated do not fill the disk with copies"
    database: Database = await open_database("sqlite:///tieline.db", tmp_path)
    assert await database.read(revision) == SCHEMA.head
    await database.aclose()
