"""MCP servers that an admin adds in a chat: kept in the database, beside those of the configuration."""

import logging
from collections.abc import Callable
from urllib.parse import urlsplit

from agent.core.clock import Clock
from agent.core.ids import ConversationId
from agent.storage.database import Database
from agent.storage.timestamps import to_timestamp
from agent.tools.mcp.servers import Servers
from agent.tools.mcp.settings import AddedServerSettings
from gateway.storage import settings_rows

SETTING = "mcp_server"  # its value is the address; it belongs to no conversation but to the server's own name
PLACE = "mcp:"  # and its name, in the place of a conversation

_log = logging.getLogger("tieline.mcp")


class AddedServers:
    """Each asks a person before every call, and has no keys: those belong into the configuration, not into a chat."""

    def __init__(
        self, database: Database, clock: Clock, servers: Servers, health: Callable[[str, str | None], None]
    ) -> None:
        """`health` is told of one that cannot be taken up, and None when that is over."""
        self._database = database
        self._clock = clock
        self._servers = servers
        self._health = health
        self._addresses: dict[str, str] = {}  # of those that are used, by their names
        self.left_out: set[str] = set()

    @property
    def names(self) -> frozenset[str]:
        """The servers that are used, and those that are left out."""
        return frozenset(self._addresses.keys() | self.left_out)

    async def recover(self) -> None:
        """Open the servers that were added before, or at another process; part from those that were removed there.

        The configuration's own of the same name goes first. One that this version would not take is left out until
        somebody removes it: a row must not keep the gateway from starting.
        """
        rows = await self._database.read(lambda conn: settings_rows.everywhere(conn, SETTING))
        found = {row.removeprefix(PLACE): url for row, url in rows.items()}
        for name, url in [*self._addresses.items()]:
            if found.get(name) != url:
                self._forget(name)
        for name in self.left_out - found.keys():
            self._forget(name)
        for name, url in found.items():
            if name not in self.left_out and self._servers.named(name) is None:
                self._take_up(name, url)

    def _take_up(self, name: str, url: str) -> None:
        try:
            settings = AddedServerSettings(name=name, url=url)
        except ValueError as error:
            _log.warning("an added MCP server is left out: %s", error)
            self._health(name, f"it was added in a chat and is left out: {error}")
            self.left_out.add(name)
        else:
            self._use(settings)

    def _use(self, settings: AddedServerSettings) -> None:
        if self._servers.named(settings.name) is None:  # else `recover` was quicker than `add`
            self._servers.add(settings)
            self._addresses[settings.name] = settings.url

    def _forget(self, name: str) -> None:
        if self._addresses.pop(name, None) is not None:
            self._servers.remove(name)
        self._health(name, None)
        self.left_out.discard(name)

    async def add(self, name: str, url: str) -> None:
        """Connect to it, now and after every start. Raises ValueError that says what is wrong."""
        settings = AddedServerSettings(name=name, url=url)
        if self._servers.named(name) is not None:
            raise ValueError(f"there is a server {name} already")
        parts = urlsplit(url)
        if parts.username or parts.password or parts.query or parts.fragment:
            raise ValueError("an address with a key in it belongs into the configuration, not into a chat")
        at = to_timestamp(self._clock.now())
        await self._database.write(lambda conn: settings_rows.put(conn, _row(name), SETTING, url, at=at))
        self._use(settings)

    async def remove(self, name: str) -> bool:
        """Forget it; False when it was not added here."""
        if name not in self.names:
            return False
        await self._database.write(lambda conn: settings_rows.clear(conn, _row(name), SETTING))
        self._forget(name)
        return True


def is_row(place: str) -> bool:
    """Whether a place of the settings' rows is none of a conversation, but a server."""
    return place.startswith(PLACE)


def _row(name: str) -> ConversationId:
    return ConversationId(f"{PLACE}{name}")
