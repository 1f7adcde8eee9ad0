"""The sub-agents of one conversation: begun for a run, on its account and within its limits.

What crosses over is the task and the answer; memory, workspace, session and approvals are those of the conversation.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from math import inf

import anyio

from agent.core.cancellation import CancelToken, TimeLimit, first_error
from agent.core.errors import AgentInvalid, AgentMissing
from agent.core.events import SubagentEnded, SubagentStarted
from agent.core.ids import ConversationId, RunId
from agent.core.tools import Finding, SubagentTask
from agent.definitions import Definition, allows
from agent.run.guards import Progress
from agent.run.messages import told_time
from agent.run.run import CallState, Interrupts, Run, Speech, total_cost
from agent.run.settings import MOST_TOOL_ITERATIONS
from agent.subagent.loop import work
from agent.subagent.profiles import Profile, Profiles, tools_of
from agent.subagent.tool import NESTED
from agent.subagent.wording import NO_BUDGET, STOPPED, TOO_LONG, failed, identity_of, shortened, task_of
from agent.turn.requests import scope_of
from agent.turn.states import States, announce

# Registry of the sub-agents that work now, in all conversations of the process, for people to see. In memory.


@dataclass(frozen=True, slots=True, kw_only=True)
class Working:
    """One of them. `agent` is its definition ("": none), `step` the one it is at, of `steps`."""

    conversation: ConversationId
    request: str
    agent: str
    task: str
    since: datetime
    step: int
    steps: int


class SubagentRegistry:
    """The sub-agents of one process."""

    def __init__(self) -> None:
        self._working: dict[str, tuple[Working, Run]] = {}

    @contextmanager
    def joined(self, one: Working, run: Run) -> Iterator[None]:
        """It works for as long as this is open."""
        self._working[one.request] = (one, run)
        try:
            yield
        finally:
            self._working.pop(one.request, None)

    def working(self, conversation: ConversationId | None) -> tuple[Working, ...]:
        """The sub-agents that work in one conversation, or (None) in all."""
        return tuple(
            Working(
                conversation=one.conversation,
                request=one.request,
                agent=one.agent,
                task=one.task,
                since=one.since,
                step=min(run.progress.steps + 1, one.steps),
                steps=one.steps,
            )
            for one, run in self._working.values()
            if conversation is None or one.conversation == conversation
        )


MOST_AT_ONCE = 3  # in one conversation; the others wait
GRACE_S = 0.5  # from a stop to the hard cancel
GENERAL = Profile(name="")


class SubagentRunner:
    """One agent's. Lives as long as the agent is awake."""

    def __init__(self, states: States, profiles: Profiles, subagent_registry: SubagentRegistry) -> None:
        self._states = states
        self._profiles = profiles
        self._subagent_registry = subagent_registry
        self._room = anyio.Semaphore(MOST_AT_ONCE)

    def of(self, run: Run, *, most: int | None = None) -> "SubagentRun":
        """The sub-agents that work for the run; `most` at once, counted apart from those of other runs."""
        room = self._room if most is None else anyio.Semaphore(most)
        return SubagentRun(run, self._states, self._profiles, self._subagent_registry, room)


