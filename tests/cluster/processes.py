"""Several processes of the real program on one PostgreSQL database, each with a home of its own."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence, Set
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import anyio
from sqlalchemy import Connection, create_engine, make_url, text

from tests.program.running import Program

FIVE = ("ingress", "worker", "worker", "scheduler", "delivery")


class Member(Program):
    """One process of a cluster, in some roles."""

    def __init__(
        self,
        home: Path,
        config: str,
        roles: str,
        environ: Mapping[str, str] = MappingProxyType({}),
        *,
        about: Set[str] = frozenset(),
    ) -> None:
        super().__init__(home, config, environ, about=about)
        self.roles = roles
        self.command = [*self.command, "--role", roles]


class Members:
    """The processes; their homes lie side by side below one folder."""

    def __init__(
        self,
        folder: Path,
        database: str,
        config: str,
        roles: Sequence[str] = FIVE,
        environs: Mapping[int, Mapping[str, str]] = MappingProxyType({}),
        *,
        about: Set[str] = frozenset(),
    ) -> None:
        """`environs` are variables of some processes alone, by their number."""
        self.database = database
        self.config = f'[database]\nurl = "{database}"\n{config}'
        self.all = [
            Member(
                folder / f"{number}-{role.partition(',')[0]}",  # short: the path of a socket has 107 bytes
                self.config,
                role,
                environs.get(number, {}),
                about=about,
            )
            for number, role in enumerate(roles)
        ]

    def of(self, role: str) -> list[Member]:
        return [one for one in self.all if role in one.roles.split(",") or one.roles == "all"]

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with self._connected() as conn:
            return [tuple(row) for row in conn.execute(text(query))]

    def write(self, statement: str, values: Mapping[str, object]) -> None:
        with self._connected() as conn:
            conn.execute(text(statement), dict(values))

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        engine = create_engine(make_url(self.database).set(drivername="postgresql+psycopg"))
        try:
            with engine.begin() as conn:
                yield conn
        finally:
            engine.dispose()

    def logs(self) -> str:
        return "\n".join(f"== {one.roles}\n{one.log.read_text()[-4000:]}" for one in self.all if one.log.exists())


@asynccontextmanager
async def running(members: Members) -> AsyncIterator[Members]:
    """All of them started and ready; at the end they are killed."""
    async with AsyncExitStack() as stack:
        for one in members.all:
            one.start()
            stack.push_async_callback(one.__aexit__)
        async with anyio.create_task_group() as tasks:
            for one in members.all:
                tasks.start_soon(one.ready)
        yield members
