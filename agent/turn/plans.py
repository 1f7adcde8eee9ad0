"""A turn whose answer is a stretch of a plan: making it, carrying it out, putting its results together (SPEC §13.3).

It gives way to people: some seconds after one has written it lets go of what it is at, and goes on behind them.
"""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

import anyio
from sqlalchemy import Connection

from agent.core.errors import AgentError, Fenced
from agent.core.groups import first_error
from agent.goals.stored import Reason
from agent.plans import store, wakes
from agent.plans.graph import MOST_CUT_OFFS, cost_of, outlook, preempted
from agent.plans.runner import Move, Runner
from agent.plans.stored import AT_WORK, Plan, paused
from agent.plans.task_prompts import as_they_are, put_together
from agent.plans.telling import as_written, ending, took, view
from agent.storage import conversation_rows, outbox_rows
from agent.storage.errors import StorageTrouble
from agent.storage.fence import check_epoch
from agent.storage.timestamps import to_timestamp
from agent.turn.notes import read_notes, says_terminated
from agent.turn.recalling import open_memory, recall
from agent.turn.requests import recall_uses
from agent.turn.run import Executed, Notice, Run
from agent.turn.side_calls import SideCalls
from agent.turn.states import States
from agent.turn.synthesis import NotMade, note, synthesised, write_proposal

log = logging.getLogger("tieline.plans")


