"""Messages in groups that do not address the bot: read along where the place wants it, answered where it may speak.

Only of people who would be answered if they addressed it: what others say is not kept.
"""

from datetime import timedelta

from sqlalchemy import Connection

from agent.core.ids import ConversationId
from agent.core.outbox import OutgoingMessage
from agent.group_context import rows
from agent.inbox import GroupPlace
from agent.storage import inbox_rows
from agent.storage.payloads import encode_incoming
from agent.storage.timestamps import to_timestamp
from gateway.access.policy import Allowed, Role, decide
from gateway.channels.inbound import ChatType, Mention, MessageReceived, Outcome, Receipt
from gateway.channels.keys import ConversationKey
from gateway.commands.place.fields import MENTION, reads_along
from gateway.router.messages import dedup_key, event_key, group_place_of, incoming_from, language_of, person_of
from gateway.router.ports import RouterDeps

UNASKED = "an unasked turn"
LONGEST = 4_000  # characters of a message that are kept


class Unaddressed:
    """Takes what nobody said to the bot."""

    def __init__(self, deps: RouterDeps) -> None:
        self._deps = deps

    async def take(self, said: MessageReceived) -> Receipt | None:
        """Keep it, and begin an unasked turn where the place has room for one; None: it is as if nobody had seen it.

        Raises StorageTrouble.
        """
        deps = self._deps
        if not reads_along(deps.settings, said.key):
            return None
        place, role, text = group_place_of(said), self._role(said), _text_of(said)
        if place is None or role is None or not text:
            return None
        settings, now = deps.live.settings.group_context, deps.clock.now()
        said_at, oldest = said.sent_at or said.received_at, now - timedelta(hours=settings.hours)
        if said_at < oldest:
            return None
        conversation = ConversationId(str(said.key))
        may_speak = self._may_speak(said, conversation)
        if may_speak:
            deps.expect(conversation)

        def work(conn: Connection) -> tuple[int | None, bool]:
            is_new = rows.keep(
                conn,
                place,
                conversation,
                ref=said.message_id,
                person=person_of(said),
                name=said.sender.display,
                text=text,
                said_at=said_at,
                most=settings.messages,
                since=to_timestamp(oldest),
            )
            tells = is_new and self._tell(conn, said, place)
            return self._begin(conn, said, role, place) if is_new and may_speak else None, tells

        unasked, tells = await deps.database.write(work)
        if tells:
            deps.notices.committed(ConversationKey.parse(place.channel))
        if unasked is None:
            return None
        deps.wake(conversation, unasked)
        return Receipt(Outcome.ACCEPTED, UNASKED)

    def _role(self, said: MessageReceived) -> Role | None:
        """As whom they would be answered had they addressed the bot."""
        book = self._deps.book
        grants = book.grants
        if said.from_history and said.sent_at is not None:  # whoever lets its writer in later does not mean this
            grants = book.as_of(to_timestamp(said.sent_at))
        decision = decide(said, self._deps.live.settings.access, grants, mention=Mention.DIRECT)
        return decision.role if isinstance(decision, Allowed) else None

    def _may_speak(self, said: MessageReceived, conversation: ConversationId) -> bool:
        """Whether this may begin an unasked turn: nobody else is spoken to, and nothing else goes on."""
        return (
            self._deps.settings.get(MENTION, said.key) == "ambient"
            and not said.to_others
            and not said.from_history
            and bool(said.text.strip())
            and said.chat_type is not ChatType.CHANNEL
            and not self._deps.conversations.is_running(conversation)
        )

    def _tell(self, conn: Connection, said: MessageReceived, place: GroupPlace) -> bool:
        """Tell people once that the bot reads along; whether this was the moment."""
        deps, at = self._deps, to_timestamp(self._deps.clock.now())
        if rows.told_at(conn, place.channel) is not None:
            return False
        rows.told(conn, place.channel, at)
        settings, channel = deps.live.settings.group_context, ConversationKey.parse(place.channel)
        words = deps.phrase("group_reads_along", language_of(said), messages=settings.messages, hours=settings.hours)
        say = OutgoingMessage(text=words, kind="notice", verbatim=True)
        deps.notices.add(conn, channel, say, dedup=f"reads along:{place.channel}:{at}")
        return True

    def _begin(self, conn: Connection, said: MessageReceived, role: Role, place: GroupPlace) -> int | None:
        """Store it as a turn that nobody asked for; None where the place has had enough of them, or people wait."""
        deps, conversation = self._deps, ConversationId(str(said.key))
        at = to_timestamp(deps.clock.now())
        if inbox_rows.waiting_count(conn, conversation):
            return None
        if rows.ambient_use(conn, place.channel, at).is_over(deps.live.settings.ambient):
            return None
        incoming = incoming_from(said, role, roles=deps.roles_of(said), ambient=True)
        admitted = inbox_rows.admit(
            conn,
            conversation=conversation,
            kind="message",
            dedup=dedup_key(said),
            event_dedup=event_key(said),
            platform_ref=said.message_id,
            payload=encode_incoming(incoming),
            at=at,
            limit=None,
        )
        if admitted.id is not None:
            rows.begin_ambient(conn, place.channel, admitted.id, at)
        return admitted.id


def _text_of(said: MessageReceived) -> str:
    """Its words, and the names of its files, which are not fetched."""
    files = " ".join(f"({one.kind}: {one.name})" for one in said.attachments)
    return " ".join(filter(None, (said.text.strip(), files)))[:LONGEST]
