"""Connections of a process beside the pool: one that hears what others notify, one that shows that it is alive.

Both must reach the server itself, or a pooler in session mode: what is listened for, and locks of a session, are lost
behind one that lends its connections by transaction.
"""

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

import anyio
import psycopg
from sqlalchemy import URL

from agent.core.backoff import Backoff, Retries
from agent.storage.database import APPLICATION
from agent.storage.postgres import CONNECT

RECONNECTING = Backoff(first_s=0.2, longest_s=5.0)
PROBED_AFTER_S = 5.0  # of silence

_log = logging.getLogger("tieline.cluster")

Heard = Callable[[str, str], Awaitable[None]]


async def connect(url: URL) -> psycopg.AsyncConnection:
    """A connection of its own, each statement of which is a transaction. Raises psycopg.Error."""
    return await psycopg.AsyncConnection.connect(address_of(url), autocommit=True)


def connected(url: URL) -> psycopg.Connection:
    """The same for threads. Blocking. Raises psycopg.Error."""
    return psycopg.connect(address_of(url), autocommit=True)


def address_of(url: URL) -> str:
    """The address as libpq takes it, with the name of this process and short times to notice a server that is gone."""
    query = {**url.query, "application_name": APPLICATION, **{name: str(value) for name, value in CONNECT.items()}}
    address = url.set(drivername="postgresql", query=query).render_as_string(hide_password=False)
    before, mark, behind = address.partition("?")
    return before + mark + behind.replace("+", "%20")  # libpq takes a plus for one


class Notifications:
    """Hears the channels until cancelled, over broken connections.

    What was notified while there was none is lost: `heard_anew` is called after each connect, to look for it.
    """

    def __init__(self, url: URL, channels: tuple[str, ...], heard: Heard, heard_anew: Callable[[], None]) -> None:
        self._url = url
        self._channels = channels
        self._heard = heard
        self._heard_anew = heard_anew
        self.listening = anyio.Event()

    async def run(self) -> None:
        retries = Retries(RECONNECTING)
        while True:
            connection: psycopg.AsyncConnection | None = None
            try:
                connection = await connect(self._url)
                for channel in self._channels:
                    await connection.execute(psycopg.sql.SQL("listen {}").format(psycopg.sql.Identifier(channel)))
                retries.succeeded()
                self.listening.set()
                self._heard_anew()
                await self._listen(connection)
            except (psycopg.Error, OSError, TimeoutError) as error:
                _log.warning("notifications are not heard until the next try: %s", type(error).__name__)
                await anyio.sleep(retries.failed())
            finally:
                if connection is not None:
                    with anyio.CancelScope(shield=True), anyio.move_on_after(1.0), suppress(psycopg.Error, OSError):
                        await connection.close()

    async def _listen(self, connection: psycopg.AsyncConnection) -> None:
        while True:
            async for told in connection.notifies(timeout=PROBED_AFTER_S):
                await self._heard(told.channel, told.payload)
            with anyio.fail_after(PROBED_AFTER_S):
                await connection.execute("select 1")