class PlanTurns:
    """One agent's: how often calls for a plan were cut off is remembered from turn to turn."""

    def __init__(self, states: States) -> None:
        self._states = states
        self._preemptible = anyio.Event()
        self._cut_off = (0, 0)  # the plan whose calls of a model were cut off last, and how often

    def begin(self) -> None:
        """The turn that comes gives way to what people write from now on."""
        self._preemptible = anyio.Event()

    def give_way(self) -> None:
        """A person has written."""
        self._preemptible.set()

    async def answer(self, run: Run, states: States) -> Executed:
        """What takes the place of the loop. Later turns see only what it says."""
        step = run.work.incoming.plan
        assert step is not None
        run.hidden_from_history, run.on_commit = True, partial(self._broken, step.plan)
        plan = await states.runtime.database.read(lambda conn: store.find(conn, step.plan))
        if plan is None or plan.status not in AT_WORK:  # put down since the wake-up was looked at
            return Executed(verdict="answered")
        notes = await read_notes(states.memory, run.settings.context.memory_chars, states.runtime.clock.now())
        if says_terminated(notes):
            run.on_commit = partial(self._ends, paused(plan, Reason(key="plan_why_retired")))
            return Executed(verdict="answered")
        return await (self._draft(plan, run) if plan.status == "drafting" else self._carry_out(plan, run))

    async def _draft(self, plan: Plan, run: Run) -> Executed:
        """Ask the planner, and propose what it made."""
        states = self._states
        states.runtime.outbox.status(states.runtime.phrases("plan_making", plan.owner.language))
        made = None
        try:
            async with self._giving_way(plan, run) as within:
                made = await synthesised(plan, run, states, timeout_s=run.settings.plans.model_timeout_secs)
        except NotMade as error:
            log.warning("no plan was made: %s", error, extra={"run": run.id})
            failed = replace(plan, status="failed", why=error.why)
            run.on_commit = partial(self._ends, failed)
            return Executed(verdict="failed", error=str(error))
        if within.cancelled_caught and not run.token.fired:
            return self._postpone(plan, run)
        if made is None:
            return Executed(verdict="cancelled")
        run.on_commit = partial(self._proposes, made)
        note(as_written(made), run, states)
        return Executed(verdict="answered")

    async def _carry_out(self, plan: Plan, run: Run) -> Executed:
        """Run its tasks until nothing more can, and put the results together when all are done."""
        states, settings = self._states, run.settings.plans
        await open_memory(run, states)
        await recall(run, states)
        await recall_uses(run, states)
        run.progress.cost_usd += cost_of(plan.tasks) or 0.0  # the run's limit is that of the whole plan
        runner = Runner(
            subagents=states.tool.subagent_runner.of(run, most=settings.max_parallel),
            settings=settings,
            request=run.id,
            cancel=run.token,
            change=partial(self._change, plan.id, run),
            shown=partial(show, states=states),
            preemptible=self._preemptible,
        )
        now = await runner.run()
        if run.token.fired:
            return Executed(verdict="cancelled")
        if now is None:
            return Executed(verdict="answered")
        match outlook(now.tasks, strategy=settings.failure_strategy):
            case "going":
                run.on_commit = partial(self._goes_on, plan.id)
                return Executed(verdict="answered")
            case "asks":
                run.on_commit = partial(self._ends, replace(now, status="waiting", why=Reason(key="plan_why_asks")))
                return Executed(verdict="answered")
            case "failed":
                run.on_commit = partial(self._ends, replace(now, status="failed", why=Reason(key="plan_why_failed")))
                return Executed(verdict="failed", error="a task of the plan failed")
            case "done":
                return await self._finish(now, run)

    async def _finish(self, plan: Plan, run: Run) -> Executed:
        """One answer out of all results; as they are, where no model puts them together."""
        states = self._states
        states.runtime.outbox.status(states.runtime.phrases("plan_together", plan.owner.language))
        text = ""
        try:
            async with self._giving_way(plan, run) as within:
                with run.interrupts.scope():
                    ask = SideCalls(states, person=plan.owner.person)
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
        note(text, run, states)
        run.reaches_goal = True
        run.on_commit = partial(self._ends, replace(plan, status="completed", why=None))
        done = sum(task.state == "completed" for task in plan.tasks)
        values: dict[str, object] = {"id": plan.id, "done": done, "count": len(plan.tasks), "money": took(plan)}
        return Executed(verdict="answered", text=text, notice=Notice("plan_done", values))

    @asynccontextmanager
    async def _giving_way(self, plan: Plan, run: Run) -> AsyncIterator[anyio.CancelScope]:
        """Around a call of a model: some seconds after a person has written it is cut off, a few times at most."""
        id, times = self._cut_off

        async def watch(scope: anyio.CancelScope) -> None:
            await self._preemptible.wait()
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
        run.on_commit = partial(self._goes_on, plan.id)
        return Executed(verdict="answered")

    # -- what is written with the end of the turn

    def _proposes(self, made: Plan, conn: Connection, executed: Executed, at: int) -> None:
        write_proposal(conn, made, self._states, at)

    def _ends(self, after: Plan, conn: Connection, executed: Executed, at: int) -> None:
        """It is as `after` says, unless somebody has put it down meanwhile; whoever asked for it is told."""
        now = store.find(conn, after.id)
        if now is None or now.status not in AT_WORK:
            return
        store.save(conn, after, at)
        if after.status != "completed":  # that is told with its results
            write_ending(conn, after, self._states, at)

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
        wakes.schedule_wake_up(conn, after, at=at)

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
        write_ending(conn, rests, self._states, at)

    async def _change(self, id: int, run: Run, move: Move, unless_others: bool) -> Plan | None:
        """One step of the plan, on disk before anything follows from it."""
        conversation, at = self._states.session.conversation, self._at()

        def write(conn: Connection) -> Plan | None:
            # The lock first: two tasks that end at once and hold the fence's share of it would wait for each other.
            conversation_rows.lock_row(conn, conversation)
            check_epoch(conn, conversation, run.work.epoch)
            plan = store.find(conn, id)
            if plan is None or plan.status != "running":
                return None
            if unless_others and wakes.others_wait(conn, conversation, but=run.work.inbox_id, now=at):
                return plan
            after = move(plan)
            if after != plan:
                store.save(conn, after, at)
            return after

        return await self._states.runtime.database.write(write)

    def _at(self) -> int:
        return to_timestamp(self._states.runtime.clock.now())


def write_ending(conn: Connection, plan: Plan, states: States, at: int) -> None:
    """Tell whoever asked for it how it ended, or that it rests; once."""
    runtime = states.runtime
    outbox_rows.add(
        conn,
        conversation=plan.conversation,
        inbox_id=None,
        part=0,
        dedup=f"plan:{plan.id}:{plan.ticks}:{plan.status}",
        say=ending(plan, runtime.phrases, runtime.plan_buttons),
        at=at,
    )


def show(plan: Plan, states: States) -> None:
    """How far it has come, in the message that follows it."""
    runtime = states.runtime
    runtime.outbox.live(view(plan, runtime.phrases), runtime.plan_buttons("stop", plan))
