"""The look back before the first compaction of a cycle: in silence, to write lasting notes (B-55 to B-59).

It sees the conversation as the next request would begin, may use the tools of the memory and no other, and whatever it
says is shown to nobody and stored nowhere. Its calls go the way of every call: scope, hooks, gate, audit.
Nobody can be asked here, so what asks is refused. Failing costs the notes.
"""

from collections.abc import Sequence
from dataclasses import replace

import anyio

from agent.core.errors import ContextTooLong
from agent.core.messages import Message, ToolResult, ToolUse, text_message
from agent.core.tools import Appraisal
from agent.memory.tools import FLUSH_TOOLS
from agent.providers.provider import Provider, Request, ToolSchema
from agent.providers.replies import Reply
from agent.providers.routing import Attempt, Call
from agent.providers.usage import Unwatched
from agent.run.guards import ceiling
from agent.run.run import Run
from agent.tools.approvals import gate_for
from agent.tools.executor import Cleared, Outcome
from agent.turn.commit import save_records
from agent.turn.decision import parts_with
from agent.turn.requests import permitted_of, schema_of, sound, system_of
from agent.turn.states import States
from agent.turn.tool_calls import limits_of, looked_at, record, refused, rules_of, stopped, tool_context

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
UNASKED = "{name} was not run: it needs a person's approval, and nobody can be asked now."


class Flushing:
    """Keeps the promise of `compaction.engine.Flush` for one conversation."""

    def __init__(self, states: States) -> None:
        self._states = states
        self._looked_at: tuple[Run | None, bool] = (None, False)

    def may_begin(self) -> bool:
        """Whether it could store anything for the run whose context was prepared last; looked up once a run."""
        run = self._states.context.run
        if run is not self._looked_at[0]:
            self._looked_at = (run, run is not None and _may_look_back(run, self._states))
        return self._looked_at[1]

    async def __call__(self, upto: int | None = None) -> None:
        """Look back on the window's first `upto` messages. Raises an AgentError, or TimeoutError after a minute."""
        run = self._states.context.run
        if run is None:
            return
        with anyio.fail_after(WITHIN_S):
            await self._look_back(run, upto)

    async def _look_back(self, run: Run, upto: int | None) -> None:
        states = self._states
        own = states.message.compaction.own if upto is None else upto
        added: list[Message] = [text_message("user", ASKED, created_at=states.runtime.services.clock.now())]
        for _ in range(MOST_ROUNDS):
            reply = await self._asked(run, own, added)
            calls = reply.calls
            if not calls:
                return
            at = states.runtime.services.clock.now()
            results = tuple([await self._done(use, reply, run) for use in calls])
            await save_records(run, states)
            added.append(Message(role="assistant", parts=parts_with(reply, calls), created_at=at))
            added.append(Message(role="user", parts=results, created_at=at))

    async def _asked(self, run: Run, own: int, added: Sequence[Message]) -> Reply:
        states, estimator = self._states, self._states.metrics.estimator
        history = sound(states.message.compaction.window)[:own]

        def prepare(provider: Provider) -> Attempt:
            tools = schema_of(run, states)
            system = system_of(run, states, provider, states.instruction.notes.text, tools)  # as in a turn
            tools = with_memory_tools(tools, run, states)
            raw = estimator.text(system.stable) + estimator.text(system.volatile) + estimator.tools(tools)
            raw += estimator.text(SILENT) + sum(estimator.message(message) for message in (*history, *added))
            if estimator.scaled(raw) > ceiling(provider.context_window, run.settings.context):
                raise ContextTooLong(f"{provider.name}: the conversation does not fit to look back on it")
            request = Request(
                system=system,
                messages=(*history, *added),
                tools=tools,
                reminder=SILENT,
                reasoning=run.settings.place.reasoning,
            )
            return Attempt(request, raw)

        timeouts = run.settings.timeouts
        call = Call(
            route=states.provider.slot.route,
            prepare=prepare,
            attribution=run.attribution(PURPOSE),
            counting=estimator,
            silence_s=timeouts.llm,
            stream_s=WITHIN_S,
            seed=f"{run.id}:{PURPOSE}:{len(added)}",
            once=True,
            policy=states.provider.policy,
        )
        answered = await states.provider.models.ask(call, Unwatched())
        return answered.reply

    async def _done(self, use: ToolUse, reply: Reply, run: Run) -> ToolResult:
        """Run one call, if it is the memory's and nothing stands against it."""
        states = self._states
        if use.name not in FLUSH_TOOLS:
            return ToolResult(tool_use_id=use.id, content=OTHERS, is_error=True)
        outcome = stopped()
        try:
            outcome = await self._outcome(use, reply, run)
        finally:  # a minute is over: it may have begun
            named = replace(
                use, id=f"{PURPOSE}:{states.runtime.services.new_id()}"
            )  # a model may give one id in every round
            record(named, outcome, run, states)
        return ToolResult(tool_use_id=use.id, content=outcome.content, is_error=outcome.is_error)

    async def _outcome(self, use: ToolUse, reply: Reply, run: Run) -> Outcome:
        states = self._states
        if use.id in reply.malformed:
            return refused(f"{use.name} was not run: {reply.malformed[use.id]}")
        found = await looked_at(use, tool_context(use, run, states), run, states)
        if isinstance(found, Cleared):
            found = Outcome(content=UNASKED.format(name=use.name), is_error=True, verdict="denied")
        if isinstance(found, Outcome):
            if found.verdict == "denied":
                for denied in states.runtime.features.denied:
                    denied(run, use, found)
            return found
        outcome = await states.tool.executor.perform(found.cleared, found.context, limits_of(run.settings))
        for after_tool in states.runtime.features.after_tool:
            after_tool(run, use, outcome)
        return outcome


def with_memory_tools(schema: ToolSchema, run: Run, states: States) -> ToolSchema:
    """A turn's tools and those of the memory: where a model is only told the name of one, it could not call it."""
    missing = (FLUSH_TOOLS & permitted_of(run, states)) - {spec.name for spec in schema.specs}
    if not missing:
        return schema
    specs = (*schema.specs, *states.tool.executor.toolbox.specs(missing))
    return ToolSchema(tuple(sorted(specs, key=lambda spec: spec.name)))


def _may_look_back(run: Run, states: States) -> bool:
    """Whether the look back could store anything: with a tool in the agent's scope that is not denied."""
    if run.memory.scope is None or not run.settings.memory.flush.enabled:
        return False
    specs = states.tool.executor.toolbox.specs(FLUSH_TOOLS & permitted_of(run, states))
    rules, nothing = rules_of(run), Appraisal(arguments={})
    return any(gate_for(spec, nothing, rules, allowed_for_good=False) != "deny" for spec in specs)
