"""`tieline upgrade --check` on homes of older versions: it changes nothing, and the next start does what it said."""

import hashlib
import signal
from pathlib import Path

import pytest
from sqlalchemy import text

from agent.core.failpoints import ENVIRONMENT
from gateway.storage.repair import SCHEMA
from tests.fakes.waiting import PATIENCE_S
from tests.program.running import Program
from tests.upgrade.comparing import differences
from tests.upgrade.installation import ENDINGS, KINDS, OLD, of_an_older_version
from tests.upgrade.rows import read_all, revision

CHECK = "upgrade --check"


def files_in(home: Path) -> dict[str, str]:
    """Each file with its hash, but for what every reader of a SQLite file leaves beside it."""
    return {
        str(path.relative_to(home)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in home.rglob("*")
        if path.is_file() and not path.name.endswith(("-wal", "-shm"))
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.requirement("G-38")
def test_what_it_says_is_what_the_next_start_does(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    with of_an_older_version(kind, tmp_path / "h", request) as here:
        before, files = read_all(here.engine), files_in(here.home)
        here.engine.dispose()
        ran = here.run(CHECK)
        copy = here.home / "backups" / f"tieline-{OLD}{ENDINGS[kind]}"
        assert ran.exit_code == 0, ran.output
        told = [line for line in ran.stdout.splitlines() if line.startswith("✓ migration 00")]
        assert f"✓ database: of revision {OLD}: {len(told)} migrations will run" in ran.stdout
        assert told[0].startswith("✓ migration 0029_feedback: Everything from 0016")
        assert told[-1].startswith(f"✓ migration {SCHEMA.head}: ")
        assert ("✓ migration on a copy: done in" in ran.stdout) is (kind == "sqlite")
        assert f"in {copy.parent}, where" in ran.stdout
        into = "name an empty database in [database] url and " if kind == "postgresql" else ""
        assert f"✓ way back: {into}`" in ran.stdout
        assert f"restore {copy} --home {here.home}`, then start the version before again" in ran.stdout
        assert ran.stdout.endswith("Nothing stands in the way. Nothing was changed.\n")
        assert (revision(here.engine), files_in(here.home)) == (OLD, files)
        assert not list(differences(before, read_all(here.engine), live=False))

        (tmp_path / "crash").write_text("migration.within")
        program = Program(here.home, here.config, {ENVIRONMENT: str(tmp_path / "crash")})
        program.start()
        assert program.process is not None
        assert program.process.wait(PATIENCE_S) == -signal.SIGKILL, "killed in the migration"
        assert list(copy.parent.iterdir()) == [copy]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.requirement("G-38")
def test_where_the_start_would_refuse_it_fails(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    with of_an_older_version(kind, tmp_path / "h", request) as here:
        (here.home / "backups").write_text("a file where the folder should be")
        ran = here.run(CHECK)
        assert ran.exit_code == 1, ran.output
        assert "✗ copy before it: " in ran.stdout
        assert "without a copy nothing is migrated" in ran.stdout
        assert ran.stdout.endswith("This version would not start.\n")
        (here.home / "backups").unlink()

        for stored, said in (
            ("0099_future", f"written by a newer Tieline (revision 0099_future, this one knows {SCHEMA.head})"),
            (
                "0018_models",
                "of an older Tieline (revision 0018_models), which this version does not upgrade by itself",
            ),
        ):
            with here.engine.begin() as conn:
                conn.execute(text("update alembic_version set version_num = :stored"), {"stored": stored})
            ran = here.run(CHECK)
            assert ran.exit_code == 1, ran.output
            assert f"✗ database: the database was {said}" in ran.stdout.replace("database is of", "database was of")
            assert "    → " in ran.stdout
            assert "way back" not in ran.stdout


FAILS = f"the migration to {SCHEMA.head} fails, and nothing of it was kept: "


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.requirement("G-38")
def test_a_migration_that_fails_is_told(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Before the start, where it is SQLite, and by the start, which leaves the database as it was."""
    with of_an_older_version(kind, tmp_path / "h", request) as here:
        with here.engine.begin() as conn:
            conn.execute(text("create table feedback (mine text)"))
        here.engine.dispose()
        before, files = read_all(here.engine), files_in(here.home)
        if kind == "sqlite":
            ran = here.run(CHECK)
            assert ran.exit_code == 1, ran.output
            assert f"✗ migration on a copy: {FAILS}" in ran.stdout
            assert "table feedback already exists" in ran.stdout
            assert files_in(here.home) == files
        ran = here.run("dead list")
        assert ran.exit_code == 1, ran.output
        assert FAILS in ran.stderr
        assert "start the version before again, and report this" in ran.stderr
        assert revision(here.engine) == OLD
        assert not list(differences(before, read_all(here.engine), live=False))
        assert here.copies() == [], "starts that are repeated do not fill the disk with copies"


def test_the_journal_of_a_gateway_that_runs_is_tried_too(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """A committed change that is not yet in the file of the database counts."""
    with of_an_older_version("sqlite", tmp_path / "h", request) as here, here.engine.connect() as other:
        other.execute(text("create table feedback (mine text)"))
        other.commit()
        assert (here.home / "tieline.db-wal").stat().st_size
        assert "table feedback already exists" in here.run(CHECK).stdout
