"""Homes with the database of an older version, or without one, and commands of the program for them."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import Engine

from gateway.cli.main import cli
from tests.fakes.databases import PostgresServer
from tests.upgrade.fixture import Fixture
from tests.upgrade.rows import engine_of
from tests.upgrade.test_fixtures import laid_out

COMMIT, OLD = "08a01c2", "0015_forgetting"
ENDINGS = {"sqlite": ".db", "postgresql": ".tar"}
KINDS = sorted(ENDINGS)


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
