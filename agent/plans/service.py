"""Operations on plans from beside the agent's loop: ask for one, confirm, cancel, go on, look.

It never asks a model and runs no task: it leaves a wake-up, which the conversation's own loop takes up.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

import anyio
from sqlalchemy import Connection

from agent.core.clock import Clock
from agent.core.errors import Permanent
from agent.core.ids import ConversationId
from agent.core.phrases import Phrases
from agent.goals.goal import Owner, Reason
from agent.plans import store
from agent.plans.admission import NotAdmitted, admit
from agent.plans.messages import Buttoned, ending
from agent.plans.plan import AT_WORK, GATE, OPEN, Plan, Status, aborted, paused, resumed, tried_again
from agent.plans.settings import PlanSettings
from agent.sessions import runs
from agent.storage import conversation_rows, inbox_rows, outbox_rows
from agent.storage.database import Database
from agent.storage.timestamps import to_timestamp

T = TypeVar("T")


class PlanRefused(Permanent):
    """Nothing was changed. `key` names the sentence that says so."""

    def __init__(self, key: str, **values: object) -> None:
        super().__init__(key)
        self.key = key
        self.values = values


@dataclass(slots=True)
class PlanService:
    """One for the process. `settings` are asked each time, `wake` is told that a conversation has work, `changed` which
    plan's message should show something else, `redact` takes secrets out of goals."""

    database: Database
    clock: Clock
    settings: Callable[[], PlanSettings]
    wake: Callable[[ConversationId], None] = lambda conversation: None
    changed: Callable[[int], None] = lambda id: None
    redact: Callable[[str], str] = lambda text: text
    closing: bool = False  # the process is about to end: nobody waits here any more
    _wake_events: dict[int, anyio.Event] = field(default_factory=dict)
    _asked: dict[ConversationId, int] = field(default_factory=dict)  # the plan that a turn there waits for a word about

    # -- asking for one

    async def draft(
        self, conversation: ConversationId, owner: Owner, words: str, *, origin: str, decides: bool = False
    ) -> Plan:
        """Have the planner asked. One that waits for confirmation gives way to it: the owner's own, or any where they
        `decide` about those of others too. Raises PlanRefused."""
        if not self.settings().enabled:
            raise PlanRefused("plan_off")
        try:
            admitted = admit(words, self.redact)
        except NotAdmitted as refusal:
            raise PlanRefused(refusal.key, **refusal.values) from refusal
        at, replaced = self._at(), list[int]()

        def work(conn: Connection) -> Plan:
            conversation_rows.ensure(conn, conversation, at)
            conversation_rows.lock_row(conn, conversation)
            known = store.by_origin(conn, origin)
            if known is not None:
                return known
            before = store.open_in(conn, conversation)
            if before is not None:
                theirs = decides or before.owner.person == owner.person
                if before.status != "proposed" or origin.startswith(GATE) or not theirs:
                    raise PlanRefused("plan_open", id=before.id)
                store.save(conn, replace(before, status="cancelled", why=Reason(key="plan_why_replaced")), at)
                replaced.append(before.id)
            added = store.add(
                conn,
                conversation=conversation,
                origin=origin,
                owner=owner,
                goal=admitted.goal,
                redacted=admitted.redacted,
                at=at,
            )
            assert added is not None
            if not origin.startswith(GATE):  # the turn that made it asks the planner itself
                store.schedule_wake_up(conn, added, at=at)
            return added

        plan = await self.database.write(work)
        for id in replaced:
            self.tell(id)
        self.wake(conversation)
        return plan

    # -- a person's word

    async def confirm(self, conversation: ConversationId, id: int | None, by: str) -> Plan:
        """It may be carried out. Raises PlanRefused."""

        def move(conn: Connection, plan: Plan, at: int) -> Plan:
            if plan.status != "proposed":
                raise PlanRefused("plan_not_proposed", id=plan.id)
            return replace(plan, status="running", decided_by=by)

        return await self._start(conversation, id, ("proposed",), move)

    async def resume(self, conversation: ConversationId, id: int | None, by: str) -> Plan:
        """Go on: what was cut off runs again, what failed is left out. Raises PlanRefused."""

        def move(conn: Connection, plan: Plan, at: int) -> Plan:
            if plan.status not in ("interrupted", "waiting"):
                raise PlanRefused("plan_not_resting", id=plan.id)
            return replace(plan, status="running", tasks=resumed(plan.tasks), why=None, decided_by=by)

        return await self._start(conversation, id, ("interrupted", "waiting"), move)

    async def retry(self, conversation: ConversationId, id: int | None, by: str) -> Plan:
        """Try everything again that is not done. Raises PlanRefused."""

        def move(conn: Connection, plan: Plan, at: int) -> Plan:
            if plan.status not in ("interrupted", "waiting", "failed") or not plan.tasks:
                raise PlanRefused("plan_not_failed", id=plan.id)
            if plan.status not in OPEN and (other := store.open_in(conn, conversation)) is not None:
                raise PlanRefused("plan_open", id=other.id)
            return replace(plan, status="running", tasks=tried_again(plan.tasks), why=None, decided_by=by)

        return await self._start(conversation, id, ("interrupted", "waiting", "failed"), move)

    async def cancel(self, conversation: ConversationId, id: int | None, by: str) -> Plan:
        """It is not wanted any more, whatever it is at. Raises PlanRefused."""

        def work(conn: Connection) -> Plan:
            plan = self._pick(conn, conversation, id, tuple(OPEN))
            if not plan.is_open:
                raise PlanRefused("plan_over", id=plan.id)
            why = Reason(key="plan_why_cancelled", values={"who": by})
            ended = replace(plan, status="cancelled", tasks=aborted(plan.tasks), why=why, decided_by=by)
            return self._saved(conn, ended)

        plan = await self._change(conversation, work)
        self.tell(plan.id)
        return plan

    async def halt(self, conversation: ConversationId, by: str) -> Plan | None:
        """End the work on the conversation's plan, for /stop; None where nobody works on one."""

        def work(conn: Connection) -> Plan | None:
            plan = store.open_in(conn, conversation)
            if plan is None or plan.status not in AT_WORK:
                return None
            if plan.status == "drafting" and plan.origin.startswith(GATE):
                return None  # the turn that makes it is what is stopped
            return self._saved(conn, paused(plan, Reason(key="plan_why_stopped", values={"who": by})))

        looked = await self.database.read(lambda conn: store.open_in(conn, conversation))
        if looked is None or looked.status not in AT_WORK:
            return None
        plan = await self._change(conversation, work)
        if plan is not None:
            self.tell(plan.id)
        return plan

    async def decided(self, plan: Plan, within_s: float) -> Plan:
        """The plan once somebody has decided about it, or as it is when nobody has within that time, or people have
        written something else meanwhile: they do not wait for it."""
        self._asked[plan.conversation] = plan.id
        try:
            with anyio.move_on_after(within_s):
                while True:
                    wake_event = self._wake_events[plan.id] = (
                        anyio.Event()
                    )  # before the look: what changes after it rings
                    now, others = await self.database.read(partial(_looked_at, id=plan.id))
                    if now.status != "proposed" or others or self.closing:
                        return now
                    await wake_event.wait()
        finally:
            self._wake_events.pop(plan.id, None)
            self._asked.pop(plan.conversation, None)
        now, _ = await self.database.read(partial(_looked_at, id=plan.id))
        return now

    def heard(self, conversation: ConversationId) -> None:
        """A person has written there: whoever waits for a word about a plan looks."""
        if (wake_event := self._wake_events.get(self._asked.get(conversation, 0))) is not None:
            wake_event.set()

    def close(self) -> None:
        """Let everybody who waits go; what they wait for stays open for the next process."""
        self.closing = True
        for wake_event in self._wake_events.values():
            wake_event.set()

    # -- looking

    async def find(self, conversation: ConversationId, id: int) -> Plan | None:
        """The plan of that number, if it belongs there."""
        plan = await self.database.read(lambda conn: store.find(conn, id))
        return plan if plan is not None and plan.conversation == conversation else None

    async def meant(self, conversation: ConversationId, id: int | None) -> Plan:
        """The plan that is meant: by number, else the open one, else the newest. Raises PlanRefused."""
        return await self.database.read(lambda conn: self._pick(conn, conversation, id, tuple(OPEN), last=True))

    async def all_of(self, conversation: ConversationId) -> tuple[Plan, ...]:
        """The newest 50."""
        return await self.database.read(lambda conn: store.all_of(conn, conversation))

    def tell(self, id: int) -> None:
        """It has changed: whoever waits for it looks, and its message follows."""
        if (wake_event := self._wake_events.get(id)) is not None:
            wake_event.set()
        self.changed(id)

    # -- inside

    async def _start(
        self,
        conversation: ConversationId,
        id: int | None,
        wanted: tuple[Status, ...],
        move: Callable[[Connection, Plan, int], Plan],
    ) -> Plan:
        """Let it run, and wake the conversation for it: in one transaction, so a second press finds it running."""
        if not self.settings().enabled:
            raise PlanRefused("plan_off")
        at = self._at()

        def work(conn: Connection) -> Plan:
            plan = move(conn, self._pick(conn, conversation, id, wanted), at)
            started = replace(plan, ticks=plan.ticks + 1)
            store.save(conn, started, at)
            store.schedule_wake_up(conn, started, at=at)
            return started

        plan = await self._change(conversation, work)
        self.tell(plan.id)
        self.wake(conversation)
        return plan

    async def _change(self, conversation: ConversationId, work: Callable[[Connection], T]) -> T:
        def locked(conn: Connection) -> T:
            conversation_rows.lock_row(conn, conversation)
            return work(conn)

        return await self.database.write(locked)

    def _saved(self, conn: Connection, plan: Plan) -> Plan:
        """Put down: nothing wakes it any more."""
        store.save(conn, plan, self._at())
        store.cancel_wake_ups(conn, plan)
        return plan

    def _pick(
        self,
        conn: Connection,
        conversation: ConversationId,
        id: int | None,
        wanted: tuple[Status, ...],
        *,
        last: bool = False,
    ) -> Plan:
        """By number, else the open one, else the newest; one that is at one of these, with `last` whatever it is at."""
        if id is not None:
            plan = store.find(conn, id)
            if plan is None or plan.conversation != conversation:
                raise PlanRefused("plan_unknown", id=id)
            return plan
        found = store.open_in(conn, conversation) or store.last_of(conn, conversation)
        if found is None or not (last or found.status in wanted):
            raise PlanRefused("plan_none")
        return found

    def _at(self) -> int:
        return to_timestamp(self.clock.now())


