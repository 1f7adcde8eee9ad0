"""An album of files, which Telegram sends as one message a file: one piece of work with all of them. Pure.

Nothing says how many parts there are. The first one waits for the next for a moment, and each next one for another.
"""

from collections.abc import Hashable
from dataclasses import replace
from datetime import timedelta

from sqlalchemy import Connection

from agent.core.bounded_map import BoundedMap
from agent.core.ids import ConversationId
from agent.inbox import Incoming
from agent.storage import inbox_rows
from agent.storage.inbox_rows import InboxRow
from agent.storage.timestamps import to_timestamp
from gateway.access.policy import Role
from gateway.channels.inbound import MessageReceived
from gateway.router.attachments import FETCH_TIMEOUT_S
from gateway.router.messages import incoming_from, with_notes
from gateway.router.ports import Arrival, RouterDeps

SETTLES_S = 1.5  # parts come in one batch, or in two that follow each other
SETTLES = timedelta(seconds=SETTLES_S)
FETCHING = SETTLES + timedelta(seconds=FETCH_TIMEOUT_S)  # while the files of a part are on their way


class Refused:
    """The newest albums of which a part was refused: the others follow it, and that is not said once a picture."""

    def __init__(self, most: int = 256) -> None:
        self._albums: BoundedMap[Hashable, None] = BoundedMap(most)

    def note(self, part: MessageReceived) -> None:
        if part.album is not None:
            self._albums[_identity(part)] = None

    def has(self, part: MessageReceived) -> bool:
        return _identity(part) in self._albums


def joined(album: Incoming, part: Incoming) -> Incoming:
    """The album with one more part; the answer goes below its first message."""
    words = "\n".join(filter(None, (_words(album), _words(part))))
    notes = album.notes + part.notes
    return replace(
        album,
        text=with_notes(words, notes),
        files=tuple(sorted(album.files + part.files, key=lambda file: file.quoted)),
        notes=notes,
        quoted=album.quoted if album.quoted is not None else part.quoted,
        quoted_from=album.quoted_from or part.quoted_from,
    )


def _identity(part: MessageReceived) -> Hashable:
    return part.key, part.sender.id, part.album


def _words(said: Incoming) -> str:
    """Its text without the notes at its end."""
    lines = said.text.split("\n")
    return "\n".join(lines[: len(lines) - len("\n".join(said.notes).split("\n"))] if said.notes else lines)


# Albums that wait in the inbox until all their parts are there.

WAKE_MARGIN_S = 0.05  # the wall clock, by which rows are due, is not the one that sleeps


class Gathering:
    """Finds the album that a part belongs to, holds it while files are fetched, and puts the part to it."""

    def __init__(self, deps: RouterDeps) -> None:
        self._deps = deps

    async def waits_for(self, said: MessageReceived) -> bool:
        """An album waits for this part of it."""
        conversation, incoming = ConversationId(str(said.key)), incoming_from(said, Role.MEMBER)
        return await self._deps.database.read(
            lambda conn: inbox_rows.waiting_album(conn, conversation, incoming) is not None
        )

    async def hold(self, arrival: Arrival) -> Incoming | None:
        """That album, which waits while the files of this part are fetched, if it is not there already."""

        def work(conn: Connection) -> Incoming | None:
            album = inbox_rows.waiting_album(conn, arrival.conversation, arrival.incoming)
            if album is not None and not arrival.is_known(conn):
                inbox_rows.join(conn, album, album.incoming, part=None, not_before=self._in(FETCHING))
            return album.incoming if album is not None else None

        return await self._deps.database.write(work)

    def settled_at(self) -> int:
        """Before that moment (µs) nobody begins with an album of which a part came now, since more may come."""
        return self._in(SETTLES)

    def put_to(self, conn: Connection, album: InboxRow, incoming: Incoming, part: int) -> None:
        """The part, stored under that number, is the album's from here on; the album waits for the next."""
        whole = joined(album.incoming, incoming)
        inbox_rows.join(conn, album, whole, part=part, not_before=self._in(SETTLES))

    async def wake_settled(self, conversation: ConversationId) -> None:
        """(After a crash, and should the clock be set back, the dispatcher finds it when it looks around.)"""
        await self._deps.clock.sleep(SETTLES_S + WAKE_MARGIN_S)
        self._deps.wake(conversation)

    def _in(self, time: timedelta) -> int:
        return to_timestamp(self._deps.clock.now() + time)
