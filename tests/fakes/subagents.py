"""Sub-agents that do what a test tells them, by a word in their errand."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import anyio

from agent.core.cancellation import CancelToken
from agent.core.tools import Finding, SubagentTask


@dataclass(slots=True)
class FakeSubagents:
    """Answers `did: <first line>`; `fails` says how often a task of that first line fails first; one in `held` goes on
    until it is released or told to end."""

    fails: Counter[str] = field(default_factory=Counter)
    held: dict[str, anyio.Event] = field(default_factory=dict)
    subagent_tasks: list[SubagentTask] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    active: set[str] = field(default_factory=set)
    most_active: int = 0
    began: Callable[[str], None] = lambda name: None

    async def run(self, subagent_task: SubagentTask, *, request: str, cancel: CancelToken) -> Finding:
        name = subagent_task.text.partition("\n")[0]
        self.subagent_tasks.append(subagent_task)
        self.requests.append(request)
        self.active.add(name)
        self.most_active = max(self.most_active, len(self.active))
        self.began(name)
        try:
            if name in self.held:
                await _either(self.held[name].wait, cancel.wait)
            await anyio.lowlevel.checkpoint()
            if cancel.fired:
                return Finding(text=f"stopped: {cancel.reason}", is_error=True)
            if self.fails[name]:
                self.fails[name] -= 1
                return Finding(text=f"could not: {name}", is_error=True, steps=1, cost=0.01)
            return Finding(text=f"did: {name}", steps=1, cost=0.01)
        finally:
            self.active.discard(name)


async def _either(*waits: Callable[[], object]) -> None:
    async with anyio.create_task_group() as group:

        async def wait(one: Callable[[], object]) -> None:
            await one()  # type: ignore[misc]
            group.cancel_scope.cancel()

        for one in waits:
            group.start_soon(wait, one)
