"""The runner of a plan: has sub-agents do its tasks, several at once, until nothing more can run.

The database is the truth: a task is written as running before it runs, and its end before what follows from it. What
it needs of the conversation it is handed; it speaks to nobody.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

import anyio
from anyio.abc import TaskGroup

from agent.core.cancellation import CancelToken, first_error
from agent.core.tools import Finding, Subagents, SubagentTask
from agent.plans.plan import Plan, Task, begun, failed, finished, may_be_cut_off, preempted, task_of
from agent.plans.planner import subagent_task_for
from agent.plans.settings import PlanSettings

LET_GO_S = 0.7  # for sub-agents that were stopped; a stop takes less than a second
GAVE_WAY, NOT_WANTED = "a person has written", "the plan has ended"

Move = Callable[[Plan], Plan]
# Reads the plan, changes it and writes it in one transaction; None: it does not run any more. With True nothing is
# changed where other work waits in the conversation.
Change = Callable[[Move, bool], Awaitable[Plan | None]]


@dataclass(slots=True, kw_only=True)
class Runner:
    """One stretch of work on one plan.

    `shown` is given the plan after each change. `preemptible` is set when a person has written: no task begins any
    more, and those that run have some seconds.
    """

    subagents: Subagents
    settings: PlanSettings
    request: str
    cancel: CancelToken
    change: Change
    shown: Callable[[Plan], None]
    preemptible: anyio.Event
    _active: dict[int, CancelToken] = field(default_factory=dict)
    _changed: anyio.Event = field(default_factory=anyio.Event)

    async def run(self) -> Plan | None:
        """The plan as this stretch leaves it; None: somebody has put it down. Raises what `change` does.

        It ends when nothing runs and nothing can begin, when other work waits, or when it is stopped: then what ran
        stands as running still.
        """
        plan: Plan | None = None
        with first_error():
            async with anyio.create_task_group() as group:
                group.start_soon(self._watch_stop, group)
                group.start_soon(self._watch_people)
                while not self.cancel.fired:
                    self._changed = anyio.Event()
                    plan = await self._begin(group)
                    if plan is None:
                        self._let_go(NOT_WANTED)
                    if not self._active:
                        break
                    await self._changed.wait()
                if self.cancel.fired:
                    await anyio.sleep_forever()  # until `_watch_stop` ends it
                group.cancel_scope.cancel()
        return plan

    async def _begin(self, group: TaskGroup) -> Plan | None:
        """Start what may start. Running ones that the plan has given up are let go."""
        subagent_tasks: dict[int, SubagentTask] = {}

        def move(plan: Plan) -> Plan:
            tasks, ids = begun(plan.tasks, most=self.settings.max_parallel)
            for id in ids:
                subagent_tasks[id] = subagent_task_for(task_of(plan.tasks, id), plan.tasks, plan.goal, self.settings)
            return replace(plan, tasks=tasks)

        if self.preemptible.is_set():
            plan = await self.change(lambda plan: plan, False)
        else:
            plan = await self.change(move, True)
        if plan is None:
            return None
        self.shown(plan)
        if self.cancel.fired:  # meanwhile: what was written as running is written as interrupted next
            return plan
        for task in plan.tasks:
            if task.id in self._active and task.state != "running":
                self._active[task.id].fire(NOT_WANTED)
            elif task.id in subagent_tasks and task.state == "running":
                token = self._active[task.id] = CancelToken()
                group.start_soon(self._one, task, subagent_tasks[task.id], token)
        return plan

    async def _one(self, task: Task, subagent_task: SubagentTask, token: CancelToken) -> None:
        """Have it run, and write what became of it."""
        finding = await self.subagents.run(subagent_task, request=f"{self.request}:{task.id}-sub", cancel=token)
        if not self.cancel.fired:
            await self.change(lambda plan: _after(plan, task.id, finding, token, self.settings), False)
        del self._active[task.id]
        self._changed.set()

    async def _watch_stop(self, group: TaskGroup) -> None:
        await self.cancel.wait()
        self._let_go(self.cancel.reason)
        self._changed.set()
        with anyio.move_on_after(LET_GO_S):
            while self._active:
                await self._changed.wait()
                self._changed = anyio.Event()
        group.cancel_scope.cancel()

    async def _watch_people(self) -> None:
        """Let what runs go on for a while, then cut off what may be cut off; the rest is waited for."""
        await self.preemptible.wait()
        await anyio.sleep(self.settings.give_way_secs)
        plan = await self.change(lambda plan: plan, False)
        for task in plan.tasks if plan is not None else ():
            if task.id in self._active and may_be_cut_off(task):
                self._active[task.id].fire(GAVE_WAY)

    def _let_go(self, reason: str) -> None:
        for token in self._active.values():
            token.fire(reason)


def _after(plan: Plan, id: int, finding: Finding, token: CancelToken, settings: PlanSettings) -> Plan:
    if not finding.is_error:
        tasks = finished(plan.tasks, id, finding.text, finding.cost)
    elif token.fired and token.reason == GAVE_WAY:
        tasks = preempted(plan.tasks, id, finding.cost)
    else:
        tasks = failed(
            plan.tasks,
            id,
            finding.text,
            finding.cost,
            strategy=settings.failure_strategy,
            max_retries=settings.max_retries,
        )
    return replace(plan, tasks=tasks)
