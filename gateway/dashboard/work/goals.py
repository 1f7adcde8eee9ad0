"""Goals, plans and sub-agents of all places, and how an operator stops what goes on without a person."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from sqlalchemy import Connection
from starlette.requests import Request

from agent.core.clock import Clock
from agent.core.ids import ConversationId
from agent.goals import store as goal_store
from agent.goals.driver import is_held
from agent.goals.goal import Goal, Limits, Status, raised, spent_limit
from agent.goals.service import GoalRefused, why_of
from agent.goals.settings import GoalSettings
from agent.plans import store as plan_store
from agent.plans.plan import OVER, Plan
from agent.plans.service import PlanRefused
from agent.storage.database import Database
from gateway.commands.work import goals as goal_commands
from gateway.commands.work import plans as plan_commands
from gateway.dashboard.frame.listing import PAGE, asked, listing
from gateway.dashboard.frame.readings import Readings
from gateway.dashboard.frame.shell import Done, Page, Section, action, named, person_of, rights_of, view
from gateway.phrases.catalogue import Catalogue
from gateway.running.durable_work import DurableWork
from gateway.running.turns import TurnServices
from gateway.storage import conversation_list
from gateway.web.control import OperationError
from gateway.web.overview import HELD

MOST_PLANS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownGoal:
    """A goal that somebody has set. `state` and `why` are in words; `is_spent`: a limit is reached.

    False `runs`: it is not worked on now.
    """

    goal: Goal
    state: str
    runs: bool
    why: str
    limits: str
    is_spent: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownPlan:
    """An open plan, how many of its tasks are over, and why it rests."""

    plan: Plan
    over: int
    why: str
    usd: float
    unpriced: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalPages:
    """The page and its actions, by the services of /goal and /plan."""

    database: Database
    clock: Clock
    work: DurableWork
    turns: TurnServices
    switched_off: Callable[[], Collection[str]]
    goal_settings: Callable[[], GoalSettings]
    phrase: Catalogue
    readings: Readings

    def section(self) -> Section:
        """The section."""
        return Section(
            title="Goals and plans",
            group="Work",
            entries=(
                view("/goals", self.all),
                action("/goal/pause/{number}", self.pause, name="goals.pause"),
                action("/goal/resume/{number}", self.resume, name="goals.resume"),
                action("/goal/raise/{number}", self.allow_more, name="goals.raise"),
                action("/goal/clear/{number}", self.clear, name="goals.clear"),
                action("/plan/stop/{number}", self.stop_plan, name="plans.stop"),
                action("/plan/resume/{number}", self.resume_plan, name="plans.resume"),
                action("/plan/cancel/{number}", self.cancel_plan, name="plans.cancel"),
            ),
        )

    async def all(self, request: Request) -> Page:
        """Goals and plans, the open ones first; sub-agents at work. Texts are for who may read transcripts."""
        look = asked(request.query_params, filters={"status": get_args(Status)})
        working = self.turns.subagent_registry.working(None)

        def read(
            conn: Connection,
        ) -> tuple[Sequence[Goal], Sequence[Plan], Mapping[ConversationId, str]]:
            found = goal_store.everywhere(conn, status=look.chosen["status"], most=PAGE + 1, skip=look.skip)
            plans = plan_store.all_open(conn, most=MOST_PLANS)
            places = {goal.conversation for goal in found} | {plan.conversation for plan in plans}
            places |= {one.conversation for one in working}
            return found, plans, conversation_list.names(conn, places)

        found, plans, names = await self.database.read(read)
        off, may_read = self.switched_off(), "transcripts" in rights_of(request)
        settings = self.goal_settings()
        if may_read and (found or plans or working):
            await self.readings.note(request, "goals.read", "all conversations")
        values = {
            "listing": listing([self._goal(goal, settings) for goal in found], look),
            "statuses": [(one, self.phrase(f"goal_{one}", "en")) for one in get_args(Status)],
            "plans": [self._plan(plan) for plan in plans],
            "working": working,
            "names": names,
            "may_read": may_read,
            "goals_off": "agent.goal" in off,
            "plans_off": "plans" in off,
            "alone_off": not settings.may_work_alone,
        }
        return Page(template="goals.html", values=values, live=True)

    def _goal(self, goal: Goal, settings: GoalSettings) -> ShownGoal:
        auto = goal.auto
        held = is_held(goal, settings)
        # Only people work on it, or its own work was ended by a limit, a stop or a person: as the chat calls it.
        key = f"goal_{goal.status}" if auto is None or auto.state == "aborted" else f"auto_{auto.state}"
        state = self.phrase(key, "en")
        return ShownGoal(
            goal=goal,
            state=HELD if held else state,
            runs=goal.is_autonomous and not held,
            why=why_of(goal.why, self.phrase, "en") if goal.why is not None else "",
            limits=goal_commands.told_limits(goal.limits, self.phrase, "en"),
            is_spent=spent_limit(goal.limits, goal.used) is not None,
        )

    def _plan(self, plan: Plan) -> ShownPlan:
        costs = [task.cost for task in plan.tasks]
        return ShownPlan(
            plan=plan,
            over=sum(task.state in OVER for task in plan.tasks),
            why=why_of(plan.why, self.phrase, "en") if plan.why is not None else "",
            usd=sum(cost or 0.0 for cost in costs),
            unpriced=sum(cost is None for cost in costs),
        )

    # -- goals

    async def pause(self, request: Request) -> Done:
        """It rests, and the turn that works on it ends."""
        return await self._end(request, self.work.goals.pause, "{} is paused.")

    async def clear(self, request: Request) -> Done:
        """It is not wanted any more."""
        return await self._end(request, self.work.goals.clear, "{} is cleared.")

    async def resume(self, request: Request) -> Done:
        """It is worked on by itself again."""
        return await self._resume(request, await self._goal_of(request), Limits())

    async def allow_more(self, request: Request) -> Done:
        """The same, with as much again of the limits that it has reached."""
        goal = await self._goal_of(request)
        return await self._resume(request, goal, raised(goal.limits, goal.used))

    async def _end(
        self, request: Request, end: Callable[[ConversationId, int | None], Awaitable[Goal]], text: str
    ) -> Done:
        goal = await self._goal_of(request)
        try:
            await end(goal.conversation, goal.id)
        except GoalRefused as refusal:
            raise self._refused(refusal) from refusal
        if goal.auto is not None:  # else a turn that works by itself there works on another goal
            by = f"web:{person_of(request).id}"
            goal_commands.let_go(self.turns, goal.conversation, by, self.clock.now())
        return Done(text=text.format(_told(request, goal)), subject=_subject("goal", goal))

    async def _resume(self, request: Request, goal: Goal, limits: Limits) -> Done:
        try:
            await self.work.goals.resume(goal.conversation, goal.id, limits=limits, autonomous=goal.auto is not None)
        except GoalRefused as refusal:
            raise self._refused(refusal) from refusal
        return Done(text=f"{_told(request, goal)} goes on.", subject=_subject("goal", goal))

    def _refused(self, refusal: GoalRefused) -> OperationError:
        return OperationError(goal_commands.refusal_text(refusal, self.phrase, "en"))

    async def _goal_of(self, request: Request) -> Goal:
        if "agent.goal" in self.switched_off():  # the commands are not there then either
            raise OperationError("goals are switched off in the configuration", fix="see [agent.goal]")
        number = _number(request, "goal")
        found = await self.database.read(lambda conn: goal_store.find(conn, number))
        if found is None:
            raise LookupError(f"There is no goal {number}.")
        return found

    # -- plans

    async def stop_plan(self, request: Request) -> Done:
        """It waits for a person's word, and the turn that works on it ends."""
        plan = await self._plan_of(request)
        halted = await self.work.plans.halt(plan.conversation, person_of(request).display)
        if halted is None or halted.id != plan.id:
            raise OperationError(f"nobody works on plan {plan.id} now")
        self._let_go(request, plan)
        return Done(text=f"{_told(request, plan)} is stopped.", subject=_subject("plan", plan))

    async def cancel_plan(self, request: Request) -> Done:
        """It is not wanted any more."""
        plan = await self._changed(request, self.work.plans.cancel)
        self._let_go(request, plan)
        return Done(text=f"{_told(request, plan)} is cancelled.", subject=_subject("plan", plan))

    async def resume_plan(self, request: Request) -> Done:
        """It goes on with the tasks that are left."""
        plan = await self._changed(request, self.work.plans.resume)
        return Done(text=f"{_told(request, plan)} goes on.", subject=_subject("plan", plan))

    async def _changed(
        self, request: Request, change: Callable[[ConversationId, int | None, str], Awaitable[Plan]]
    ) -> Plan:
        plan = await self._plan_of(request)
        try:
            return await change(plan.conversation, plan.id, person_of(request).display)
        except PlanRefused as refusal:
            raise OperationError(self.phrase(refusal.key, "en", **refusal.values)) from refusal

    def _let_go(self, request: Request, plan: Plan) -> None:
        plan_commands.let_go(self.turns, plan, f"web:{person_of(request).id}", self.clock.now())

    async def _plan_of(self, request: Request) -> Plan:
        if "plans" in self.switched_off():
            raise OperationError("plans are switched off in the configuration", fix="see [plans]")
        number = _number(request, "plan")
        found = await self.database.read(lambda conn: plan_store.find(conn, number))
        if found is None:
            raise LookupError(f"There is no plan {number}.")
        return found


def _number(request: Request, what: str) -> int:
    text: str = request.path_params["number"]
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise LookupError(f"There is no {what} {text}.")
    return int(text)


def _told(request: Request, one: Goal | Plan) -> str:
    """The goal or plan in a sentence."""
    if isinstance(one, Goal):
        return named(request, f"Goal {one.id}", one.text)
    return named(request, f"Plan {one.id}", one.goal)


def _subject(what: str, one: Goal | Plan) -> str:
    return f"{what} {one.id} in {one.conversation}"
