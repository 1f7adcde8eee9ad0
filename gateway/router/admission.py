"""A message that may be answered: known already, refused, a command for at once, or into its conversation's inbox."""

from sqlalchemy import Connection

from agent.core.ids import ConversationId, PersonId
from agent.core.outbox import Say
from agent.inbox import Incoming
from agent.storage import inbox_rows
from agent.storage.moments import to_us
from agent.storage.payloads import encode_incoming
from gateway.access.limits import Flood, Take
from gateway.access.policy import Role, person_name
from gateway.access.settings import AccessSettings
from gateway.channels.inbound import Outcome, Pressed, Receipt, Said
from gateway.dispatch.queue_modes import Verdict, verdict
from gateway.router.attachments import with_notes
from gateway.router.house import House
from gateway.router.identity import dedup_key, event_key
from gateway.router.incoming import incoming_from, language_of


class Admission:
    """Takes messages of people with a role."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._flood: tuple[int, Flood] | None = None

    async def take(self, said: Said, role: Role, origin: Pressed | None = None) -> Receipt:
        """Store it, once. `origin` is the button whose command this is; its identity counts."""
        house = self._house
        dedup, event = dedup_key(origin or said), event_key(origin or said)
        if origin is None and house.questions.text(said.key, _person(said), said.text):
            return await self._answered(said, role, dedup, event)
        found = house.desk.find(said.text)
        if found and found[0].immediate:
            return await self._at_once(said, role, dedup, event)
        refusal = self._too_old(said) or self._flooded(said)
        busy = self._busy(said)
        if refusal is None and busy is Verdict.REFUSE_BUSY:
            refusal = "busy", house.phrase("busy", language_of(said))
        if refusal is not None:
            return await self._refuse(said, role, dedup, event, *refusal)
        receipt = await self._queue(said, role, dedup, event)
        if receipt.outcome is Outcome.ACCEPTED and busy is Verdict.ADMIT_AND_CANCEL:
            house.conversations.stop(_conversation(said), "a newer message came")
        return receipt

    async def _queue(self, said: Said, role: Role, dedup: str, event: str | None) -> Receipt:
        house, language = self._house, language_of(said)
        incoming = incoming_from(said, role)
        if said.attachments and (channel := house.channel(said.key)) is not None:
            fetched = await house.attachments.fetch(channel, said, dedup, language)
            text = with_notes(said.text, fetched.notes)
            incoming = incoming_from(said, role, fetched.files, text)
        limit = house.rules().queue_depth
        full = house.phrase("queue_full", language, limit=limit)

        def work(conn: Connection) -> inbox_rows.Admitted:
            admitted = self._insert(conn, said, incoming, dedup, event, limit)
            if admitted.refused:
                house.notices.add(conn, said.key, _notice(said, full), dedup=dedup, inbox_id=admitted.id)
            return admitted

        admitted = await house.database.write(work)
        if admitted.duplicate:
            return Receipt(Outcome.DUPLICATE)
        if admitted.refused:
            house.notices.committed(said.key)
            return Receipt(Outcome.REFUSED, "queue full")
        house.wake(_conversation(said))
        if admitted.depth and house.conversations.is_running(_conversation(said)):
            house.outbox_for(said.key).queued(admitted.depth)
        return Receipt(Outcome.ACCEPTED)

    async def _at_once(self, said: Said, role: Role, dedup: str, event: str | None) -> Receipt:
        """A command that never queues: done, then noted together with its answer."""
        house, incoming = self._house, incoming_from(said, role)
        if await house.database.read(lambda conn: inbox_rows.is_known(conn, dedup=dedup, event_dedup=event)):
            return Receipt(Outcome.DUPLICATE)  # a repeated /stop must not stop the next turn
        answer = await house.desk.answer(said.text, said.key, incoming, role, said.place)

        def work(conn: Connection) -> bool:
            admitted = self._insert(conn, said, incoming, dedup, event, None)
            if admitted.id is None:
                return False
            inbox_rows.finish(conn, [admitted.id], "done", note="command")
            for number, say in enumerate(answer):
                house.notices.add(conn, said.key, say, dedup=f"{dedup}#{number}", inbox_id=admitted.id)
            return True

        if not await house.database.write(work):
            return Receipt(Outcome.DUPLICATE)
        house.notices.committed(said.key)
        return Receipt(Outcome.ACCEPTED, "command")

    async def _answered(self, said: Said, role: Role, dedup: str, event: str | None) -> Receipt:
        """It answered a question: kept, so that its repeat does not become a message."""

        def work(conn: Connection) -> None:
            admitted = self._insert(conn, said, incoming_from(said, role), dedup, event, None)
            if admitted.id is not None:
                inbox_rows.finish(conn, [admitted.id], "done", note="answered a question")

        await self._house.database.write(work)
        return Receipt(Outcome.ACCEPTED, "answered a question")

    def _too_old(self, said: Said) -> tuple[str, str | None] | None:
        if not said.from_history:
            return None
        age_s = (self._house.clock.now() - (said.sent_at or said.received_at)).total_seconds()
        if age_s <= self._house.rules().catch_up_max_age_s:
            return None
        self._house.tell_owner("owner_too_old", {"chat": str(said.key)})
        return "older than catch-up reaches", None

    def _flooded(self, said: Said) -> tuple[str, str | None] | None:
        access = self._house.rules().access
        verdict = self._bucket(access).take((person_name(said), said.place), self._house.clock.monotonic())
        if verdict is Take.TAKEN:
            return None
        limit = access.messages_per_minute
        notice = self._house.phrase("flood", language_of(said), limit=limit)
        return "flood limit", notice if verdict is Take.REFUSED_FIRST else None

    def _busy(self, said: Said) -> Verdict:
        conversation = _conversation(said)
        running = self._house.conversations.is_running(conversation)
        return verdict(self._house.queue_mode(conversation), is_running=running)

    async def _refuse(
        self, said: Said, role: Role, dedup: str, event: str | None, why: str, notice: str | None
    ) -> Receipt:
        """Kept as refused, so that a repeat is a repeat; said to the person where there is something to say."""

        def work(conn: Connection) -> None:
            admitted = self._insert(conn, said, incoming_from(said, role), dedup, event, None)
            if admitted.id is not None:
                inbox_rows.finish(conn, [admitted.id], "refused", note=why)
                if notice is not None:
                    self._house.notices.add(conn, said.key, _notice(said, notice), dedup=dedup, inbox_id=admitted.id)

        await self._house.database.write(work)
        self._house.notices.committed(said.key)
        return Receipt(Outcome.REFUSED, why)

    def _insert(
        self, conn: Connection, said: Said, incoming: Incoming, dedup: str, event: str | None, limit: int | None
    ) -> inbox_rows.Admitted:
        return inbox_rows.admit(
            conn,
            conversation=_conversation(said),
            kind="message",
            dedup=dedup,
            event_dedup=event,
            platform_ref=said.message_id,
            payload=encode_incoming(incoming),
            at=to_us(self._house.clock.now()),
            limit=limit,
        )

    def _bucket(self, access: AccessSettings) -> Flood:
        """The flood limit; begins anew when the setting changes."""
        limit = access.messages_per_minute
        if self._flood is None or self._flood[0] != limit:
            self._flood = (limit, Flood(per_s=limit / 60, burst=limit))
        return self._flood[1]


def _conversation(said: Said) -> ConversationId:
    return ConversationId(str(said.key))


def _person(said: Said) -> PersonId:
    return PersonId(person_name(said))


def _notice(said: Said, text: str) -> Say:
    ref = None if said.interaction_id else said.message_id
    return Say(text=text, kind="notice", reply_to=ref, interaction=said.interaction, private_to=_person(said))