@dataclass(frozen=True, slots=True)
class SubagentRun:
    """Keeps the promise of `agent.core.tools.Subagents` for one run."""

    parent: Run
    states: States
    profiles: Profiles
    subagent_registry: SubagentRegistry
    room: anyio.Semaphore

    async def run(self, subagent_task: SubagentTask, *, request: str, cancel: CancelToken) -> Finding:
        """Implements `Subagents.run`. A number behind `request` tells several sub-agent tasks apart."""
        if self.parent.parent is not None:
            return failed(NESTED)
        try:
            profile = self.profiles.load(subagent_task.agent) if subagent_task.agent else GENERAL
        except (AgentMissing, AgentInvalid) as error:
            return failed(str(error))
        self.parent.subagent_tasks += 1
        if self.parent.subagent_tasks > 1:
            request = f"{request}-{self.parent.subagent_tasks}"
        async with self.room:
            steps = self._reserve(profile.steps if subagent_task.agent else subagent_task.steps)
            if not steps:
                return failed(NO_BUDGET)
            run = self._begun(subagent_task, profile, request, steps)
            try:
                found = await self._watched(subagent_task, profile, run, cancel)
            finally:
                self.parent.progress.steps -= max(0, steps - run.progress.steps)
        return replace(found, text=shortened(found.text))

    def _reserve(self, wanted: int) -> int:
        """Take the steps off the parent's budget before anything is asked; the unused come back (G-23)."""
        left = self.parent.settings.agent.step_budget - self.parent.progress.steps
        steps = max(0, min(wanted, left))
        self.parent.progress.steps += steps
        return steps

    def _begun(self, subagent_task: SubagentTask, profile: Profile, request: str, steps: int) -> Run:
        """A run of its own: empty history, own counters, everything else the parent's."""
        parent, states = self.parent, self.states
        scope = scope_of(parent, states)
        tools = tools_of(scope, subagent_task.tools, profile.tools, without=profile.without)
        lists = [asked for asked in (subagent_task.tools, profile.tools) if asked is not None]
        named = frozenset(name for name in tools if any(allows(asked, name) for asked in lists))
        settings, token = parent.settings, CancelToken()
        agent = replace(
            settings.agent, step_budget=steps, max_tool_iterations=min(steps, MOST_TOOL_ITERATIONS), max_turns=None
        )
        return Run(
            id=RunId(request),
            work=parent.work,
            conversation=parent.conversation,
            session=parent.session,
            fresh=False,
            settings=replace(settings, agent=agent),
            definition=Definition(
                name=profile.name or parent.definition.name,
                description=profile.description,
                identity=identity_of(profile, steps=steps),
                tools=tools,
                max_tokens=profile.max_tokens or parent.definition.max_tokens,
            ),
            token=token,
            interrupts=Interrupts(token),
            time=TimeLimit(inf),
            execution=parent.execution,
            environment=parent.environment,
            audience=parent.audience,
            reminder=told_time(states.runtime.services.clock.now(), parent.work.incoming.zone),
            speech=Speech(states.runtime.outbox),
            memory=replace(parent.memory),
            goal=parent.goal,
            progress=Progress(),
            parent=parent,
            calls=CallState(within=parent.calls.within, named=named),
        )

    async def _watched(self, subagent_task: SubagentTask, profile: Profile, run: Run, cancel: CancelToken) -> Finding:
        """Run it, and end it when it is stopped or its time is up: its waits at once, itself soon after."""
        states, conversation, steps = self.states, self.states.session.conversation, run.settings.agent.step_budget
        limit_s = profile.timeout_s if subagent_task.agent else subagent_task.timeout_s
        one = Working(
            conversation=conversation,
            request=run.id,
            agent=profile.name,
            task=subagent_task.text,
            since=states.runtime.services.clock.now(),
            step=1,
            steps=steps,
        )
        started = SubagentStarted(
            conversation=conversation, run=self.parent.id, request=run.id, agent=profile.name, steps=steps
        )
        announce(states, started)
        for told in states.runtime.features.subagent:
            told(run, profile.name, begins=True)
        found: Finding | None = None
        why, began = STOPPED, states.runtime.services.clock.monotonic()

        async def watch(scope: anyio.CancelScope) -> None:
            nonlocal why
            with anyio.move_on_after(limit_s):
                await cancel.wait()
            if not cancel.fired:
                why = TOO_LONG.format(seconds=limit_s)
            run.token.fire(why)
            run.interrupts.fire()
            await anyio.sleep(GRACE_S)
            scope.cancel()

        try:
            with self.subagent_registry.joined(one, run), first_error():
                async with anyio.create_task_group() as group:
                    group.start_soon(watch, group.cancel_scope)
                    found = await work(task_of(subagent_task), run, states)
                    group.cancel_scope.cancel()
        finally:
            ended = SubagentEnded(
                conversation=conversation,
                run=self.parent.id,
                request=run.id,
                steps=run.progress.steps,
                elapsed_ms=round((states.runtime.services.clock.monotonic() - began) * 1000),
                is_error=found is None or found.is_error,
            )
            announce(states, ended)
            for told in states.runtime.features.subagent:
                told(run, profile.name, begins=False)
        return found or failed(why, steps=run.progress.steps, cost=total_cost(run.usage))
