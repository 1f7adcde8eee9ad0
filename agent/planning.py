"""An agent's work on plans: wake-ups taken from its own loop; each leads to a turn whose answer is a stretch of the plan
(SPEC §13.3). Behind what people say, one turn after another; a plan never runs beside a turn.
"""

import logging
from collections.abc import Callable
from dataclasses import replace

import anyio
from sqlalchemy import Connection

from agent.core.errors import AgentError, AgentInvalid, AgentMissing, Fenced
from agent.core.messages import Message, TextPart
from agent.core.subagents import Subagents
from agent.definitions import Definition
from agent.goals.stored import Reason
from agent.inbox import Work
from agent.plans import store, wakes
from agent.plans.errands import as_they_are, put_together
from agent.plans.graph import outlook
from agent.plans.runner import Move, Runner
from agent.plans.stored import AT_WORK, Plan, put_down
from agent.plans.telling import ending, took, view
from agent.storage import conversation_rows, inbox_rows, outbox_rows
from agent.storage.errors import StorageTrouble
from agent.storage.fence import check_epoch
from agent.storage.moments import to_us
from agent.turn.pipeline import turn
from agent.turn.run import SHUTDOWN, Executed, Notice, Run, StagedChanges
from agent.turn.side_calls import SideCalls
from agent.turn.states import States
from agent.turn.synthesis import NotMade, propose, synthesised

log = logging.getLogger("tieline.plans")

SubagentsOf = Callable[[Run, States], Subagents]


class Planning:
    """One agent's. A plan's state is in the database; what is shown of it may vanish."""

    def __init__(self, states: States, subagents: SubagentsOf) -> None:
        self._states = states
        self._subagents = subagents
        self._gives_way = anyio.Event()

    def give_way(self) -> None:
        """A person has written."""
        self._gives_way.set()

    async def take(self, work: Work, definition: Callable[[], Definition]) -> Executed | None:
        """Do what the wake-up is for; None: it was an old one, and is done. Raises Fenced or StorageTrouble."""
        plan = await self._look(work)
        if plan is None:
            return None
        states, self._gives_way = self._states, anyio.Event()
        try:
            known = definition()
        except (AgentMissing, AgentInvalid, OSError) as error:
            log.error("plan %d rests without an agent definition: %s", plan.id, error)  # noqa: TRY400
            await self._end_early(work, Reason(key="agent_broken", values={"agent": states.instruction.name}))
            return None
        role = states.goal.role_of(plan) or work.incoming.role
        head = "Make a plan for:" if plan.status == "drafting" else "Carry out the confirmed plan for:"
        text = f"[plan {plan.id}] {head} {plan.goal}"
        work = replace(work, incoming=replace(work.incoming, text=text, role=role))
        executed = await turn(work, known, states, StagedChanges(), self._answer)
        await self._follow(plan.id)
        return executed

    # -- the turn

    async def _answer(self, run: Run, states: States) -> Executed:
        """What takes the place of the loop. Later turns see only what it says."""
        step = run.work.incoming.plan
        assert step is not None
        run.unheard = True
        run.closing = self._broken  # unless it ends in order
        plan = await states.runtime.database.read(lambda conn: store.find(conn, step.plan))
        if plan is None or plan.status not in AT_WORK:  # put down since the wake-up was looked at
            return Executed(verdict="answered")
        if plan.status == "drafting":
            return await self._draft(plan, run)
        return await self._carry_out(plan, run)

    async def _draft(self, plan: Plan, run: Run) -> Executed:
        """Ask the planner, and propose what it made."""
        states = self._states
        states.runtime.outbox.status(states.runtime.phrases("plan_making", plan.owner.language))
        try:
            made = await synthesised(plan, run, states, timeout_s=run.settings.plans.model_timeout_secs)
        except NotMade as error:
            run.closing = lambda conn, executed, at: self._put(
                conn, plan.id, lambda one: replace(one, status="failed", why=error.why), at
            )
            return Executed(verdict="failed", notice=Notice("plan_not_made", {"why": states.runtime.phrases(
                error.why.key, plan.owner.language, **error.why.values)}), error=str(error))  # fmt: skip
        if made is None:
            return self._stopped(plan)
        propose(made, run, states)
        return Executed(verdict="answered")

    async def _carry_out(self, plan: Plan, run: Run) -> Executed:
        """Run its tasks until nothing more can, and put the results together when all are done."""
        states, settings = self._states, run.settings.plans
        runner = Runner(
            subagents=self._subagents(run, states),
            settings=settings,
            request=run.id,
            cancel=run.token,
            change=lambda move, unless_others: self._change(plan.id, run, move, unless_others=unless_others),
            shown=self._show,
            gives_way=self._gives_way,
        )
        now = await runner.run()
        if run.token.fired:
            return self._stopped(plan)
        if now is None:
            run.closing = None
            return Executed(verdict="answered")
        match outlook(now.tasks, strategy=settings.failure_strategy):
            case "going":
                run.closing = lambda conn, executed, at: self._go_on(conn, now.id, at)
                return Executed(verdict="answered")
            case "asks":
                return self._rest(replace(now, status="waiting", why=Reason(key="plan_why_asks")), run)
            case "failed":
                return self._rest(replace(now, status="failed", why=Reason(key="plan_why_failed")), run)
            case "done":
                return await self._finish(now, run)

    async def _finish(self, plan: Plan, run: Run) -> Executed:
        """One answer out of all results; as they are, where no model puts them together."""
        states, settings = self._states, run.settings.plans
        states.runtime.outbox.status(states.runtime.phrases("plan_together", plan.owner.language))
        text = ""
        try:
            with run.interrupts.scope():
                ask = SideCalls(states, person=plan.owner.person)
                text = await put_together(plan.goal, plan.tasks, ask, settings)
        except (AgentError, TimeoutError) as error:
            if isinstance(error, (Fenced, StorageTrouble)):
                raise
            log.warning("the results of plan %d are given as they are: %s", plan.id, error)
        if run.token.fired:
            return self._stopped(plan)
        text = text or as_they_are(plan.tasks)
        _note(run, states, text)
        run.unheard, run.reaches_goal = False, True
        run.closing = lambda conn, executed, at: self._put(
            conn, plan.id, lambda one: replace(one, status="completed", why=None), at
        )
        done = sum(task.state == "completed" for task in plan.tasks)
        values: dict[str, object] = {"id": plan.id, "done": done, "count": len(plan.tasks), "money": took(plan)}
        return Executed(verdict="answered", text=text, notice=Notice("plan_done", values))

    def _rest(self, plan: Plan, run: Run) -> Executed:
        """It cannot go on by itself; its person is told with what they can do."""
        runtime = self._states.runtime

        def close(conn: Connection, executed: Executed, at: int) -> None:
            kept = self._put(
                conn, plan.id, lambda one: replace(one, status=plan.status, why=plan.why), at
            )
            if kept is not None:
                self._tell(conn, kept, at)

        run.closing = close
        log.info("plan %d is %s", plan.id, plan.status, extra={"conversation": runtime.outbox and plan.conversation})
        return Executed(verdict="answered")

    def _stopped(self, plan: Plan) -> Executed:
        """Somebody has stopped it, or the process ends; what /stop wrote of it stays."""
        return Executed(verdict="cancelled")

    # -- what is written

    def _broken(self, conn: Connection, executed: Executed, at: int) -> None:
        """The turn ended in a defect, over its time, or by a stop."""
        step = self._step
        if step is None:
            return

    async def _follow(self, id: int) -> None:
        """Let what is seen of it follow what is stored."""

    # -- inside
