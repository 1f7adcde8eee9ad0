"""Changes of who may do what: stored, told to those concerned, and known to this process from then on.

Decides nothing: whoever calls has asked whether the change may be made. One service for commands and the dashboard.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import Connection

from agent.core.clock import Clock
from agent.storage.database import Database
from agent.storage.timestamps import to_timestamp
from gateway.access.grants import AccessBook
from gateway.access.identities import IdentityBook
from gateway.channels.keys import ConversationKey
from gateway.phrases.catalogue import Catalogue
from gateway.storage import grants, identities, pairings
from gateway.storage.grants import Grant
from gateway.storage.identities import DirectChat
from gateway.storage.pairings import Pairing


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessChanges:
    """`by` is the account that makes a change. `deliver` hears where rows to be sent were committed."""

    database: Database
    clock: Clock
    book: AccessBook
    linked: IdentityBook
    phrase: Catalogue
    deliver: Callable[[ConversationKey], None]
    pairing_settled: Callable[[str, Literal["approved", "denied"]], None]  # what that person asked is decided

    async def let_in(self, person: str, role: Literal["member", "admin"] = "member", *, by: str) -> None:
        """Give the person the role everywhere; one who has asked to be let in is told."""
        at = self._at()
        grant = Grant(subject=person, kind="person", role=role, granted_by=by, at=at)

        def work(conn: Connection) -> Pairing | None:
            grants.give(conn, grant)
            asked = pairings.end_of(conn, person, ending="approved", by=by, now=at)
            if asked is not None:
                text = self.phrase("paired_admin" if role == "admin" else "paired", asked.language)
                pairings.tell(conn, asked, text, at=at)
            return asked

        asked = await self.database.write(work)
        self.book.note(grant)
        if asked is not None:
            self.deliver(ConversationKey.parse(asked.conversation))
            self.pairing_settled(person, "approved")

    async def let_in_place(self, place: str, *, by: str) -> None:
        """From now on members of the group are answered in it."""
        grant = Grant(subject=place, kind="place", role="member", granted_by=by, at=self._at())
        await self.database.write(lambda conn: grants.give(conn, grant))
        self.book.note(grant)

    async def turn_away(self, person: str, *, by: str) -> bool:
        """Their code is worth nothing any more; they are not told. False where they did not ask."""
        at = self._at()
        asked = await self.database.write(lambda conn: pairings.end_of(conn, person, ending="denied", by=by, now=at))
        if asked is not None:
            self.pairing_settled(person, "denied")
        return asked is not None

    async def block(self, person: str, *, by: str) -> None:
        """Shut the person out of everything. The earlier role is remembered."""
        grant = Grant(subject=person, kind="person", role="blocked", granted_by=by, at=self._at())
        self.book.note(await self.database.write(lambda conn: grants.block(conn, grant)))

    async def unblock(self, person: str, *, by: str) -> Grant | None:
        """Take the block back; the grant that holds again, None where there was none before."""
        at = self._at()
        restored = await self.database.write(lambda conn: grants.unblock(conn, person, by=by, at=at))
        self.book.forget(person)
        if restored is not None:
            self.book.note(restored)
        return restored

    async def take(self, subject: str, place: str = grants.EVERYWHERE) -> bool:
        """Take back what was given there to the person or group; False where nothing was."""
        taken = await self.database.write(lambda conn: grants.take(conn, subject, place))
        self.book.forget(subject, place)
        return taken

    async def part(self, account: str, *, by: str) -> bool:
        """Unlink the account; all that were linked are told, but `by`. False where it was not linked."""
        at = self._at()

        def work(conn: Connection) -> Sequence[DirectChat]:
            told = [one.chat for one in identities.leave(conn, account) if one.person != by]
            for chat in told:
                text = self.phrase("unlink_told", chat.language, account=account)
                identities.tell(conn, chat, text, dedup=f"unlink:{at}:{account}:{chat.person}", at=at)
            return told

        told = await self.database.write(work)
        self.linked.relink(await self.database.read(identities.all_accounts))
        for chat in told:
            self.deliver(ConversationKey.parse(chat.conversation))
        return bool(told)

    def _at(self) -> int:
        return to_timestamp(self.clock.now())
