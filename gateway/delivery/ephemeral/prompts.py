"""Messages that ask for approval: they show the result in place of the buttons, also when it is long ago.

What a platform does not take now is tried again; what was not settled when the process ended is settled by the next.
"""

import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

import anyio
from sqlalchemy import Connection, select, update

from agent.core.clock import Clock
from agent.core.outbox import OutgoingMessage
from agent.core.phrases import Phrases
from agent.plans import store
from agent.plans.messages import plan_prompt_key
from agent.plans.plan import Plan
from agent.storage import approval_rows
from agent.storage.approval_rows import RESTORED, Approval
from agent.storage.database import Database
from agent.storage.payloads import decode_outgoing
from agent.storage.tables import approval, outbox
from agent.storage.timestamps import to_timestamp
from agent.tools.approvals import prompt_key
from gateway.channels.channel import Channel
from gateway.channels.document import Plain
from gateway.channels.errors import ChannelError, ChannelRejected
from gateway.channels.keys import ConversationKey
from gateway.channels.outbound import Outbound, SentRef
from gateway.delivery.ephemeral.messages import CALL_DEADLINE_S, persistently
from gateway.delivery.outbox.rows import Claimed
from gateway.delivery.rendering.compose import composed

LONGEST_ANSWER = 200  # characters of an answer in somebody's own words

log = logging.getLogger("tieline.delivery")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """An approval, and what became of the message that asks for it. `ref` None: it is on its way."""

    approval: Approval
    row: Claimed
    status: str
    ref: str | None


Id = TypeVar("Id", int, str)


class _Proposals(ABC, Generic[Id]):
    """Messages that ask people for a decision, kept true. Jobs to be run beside everything else."""

    def __init__(
        self,
        database: Database,
        channel_for: Callable[[ConversationKey], Channel | None],
        clock: Clock,
        phrase: Phrases,
        home: Path,
        spawn: Callable[[Callable[[], Awaitable[None]]], object],
    ) -> None:
        self._database = database
        self._channel_for = channel_for
        self._clock = clock
        self._phrase = phrase
        self._home = home
        self._spawn = spawn

    def changed(self, id: Id) -> None:
        """It is decided, or nobody is asked any more."""
        self._spawn(partial(self._keep_true, id, restarted=False))

    async def recover(self) -> None:
        """Take up what an earlier process left: remove the buttons of ended questions, show open ones anew."""
        for id in await self._database.read(self._unsettled):
            self._spawn(partial(self._keep_true, id, restarted=True))

    async def _keep_true(self, id: Id, *, restarted: bool) -> None:
        await persistently(partial(self._attempt, id, restarted), self._clock)

    @abstractmethod
    def _unsettled(self, conn: Connection) -> Sequence[Id]:
        """The ids of proposals whose message may not show their outcome yet."""

    @abstractmethod
    async def _attempt(self, id: Id, restarted: bool) -> bool:
        """Change the message; whether that is done, or not to be tried again."""


class Prompts(_Proposals[str]):
    """Questions for approval."""

    def _unsettled(self, conn: Connection) -> Sequence[str]:
        return approval_rows.unsettled(conn)

    async def _attempt(self, id: str, restarted: bool) -> bool:
        asked = await self._database.write(partial(_look, id=id))
        if asked is None:
            return True
        if asked.ref is None:
            return asked.approval.status == "pending"  # it will come with its buttons, or must first be there to change
        channel = self._channel_for(ConversationKey.parse(asked.approval.conversation))
        if channel is None:
            return False
        pending = asked.approval.status == "pending"
        if channel.capabilities.edits and (restarted or not pending):
            try:
                with anyio.fail_after(CALL_DEADLINE_S):
                    await channel.edit(SentRef(asked.ref), await self._now_shown(asked, channel))
            except ChannelRejected as error:
                log.info("a question's buttons cannot change: %s", error, extra={"conversation": str(channel.key)})
            except (ChannelError, TimeoutError) as error:
                log.info("a question's buttons change later: %s", error, extra={"conversation": str(channel.key)})
                return False
        if not pending:
            await self._database.write(partial(_settle, one=asked.approval, ref=asked.ref))
        return True

    async def _now_shown(self, asked: _Asked, channel: Channel) -> Outbound:
        one = asked.approval
        messages = await self._composed(asked.row, channel, one.language)
        before, is_alone = messages[-1], False
        if one.status != "pending":  # how to answer is no longer of use
            ended = replace(asked.row, say=replace(asked.row.say, while_open="", without_buttons=""))
            without = await self._composed(ended, channel, one.language)
            before, is_alone = without[-1], len(without) < len(messages)  # then the message held nothing else
        line = self._outcome(one)
        document = (*before.document, Plain(f"\n{line}"))
        if is_alone or channel.capabilities.measure(document) > channel.capabilities.text_limit:
            document = (Plain(line),)
        buttons = before.buttons if one.status == "pending" else ()
        return replace(before, document=document, buttons=buttons, reply_to=None, interaction=None, files=(), key="")

    async def _composed(self, row: Claimed, channel: Channel, language: str) -> list[Outbound]:
        return await composed(row, channel.capabilities, self._home, self._phrase, language)

    def _outcome(self, one: Approval) -> str:
        if one.status == "pending":
            left_s = (one.expires_at - to_timestamp(self._clock.now())) / 1e6
            return self._phrase("approval_still", one.language, minutes=max(1, round(left_s / 60)))
        return outcome_of(one, self._phrase)


def outcome_of(one: Approval, phrase: Phrases) -> str:
    """The result, in one line."""
    if one.choices and one.status in ("answered", "expired"):
        return phrase(one.status, one.language, choice=label_of(one, phrase, one.language))
    if one.decided_by == RESTORED:
        return phrase("approval_restored", one.language)
    status = "approved" if one.status == "executed" else one.status
    return phrase(f"approval_{status}", one.language, who=one.decided_name or one.decided_by or "")


