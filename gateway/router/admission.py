"""Admission of a message: a repeat, refused, a command for at once, or into its conversation's inbox."""

import hashlib
import logging
import secrets
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TypeVar

from sqlalchemy import Connection

from agent.core.failpoints import failpoint
from agent.core.ids import ConversationId
from agent.core.outbox import Button, Buttons, OutgoingMessage
from agent.inbox import HeldRoles, Incoming
from agent.storage import conversation_rows, inbox_rows
from agent.storage.errors import StorageTrouble
from agent.storage.inbox_rows import RIGHTS
from agent.storage.payloads import encode_incoming
from agent.storage.timestamps import to_timestamp
from gateway.access.policy import (
    KEYS,
    LIFETIME,
    MOST_PENDING,
    NO_MENTION,
    Flood,
    Role,
    Take,
    code_from,
    digest,
    person_name,
    role_of,
)
from gateway.access.roles import RANK_NAMES
from gateway.channels.inbound import ButtonClicked, ChatType, Mention, MessageReceived, Outcome, Receipt
from gateway.commands.access.approvals import answered_by_text
from gateway.commands.command import MOST_ACTION, PRESS, AnyCommand
from gateway.commands.work.queue import QUEUE_MODE
from gateway.dispatch.queue_modes import QueueMode, Verdict, verdict
from gateway.router import albums
from gateway.router.albums import Gathering
from gateway.router.floods import FloodLimit
from gateway.router.messages import (
    dedup_key,
    event_key,
    first_words,
    incoming_from,
    language_of,
    notice_for,
    person_of,
    unanswered,
)
from gateway.router.ports import Arrival, RouterDeps
from gateway.storage import pairings

FLOOD = "flood limit"  # the reason that `/why` gives

_log = logging.getLogger("tieline.router")

T = TypeVar("T")


