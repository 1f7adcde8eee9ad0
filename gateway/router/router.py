"""The router of everything that platforms tell: to a pairing code, a command, a question, an inbox, or nobody.

What `admit` accepts is on disk when it returns. It never waits for a model, and never for a turn.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

import anyio
from sqlalchemy import Connection

from agent.core.bounded_map import BoundedMap
from agent.core.ids import ConversationId
from agent.core.untrusted_text import whole
from agent.inbox import Incoming
from agent.storage import inbox_rows
from agent.storage.errors import StorageTrouble
from agent.storage.payloads import encode_incoming
from agent.storage.timestamps import to_timestamp
from gateway.access.policy import (
    NO_MENTION,
    Allowed,
    Ignored,
    Role,
    Take,
    Unpaired,
    addresses,
    bot_loop_guard,
    decide,
    person_name,
)
from gateway.channels.errors import ChannelError
from gateway.channels.inbound import (
    ButtonClicked,
    ChatType,
    Deleted,
    Edited,
    Inbound,
    Membership,
    Mention,
    MessageReceived,
    Moved,
    Outcome,
    Receipt,
    Received,
)
from gateway.channels.keys import ConversationKey
from gateway.commands.access import approvals as approving
from gateway.commands.command import PRESS
from gateway.commands.place.fields import LANGUAGE_SETTING, MENTION
from gateway.delivery.ephemeral.questions import Finding
from gateway.router.admission import Admission, PairingFlow
from gateway.router.albums import Gathering
from gateway.router.changes import Changes
from gateway.router.messages import (
    dedup_key,
    event_key,
    incoming_from,
    language_of,
    made_whole,
    notice_for,
    person_of,
    unanswered,
)
from gateway.router.ports import RouterDeps
from gateway.router.unaddressed import Unaddressed
from gateway.storage.queues.given_up import GivenUp

# Poison messages: tried a few times, then put aside for the operator.

TRIES = 3
REMEMBERED = 1000

_log = logging.getLogger("tieline.router")


class PoisonMessages:
    """Counts what failed; a restart counts anew."""

    def __init__(self, deps: RouterDeps) -> None:
        self._deps = deps
        self._failed: BoundedMap[str, int] = BoundedMap(REMEMBERED)

    async def failed(self, inbound: Inbound, error: Exception) -> Receipt:
        """Called while the error is handled. Raises it again as long as there are tries left: the adapter comes again.

        Afterwards what came is a dead letter. Raises StorageTrouble.
        """
        name = f"{type(inbound).__name__}:{dedup_key(inbound)}"
        tries = self._failed.pop(name, 0) + 1
        if tries < TRIES:
            self._failed[name] = tries
            raise error
        _log.error("given up after %d tries: %s", tries, name, exc_info=error)
        try:
            await self._deps.database.write(lambda conn: self._bury(conn, inbound, type(error).__name__))
        except StorageTrouble:
            self._failed[name] = tries - 1
            raise
        except Exception:  # noqa: BLE001 - the last seam before the platform: what is left is to tell the operator
            _log.exception("nor could it be put aside: %s", name)
        self._deps.notices.committed(inbound.key)
        sentence = "owner_misfit" if isinstance(inbound, MessageReceived | ButtonClicked) else "owner_misfit_change"
        self._deps.notify_owner(sentence, {"chat": str(inbound.key), "defect": type(error).__name__})
        return Receipt(Outcome.REFUSED, f"given up after {tries} tries")

    def _bury(self, conn: Connection, inbound: Inbound, defect: str) -> None:
        """Store the sound part of the event, and a word to the person; a changed or closed place leaves no letter."""
        if not isinstance(inbound, MessageReceived | ButtonClicked):
            return
        at = to_timestamp(self._deps.clock.now())
        text = inbound.text if isinstance(inbound, MessageReceived) else inbound.action
        admitted = inbox_rows.admit(
            conn,
            conversation=ConversationId(str(inbound.key)),
            kind="message",
            dedup=dedup_key(inbound),
            event_dedup=event_key(inbound),
            platform_ref=inbound.message_id,
            payload=encode_incoming(Incoming(text=str(text), received_at=inbound.received_at)),
            at=at,
            limit=None,
        )
        if admitted.id is None:
            return
        why = f"a defect kept it from being taken in: {defect}"
        inbox_rows.finish(conn, [admitted.id], "dead", note=why)
        conversation = ConversationId(str(inbound.key))
        letter = GivenUp(
            queue="in",
            id=admitted.id,
            conversation=conversation,
            inbox_id=admitted.id,
            attempts=TRIES,
            why=why,
            at=at,
        )
        self._deps.buried(conn, letter)
        if isinstance(inbound, MessageReceived):
            say = notice_for(inbound, self._deps.phrase("dead_letter", "en", attempts=TRIES))
            self._deps.notices.add(conn, inbound.key, say, dedup=dedup_key(inbound), inbox_id=admitted.id)


ACKNOWLEDGE_WITHIN_S = 10.0


class Router:
    """One for all adapters."""

    def __init__(self, deps: RouterDeps) -> None:
        self._deps = deps
        self._albums = Gathering(deps)
        self._admission = Admission(deps, self._albums)
        self._unaddressed = Unaddressed(deps)
        self._changes = Changes(deps)
        self._strangers = PairingFlow(deps)
        self._poison_messages = PoisonMessages(deps)
        self._bots = bot_loop_guard()

    async def admit(self, inbound: Inbound) -> Receipt:
        """Take it in; whatever comes back, the platform may now hear that we have it.

        Raises StorageTrouble, and for a few tries whatever a defect of the gateway raises: it may be given again.
        """
        try:
            await self._learn_place(inbound)
            return await self._ingest(self._in_its_language(made_whole(inbound)))
        except StorageTrouble:
            raise
        except Exception as error:  # noqa: BLE001 - the channel seam
            return await self._poison_messages.failed(inbound, error)

    async def _learn_place(self, inbound: Inbound) -> None:
        """Keep which channel a thread is in, and which server a channel, where keys do not tell: before any rule is
        looked up. Only what comes of people who may be answered there: anybody can bring the bot to many places."""
        settings, access, key = self._deps.settings, self._deps.live.settings.access, inbound.key
        if inbound.parent is None and inbound.around is None:
            return
        around, place = inbound.around, key
        if inbound.parent is not None:
            place = ConversationKey(key.channel_type, inbound.parent)
        if around is not None and (place.around is not None or place.channel_id == around):
            around = None
        knows_parent = inbound.parent is None or settings.parent_of(ConversationId(str(key))) == inbound.parent
        knows_group = around is None or settings.group_of(ConversationId(str(place))) == around
        if knows_parent and knows_group:
            return
        decision = decide(inbound, access, self._deps.book.grants, mention=Mention.DIRECT, bot_allowed=True)
        if not isinstance(decision, Allowed):
            return
        if inbound.parent is not None and not knows_parent:
            await settings.learn_parent(key, inbound.parent)
        if around is not None and not knows_group:
            await settings.learn_group(place, around)

    def _in_its_language(self, inbound: Inbound) -> Inbound:
        """The same, as if its sender's language were the one that was set for the place."""
        language = self._deps.settings.get(LANGUAGE_SETTING, inbound.key)
        return replace(inbound, sender=replace(inbound.sender, language=language)) if language else inbound

    async def _ingest(self, inbound: Inbound) -> Receipt:
        match inbound:
            case MessageReceived():
                return await self._said(inbound)
            case ButtonClicked():
                return await self._pressed(inbound)
            case Edited():
                return await self._changes.edited(inbound)
            case Deleted():
                return await self._changes.deleted(inbound)
            case Moved():
                return await self._changes.moved(inbound)
            case Membership():
                return await self._changes.membership(inbound)
            case _:
                assert_never(inbound)

    async def _said(self, said: MessageReceived) -> Receipt:
        found = self._deps.handler.find(said.text)
        mention = said.mention
        if mention is Mention.NONE and said.album is not None and await self._albums.waits_for(said):
            mention = Mention.DIRECT  # the caption, which names the bot, stands below one picture of an album only
        # A bare "yes" of the person who was asked is their answer, also where others' words need a mention.
        only_as_answer = (
            found is None
            and said.chat_type is not ChatType.DIRECT
            and not addresses(mention, self._deps.settings.get(MENTION, said.key))
            and self._admission.expects(said)
        )
        if only_as_answer:
            mention = Mention.DIRECT
        role = await self._role(said, mention=mention, is_command=found is not None or only_as_answer)
        if isinstance(role, Receipt):
            return (await self._unaddressed.take(said) if role.reason == NO_MENTION else None) or role
        if only_as_answer:
            receipt = await self._admission.take(said, role, found, only_as_answer=True)
            if receipt.outcome is Outcome.IGNORED:
                return await self._unaddressed.take(said) or self._ignored(said, receipt.reason)
            return receipt
        if role >= Role.ADMIN and said.chat_type is ChatType.DIRECT:
            self._deps.met(person_name(said), said.key, language_of(said))
        return await self._admission.take(said, role, found)

    async def _pressed(self, pressed: ButtonClicked) -> Receipt:
        """A question's answer, or a command that the presser gives with their own role."""
        role = await self._role(pressed, mention=Mention.DIRECT, is_command=True)
        if isinstance(role, Receipt):
            await self._acknowledge(pressed, "")
            return role
        language = language_of(pressed)
        verdict = self._deps.questions.press(pressed.action, person_of(pressed), language)
        if verdict.finding is not Finding.NO_QUESTION:
            await self._acknowledge(pressed, verdict.text)
            return Receipt(Outcome.ACCEPTED, f"a question: {verdict.finding}")
        ruled = await approving.pressed(
            pressed.action,
            self._deps.approvals,
            ConversationId(str(pressed.key)),
            person=person_of(pressed),
            name=pressed.sender.display or person_name(pressed),
            role=role,
            roles=self._deps.roles_of(pressed),
            in_group=pressed.chat_type is not ChatType.DIRECT,
            phrase=self._deps.phrase,
            language=language,
        )
        if ruled is not None:
            words, rule = ruled
            await self._acknowledge(pressed, words)
            if rule:
                await self._admission.refused_press(pressed, rule)
            return Receipt(Outcome.ACCEPTED, "an approval")
        if not pressed.action.startswith(PRESS):
            await self._acknowledge(pressed, self._deps.phrase("button_over", language))
            return Receipt(Outcome.IGNORED, "an unknown button")
        said = _as_said(pressed)
        receipt = await self._admission.take(said, role, self._deps.handler.find(said.text), origin=pressed)
        await self._acknowledge(pressed, "")
        return receipt

    async def _acknowledge(self, pressed: ButtonClicked, text: str) -> None:
        """Stop the platform's waiting sign; best effort, the press itself is taken in."""
        channel = self._deps.channel(pressed.key)
        if channel is None or channel.interactions is None or pressed.interaction is None:
            return
        try:
            with anyio.fail_after(ACKNOWLEDGE_WITHIN_S):
                await channel.interactions.acknowledge(pressed.interaction, text)
        except (ChannelError, TimeoutError) as error:
            _log.info("a press was not acknowledged: %s", error, extra={"conversation": str(pressed.key)})

    async def suggest(self, said: MessageReceived) -> Sequence[str]:
        """Completions of a half written command; none for a person who would not be answered, and nobody is told."""
        deps = self._deps
        access = deps.live.settings.access
        decision = decide(said, access, deps.book.grants, mention=Mention.DIRECT, is_command=True)
        if not isinstance(decision, Allowed):
            return ()
        roles = deps.roles_of(said)
        incoming = incoming_from(replace(said, text=whole(said.text)), decision.role, roles=roles)
        return await deps.handler.suggest(incoming.text, said.key, incoming, decision.role, said.place)

    async def _role(
        self, inbound: MessageReceived | ButtonClicked, *, mention: Mention, is_command: bool
    ) -> Role | Receipt:
        """The role of the sender, or the receipt for a message that is not taken in."""
        access, grants = self._deps.live.settings.access, self._deps.book.grants
        if isinstance(inbound, MessageReceived) and inbound.from_history and inbound.sent_at is not None:
            # It was seen and left alone when it came: whoever lets its writer in later does not mean what they wrote.
            grants = self._deps.book.as_of(to_timestamp(inbound.sent_at))
        # Only what may be answered is counted: bots that talk among themselves must not use up our answers.
        may_loop = inbound.sender.is_bot and access.bots == "mentions" and mention is Mention.DIRECT
        guard = may_loop and self._bots.take(str(inbound.key), self._deps.clock.monotonic()) is Take.TAKEN
        rule = self._deps.settings.get(MENTION, inbound.key)
        decision = decide(inbound, access, grants, mention=mention, rule=rule, is_command=is_command, bot_allowed=guard)
        match decision:
            case Allowed(role):
                return role
            case Ignored(why):
                return self._ignored(inbound, why)
            case Unpaired():
                return await self._unpaired(inbound)
            case _:
                assert_never(decision)

    def _ignored(self, inbound: Received, why: str) -> Receipt:
        self._deps.decisions.note(str(inbound.key), unanswered(inbound, why, self._deps.clock.now()))
        return Receipt(Outcome.IGNORED, why)

    async def _unpaired(self, inbound: MessageReceived | ButtonClicked) -> Receipt:
        """Unknown people get a code for what they write; a button means nothing from them."""
        if isinstance(inbound, MessageReceived):
            await self._strangers.meet(inbound)
        return self._ignored(inbound, "not paired yet")


def _as_said(pressed: ButtonClicked) -> MessageReceived:
    """The command that a button stands for, as if the presser had typed it."""
    return MessageReceived(
        key=pressed.key,
        place=pressed.place,
        message_id=pressed.message_id,
        sender=pressed.sender,
        received_at=pressed.received_at,
        chat_type=pressed.chat_type,
        chat_title=pressed.chat_title,
        grantable=pressed.grantable,
        parent=pressed.parent,
        around=pressed.around,
        interaction=pressed.interaction,
        text=pressed.action.removeprefix(PRESS),
        mention=Mention.DIRECT,
        interaction_id=pressed.interaction_id,
    )
