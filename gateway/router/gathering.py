"""The albums that wait in the inbox until all their parts are there (`gateway.router.albums`)."""

from datetime import timedelta

from sqlalchemy import Connection

from agent.core.ids import ConversationId
from agent.inbox import Incoming
from agent.storage import waiting_rows
from agent.storage.inbox_rows import InboxRow
from agent.storage.timestamps import to_timestamp
from gateway.access.policy import Role
from gateway.channels.inbound import MessageReceived
from gateway.router import albums
from gateway.router.arrival import Arrival
from gateway.router.deps import RouterDeps
from gateway.router.incoming import incoming_from

WAKE_MARGIN_S = 0.05  # the wall clock, by which rows are due, is not the one that sleeps


class Gathering:
    """Finds the album that a part belongs to, holds it while files are fetched, and puts the part to it."""

    def __init__(self, deps: RouterDeps) -> None:
        self._deps = deps

    async def waits_for(self, said: MessageReceived) -> bool:
        """It is a part of an album that waits for it."""
        if said.album is None:
            return False
        conversation, incoming = ConversationId(str(said.key)), incoming_from(said, Role.MEMBER)
        return await self._deps.database.read(
            lambda conn: waiting_rows.waiting_album(conn, conversation, incoming) is not None
        )

    async def hold(self, arrival: Arrival) -> bool:
        """The same; then the album waits while the files of this part are fetched, if it is not there already."""
        if arrival.said.album is None:
            return False

        def work(conn: Connection) -> bool:
            album = waiting_rows.waiting_album(conn, arrival.conversation, arrival.incoming)
            if album is not None and not arrival.is_known(conn):
                waiting_rows.join(conn, album, album.incoming, part=None, not_before=self._in(albums.FETCHING))
            return album is not None

        return await self._deps.database.write(work)

    def settled_at(self, incoming: Incoming) -> int | None:
        """Before that moment (µs) nobody begins with it, since more parts may come; None for what is no part."""
        return None if incoming.album is None else self._in(albums.SETTLES)

    def put_to(self, conn: Connection, album: InboxRow, incoming: Incoming, part: int) -> None:
        """The part, stored under that number, is the album's from here on; the album waits for the next."""
        whole = albums.joined(album.incoming, incoming)
        waiting_rows.join(conn, album, whole, part=part, not_before=self._in(albums.SETTLES))

    async def wake_settled(self, conversation: ConversationId) -> None:
        """(After a crash, and should the clock be set back, the dispatcher finds it when it looks around.)"""
        await self._deps.clock.sleep(albums.SETTLES_S + WAKE_MARGIN_S)
        self._deps.wake(conversation)

    def _in(self, time: timedelta) -> int:
        return to_timestamp(self._deps.clock.now() + time)
