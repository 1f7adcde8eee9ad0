"""A copy of the database is there before its migration, on SQLite and PostgreSQL; without it nothing is migrated.

With that copy the version before goes on, and the refusal of a newer database names it.
"""

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import Engine, text

from agent.core.failpoints import ENVIRONMENT
from gateway.cli.main import cli
from gateway.storage.repair import SCHEMA
from tests.fakes.databases import PostgresServer
from tests.program.doubles import PATIENCE_S
from tests.program.running import Program
from tests.upgrade.comparing import differences
from tests.upgrade.fixture import Fixture
from tests.upgrade.rows import engine_of, read_all, revision
from tests.upgrade.test_fixtures import laid_out

COMMIT, OLD = "08a01c2", "0015_forgetting"
ENDINGS = {"sqlite": ".db", "postgresql": ".tar"}
KINDS = sorted(ENDINGS)
MADE_ANEW = "memory_vector.embedding is gone"  # pgvector's own column


@dataclass(frozen=True, slots=True)
class Installation:
    """A home, its database and its configuration."""

    home: Path
    engine: Engine
    config: str

    def run(self, command: str) -> Result:
        """A command of the program, in this process."""
        environ = {
            **dict.fromkeys(("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "LLM_API_KEY")),
            "TIELINE_HOME": str(self.home),
        }
        return CliRunner(env=environ).invoke(cli, command.split(), prog_name="tieline", catch_exceptions=False)

    def copies(self) -> list[str]:
        """The names of all that is among the backups."""
        return sorted(path.name for path in (self.home / "backups").glob("*"))


def configured(home: Path, engine: Engine, url: str | None) -> Installation:
    """An installation whose configuration names the database, where it is PostgreSQL."""
    home.mkdir(mode=0o700, exist_ok=True)
    config = f'[database]\nurl = "{url}"\n' if url else ""
    (home / "gateway.toml").write_text(config)
    return Installation(home, engine, config)


@contextmanager
def of_an_older_version(kind: str, home: Path, request: pytest.FixtureRequest) -> Iterator[Installation]:
    """The database of a fixture, in a home without anything else."""
    kept = home.parent / "kept"
    with laid_out(Fixture(COMMIT, kind), kept, request) as (engine, url):
        home.mkdir(mode=0o700)
        if url is None:
            engine.dispose()
            shutil.move(kept / "tieline.db", home / "tieline.db")
            engine = engine_of(home, None)
        yield configured(home, engine, url)
        engine.dispose()


@contextmanager
def without_a_database(kind: str, home: Path, request: pytest.FixtureRequest) -> Iterator[Installation]:
    """An empty home, and an empty database where it is PostgreSQL."""
    if kind == "sqlite":
        engine = engine_of(home, None)
        yield configured(home, engine, None)
        engine.dispose()
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    with server.database(empty=True) as url:
        engine = engine_of(home, url)
        yield configured(home, engine, url)
        engine.dispose()


def stamp(engine: Engine, stored: str) -> None:
    """Let the database say that it is of that revision."""
    with engine.begin() as conn:
        conn.execute(text("update alembic_version set version_num = :stored"), {"stored": stored})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.requirement("G-37")
def test_the_start_copies_before_it_migrates_and_the_copy_can_be_restored(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    name = f"tieline-{OLD}{ENDINGS[kind]}"
    with of_an_older_version(kind, tmp_path / "h", request) as here:
        before = read_all(here.engine)
        (tmp_path / "crash").write_text("migration.within")
        program = Program(here.home, here.config, {ENVIRONMENT: str(tmp_path / "crash")})
        program.start()
        assert program.process is not None
        assert program.process.wait(PATIENCE_S) == -signal.SIGKILL, "killed in the migration"
        assert (revision(here.engine), here.copies()) == (OLD, [name])
        assert f"{name} before its migration from {OLD}" in program.log.read_text()
        assert here.run("backup --verify " + str(here.home / "backups" / name)).exit_code == 0

        with without_a_database(kind, tmp_path / "r", request) as there:
            ran = there.run(f"restore {here.home / 'backups' / name} --yes --keep-open")
            assert ran.exit_code == 0, ran.output
            assert revision(there.engine) == OLD
            assert set(differences(before, read_all(there.engine), live=False)) <= {MADE_ANEW}
            assert there.run("dead list").exit_code == 0
            assert revision(there.engine) == SCHEMA.head
            assert there.copies() == [name]
            assert there.run("dead list").exit_code == 0
            assert there.copies() == [name], "where nothing is migrated none is made"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.requirement("G-37")
def test_without_the_copy_nothing_is_migrated(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    with of_an_older_version(kind, tmp_path / "h", request) as here:
        before = read_all(here.engine)
        (here.home / "backups").write_text("a file where the folder should be")
        ran = here.run("dead list")
        assert ran.exit_code == 1, ran.output
        assert f"of revision {OLD} and was not migrated to {SCHEMA.head}" in ran.stderr
        assert "let it be a link to a folder on another disk" in ran.stderr
        assert revision(here.engine) == OLD
        assert not list(differences(before, read_all(here.engine), live=False))

        (here.home / "backups").unlink()
        (tmp_path / "other").mkdir()
        (here.home / "backups").symlink_to(tmp_path / "other")
        ran = here.run("dead list")
        assert ran.exit_code == 0, ran.output
        assert revision(here.engine) == SCHEMA.head
        assert os.listdir(tmp_path / "other") == [f"tieline-{OLD}{ENDINGS[kind]}"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.requirement("G-37")
def test_a_database_of_a_newer_version_is_refused_with_the_copy_to_restore(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with of_an_older_version(kind, tmp_path / "h", request) as here:
        assert here.run("dead list").exit_code == 0
        (made,) = (here.home / "backups").iterdir()
        for number, name in enumerate((SCHEMA.head, f"{SCHEMA.head}-2")):  # as a newer version names what it copies
            copy = made.with_name(f"tieline-{name}{ENDINGS[kind]}")
            shutil.copy(made, copy)
            os.utime(copy, (number, number))
        shutil.copy(made, made.with_name(f"tieline-{SCHEMA.head}x{ENDINGS[kind]}"))
        stamp(here.engine, "0099_future")
        for command in ("run", "doctor --offline", "dead list"):
            ran = here.run(command)
            assert ran.exit_code == 1, ran.output
            assert f"written by a newer Tieline (revision 0099_future, this one knows {SCHEMA.head})" in ran.output
            first = "name an empty database in [database] url and `" if kind == "postgresql" else "`"
            assert f"install that version again; or, without what was said since, {first}" in ran.output
            assert f"restore {copy} --home {here.home}`" in ran.output
        assert revision(here.engine) == "0099_future"
