"""States of MCP servers for pages: of this process's own connections, or of all workers with one database (G-171)."""

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

import anyio
from pydantic import TypeAdapter
from sqlalchemy import Connection, delete, insert, select

from agent.storage.database import TROUBLE, Database
from agent.storage.process_tables import mcp_state
from agent.storage.statements import or_update
from agent.tools.mcp.servers import Servers
from agent.tools.mcp.states import ServerState, state_of

if TYPE_CHECKING:  # loaded only where a database is shared
    from gateway.cluster.cluster import Cluster

MCP = "@mcp"  # words about servers, in the place of an account
TOGETHER_S = 0.2  # changes of so long are one write: a server that connects changes three times
AGAIN_S = 5.0

_STATE = TypeAdapter(ServerState)
_PUT = or_update(insert(mcp_state), key=("process", "server"), columns=("state",))
_ALL = select(mcp_state.c.server, mcp_state.c.state).order_by(mcp_state.c.server, mcp_state.c.process)

_log = logging.getLogger("tieline.mcp")


class ServerStates(Protocol):
    """States of all servers, wherever they are connected."""

    async def by_name(self) -> Mapping[str, Sequence[ServerState]]:
        """The states: one for each process that keeps the server connected. Raises StorageError."""

    def reconnect(self, name: str) -> None:
        """Let all that keep it connected part from it and connect anew."""

    async def run(self) -> None:
        """Keep the servers of this process connected, until cancelled."""


class OwnStates:
    """Of the one process that there is."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers

    async def by_name(self) -> Mapping[str, Sequence[ServerState]]:
        return {one.settings.name: (state_of(one),) for one in self._servers.all}

    def reconnect(self, name: str) -> None:
        self._servers.reconnect(name)

    async def run(self) -> None:
        await self._servers.run()


class SharedStates:
    """Of all workers: each keeps rows of its own, which go with it."""

    def __init__(self, servers: Servers, database: Database, cluster: "Cluster", redact: Callable[[str], str]) -> None:
        self._servers = servers
        self._database = database
        self._process = cluster.membership.id
        self._tell = partial(cluster.words.tell, MCP)
        self._redact = redact
        self._changed = anyio.Event()
        self._written: Mapping[str, str] = {}
        cluster.hear(MCP, self._hear)
        servers.listen(self._stir)

    async def by_name(self) -> Mapping[str, Sequence[ServerState]]:
        found: dict[str, list[ServerState]] = defaultdict(list)
        for server, state in (await self._database.read(lambda conn: conn.execute(_ALL))).all():
            found[server].append(_STATE.validate_json(state))
        return found

    def reconnect(self, name: str) -> None:
        self._servers.reconnect(name)
        self._tell(f"reconnect {name}")

    async def run(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._keep_telling)
            await self._servers.run()

    def _hear(self, told: str) -> None:
        word, _, name = told.partition(" ")
        if word == "reconnect":
            self._servers.reconnect(name)

    def _stir(self) -> None:
        self._changed.set()

    async def _keep_telling(self) -> None:
        while True:
            self._changed = anyio.Event()
            states = {one.settings.name: self._text(state_of(one)) for one in self._servers.all}
            try:
                if states != self._written:
                    await self._database.write(partial(self._write, states=states))
                    self._written = states
            except TROUBLE as error:
                _log.warning("states of MCP servers cannot be told now: %s", type(error).__name__)
                await anyio.sleep(AGAIN_S)
                continue
            await self._changed.wait()
            await anyio.sleep(TOGETHER_S)

    def _write(self, conn: Connection, states: Mapping[str, str]) -> None:
        for server in self._written.keys() - states.keys():
            conn.execute(delete(mcp_state).where(mcp_state.c.process == self._process, mcp_state.c.server == server))
        for server, state in states.items():
            if state != self._written.get(server):
                conn.execute(_PUT, {"process": self._process, "server": server, "state": state})

    def _text(self, state: ServerState) -> str:
        """As JSON, without secrets."""
        return _STATE.dump_json(replace(state, trouble=self._redact(state.trouble))).decode()
