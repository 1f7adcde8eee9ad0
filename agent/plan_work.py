"""An agent's work on plans: each wake-up from its own loop leads to a turn, or its plan rests.

Behind what people say, and one turn after another: a plan never runs beside a turn.
"""

import logging
from collections.abc import Callable
from dataclasses import replace

from sqlalchemy import Connection

from agent.core.errors import AgentInvalid, AgentMissing
from agent.core.events import PlanMoved
from agent.definitions import Definition
from agent.features.goals import GoalState
from agent.features.plans import PlanFeature
from agent.goals.goal import Reason
from agent.goals.store import short
from agent.inbox import HeldRoles, Work
from agent.plans import store
from agent.plans.plan import AT_WORK, Plan, paused
from agent.run.run import Executed, StagedChanges
from agent.sessions import runs
from agent.storage import conversation_rows, inbox_rows
from agent.storage.database import check_epoch
from agent.storage.timestamps import to_timestamp
from agent.turn.pipeline import turn
from agent.turn.states import States

log = logging.getLogger("tieline.plans")


class Planning:
    """One agent's. A plan's state is in the database; what is shown of it may vanish."""

    def __init__(self, states: States, goal: GoalState, plans: PlanFeature) -> None:
        self._states = states
        self._goal = goal
        self.working_on: int | None = None  # the plan that the run of now belongs to
        self._turns = plans

    def give_way(self) -> None:
        """A person has written."""
        self._turns.give_way()
        self._turns.plans.heard(self._states.session.conversation)

    async def take(self, work: Work, definition: Callable[[], Definition]) -> Executed | None:
        """Do what the wake-up is for; None: it led to nothing, and is done. Raises Fenced or StorageTrouble."""
        states = self._states
        plan = await self._wanted(work)
        if plan is None:
            return None
        try:
            known = definition()
        except (AgentMissing, AgentInvalid, OSError) as error:
            log.error("plan %d rests without an agent definition: %s", plan.id, error)  # noqa: TRY400
            await self._rests(work, Reason(key="agent_broken", values={"agent": states.instruction.name}))
            return None
        self._turns.begin()
        head = "Make a plan for" if plan.status == "drafting" else "Carry out the confirmed plan for"
        today = self._goal.deps.role_of(plan) or HeldRoles(work.incoming.role, work.incoming.roles)
        text = f"[plan {plan.id}] {head}: {short(plan.goal)}"
        work = replace(work, incoming=replace(work.incoming, text=text, role=today.role, roles=today.roles))
        self.working_on = plan.id
        try:
            executed = await turn(work, known, states, StagedChanges(), self._turns.answer)
        finally:
            self.working_on = None
        if executed.verdict == "refused":  # before anything of it was heard: nothing would wake it again
            await self._rests(work, Reason(key="plan_why_refused"))
        else:
            await self._follow(plan.id)
        return executed

    # -- before the turn

    async def _wanted(self, work: Work) -> Plan | None:
        """The plan, if this is its newest wake-up and nothing forbids it."""
        states, step = self._states, work.incoming.plan
        assert step is not None
        conversation = states.session.conversation
        rests: list[Plan] = []

        def look(conn: Connection) -> Plan | None:
            check_epoch(conn, conversation, work.epoch)
            conversation_rows.lock_row(conn, conversation)
            plan = store.find(conn, step.plan)
            if plan is None or plan.status not in AT_WORK or plan.ticks != step.tick:
                inbox_rows.finish(conn, work.inbox_ids, "done", work.epoch)
                return None
            why = self._bar(conn, plan)
            if why is not None:
                rests.append(self._put_to_rest(conn, plan, why, work))
                return None
            return plan

        with states.runtime.outbox.committing():
            plan = await states.runtime.services.database.write(look)
        for one in rests:
            await self._follow(one.id)
        return plan

    def _bar(self, conn: Connection, plan: Plan) -> Reason | None:
        """The obstacle from outside, if any. A task that stands as running was cut off: nobody runs it unseen again."""
        states = self._states
        if not states.runtime.settings.plans.enabled:
            return Reason(key="plan_why_off")
        if self._goal.deps.role_of(plan) is None:
            return Reason(key="plan_why_blocked")
        if conversation_rows.is_gone(conn, plan.conversation):
            return Reason(key="goal_why_gone")
        if not self._goal.deps.reachable(plan.conversation):
            return Reason(key="goal_why_login")
        if any(task.state == "running" for task in plan.tasks):
            return Reason(key="plan_why_broken")
        return None

    async def _rests(self, work: Work, why: Reason) -> None:
        step, conversation = work.incoming.plan, self._states.session.conversation
        assert step is not None

        def write(conn: Connection) -> None:
            check_epoch(conn, conversation, work.epoch)
            conversation_rows.lock_row(conn, conversation)
            plan = store.find(conn, step.plan)
            if plan is not None and plan.status in AT_WORK and plan.ticks == step.tick:
                self._put_to_rest(conn, plan, why, work)

        with self._states.runtime.outbox.committing():
            await self._states.runtime.services.database.write(write)
        await self._follow(step.plan)

    def _put_to_rest(self, conn: Connection, plan: Plan, why: Reason, work: Work) -> Plan:
        at = self._at()
        rests = paused(plan, why)
        store.save(conn, rests, at)
        runs.end_run(conn, work.inbox_id, "cancelled", at)
        inbox_rows.finish(conn, work.inbox_ids, "done", work.epoch)
        self._turns.write_ending(conn, rests, at)
        return rests

    # -- what is seen

    async def _follow(self, id: int) -> None:
        """Let what people see, and those who wait, follow what is stored."""
        states = self._states
        plan = await states.runtime.services.database.read(lambda conn: store.find(conn, id))
        if plan is None:
            return
        if plan.status in AT_WORK:
            self._goal.deps.ring(plan.conversation)  # its next wake-up is due
        if plan.status == "running":
            self._turns.show(plan)
        else:
            states.runtime.outbox.live("")
        self._turns.plans.tell(id)
        done = sum(task.state == "completed" for task in plan.tasks)
        states.runtime.services.bus.publish(
            PlanMoved(
                conversation=plan.conversation, plan=id, status=plan.status, completed=done, tasks=len(plan.tasks)
            )
        )

    def _at(self) -> int:
        return to_timestamp(self._states.runtime.services.clock.now())