class Admission:
    """Takes messages of people with a role."""

    def __init__(self, deps: RouterDeps, gathering: Gathering) -> None:
        self._deps = deps
        self._flood = FloodLimit(
            deps.database,
            deps.clock,
            limit=lambda: deps.live.settings.access.messages_per_minute,
            workers=deps.workers,
        )
        self._albums = gathering
        self._refused = albums.Refused()

    def expects(self, said: MessageReceived) -> bool:
        """Does a group message, though it does not mention the bot, answer what its sender was asked there?"""
        deps, person = self._deps, person_of(said)
        if said.sender.is_bot or said.attachments:
            return False
        roles = deps.roles_of(said)
        role = RANK_NAMES.get(role_of(said, deps.live.settings.access, deps.book.grants), "guest")
        return deps.questions.expects(said.key, person, said.text) or deps.approvals.expects(
            ConversationId(str(said.key)), person, said.text, HeldRoles(role, roles)
        )

    async def refused_press(self, pressed: ButtonClicked, rule: str) -> None:
        """Keep that somebody pressed a button of an approval who may not decide it, for `/why`."""
        deps, at = self._deps, to_timestamp(self._deps.clock.now())
        incoming = Incoming(text=pressed.action, person=person_of(pressed), received_at=pressed.received_at)

        def work(conn: Connection) -> None:
            admitted = inbox_rows.admit(
                conn,
                conversation=ConversationId(str(pressed.key)),
                kind="message",
                dedup=dedup_key(pressed),
                event_dedup=event_key(pressed),
                platform_ref=None,
                payload=encode_incoming(incoming),
                at=at,
                limit=None,
            )
            if admitted.id is not None:
                inbox_rows.finish(conn, [admitted.id], "refused", note=f"{RIGHTS}{rule}")

        try:
            await deps.database.write(work)
        except StorageTrouble as error:  # the press itself was answered, and changed nothing
            _log.info("a refused press cannot be kept: %s", error)

    async def take(
        self,
        said: MessageReceived,
        role: Role,
        found: tuple[AnyCommand, str] | None,
        origin: ButtonClicked | None = None,
        *,
        only_as_answer: bool = False,
    ) -> Receipt:
        """Store it, once. `found` is the command that it calls, `origin` the button that gave it; its identity counts.

        `only_as_answer`: it did not mention the bot, so if its question has ended by now it is ignored.
        """
        deps = self._deps
        failpoint("admit.before")
        arrival = Arrival(
            said=said,
            role=role,
            roles=deps.roles_of(said),
            dedup=dedup_key(origin or said),
            event=event_key(origin or said),
        )
        if said.from_history and self._is_too_old(
            said
        ):  # before all else: neither a stale /stop nor a stale "yes" may do anything
            return await self._too_old(arrival)
        if origin is None and deps.questions.waits(said.key):
            if await self._is_known(arrival):  # the repeat of a "yes" must not answer the next question
                return Receipt(Outcome.DUPLICATE)
            if deps.questions.text(said.key, arrival.person, said.text):
                return await self._end(arrival, "done", "answered a question", Outcome.ACCEPTED)
        here = (arrival.conversation, arrival.person, said.text)
        has = HeldRoles(RANK_NAMES[role], arrival.roles)
        # A bare "yes" that others say may be meant for somebody else: theirs counts where they address the bot.
        is_meant = said.chat_type is ChatType.DIRECT or said.mention is not Mention.NONE
        rules = (is_meant or deps.approvals.expects(*here, has)) and deps.approvals.ruled(*here, has)
        if origin is None and not said.attachments and (deps.approvals.asks(*here) or rules):
            if await self._is_known(arrival):
                return Receipt(Outcome.DUPLICATE)
            if await self._answers_a_tool(arrival):
                return await self._end(arrival, "done", "answered a question", Outcome.ACCEPTED)
        if only_as_answer:
            return Receipt(Outcome.IGNORED, NO_MENTION)
        if said.from_history and await self._is_known(arrival):  # histories are read more than once: that costs nobody
            return Receipt(Outcome.DUPLICATE)
        album = await self._albums.hold(arrival) if said.album is not None else None
        is_part = album is not None  # of what was counted already
        if album is not None and album.quoted is not None:  # each part quotes the same message, with the same files
            arrival = replace(arrival, said=replace(said, quoted=None))
        if said.album is not None and not is_part and self._refused.has(said):
            return await self._end(arrival, "refused", "part of an album that was refused", Outcome.REFUSED)
        mode = deps.settings.get(QUEUE_MODE, said.key)
        # A key has a limit of its own.
        is_limited = not is_part and (found is None or not found[0].unlimited) and said.key.platform != KEYS
        # What would cost something before it is stored must be counted before; else one transaction does both.
        is_plain = found is None and not said.brings_files and mode == "queue"
        counted_when_stored = is_limited and is_plain and self._flood.is_shared
        if is_limited and not counted_when_stored and (flooded := await self._flood.take(arrival)) is not Take.TAKEN:
            return await self._end(arrival, "refused", FLOOD, Outcome.REFUSED, self._too_many(arrival, flooded))
        if found and (refusal := deps.handler.refusal(found[0], arrival.incoming, role)) is not None:
            return await self._end(arrival, "refused", f"{RIGHTS}{refusal.refused_by}", Outcome.ACCEPTED, *refusal.says)
        if found and found[0].is_immediate(found[1]):
            return await self._at_once(arrival)
        if is_part:
            return await self._queue(arrival, mode, interrupt=False)
        is_running = self._is_running(arrival)
        preemptible = is_running and deps.preemptible(arrival.conversation)
        what = verdict(mode, is_running=is_running, preemptible=preemptible)
        if what is Verdict.REFUSE_BUSY:
            return await self._end(arrival, "refused", "busy", Outcome.REFUSED, self._no_room(arrival, "drop"))
        cancels = what is Verdict.ADMIT_AND_CANCEL
        return await self._queue(arrival, mode, interrupt=cancels, counts=counted_when_stored)

    async def _answers_a_tool(self, arrival: Arrival) -> bool:
        said = arrival.said
        return await answered_by_text(
            said.text,
            self._deps.approvals,
            arrival.conversation,
            person=arrival.person,
            name=said.sender.display or arrival.person,
            has=HeldRoles(RANK_NAMES[arrival.role], arrival.roles),
        )

    async def _queue(self, arrival: Arrival, mode: QueueMode, *, interrupt: bool, counts: bool = False) -> Receipt:
        """Into the inbox, for the conversation's agent. `counts`: against the flood limit, which may refuse it."""
        deps, said = self._deps, arrival.said
        if (said.brings_files or interrupt) and await self._is_known(arrival):
            return Receipt(Outcome.DUPLICATE)
        limit = 1 if mode == "drop" else deps.live.settings.queue.max_depth  # in mode drop nothing waits behind another
        if said.brings_files and await self._is_full(arrival, limit):  # before files are fetched in vain
            return await self._end(arrival, "refused", "queue full", Outcome.REFUSED, self._no_room(arrival, mode))
        incoming = await self._with_files(arrival) if said.brings_files else arrival.incoming
        if interrupt:  # before it is stored: the turn that is stopped must not be its own
            deps.conversations.stop(arrival.conversation, "a newer message came")

        def work(conn: Connection) -> tuple[inbox_rows.Admitted, Take]:
            album = inbox_rows.waiting_album(conn, arrival.conversation, incoming)
            admitted = self._insert(conn, arrival, incoming, limit if album is None else None, at=incoming.received_at)
            if album is not None and admitted.id is not None:
                self._albums.put_to(conn, album, incoming, admitted.id)
            taken = self._flood.take_within(conn, arrival) if counts and admitted.id is not None else Take.TAKEN
            text = self._no_room(arrival, mode) if admitted.refused else None
            if taken is not Take.TAKEN and admitted.id is not None:
                inbox_rows.finish(conn, [admitted.id], "refused", note=FLOOD)
                text = self._too_many(arrival, taken)
            if text is not None:
                notice = notice_for(said, text)
                deps.notices.add(conn, said.key, notice, dedup=arrival.dedup, inbox_id=admitted.id)
            return admitted, taken

        was_running = self._is_running(arrival)
        if said.album is None:
            deps.expect(arrival.conversation)
        admitted, taken = await self._store(work)
        if admitted.duplicate:
            return Receipt(Outcome.DUPLICATE)
        if admitted.refused or taken is not Take.TAKEN:
            why = FLOOD if taken is not Take.TAKEN else "queue full"
            deps.notices.committed(said.key)
            self._note(said, why)
            return Receipt(Outcome.REFUSED, why)
        if said.album is not None:
            deps.later(partial(self._albums.wake_settled, arrival.conversation))
            return Receipt(Outcome.ACCEPTED)
        deps.wake(arrival.conversation, admitted.id)
        if was_running and self._is_running(arrival):
            deps.outbox_for(said.key).queued(admitted.depth)
        return Receipt(Outcome.ACCEPTED)

    async def _is_full(self, arrival: Arrival, limit: int) -> bool:
        """No message more may wait there; a part of an album that waits is none."""

        def look(conn: Connection) -> bool:
            if inbox_rows.waiting_count(conn, arrival.conversation) < limit:
                return False
            return inbox_rows.waiting_album(conn, arrival.conversation, arrival.incoming) is None

        return await self._deps.database.read(look)

    async def _at_once(self, arrival: Arrival) -> Receipt:
        """A command that never queues: done, then noted together with its answer."""
        deps, said = self._deps, arrival.said
        if await self._is_known(arrival):
            return Receipt(Outcome.DUPLICATE)  # a repeated /stop must not stop the next turn
        incoming = arrival.incoming
        answer, note, status = await self._run(arrival, incoming)

        def work(conn: Connection) -> bool:
            admitted = self._insert(conn, arrival, incoming, None)
            if admitted.id is None:
                return False
            inbox_rows.finish(conn, [admitted.id], status, note=note)
            for number, say in enumerate(answer):
                deps.notices.add(conn, said.key, say, dedup=f"{arrival.dedup}#{number}", inbox_id=admitted.id)
            return True

        if not await self._store(work):
            return Receipt(Outcome.DUPLICATE)
        deps.notices.committed(said.key)
        return Receipt(Outcome.ACCEPTED, "command")

    async def _run(
        self, arrival: Arrival, incoming: Incoming
    ) -> tuple[tuple[OutgoingMessage, ...], str, inbox_rows.InboxStatus]:
        """Run the command and note its answer; a broken one ends in a sentence with a reference."""
        said = arrival.said
        try:
            answer = await self._deps.handler.answer(said.text, said.key, incoming, arrival.role, said.place)
        except StorageTrouble:
            raise
        except Exception:  # noqa: BLE001 - the same seam as the turn's
            ref = hashlib.sha256(arrival.dedup.encode()).hexdigest()[:8]
            place = {"inbox": arrival.dedup, "ref": ref, "conversation": str(said.key)}
            _log.exception("command broke: %s", said.text.split(maxsplit=1)[0], extra=place)
            phrase, language = self._deps.phrase, incoming.language
            told = phrase("with_ref", language, text=phrase("command_failed", language), ref=ref)
            return (notice_for(said, told),), f"command failed ({ref})", "done"
        if answer.refused_by:
            return answer.says, f"{RIGHTS}{answer.refused_by}", "refused"
        return answer.says, "command", "done"

    async def _with_files(self, arrival: Arrival) -> Incoming:
        deps, said, role = self._deps, arrival.said, arrival.role
        fetched = await deps.attachments.fetch(deps.channel(said.key), said, arrival.dedup, language_of(said))
        return incoming_from(said, role, fetched.files, fetched.notes, roles=arrival.roles)

    def _no_room(self, arrival: Arrival, mode: QueueMode) -> str:
        """The words to the sender of one message too many."""
        deps, language, message = self._deps, language_of(arrival.said), first_words(arrival.said) or "…"
        if mode == "drop":
            return deps.phrase("busy", language, message=message)
        return deps.phrase("queue_full", language, limit=deps.live.settings.queue.max_depth, message=message)

    def _is_running(self, arrival: Arrival) -> bool:
        return self._deps.conversations.is_running(arrival.conversation)

    def _is_too_old(self, said: MessageReceived) -> bool:
        age_s = (self._deps.clock.now() - (said.sent_at or said.received_at)).total_seconds()
        return age_s > self._deps.live.settings.network.catch_up_max_age

    async def _too_old(self, arrival: Arrival) -> Receipt:
        receipt = await self._end(arrival, "refused", "older than catch-up reaches", Outcome.REFUSED)
        if receipt.outcome is Outcome.REFUSED:
            self._deps.notify_owner("owner_too_old", {"chat": str(arrival.said.key)})
        return receipt

    def _too_many(self, arrival: Arrival, how: Take) -> str | None:
        """The words to who wrote too much: once, until there is room again."""
        if how is not Take.REFUSED_FIRST:
            return None
        limit = self._deps.live.settings.access.messages_per_minute
        message = first_words(arrival.said) or "…"
        return self._deps.phrase("flood", language_of(arrival.said), limit=limit, message=message)

    async def _end(
        self,
        arrival: Arrival,
        status: inbox_rows.InboxStatus,
        why: str,
        outcome: Outcome,
        notice: str | OutgoingMessage | None = None,
    ) -> Receipt:
        """Keep it as dealt with, so that a repeat is a repeat; `notice` is said to its sender."""
        deps, said = self._deps, arrival.said

        def work(conn: Connection) -> bool:
            admitted = self._insert(conn, arrival, arrival.incoming, None)
            if admitted.id is None:
                return False
            inbox_rows.finish(conn, [admitted.id], status, note=why)
            if notice is not None:
                say = notice_for(said, notice) if isinstance(notice, str) else notice
                deps.notices.add(conn, said.key, say, dedup=arrival.dedup, inbox_id=admitted.id)
            return True

        if not await self._store(work):
            return Receipt(Outcome.DUPLICATE)
        deps.notices.committed(said.key)
        if outcome is Outcome.REFUSED:
            self._note(said, why)
        return Receipt(outcome, why)

    def _note(self, said: MessageReceived, why: str) -> None:
        self._refused.note(said)
        self._deps.decisions.note(str(said.key), unanswered(said, why, self._deps.clock.now()))

    async def _is_known(self, arrival: Arrival) -> bool:
        return await self._deps.database.read(arrival.is_known)

    def _insert(
        self, conn: Connection, arrival: Arrival, incoming: Incoming, limit: int | None, *, at: datetime | None = None
    ) -> inbox_rows.Admitted:
        """`at`: since when it waits, for what a stop may mean, however long its files took; else since now."""
        conversation = arrival.conversation
        admitted = inbox_rows.admit(
            conn,
            conversation=conversation,
            kind="message",
            dedup=arrival.dedup,
            event_dedup=arrival.event,
            platform_ref=arrival.said.message_id,
            payload=encode_incoming(incoming),
            at=to_timestamp(at or self._deps.clock.now()),
            not_before=self._albums.settled_at() if incoming.album is not None else None,
            limit=limit,
        )
        if incoming.album is None and admitted.depth > 1:
            inbox_rows.complete_albums(conn, conversation)
        if admitted.id is not None and conversation_rows.is_gone(conn, conversation):
            # A place that is heard can be spoken to, whatever the platform told or failed to tell about our return.
            conversation_rows.set_gone(conn, conversation, gone=False)
        failpoint("admit.commit")
        return admitted

    async def _store(self, work: Callable[[Connection], T]) -> T:
        stored = await self._deps.database.write(work)
        failpoint("admit.after")
        return stored


