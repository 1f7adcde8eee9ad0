"""A program of five processes in the place of one, so that its tests run on a cluster: `TIELINE_TESTS_ON=cluster`."""

import atexit
import re
from collections.abc import Mapping, Sequence, Set
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import anyio
from sqlalchemy import Engine, create_engine, make_url, text

from tests.fakes.databases import PostgresServer, restartable_postgres
from tests.program.running import Program as One


@cache
def _server(address: str) -> PostgresServer:
    stack = ExitStack()
    atexit.register(stack.close)
    url, restart = stack.enter_context(restartable_postgres(address))
    engine = create_engine(url.set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT")
    with engine.connect() as conn:
        conn.execute(text("alter system set max_connections = 500"))  # several programs of five side by side
    engine.dispose()
    restart()
    return PostgresServer(url)


def _of(role: str, environ: Mapping[str, str] | None) -> dict[str, str]:
    return {name: value.replace("{role}", role) for name, value in (environ or {}).items()}


class Crew(One):
    """The ingress has the home that the test gave; the others have homes of their own beside it.

    In a variable of the environment `{role}` stands for the role of the process.
    """

    others: ClassVar[Sequence[str]] = ("worker", "worker", "scheduler", "delivery")
    address: ClassVar[str] = ""  # at which the processes find the database's server; none: its socket

    def __init__(
        self, home: Path, config: str, environ: Mapping[str, str] | None = None, *, about: Set[str] = frozenset()
    ) -> None:
        stack = ExitStack()
        self.database = stack.enter_context(_server(self.address).database())  # it may be started again: until the end
        atexit.register(stack.close)
        self._engine: Engine | None = None
        self._others: list[One] = []
        super().__init__(home, config, _of("ingress", environ), about=about)
        self.command = [*self.command, "--role", "ingress"]
        for number, role in enumerate(self.others):
            other = One(home.with_name(f"{home.name}-{number}-{role}"), "", _of(role, environ))
            other.command = [*other.command, "--role", role]
            self._others.append(other)
        self.write(config, about=about)

    def write(self, config: str, *, about: Set[str] = frozenset()) -> None:
        url = make_url(self.database)
        if self.address:
            url = url.set(host=self.address, port=5432, query={})
        config = f'[database]\nurl = "{url.render_as_string(hide_password=False)}"\n{config}'
        super().write(config, about=about)
        for other in self._others:
            other.write(config, about=about)

    def start(self) -> None:
        """Start those that do not run."""
        for one in self.all:
            if one.process is None or one.process.poll() is not None:
                One.start(one)

    @property
    def all(self) -> Sequence[One]:
        return (self, *self._others)

    @property
    def fallen(self) -> Sequence[One]:
        return [one for one in self.all if one.process is not None and one.process.poll() is not None]

    async def ready(self, seconds: float = 100.0) -> None:
        await super().ready(seconds)
        for other in self._others:
            await other.ready(seconds)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with self._connected().connect() as conn:
            return [tuple(row) for row in conn.execute(text(re.sub(r":(?=\w)", r"\\:", query)))]

    def insert(self, statement: str, values: Mapping[str, object]) -> None:
        with self._connected().begin() as conn:
            conn.execute(text(statement), dict(values))

    def _connected(self) -> Engine:
        if self._engine is None:
            self._engine = create_engine(make_url(self.database).set(drivername="postgresql+psycopg"))
        return self._engine

    def kill(self) -> None:
        for one in self._others:
            if one.process is not None and one.process.poll() is None:
                one.kill()
        if self.process is not None and self.process.poll() is None:
            super().kill()

    async def stop(self, timeout: float = 100.0) -> int:
        async with anyio.create_task_group() as tasks:
            for one in self._others:
                tasks.start_soon(one.stop, timeout)
        return await super().stop(timeout)

    async def __aexit__(self, *_: object) -> None:
        for one in self._others:
            await one.__aexit__()
        await super().__aexit__()
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None