def _looked_at(conn: Connection, id: int) -> tuple[Plan, bool]:
    """The plan as it stands, and whether people wait for something else there."""
    plan = store.find(conn, id)
    assert plan is not None, "plans are never removed while somebody waits"
    return plan, inbox_rows.people_wait(conn, plan.conversation)


# Abandoned plans: left by an earlier process, by a message or wake-up given up, or by a silent person.

log = logging.getLogger("tieline.plans")


async def reconcile(plans: PlanService, phrases: Phrases, buttons: Buttoned) -> int:
    """Put down what an earlier process was carrying out, and tell each owner once: nothing runs twice unseen.

    Call it once, before any agent runs, as the sole owner. Plans that were being made are made again; what the gate
    offered ends where its message is not taken up again.
    """
    at, settings = to_timestamp(plans.clock.now()), plans.settings()
    live = settings.enabled and settings.workflow.mode == "live"

    def work(conn: Connection) -> int:
        for plan in store.offered(conn):
            if not (live and inbox_rows.is_new(conn, int(plan.origin.removeprefix(GATE)))):
                store.save(conn, _expired(plan), at)
        left = store.running(conn)
        for plan in left:
            rests = paused(plan, Reason(key="plan_why_restart"))
            store.save(conn, rests, at)
            for inbox_id in store.cancel_wake_ups(conn, plan, begun=True):
                runs.end_run(conn, inbox_id, "cancelled", at)
            _say(conn, rests, "restart", phrases, buttons, at)
        return len(left)

    count = await plans.database.write(work)
    if count:
        log.warning("%d plans were being carried out when the last process ended; they wait for a word", count)
    return count


