"""Plans in a turn: the offer of one, and a turn whose answer is a stretch of one.

Such a turn makes a plan, carries it out or puts its results together. It gives way to people: some seconds after one
has written it lets go of what it is at, and goes on behind them.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial

import anyio
from sqlalchemy import Connection

from agent.compaction.question import Ask
from agent.core.cancellation import first_error
from agent.core.clock import Clock
from agent.core.errors import AgentError, Fenced, Refused
from agent.core.events import EventBus, WorkflowOffered
from agent.core.ids import ConversationId, PersonId, RunId
from agent.core.messages import text_message
from agent.core.outbox import Outbox
from agent.core.phrases import Phrases, english
from agent.core.tools import Subagents
from agent.goals.goal import Owner, Reason
from agent.plans import service, store
from agent.plans.admission import estimated, judged, may_ask
from agent.plans.messages import Buttoned, as_written, ending, plan_prompt_key, proposal, took, view
from agent.plans.plan import AT_WORK, GATE, MOST_CUT_OFFS, Impossible, Plan, cost_of, outlook, paused, preempted
from agent.plans.planner import as_they_are, made, put_together
from agent.plans.runner import Move, Runner
from agent.plans.service import PlanRefused, PlanService
from agent.providers.provider import Prices
from agent.run.features import Feature
from agent.run.run import SHUTDOWN, Executed, Notice, Run
from agent.storage import conversation_rows, inbox_rows, outbox_rows
from agent.storage.database import Database, check_epoch
from agent.storage.errors import StorageTrouble
from agent.storage.timestamps import to_timestamp

log = logging.getLogger("tieline.plans")


class NotMade(Exception):
    """There is no plan. `why` is for people."""

    def __init__(self, why: Reason, error: str = "") -> None:
        super().__init__(error or why.key)
        self.why = why


@dataclass(slots=True, kw_only=True, eq=False)
class PlanFeature(Feature):
    """One agent's part in plans. `buttons` are what may be pressed below one.

    `ask` gives who puts a person's questions to a model, `prices` what those of a provider cost (None: the one of now).
    `is_retired`: the notes close the agent's service here. `recall` finds what helps a run, `subagents` are those that
    work for a run, so many at once, and `waiting` is a run's wait for people.
    """

    conversation: ConversationId
    database: Database
    clock: Clock
    bus: EventBus
    outbox: Outbox
    phrases: Phrases
    plans: PlanService
    buttons: Buttoned
    ask: Callable[[PersonId | None], Ask]
    prices: Callable[[str | None], Prices | None]
    is_retired: Callable[[Run], Awaitable[bool]]
    recall: Callable[[Run], Awaitable[None]]
    subagents: Callable[[Run, int], Subagents]
    waiting: Callable[[Run], AbstractAsyncContextManager[None]]
    preemptible: anyio.Event = field(default_factory=anyio.Event)
    _offered: tuple[RunId, int] | None = None  # the plan that was made of a run's request, and is not decided about
    _cut_off: tuple[int, int] = (0, 0)  # the plan whose calls of a model were cut off last, and how often

    # -- the workflow gate: a message that sounds like work in many steps is offered as a plan first

    async def begun(self, run: Run) -> Executed | None:
        """The end of the run, where a person has approved a plan in place of an answer, or stopped it; else None.

        Called when the person's words are on disk, before the loop (W-16). Raises Fenced or StorageTrouble.
        """
        settings, incoming = run.settings.plans, run.work.incoming
        if settings.workflow.mode != "live" or not settings.enabled:
            return None
        if (
            run.work.kind != "message"
            or run.work.by_hand is not None
            or run.loop is not None
            or run.progress.model_calls
        ):
            return None
        approver, writer = incoming.person is not None, not (incoming.may_be_silent or run.audience.silent)
        if not may_ask(settings.workflow.mode, approver=approver, writer=writer, words=incoming.text):
            return None
        if await self.is_retired(run):
            return None  # the normal turn says so
        plan = await self._drafted(run)
        if plan is not None:
            self._offered = (run.id, plan.id)
        if plan is not None and plan.status == "drafting":
            plan = await self._proposed(plan, run)
        if plan is not None and plan.status == "proposed" and not run.token.fired:
            plan = await self._decided(plan, run)
        if run.token.fired:
            return Executed(verdict="cancelled", notice=Notice("stopped"))
        if plan is None or not plan.ticks:  # nobody has ever let it run
            return None
        phrases, language = self.phrases, run.audience.language
        begins = plan.status == "running"  # else a restart or a stop came between the word and this answer to it
        text = phrases("plan_begins", language, id=plan.id) if begins else view(plan, phrases, language)
        self._note(f"{as_written(plan)}\n\n{text}", run)
        return Executed(verdict="answered", text=text)

    async def closing(self, run: Run, executed: Executed) -> None:
        """End the offer of the turn, unless the turn goes on after a restart. Raises StorageTrouble."""
        offered, self._offered = self._offered, None
        if offered is not None and offered[0] == run.id and executed.verdict != "suspended":
            with anyio.CancelScope(shield=True):
                await service.expire(self.plans, offered[1])

    async def _drafted(self, run: Run) -> Plan | None:
        """The plan of this message, also the one that was made before a restart; None where there can be none."""
        incoming = run.work.incoming
        owner = Owner(
            person=incoming.person,
            display=incoming.display,
            language=incoming.language,
            role=incoming.role,
            roles=incoming.roles,
            chat_type=incoming.chat_type,
        )
        try:
            return await self.plans.draft(self.conversation, owner, incoming.text, origin=f"{GATE}{run.work.inbox_id}")
        except PlanRefused as refusal:
            log.info("no plan is offered: %s", refusal.key, extra={"run": run.id})
            return None

    async def _proposed(self, plan: Plan, run: Run) -> Plan | None:
        """The plan once its proposal is on its way; None where none could be made."""
        self.outbox.status(self.phrases("plan_making", run.audience.language))
        found = judged(run.work.incoming.text)
        self.bus.publish(
            WorkflowOffered(conversation=plan.conversation, run=run.id, plan=plan.id, confidence=found.confidence)
        )
        made: Plan | None = None
        try:
            made = await self._synthesised(plan, run, timeout_s=run.settings.plans.workflow.synthesis_timeout_secs)
        except NotMade as error:
            log.info("no plan is offered: %s", error, extra={"run": run.id})
        finally:
            self.outbox.status("")
        if made is None:
            if run.token.reason != SHUTDOWN:
                await service.expire(self.plans, plan.id)
            return None

        def write(conn: Connection) -> bool:
            check_epoch(conn, plan.conversation, run.work.epoch)
            kept = self._write_proposal(conn, made, to_timestamp(self.clock.now()))
            take_first(conn)
            return kept

        with self.outbox.committing() as take_first:
            return made if await self.database.write(write) else None

    async def _decided(self, plan: Plan, run: Run) -> Plan | None:
        """The plan with a person's word about it; without one in time it is none (W-19)."""
        toolset, within_s = self.plans, run.settings.plans.workflow.approval_secs
        decided: Plan | None = None

        def waits(conn: Connection) -> None:
            check_epoch(conn, plan.conversation, run.work.epoch)
            inbox_rows.forgive(conn, run.work.inbox_id)

        await self.database.write(waits)
        async with self.waiting(run):
            with run.interrupts.scope():
                decided = await toolset.decided(plan, within_s)
        if toolset.closing and decided is not None and decided.status == "proposed":
            run.token.fire(SHUTDOWN)
        if run.token.reason == SHUTDOWN:
            return decided
        if run.token.fired or decided is None or decided.status == "proposed":
            await service.expire(toolset, plan.id)
            return None
        return decided

    # -- a turn of a plan

    def begin(self) -> None:
        """The turn that comes gives way to what people write from now on."""
        self.preemptible = anyio.Event()

    def give_way(self) -> None:
        """A person has written."""
        self.preemptible.set()

    async def answer(self, run: Run) -> Executed:
        """The answer in place of the agent loop. Later turns see only what it says."""
        step = run.work.incoming.plan
        assert step is not None
        run.ending.hidden, run.ending.on_commit = True, partial(self._broken, step.plan)
        plan = await self.database.read(lambda conn: store.find(conn, step.plan))
        if plan is None or plan.status not in AT_WORK:  # put down since the wake-up was looked at
            return Executed(verdict="answered")
        if await self.is_retired(run):
            run.ending.on_commit = partial(self._ends, paused(plan, Reason(key="plan_why_retired")))
            return Executed(verdict="answered")
        return await (self._draft(plan, run) if plan.status == "drafting" else self._carry_out(plan, run))

    async def _draft(self, plan: Plan, run: Run) -> Executed:
        """Ask the planner, and propose what it made."""
        self.outbox.status(self.phrases("plan_making", plan.owner.language))
        made = None
        try:
            async with self._giving_way(plan, run) as within:
                made = await self._synthesised(plan, run, timeout_s=run.settings.plans.model_timeout_secs)
        except NotMade as error:
            log.warning("no plan was made: %s", error, extra={"run": run.id})
            failed = replace(plan, status="failed", why=error.why)
            run.ending.on_commit = partial(self._ends, failed)
            return Executed(verdict="failed", error=str(error))
        if within.cancelled_caught and not run.token.fired:
            return self._postpone(plan, run)
        if made is None:
            return Executed(verdict="cancelled")
        run.ending.on_commit = partial(self._proposes, made)
        self._note(as_written(made), run)
        return Executed(verdict="answered")

    async def _carry_out(self, plan: Plan, run: Run) -> Executed:
        """Run its tasks until nothing more can, and put the results together when all are done."""
        settings = run.settings.plans
        await self.recall(run)
        run.progress.cost_usd += cost_of(plan.tasks) or 0.0  # the run's limit is that of the whole plan
        runner = Runner(
            subagents=self.subagents(run, settings.max_parallel),
            settings=settings,
            request=run.id,
            cancel=run.token,
            change=partial(self._change, plan.id, run),
            shown=self.show,
            preemptible=self.preemptible,
        )
        now = await runner.run()
        if run.token.fired:
            return Executed(verdict="cancelled")
        if now is None:
            return Executed(verdict="answered")
        match outlook(now.tasks, strategy=settings.failure_strategy):
            case "going":
                run.ending.on_commit = partial(self._goes_on, plan.id)
                return Executed(verdict="answered")
            case "asks":
                run.ending.on_commit = partial(
                    self._ends, replace(now, status="waiting", why=Reason(key="plan_why_asks"))
                )
                return Executed(verdict="answered")
            case "failed":
                run.ending.on_commit = partial(
                    self._ends, replace(now, status="failed", why=Reason(key="plan_why_failed"))
                )
                return Executed(verdict="failed", error="a task of the plan failed")
            case "done":
                return await self._finish(now, run)

    async def _finish(self, plan: Plan, run: Run) -> Executed:
        """One answer out of all results; as they are, where no model puts them together."""
        self.outbox.status(self.phrases("plan_together", plan.owner.language))
        text = ""
        try:
            async with self._giving_way(plan, run) as within:
                with run.interrupts.scope():
                    ask = self.ask(plan.owner.person)
                    text = await put_together(plan.goal, plan.tasks, ask, run.settings.plans)
            if within.cancelled_caught and not run.token.fired:
                return self._postpone(plan, run)
        except (Fenced, StorageTrouble):
            raise
        except (AgentError, TimeoutError) as error:
            log.warning("the results of plan %d are given as they are: %s", plan.id, error)
        if run.token.fired:
            return Executed(verdict="cancelled")
        text = text or as_they_are(plan.tasks)
        self._note(text, run)
        run.ending.reaches_goal = True
        run.ending.on_commit = partial(self._ends, replace(plan, status="completed", why=None))
        done = sum(task.state == "completed" for task in plan.tasks)
        values: dict[str, object] = {"id": plan.id, "done": done, "count": len(plan.tasks), "money": took(plan)}
        return Executed(verdict="answered", text=text, notice=Notice("plan_done", values))

    @asynccontextmanager
    async def _giving_way(self, plan: Plan, run: Run) -> AsyncIterator[anyio.CancelScope]:
        """Around a call of a model: some seconds after a person has written it is cut off, a few times at most."""
        id, times = self._cut_off

        async def watch(scope: anyio.CancelScope) -> None:
            await self.preemptible.wait()
            await anyio.sleep(run.settings.plans.give_way_secs)
            scope.cancel()

        with first_error():
            async with anyio.create_task_group() as group:
                with anyio.CancelScope() as scope:
                    if id != plan.id or times < MOST_CUT_OFFS:
                        group.start_soon(watch, scope)
                    yield scope
                group.cancel_scope.cancel()

    def _postpone(self, plan: Plan, run: Run) -> Executed:
        """The call that was cut off is made again, behind what people want."""
        id, times = self._cut_off
        self._cut_off = (plan.id, times + 1 if id == plan.id else 1)
        run.ending.on_commit = partial(self._goes_on, plan.id)
        return Executed(verdict="answered")

    # -- what is written with the end of the turn

    def _proposes(self, made: Plan, conn: Connection, executed: Executed, at: int) -> None:
        self._write_proposal(conn, made, at)

    def _ends(self, after: Plan, conn: Connection, executed: Executed, at: int) -> None:
        """It is as `after` says, unless somebody has put it down meanwhile; whoever asked for it is told."""
        now = store.find(conn, after.id)
        if now is None or now.status not in AT_WORK:
            return
        store.save(conn, after, at)
        if after.status != "completed":  # that is told with its results
            self.write_ending(conn, after, at)

    def _goes_on(self, id: int, conn: Connection, executed: Executed, at: int) -> None:
        """Behind what others want of the conversation. What stands as running was cut off for their sake."""
        plan = store.find(conn, id)
        if plan is None or plan.status not in AT_WORK:
            return
        tasks = plan.tasks
        for task in plan.tasks:
            if task.state == "running":
                tasks = preempted(tasks, task.id, 0.0)
        after = replace(plan, tasks=tasks, ticks=plan.ticks + 1)
        store.save(conn, after, at)
        store.schedule_wake_up(conn, after, at=at)

    def _broken(self, id: int, conn: Connection, executed: Executed, at: int) -> None:
        """The turn was cut short: for a newer message it goes on, after a defect or beyond its time it rests."""
        plan = store.find(conn, id)
        if plan is None or plan.status not in AT_WORK:
            return
        if executed.verdict == "cancelled" and plan.status == "running":
            self._goes_on(id, conn, executed, at)
            return
        why = Reason(key="plan_why_cut" if executed.verdict == "cancelled" else "plan_why_broken")
        rests = paused(plan, why)
        store.save(conn, rests, at)
        self.write_ending(conn, rests, at)

    async def _change(self, id: int, run: Run, move: Move, unless_others: bool) -> Plan | None:
        """One step of the plan, on disk before anything follows from it."""
        conversation, at = self.conversation, self._at()

        def write(conn: Connection) -> Plan | None:
            # The lock first: two tasks that end at once and hold the fence's share of it would wait for each other.
            conversation_rows.lock_row(conn, conversation)
            check_epoch(conn, conversation, run.work.epoch)
            plan = store.find(conn, id)
            if plan is None or plan.status != "running":
                return None
            if unless_others and store.others_wait(conn, conversation, but=run.work.inbox_id, now=at):
                return plan
            after = move(plan)
            if after != plan:
                store.save(conn, after, at)
            return after

        return await self.database.write(write)

    def _at(self) -> int:
        return to_timestamp(self.clock.now())

    async def _synthesised(self, plan: Plan, run: Run, *, timeout_s: float) -> Plan | None:
        """The plan with its tasks and what it may cost; None: the run was stopped meanwhile. Raises NotMade."""
        settings = run.settings.plans
        ask = self.ask(plan.owner.person)
        tasks = None
        try:
            with run.interrupts.scope():
                tasks = await made(plan.goal, ask, settings, timeout_s=timeout_s)
        except Impossible as error:
            values = {name: str(value) for name, value in error.values.items()}
            raise NotMade(Reason(key=error.key, values=values), english(error.key, "en", **values)) from error
        except (Fenced, StorageTrouble):
            raise
        except Refused as error:
            raise NotMade(Reason(key="goal_why_budget", values={"reason": str(error)})) from error
        except (AgentError, TimeoutError) as error:
            raise NotMade(Reason(key="plan_why_no_planner"), f"{type(error).__name__}: {error}") from error
        if run.token.fired or tasks is None:
            return None
        estimate = estimated(tasks, self.prices(settings.provider))
        return replace(plan, status="proposed", tasks=tasks, estimate=estimate)

    def _write_proposal(self, conn: Connection, made: Plan, at: int) -> bool:
        """Keep it as proposed and ask the person; False: it was put down while it was made."""
        now = store.find(conn, made.id)
        if now is None or now.status != "drafting":
            return False
        store.save(conn, replace(made, ticks=now.ticks), at)
        store.set_screen(conn, made.id, "open")
        outbox_rows.add(
            conn,
            conversation=made.conversation,
            inbox_id=None,
            part=0,
            dedup=plan_prompt_key(made.id),
            say=proposal(made, self.phrases, self.buttons),
            at=at,
        )
        return True

    def _note(self, text: str, run: Run) -> None:
        """Keep it in the transcript as said by the assistant: later turns know of it."""
        run.ending.hidden = False
        run.messages.append(text_message("assistant", text, created_at=self.clock.now()))

    def write_ending(self, conn: Connection, plan: Plan, at: int) -> None:
        """Tell whoever asked for it how it ended, or that it rests; once."""
        outbox_rows.add(
            conn,
            conversation=plan.conversation,
            inbox_id=None,
            part=0,
            dedup=f"plan:{plan.id}:{plan.ticks}:{plan.status}",
            say=ending(plan, self.phrases, self.buttons),
            at=at,
        )

    def show(self, plan: Plan) -> None:
        """Show the plan's progress in the message that follows it."""
        self.outbox.live(view(plan, self.phrases), self.buttons("stop", plan))
