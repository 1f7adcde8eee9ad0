"""A migration that is killed after any of its statements leaves a database that starts, and nothing is lost.

What a second start makes of it is compared, row by row, with what one undisturbed start makes.
"""

import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Engine

from gateway.storage.repair import SCHEMA
from tests.fakes.databases import PostgresServer
from tests.upgrade.comparing import differences
from tests.upgrade.fixture import Fixture, fixtures
from tests.upgrade.killed_migration import COMMITTED, WHOLE
from tests.upgrade.rows import engine_of, read_all, revision
from tests.upgrade.test_fixtures import laid_out

SQLITE = "sqlite:///tieline.db"
LEAST = {"sqlite": 60, "postgresql": 30}  # statements of the migrations that there are now
Migrate = Callable[[int, Path, str], tuple[int, int]]
NewHome = Callable[[], AbstractContextManager[tuple[Path, str, Engine]]]  # with a database as the fixture's


@pytest.fixture
def migrate() -> Iterator[Migrate]:
    """Starts and kills, one after another."""
    command = [sys.executable, "-m", "tests.upgrade.killed_migration"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        asked, told = process.stdin, process.stdout

        def run(number: int, home: Path, url: str) -> tuple[int, int]:
            print(number, home, url, file=asked, flush=True)
            code, done = told.readline().split()
            return int(code), int(done)

        yield run
        asked.close()


@contextmanager
def copies(fixture: Fixture, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[NewHome]:
    """Makes homes with a copy of the fixture's database."""
    with laid_out(fixture, tmp_path / "kept", request) as (kept, url):
        kept.dispose()

        @contextmanager
        def new() -> Iterator[tuple[Path, str, Engine]]:
            home = tmp_path / "home"
            home.mkdir(mode=0o700)
            if url is None:
                shutil.copy(tmp_path / "kept/tieline.db", home / "tieline.db")
                engine = engine_of(home, None)
                yield home, SQLITE, engine
                engine.dispose()
            else:
                server: PostgresServer = request.getfixturevalue("postgres_server")
                with server.database(like=url) as own:
                    engine = engine_of(home, own)
                    yield home, own, engine
                    engine.dispose()
            shutil.rmtree(home)

        yield new


def sweep(
    fixture: Fixture,
    chosen: Callable[[int], Iterable[int]],
    tmp_path: Path,
    request: pytest.FixtureRequest,
    migrate: Migrate,
) -> int:
    """Kill after the statements that are chosen by their number, and after the commit; gives that number."""
    with copies(fixture, tmp_path, request) as new:
        with new() as (home, url, engine):
            before, old = read_all(engine), revision(engine)
            engine.dispose()
            code, statements = migrate(WHOLE, home, url)
            assert (code, revision(engine)) == (0, SCHEMA.head)
            wanted = read_all(engine)
            assert not list(differences(before, wanted))
        for number in (*chosen(statements), COMMITTED):
            with new() as (home, url, engine):
                assert migrate(number, home, url) == (-signal.SIGKILL, 0)
                if number != COMMITTED:
                    assert revision(engine) == old, f"after statement {number} of {statements}"
                    assert read_all(engine) == before, f"after statement {number} of {statements}"
                    engine.dispose()
                assert migrate(WHOLE, home, url)[0] == 0
                assert revision(engine) == SCHEMA.head
                assert read_all(engine) == wanted, f"after statement {number} of {statements}"
    return statements


OLDEST = [one for one in fixtures() if one.commit == "08a01c2"]


@pytest.mark.requirement("Z-69")
@pytest.mark.parametrize("fixture", OLDEST, ids=lambda one: one.kind)
def test_a_kill_within_a_migration_loses_nothing(
    fixture: Fixture, tmp_path: Path, request: pytest.FixtureRequest, migrate: Migrate
) -> None:
    """The short form: in the middle, and before the commit."""
    assert sweep(fixture, lambda count: (count // 2, count), tmp_path, request, migrate) >= LEAST[fixture.kind]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("fixture", OLDEST, ids=lambda one: one.kind)
def test_a_kill_after_any_statement_of_a_migration_loses_nothing(
    fixture: Fixture, tmp_path: Path, request: pytest.FixtureRequest, migrate: Migrate
) -> None:
    assert sweep(fixture, lambda count: range(1, count + 1), tmp_path, request, migrate) >= LEAST[fixture.kind]
