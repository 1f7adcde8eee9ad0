"""The whole gateway in this process, for tests of what people write and what comes of it."""

from collections.abc import AsyncIterator, Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:  # importing these costs a second, which most tests do not need
    from sqlalchemy import Engine

    from tests.fakes.databases import PostgresServer
    from tests.fakes.llm_server import LlmServer
    from tests.gateway.world import World


@pytest.fixture
def world_of(tmp_path: Path, sqlite_template: Path, llm: "LlmServer") -> "Callable[..., World]":
    """Makes the world around a gateway; see `World` for what may be chosen."""

    def make(**options: object) -> "World":
        world: World = import_module("tests.gateway.world").World(tmp_path, sqlite_template, llm, **options)
        return world

    return make


@pytest.fixture
async def world(world_of: "Callable[..., World]") -> "AsyncIterator[World]":
    """A running gateway on one Telegram account. Ann (77) is admin, Bob (78) is let in, so is the group -1005."""
    async with world_of().process() as running:
        yield running


@pytest.fixture
def target(postgres_server: "PostgresServer") -> Iterator[str]:
    """The address of an empty PostgreSQL database, to move a database into."""
    with postgres_server.database(empty=True) as url:
        yield url


@pytest.fixture
def there(target: str) -> "Iterator[Engine]":
    """A look into that database."""
    sqlalchemy = import_module("sqlalchemy")
    engine: Engine = sqlalchemy.create_engine(sqlalchemy.make_url(target).set(drivername="postgresql+psycopg"))
    yield engine
    engine.dispose()
