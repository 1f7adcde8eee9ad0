"""What happens to places: a message changed or taken back before its turn, a group with a new key, a bot shown out."""

from sqlalchemy import Connection

from agent.core.ids import ConversationId
from agent.storage import conversation_rows, inbox_rows
from agent.storage.moments import to_us
from gateway.channels.inbound import Deleted, Edited, Membership, Moved, Outcome, Receipt
from gateway.router.house import House
from gateway.storage.grants import all_grants
from gateway.storage.rekey import rekey, rekey_grants


class Changes:
    """Each is safe to hear twice."""

    def __init__(self, house: House) -> None:
        self._house = house

    async def edited(self, edited: Edited) -> Receipt:
        """A message whose turn has not begun gets its new words; later edits change nothing."""
        conversation, ref, text = _id(edited), edited.message_id, edited.text
        changed = await self._house.database.write(
            lambda conn: inbox_rows.edit(conn, conversation=conversation, platform_ref=ref, text=text)
        )
        return Receipt(Outcome.ACCEPTED) if changed else Receipt(Outcome.IGNORED, "its turn has begun")

    async def deleted(self, deleted: Deleted) -> Receipt:
        """A message taken back before its turn is not answered."""
        conversation, ref = _id(deleted), deleted.message_id
        taken = await self._house.database.write(
            lambda conn: inbox_rows.take_back(conn, conversation=conversation, platform_ref=ref)
        )
        return Receipt(Outcome.ACCEPTED) if taken else Receipt(Outcome.IGNORED, "its turn has begun")

    async def moved(self, moved: Moved) -> Receipt:
        """History, queue, preference, settings and grants follow to the new key (DESIGN §13.20)."""
        old, new = _id(moved), ConversationId(str(moved.new_key))
        platform = moved.key.platform

        def work(conn: Connection) -> bool:
            rekey_grants(conn, f"{platform}:{moved.place}", f"{platform}:{moved.new_place}")
            return rekey(conn, old, new)

        # The agent first: what it would still write under the old key must not be mixed in.
        self._house.conversations.stop(old, "the chat has moved")
        changed = await self._house.database.write(work)
        await self._house.conversations.forget(old)
        await self._house.conversations.forget(new)
        self._house.book.replace(await self._house.database.read(all_grants))
        self._house.wake(new)
        self._house.notices.committed(moved.new_key)
        return Receipt(Outcome.ACCEPTED) if changed else Receipt(Outcome.IGNORED, "nothing known there")

    async def membership(self, membership: Membership) -> Receipt:
        """Shown out: send nothing there and tell the owner once. Back: go on with what is waiting."""
        conversation, at = _id(membership), to_us(self._house.clock.now())

        def work(conn: Connection) -> bool:
            conversation_rows.ensure(conn, conversation, at)
            was_gone = conversation_rows.is_gone(conn, conversation)
            conversation_rows.set_gone(conn, conversation, gone=not membership.present)
            return was_gone is membership.present

        if not await self._house.database.write(work):
            return Receipt(Outcome.DUPLICATE)
        if membership.present:
            self._house.wake(conversation)
            self._house.notices.committed(membership.key)
        else:
            self._house.conversations.stop(conversation, "the bot was removed")
            self._house.tell_owner("owner_gone", {"chat": str(membership.key)})
        return Receipt(Outcome.ACCEPTED)


def _id(inbound: Edited | Deleted | Moved | Membership) -> ConversationId:
    return ConversationId(str(inbound.key))