async def abandon(plans: PlanService, id: int, phrases: Phrases, buttons: Buttoned) -> Plan | None:
    """Its wake-up was given up as a dead letter: nothing would ever wake it again, so it is put down and told."""

    def work(conn: Connection) -> Plan | None:
        plan = _locked(conn, id)
        if plan is None or plan.status not in AT_WORK:
            return None
        rests, at = paused(plan, Reason(key="plan_why_broken")), to_timestamp(plans.clock.now())
        store.save(conn, rests, at)
        store.cancel_wake_ups(conn, rests)
        _say(conn, rests, "abandoned", phrases, buttons, at)
        return rests

    return await plans.database.write(work)


async def expire(plans: PlanService, id: int) -> None:
    """Nobody has decided in time, or nobody is asked any more."""

    def work(conn: Connection) -> None:
        plan = _locked(conn, id)
        if plan is not None and plan.status in ("proposed", "drafting"):
            store.save(conn, _expired(plan), to_timestamp(plans.clock.now()))

    await plans.database.write(work)
    plans.tell(id)


async def withdraw(plans: PlanService, inbox_id: int) -> None:
    """The message that the gate made a plan of was given up: nobody waits for a word about it any more."""
    offered = await plans.database.read(lambda conn: store.by_origin(conn, f"{GATE}{inbox_id}"))
    if offered is not None:
        await expire(plans, offered.id)


def _say(conn: Connection, plan: Plan, what: str, phrases: Phrases, buttons: Buttoned, at: int) -> None:
    outbox_rows.add(
        conn,
        conversation=plan.conversation,
        inbox_id=None,
        part=0,
        dedup=f"plan:{plan.id}:{plan.ticks}:{what}",
        say=ending(plan, phrases, buttons),
        at=at,
    )


def _locked(conn: Connection, id: int) -> Plan | None:
    """The plan as it stands once nobody else can change it."""
    plan = store.find(conn, id)
    if plan is None:
        return None
    conversation_rows.lock_row(conn, plan.conversation)
    return store.find(conn, id)


def _expired(plan: Plan) -> Plan:
    return replace(plan, status="cancelled", why=Reason(key="plan_why_expired"))
