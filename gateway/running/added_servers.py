"""MCP servers that an admin adds in a chat: kept in the database, beside those of the configuration."""

from urllib.parse import urlsplit

from agent.core.clock import Clock
from agent.core.ids import ConversationId
from agent.storage.database import Database
from agent.storage.moments import to_us
from agent.tools.mcp.servers import Servers
from agent.tools.mcp.settings import ServerSettings
from gateway.storage import settings_rows

SETTING = "mcp_server"  # its value is the address; it belongs to no conversation but to the server's own name


class AddedServers:
    """Each asks a person before every call, and has no keys: those belong into the configuration, not into a chat."""

    def __init__(self, database: Database, clock: Clock, servers: Servers) -> None:
        self._database = database
        self._clock = clock
        self._servers = servers
        self._names: set[str] = set()

    async def take_up(self) -> None:
        """Those that were added before; the configuration's own of the same name goes first."""
        for row, url in (await self._database.read(lambda conn: settings_rows.everywhere(conn, SETTING))).items():
            name = row.partition(":")[2]
            if self._servers.named(name) is None:
                self._servers.add(ServerSettings(name=name, url=url))
                self._names.add(name)

    async def add(self, name: str, url: str) -> None:
        """Connect to it, now and after every start. Raises ValueError that says what is wrong."""
        settings = ServerSettings(name=name, url=url)
        if self._servers.named(name) is not None:
            raise ValueError(f"there is a server {name} already")
        parts = urlsplit(url)
        if parts.username or parts.password or parts.query or parts.fragment:
            raise ValueError("an address with a key in it belongs into the configuration, not into a chat")
        at = to_us(self._clock.now())
        await self._database.write(lambda conn: settings_rows.put(conn, _row(name), SETTING, url, at=at))
        self._servers.add(settings)
        self._names.add(name)

    async def remove(self, name: str) -> bool:
        """Forget it; False when it was not added here."""
        if name not in self._names:
            return False
        await self._database.write(lambda conn: settings_rows.clear(conn, _row(name), SETTING))
        self._servers.remove(name)
        self._names.discard(name)
        return True


def _row(name: str) -> ConversationId:
    return ConversationId(f"mcp:{name}")
