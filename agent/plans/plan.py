"""A kept plan: its goal, its tasks, its progress. Values; nothing here reads or writes."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from agent.core.ids import ConversationId
from agent.goals.goal import Owner, Reason
from agent.plans.settings import Strategy

# Tasks of a plan and the moves they may make: an acyclic graph in, the next graph out.

State = Literal["pending", "queued", "running", "completed", "failed", "aborted", "skipped", "interrupted"]
Outlook = Literal["going", "done", "failed", "asks"]

OVER: frozenset[State] = frozenset({"completed", "aborted", "skipped"})
MOST_CUT_OFFS = 2  # afterwards a task is not cut off any more, or a talkative chat would never see its end


class Impossible(ValueError):
    """The tasks are no plan. `key` names the sentence that says why."""

    def __init__(self, key: str, **values: object) -> None:
        super().__init__(key)
        self.key = key
        self.values = values


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """`needs` are the numbers of those that must be completed before. `on_failure` None: as the gateway does it.

    `attempts` counts its runs, `failures` those in a row that failed, `cut_off` those that ended for a person's sake.
    `result` is what it found, or why it failed. `cost` is in USD; None: a price is unknown.
    """

    id: int
    title: str
    text: str
    needs: tuple[int, ...] = ()
    on_failure: Strategy | None = None
    state: State = "pending"
    attempts: int = 0
    failures: int = 0
    cut_off: int = 0
    result: str = ""
    cost: float | None = 0.0


Tasks = tuple[Task, ...]


def checked(tasks: Tasks, *, most: int) -> Tasks:
    """The same tasks, if they are a plan: some, not too many, each need there, no circle. Raises Impossible."""
    if not tasks:
        raise Impossible("plan_why_empty")
    if len(tasks) > most:
        raise Impossible("plan_why_many", count=len(tasks), limit=most)
    known = {task.id for task in tasks}
    if len(known) != len(tasks):
        raise Impossible("plan_why_twice")
    for task in tasks:
        strange = [need for need in task.needs if need not in known]
        if strange:
            raise Impossible("plan_why_need", task=task.id, need=strange[0])
    left = {task.id: set(task.needs) for task in tasks}
    while left:
        free = {id for id, needs in left.items() if not needs}
        if not free:
            raise Impossible("plan_why_circle", tasks=", ".join(map(str, sorted(left))))
        left = {id: needs - free for id, needs in left.items() if id not in free}
    return tasks


def task_of(tasks: Tasks, id: int) -> Task:
    return next(task for task in tasks if task.id == id)


def queued(tasks: Tasks) -> Tasks:
    """The tasks, in which those whose needs are met wait for a free place."""
    done = {task.id for task in tasks if task.state == "completed"}
    return _each(tasks, lambda task: task.state == "pending" and done.issuperset(task.needs), state="queued")


def begun(tasks: Tasks, *, most: int) -> tuple[Tasks, tuple[int, ...]]:
    """The tasks, in which as many as fit run now, and the numbers of these."""
    tasks = queued(tasks)
    room = most - sum(task.state == "running" for task in tasks)
    ids = tuple(task.id for task in tasks if task.state == "queued")[: max(0, room)]
    return tuple(
        replace(task, state="running", attempts=task.attempts + 1, result="") if task.id in ids else task
        for task in tasks
    ), ids


def finished(tasks: Tasks, id: int, result: str, cost: float | None) -> Tasks:
    return tuple(
        replace(task, state="completed", result=result, failures=0, cost=_sum(task.cost, cost))
        if task.id == id and task.state == "running"
        else task
        for task in tasks
    )


def failed(tasks: Tasks, id: int, why: str, cost: float | None, *, strategy: Strategy, max_retries: int) -> Tasks:
    """A run of it failed: tried again, left out with what needs it, left to a person, or the end of it all."""
    before = task_of(tasks, id)
    if before.state != "running":
        return tasks
    how = before.on_failure or strategy
    after = replace(before, state="failed", failures=before.failures + 1, result=why, cost=_sum(before.cost, cost))
    tasks = tuple(after if task.id == id else task for task in tasks)
    match how:
        case "retry" if after.failures <= max_retries:
            return _each(tasks, lambda task: task.id == id, state="pending")
        case "skip":
            return left_out(tasks)
        case "ask":
            return tasks
        case _:
            return aborted(tasks)


def aborted(tasks: Tasks) -> Tasks:
    """Cancel every task that is not over; failed ones stay so."""
    return _each(tasks, lambda task: task.state not in OVER | {"failed"}, state="aborted")


def left_out(tasks: Tasks) -> Tasks:
    """Leave out what failed, and everything that needs it."""
    gone = {task.id for task in tasks if task.state in ("failed", "skipped")}
    grows = True
    while grows:
        more = {task.id for task in tasks if task.state not in OVER and gone.intersection(task.needs)} - gone
        gone |= more
        grows = bool(more)
    return _each(tasks, lambda task: task.id in gone and task.state not in OVER, state="skipped")


def preempted(tasks: Tasks, id: int, cost: float | None) -> Tasks:
    """Its run was cut off for a person's sake; it runs again afterwards, and is told so."""
    return tuple(
        replace(task, state="pending", cut_off=task.cut_off + 1, cost=_sum(task.cost, cost))
        if task.id == id and task.state == "running"
        else task
        for task in tasks
    )


