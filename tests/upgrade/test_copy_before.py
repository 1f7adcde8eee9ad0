"""A copy of the database is there before its migration, on SQLite and PostgreSQL; without it nothing is migrated.

With that copy the version before goes on, and the refusal of a newer database names it.
"""

import os
import shutil
import signal
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from agent.core.failpoints import ENVIRONMENT
from gateway.storage.repair import SCHEMA
from tests.fakes.waiting import PATIENCE_S
from tests.program.running import Program
from tests.upgrade.comparing import differences
from tests.upgrade.installation import ENDINGS, KINDS, OLD, of_an_older_version, without_a_database
from tests.upgrade.rows import read_all, revision

MADE_ANEW = "memory_vector.embedding is gone"  # pgvector's own column


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
