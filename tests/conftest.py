"""Fixtures for everybody: real databases and a clock. Heavy modules are loaded only by the fixtures that need them."""

import gc
import os
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.fakes.clock import FakeClock

if TYPE_CHECKING:  # importing these costs a second, which most tests do not need
    from agent.storage.database import Database
    from tests.fakes.databases import PostgresServer
    from tests.fakes.llm_server import LlmServer

POSTGRES = "TIELINE_TEST_PG"
SUITE = "channel_contract.py"
LONGEST = (
    "tests/upgrade/test_upgrade.py",
    "tests/scenarios/test_context_evaluation.py",
    "tests/tools/test_default_install.py",
    "tests/tools/test_structure.py",
)
SHARED = pytest.StashKey[Any]()


def pytest_configure() -> None:
    """Let hypothesis try the same examples in each run, in CI fewer; `--hypothesis-profile=default` tries new ones."""
    settings = import_module("hypothesis").settings
    settings.register_profile("steady", settings.get_profile("ci"))
    settings.register_profile("brief", settings.get_profile("ci"), max_examples=40)
    settings.load_profile("brief" if os.environ.get("CI") == "true" else "steady")
    gc.disable()  # 11,000 tests are collected, and none of them is garbage


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Let the collector of garbage look at what tests make, not at the tests again and again: a second each time."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """In CI a skipped test is a failed one; an expected failure is not meant.

    Nor is what the contract suite leaves out, since a platform has no such thing: it says so by the capabilities.
    """
    report = yield
    left_out = report.skipped and isinstance(report.longrepr, tuple) and Path(report.longrepr[0]).name == SUITE
    if report.skipped and not left_out and os.environ.get("CI") == "true" and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped in CI: {report.longrepr}"
    return report


def pytest_xdist_auto_num_workers() -> int:
    """Two to a core, for `-n auto`: half of a test's time is waiting, for a process, a platform's pace, a disk."""
    return min(2 * (os.cpu_count() or 1), 8)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest tests first: a worker that came to one last would keep the others waiting."""
    items.sort(key=lambda item: (not item.nodeid.startswith(LONGEST), "/program/" not in item.nodeid))


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty SQLite database with all tables."""
    path: Path = import_module("tests.fakes.databases").make_sqlite_template(tmp_path_factory.mktemp("db") / "t.db")
    return path


@pytest.fixture
async def sqlite_database(tmp_path: Path, sqlite_template: Path) -> "AsyncIterator[Database]":
    """An empty SQLite database of this test's own, in `tmp_path / "tieline.db"`."""
    database = await import_module("tests.fakes.databases").open_sqlite(tmp_path, sqlite_template)
    yield database
    await database.aclose()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """One PostgreSQL for all workers of a run: started with the first, stopped when the run is over."""
    config: pytest.Config = node.config
    if POSTGRES not in os.environ and SHARED not in config.stash:
        try:
            stack = ExitStack()
            config.add_cleanup(stack.close)
            config.stash[SHARED] = stack.enter_context(import_module("tests.fakes.databases").embedded_postgres())
        except ImportError:
            return  # each test that needs it says so
    if SHARED in config.stash:
        node.workerinput[POSTGRES] = config.stash[SHARED].render_as_string(hide_password=False)


@pytest.fixture(scope="session")
def postgres_server(request: pytest.FixtureRequest) -> "Iterator[PostgresServer]":
    """PostgreSQL: the server that TIELINE_TEST_PG names, else one started for this run."""
    databases = import_module("tests.fakes.databases")
    given = os.environ.get(POSTGRES) or getattr(request.config, "workerinput", {}).get(POSTGRES)
    with ExitStack() as stack:
        try:
            url = databases.make_url(given) if given else stack.enter_context(databases.embedded_postgres())
        except ImportError as error:
            pytest.fail(f"no PostgreSQL: {error}; `make setup` installs one, or {POSTGRES} names one")
        server = databases.PostgresServer(url)
        yield server
        server.close()


@pytest.fixture
def postgres_url(postgres_server: "PostgresServer") -> Iterator[str]:
    """The address of a PostgreSQL database of this test's own, with all tables."""
    with postgres_server.database() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> "AsyncIterator[Database]":
    """An empty database of this test's own, once on SQLite and once on PostgreSQL."""
    databases = import_module("tests.fakes.databases")
    if request.param == "sqlite":
        opened = await databases.open_sqlite(tmp_path, request.getfixturevalue("sqlite_template"))
    else:
        opened = await databases.open_postgres(tmp_path, request.getfixturevalue("postgres_url"))
    yield opened
    await opened.aclose()


@pytest.fixture
async def llm() -> "AsyncIterator[LlmServer]":
    """The model double."""
    async with import_module("tests.fakes.llm_server").serving_llm() as server:
        yield server