def may_be_cut_off(task: Task) -> bool:
    return task.cut_off < MOST_CUT_OFFS


def interrupted(tasks: Tasks) -> Tasks:
    """Nobody runs them any more: those that ran wait for a person's word, those that would have run next wait again."""
    tasks = _each(tasks, lambda task: task.state == "running", state="interrupted")
    return _each(tasks, lambda task: task.state == "queued", state="pending")


def resumed(tasks: Tasks) -> Tasks:
    """A person wants it to go on: what was interrupted runs again, what failed is left out."""
    return left_out(_each(tasks, lambda task: task.state == "interrupted", state="pending"))


def tried_again(tasks: Tasks) -> Tasks:
    """A person wants everything tried again that is not done."""
    return tuple(
        task if task.state == "completed" else replace(task, state="pending", failures=0, cut_off=0) for task in tasks
    )


def outlook(tasks: Tasks, *, strategy: Strategy) -> Outlook:
    """Whether there is more to run; if not, how it came out. All left out is no success."""
    if any(task.state == "failed" and (task.on_failure or strategy) in ("abort", "retry") for task in tasks):
        return "failed"
    if any(task.state in ("running", "queued") for task in queued(tasks)):
        return "going"
    if any(task.state == "failed" for task in tasks):
        return "asks"
    if any(task.state in ("aborted", "interrupted") for task in tasks):
        return "failed"
    return "done" if any(task.state == "completed" for task in tasks) else "failed"


def cost_of(tasks: Collection[Task]) -> float | None:
    """Their cost in USD; None: a price is unknown."""
    total: float | None = 0.0
    for task in tasks:
        total = _sum(total, task.cost)
    return total


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


def _each(tasks: Tasks, fits: Callable[[Task], bool], *, state: State) -> Tasks:
    return tuple(replace(task, state=state) if fits(task) else task for task in tasks)


# drafting: the planner is asked. proposed: a person must confirm it. waiting: a person must say what a failed task
# means. interrupted: a restart or a stop cut it off; a person must say that it goes on.
Status = Literal["drafting", "proposed", "running", "waiting", "interrupted", "completed", "failed", "cancelled"]

OPEN: frozenset[Status] = frozenset({"drafting", "proposed", "running", "waiting", "interrupted"})
GATE = "gate:"  # begins the origin of a plan that the workflow gate made
AT_WORK: frozenset[Status] = frozenset({"drafting", "running"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The estimate of carrying it out: calls of the model, tokens, and money (None: no price is known)."""

    calls: int
    tokens: int
    usd: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`origin` is the message that asked for it, or `gate:<inbox row>` where the workflow gate made it. `ticks` numbers
    its wake-ups. `why` tells why it rests; `redacted`: something was taken out of the goal. `decided_by` is shown.
    """

    id: int
    conversation: ConversationId
    origin: str
    owner: Owner
    goal: str
    status: Status
    tasks: Tasks = ()
    estimate: Estimate | None = None
    why: Reason | None = None
    redacted: bool = False
    decided_by: str = ""
    ticks: int = 0
    created_at: datetime
    updated_at: datetime

    @property
    def is_open(self) -> bool:
        return self.status in OPEN


def paused(plan: Plan, why: Reason) -> Plan:
    """Nobody works on it any more: one that was being made ends, one that ran waits for a person's word."""
    if plan.status == "drafting":
        return replace(plan, status="failed", why=why)
    return replace(plan, status="interrupted", tasks=interrupted(plan.tasks), why=why)
