"""Execution of a plan: parallel tasks, a stop, a person's message."""

from dataclasses import replace
from datetime import UTC, datetime

import anyio

from agent.core.cancellation import CancelToken
from agent.core.ids import ConversationId
from agent.goals.goal import Owner
from agent.plans.plan import Plan, Task, outlook
from agent.plans.runner import Move, Runner
from agent.plans.settings import PlanSettings
from tests.fakes.subagents import FakeSubagents

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Kept:
    """A plan where a database would be. With `others` there is other work in the conversation."""

    def __init__(self, *tasks: Task) -> None:
        self.plan = Plan(
            id=1, conversation=ConversationId("telegram:77"), origin="m", owner=Owner(), goal="the goal",
            status="running", tasks=tasks, created_at=NOW, updated_at=NOW,
        )  # fmt: skip
        self.others = False
        self.subagents = FakeSubagents()
        self.token = CancelToken()
        self.preemptible = anyio.Event()
        self.settings = PlanSettings(give_way_secs=0.0)

    async def change(self, move: Move, unless_others: bool) -> Plan | None:
        await anyio.lowlevel.checkpoint()
        if self.plan.status != "running":
            return None
        if not (unless_others and self.others):
            self.plan = move(self.plan)
        return self.plan

    async def run(self) -> Plan | None:
        runner = Runner(
            subagents=self.subagents, settings=self.settings, request="r", cancel=self.token, change=self.change,
            shown=lambda plan: None, preemptible=self.preemptible,
        )  # fmt: skip
        with anyio.fail_after(20):
            return await runner.run()

    @property
    def states(self) -> list[str]:
        return [task.state for task in self.plan.tasks]


def one(id: int, *needs: int) -> Task:
    return Task(id=id, title=f"t{id}", text=f"t{id}", needs=needs)


async def test_four_at_once_and_each_is_told_what_it_needs() -> None:
    kept = Kept(*map(one, range(1, 7)), one(7, 1, 2))
    plan = await kept.run()
    assert plan is not None
    assert outlook(plan.tasks, strategy="abort") == "done"
    assert kept.subagents.most_active == 4
    assert kept.subagents.requests[0] == "r:1-sub"
    assert "did: t1" in kept.subagents.subagent_tasks[-1].context
    assert all(task.cost == 0.01 for task in plan.tasks)


async def test_a_stop_ends_what_runs_and_writes_no_end_of_it() -> None:
    kept = Kept(one(1), one(2, 1))
    kept.subagents.held["t1"] = anyio.Event()
    kept.subagents.began = lambda name: kept.token.fire("stopped")
    await kept.run()
    assert kept.states == ["running", "pending"]
    assert not kept.subagents.active


async def test_a_plan_that_was_put_down_lets_go() -> None:
    kept = Kept(one(1), one(2))
    kept.subagents.held = {"t1": anyio.Event(), "t2": anyio.Event()}

    def began(name: str) -> None:
        kept.plan = replace(kept.plan, status="cancelled")
        kept.subagents.held["t1"].set()

    kept.subagents.began = began
    assert await kept.run() is None
    assert not kept.subagents.active


async def test_for_a_person_no_task_begins_and_those_that_run_are_cut_off() -> None:
    kept = Kept(one(1), one(2), one(3, 1))
    kept.settings = PlanSettings(max_parallel=2, give_way_secs=0.01)
    kept.subagents.held["t2"] = anyio.Event()
    kept.subagents.began = lambda name: kept.preemptible.set()
    await kept.run()
    assert kept.states == ["completed", "pending", "pending"]
    assert [task.cut_off for task in kept.plan.tasks] == [0, 1, 0]


async def test_other_work_of_the_conversation_comes_before_the_next_task() -> None:
    kept = Kept(one(1), one(2, 1))

    def began(name: str) -> None:
        kept.others = True

    kept.subagents.began = began
    plan = await kept.run()
    assert plan is not None
    assert kept.states == ["completed", "pending"]
    assert outlook(plan.tasks, strategy="abort") == "going"


async def test_the_end_of_a_plan_ends_the_tasks_that_run() -> None:
    kept = Kept(one(1), one(2), one(3, 2))
    kept.subagents.held["t2"] = anyio.Event()
    kept.subagents.fails["t1"] = 1
    await kept.run()
    assert kept.states == ["failed", "aborted", "aborted"]