def label_of(one: Approval, phrase: Phrases, language: str) -> str:
    """The answer to a question as people read it."""
    if one.answer in ("yes", "no") and one.answer in one.choices:
        return phrase(one.answer, language)
    words = " ".join((one.answer or "").split())
    return words if len(words) <= LONGEST_ANSWER else f"{words[: LONGEST_ANSWER - 1]}…"


def _look(conn: Connection, id: str) -> _Asked | None:
    """None when nothing is left to do. A question that is over before it left is not sent any more."""
    one = approval_rows.find(conn, id)
    if one is None or conn.execute(select(approval.c.screen).where(approval.c.id == id)).scalar_one() == "settled":
        return None
    row = conn.execute(select(outbox).where(outbox.c.dedup == prompt_key(id))).one_or_none()
    if row is None or row.status in ("dead", "dropped"):
        approval_rows.settle(conn, id, None)
        return None
    if row.status == "new" and one.status != "pending":
        dropped = update(outbox).where(outbox.c.id == row.id, outbox.c.status == "new").values(status="dropped")
        if conn.execute(dropped).rowcount:
            approval_rows.settle(conn, id, None)
            return None
    say: OutgoingMessage = decode_outgoing(row.payload)
    refs = tuple(json.loads(row.sent_refs))
    claimed = Claimed(
        id=row.id,
        inbox_id=None,
        conversation=one.conversation,
        say=say,
        cut_off=False,
        sent_refs=refs,
        repeated=None,
        created_at=row.created_at,
    )
    ref = refs[-1] if row.status == "sent" and refs else None
    return _Asked(approval=one, row=claimed, status=row.status, ref=ref)


def _settle(conn: Connection, one: Approval, ref: str) -> None:
    """Unless it has changed once more meanwhile."""
    now = approval_rows.find(conn, one.id)
    if now is not None and (now.status == one.status or now.status == "executed"):
        approval_rows.settle(conn, one.id, ref)


# Proposals of plans: shows the decision in place of the buttons, and after a restart fresh buttons on open ones. An
# edit that the platform refuses now is tried again.


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    """A plan and the message that proposes it. `ref` None: it is on its way."""

    plan: Plan
    row: Claimed
    ref: str | None


class PlanPrompts(_Proposals[int]):
    """Proposals of plans."""

    def _unsettled(self, conn: Connection) -> Sequence[int]:
        return store.unsettled(conn)

    async def _attempt(self, id: int, restarted: bool) -> bool:
        shown = await self._database.write(partial(_plan_look, id=id))
        if shown is None:
            return True
        waits = shown.plan.status == "proposed"
        if shown.ref is None:
            return waits  # it will come with its buttons, or must first be there to change
        if waits and not restarted:
            return True
        channel = self._channel_for(ConversationKey.parse(shown.plan.conversation))
        if channel is None:
            return False
        if channel.capabilities.edits:
            try:
                with anyio.fail_after(CALL_DEADLINE_S):
                    await channel.edit(SentRef(shown.ref), await self._now_shown(shown, channel))
            except ChannelRejected as error:
                log.info("a proposal's buttons cannot change: %s", error, extra={"conversation": str(channel.key)})
            except (ChannelError, TimeoutError) as error:
                log.info("a proposal's buttons change later: %s", error, extra={"conversation": str(channel.key)})
                return False
        if not waits:
            await self._database.write(lambda conn: store.set_screen(conn, id, "settled"))
        return True

    async def _now_shown(self, shown: _Shown, channel: Channel) -> Outbound:
        plan = shown.plan
        messages = await composed(shown.row, channel.capabilities, self._home, self._phrase, plan.owner.language)
        before = messages[-1]
        line = self._outcome(plan)
        document = (*before.document, Plain(f"\n{line}"))
        if channel.capabilities.measure(document) > channel.capabilities.text_limit:
            document = (Plain(line),)
        buttons = before.buttons if plan.status == "proposed" else ()
        return replace(before, document=document, buttons=buttons, reply_to=None, interaction=None, files=(), key="")

    def _outcome(self, plan: Plan) -> str:
        language = plan.owner.language
        if plan.status == "proposed":
            return self._phrase("plan_prompt_still", language)
        if plan.status == "cancelled" and plan.why is not None:
            return self._phrase(plan.why.key, language, **plan.why.values)
        return self._phrase("plan_prompt_yes", language, who=plan.decided_by)


def _plan_look(conn: Connection, id: int) -> _Shown | None:
    """None when nothing is left to do. A proposal that is decided before it left is not sent any more."""
    plan = store.find(conn, id)
    if plan is None or store.screen_of(conn, id) != "open":
        return None
    row = conn.execute(select(outbox).where(outbox.c.dedup == plan_prompt_key(id))).one_or_none()
    if row is None or row.status in ("dead", "dropped"):
        store.set_screen(conn, id, "settled")
        return None
    if row.status == "new" and plan.status != "proposed":
        dropped = update(outbox).where(outbox.c.id == row.id, outbox.c.status == "new").values(status="dropped")
        if conn.execute(dropped).rowcount:
            store.set_screen(conn, id, "settled")
            return None
    refs = tuple(json.loads(row.sent_refs))
    claimed = Claimed(
        id=row.id,
        inbox_id=None,
        conversation=plan.conversation,
        say=decode_outgoing(row.payload),
        cut_off=False,
        sent_refs=refs,
        repeated=None,
        created_at=row.created_at,
    )
    return _Shown(plan=plan, row=claimed, ref=refs[-1] if row.status == "sent" and refs else None)
