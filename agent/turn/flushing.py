"""Before a model compacts for the first time in a cycle: a silent look back, to write lasting notes (B-55 to B-59).

It sees the conversation as the next request would begin, may use the tools of the memory and no other, and whatever it
says is shown to nobody and stored nowhere (SPEC §17.2). Failing costs the notes.
"""

from collections.abc import Sequence

import anyio

from agent.core.errors import ContextTooLong
from agent.core.messages import Message, ToolResult, ToolUse, text_message
from agent.memory.tools import FLUSH_TOOLS
from agent.providers.calling import Attempt, Call, Unwatched
from agent.providers.provider import Provider, Request
from agent.providers.replies import Reply
from agent.turn.calling import bill_of
from agent.turn.decision import parts_with
from agent.turn.fitting import ceiling
from agent.turn.requests import schema_of, sound, system_of
from agent.turn.run import Run
from agent.turn.states import States
from agent.turn.surroundings import limits_of, tool_context

PURPOSE = "flush"
MOST_ROUNDS = 3  # calls of the model
WITHIN_S = 60.0
NO_REPLY = "NO_REPLY"
SILENT = (
    "<reminder>\nThe older part of this conversation will soon be summarised, and details of it will be lost. Nobody "
    "has written this and nobody reads the answer.\n</reminder>"
)
ASKED = (
    "Before that, store what should last: call write_notes for decisions, agreements and the state of open work in "
    "MEMORY.md, remember for durable facts about people. Leave out what is there already, and secrets. "
    f"When there is nothing to store, or you are done, answer with exactly: {NO_REPLY}"
)
OTHERS = "Only the tools of the memory may be used now: write_notes and remember."


class Flushing:
    """Keeps the promise of `compaction.engine.Flush` for one conversation."""

    def __init__(self, states: States) -> None:
        self._states = states

    async def __call__(self) -> None:
        """Raises an AgentError, or TimeoutError after a minute."""
        run = self._states.context.run
        if run is None:
            return
        with anyio.fail_after(WITHIN_S):
            await self._look_back(run)

    async def _look_back(self, run: Run) -> None:
        states = self._states
        own = states.message.compaction.own
        added: list[Message] = [text_message("user", ASKED, created_at=states.runtime.clock.now())]
        for _ in range(MOST_ROUNDS):
            reply = await self._asked(run, own, added)
            calls = reply.calls
            if not calls:
                return
            at = states.runtime.clock.now()
            results = tuple([await self._done(use, reply, run) for use in calls])
            added.append(Message(role="assistant", parts=parts_with(reply, calls), created_at=at))
            added.append(Message(role="user", parts=results, created_at=at))

    async def _asked(self, run: Run, own: int, added: Sequence[Message]) -> Reply:
        states, estimator = self._states, self._states.metrics.estimator
        history = sound(states.message.window)[:own]

        def prepare(provider: Provider) -> Attempt:
            tools = schema_of(run, states)
            system = system_of(run, states, provider, states.memory.text, tools)
            raw = estimator.text(system.stable) + estimator.text(system.volatile) + estimator.tools(tools)
            raw += estimator.text(SILENT) + sum(estimator.message(message) for message in (*history, *added))
            if estimator.scaled(raw) > ceiling(provider.context_window, run.settings.context):
                raise ContextTooLong(f"{provider.name}: the conversation does not fit to look back on it")
            request = Request(system=system, messages=(*history, *added), tools=tools, reminder=SILENT)
            return Attempt(request, raw)

        timeouts = run.settings.timeouts
        call = Call(
            route=states.provider.slot.route,
            prepare=prepare,
            bill=bill_of(run, states, purpose=PURPOSE),
            counting=estimator,
            silence_s=timeouts.llm,
            stream_s=WITHIN_S,
            seed=f"{run.id}:{PURPOSE}:{len(added)}",
            once=True,
        )
        answered = await states.provider.models.ask(call, Unwatched())
        return answered.reply

    async def _done(self, use: ToolUse, reply: Reply, run: Run) -> ToolResult:
        """Run one call, if it is the memory's."""
        states = self._states
        if use.id in reply.malformed or use.name not in FLUSH_TOOLS:
            return ToolResult(tool_use_id=use.id, content=reply.malformed.get(use.id, OTHERS), is_error=True)
        outcome = await states.tool.executor.run(
            use, tool_context(use, run, states), allowed=FLUSH_TOOLS, limits=limits_of(run.settings)
        )
        run.notes_written = run.notes_written or not outcome.is_error
        return ToolResult(tool_use_id=use.id, content=outcome.content, is_error=outcome.is_error)