# Pairing: unknown people in direct chats get a code and nothing else.

LONGEST_NAME = 64


class PairingFlow:
    """Gives codes. One person has one open code at a time; what they write next is answered once more, that it still
    waits. All together at most 50 are open.

    The owners are told of each person, three in a row and then three in an hour, so that no crowd floods them and
    nobody who asks again and again hides the others. The log has each.
    """

    def __init__(self, deps: RouterDeps) -> None:
        self._deps = deps
        self._flood = Flood(per_s=1 / 60, burst=3)
        self._news = Flood(per_s=1 / 3600, burst=1)  # of a person
        self._crowd = Flood(per_s=3 / 3600, burst=3)

    async def meet(self, said: MessageReceived) -> bool:
        """Tell them a new code, or once that theirs still waits; False, and silence, for anything more."""
        deps = self._deps
        if self._flood.take(person_name(said), deps.clock.monotonic()) is not Take.TAKEN:
            return False
        now, code = deps.clock.now(), code_from(secrets.token_bytes(16))
        text = deps.phrase("pairing", language_of(said), code=code)
        say = OutgoingMessage(text=text, kind="notice", verbatim=True, interaction=said.interaction)

        def work(conn: Connection) -> bool:
            """Code and message together: a code that its owner never heard of would keep them out for its lifetime."""
            made = pairings.ask(
                conn,
                code_hash=digest(code),
                subject=person_name(said),
                display=said.sender.display,
                conversation=str(said.key),
                language=language_of(said),
                now=to_timestamp(now),
                expires=to_timestamp(now + LIFETIME),
                most_open=MOST_PENDING,
            )
            if made:
                deps.notices.add(conn, said.key, say, dedup=dedup_key(said))
                conversation_rows.set_gone(conn, ConversationId(str(said.key)), gone=False)
            return made

        if not await deps.database.write(work):
            return await self._waits(said)
        deps.notices.committed(said.key)
        self._notify_operator(said)
        return True

    async def _waits(self, said: MessageReceived) -> bool:
        """Once for each code: a second message that meets silence looks like a bot that is broken."""
        deps, now = self._deps, to_timestamp(self._deps.clock.now())
        request = await deps.database.read(lambda conn: pairings.open_of(conn, person_name(said), now))
        if request is None:
            return False
        minutes = max(1, round((request.expires_at - now) / 60e6))
        text = deps.phrase("pairing_waits", language_of(said), minutes=minutes)
        say = OutgoingMessage(text=text, kind="notice", verbatim=True, interaction=said.interaction)
        await deps.notices.say(said.key, say, dedup=f"waits:{request.id}")
        return True

    def _buttons(self, person: str, language: str) -> Buttons:
        """Buttons for an admin; none where the name is too long for a button."""
        actions = (("button_let_in", f"{PRESS}/allow {person}"), ("button_turn_away", f"{PRESS}/allow deny {person}"))
        if any(len(action.encode()) > MOST_ACTION for _, action in actions):
            return ()
        return (tuple(Button(label=self._deps.phrase(key, language), action=action) for key, action in actions),)

    def _notify_operator(self, said: MessageReceived) -> None:
        deps, name, person = self._deps, " ".join(said.sender.display.split())[:LONGEST_NAME], person_name(said)
        values: dict[str, object] = {"who": f"{name} ({person})".lstrip(), "channel": said.key.channel_type}
        values["person"] = person
        is_news = self._news.take(person, deps.clock.monotonic()) is Take.TAKEN
        if is_news and self._crowd.take("", deps.clock.monotonic()) is Take.TAKEN:
            deps.notify_owner("owner_pairing", values, partial(self._buttons, person))  # which logs it, too
        else:
            _log.warning("%s", deps.phrase("owner_pairing", "en", **values))
