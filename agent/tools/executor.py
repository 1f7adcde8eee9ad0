"""Runs one tool call: scope, arguments, time limit, retries; whatever happens is an outcome the model can read.

One executor serves all agents of a process (Z-03). It holds no state of any conversation.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import TypeVar
from weakref import WeakValueDictionary

import anyio
from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt, stop_after_delay, wait_fixed

from agent.core.cancellation import CancelToken, TimeLimit
from agent.core.clock import Clock
from agent.core.errors import OutOfScope, ToolError
from agent.core.ids import ConversationId
from agent.core.messages import ToolUse
from agent.core.outbox import Answer, Question
from agent.core.tools import Appraisal, Category, Tool, ToolContext, ToolSpec
from agent.core.untrusted_text import whole, worked_on
from agent.storage.audit_rows import Verdict
from agent.tools.arguments import checked
from agent.tools.output_files import Outputs
from agent.tools.toolbox import Toolbox

_RETRY_WAIT_S = 0.2

Elicit = Callable[[Question], Awaitable[Answer]]

log = logging.getLogger("tieline.tools")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Seconds a call of each category may take, and how often a transient failure is tried again."""

    timeouts: Mapping[Category, float]
    max_retries: int = 2
    max_retry_duration_s: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a call. `transient`: the same may work later (Z-34). `confirmed`: a person allowed this very one.

    `verdict` is for the record of calls.
    """

    content: str
    is_error: bool = False
    transient: bool = False
    confirmed: bool = False
    elapsed_ms: int = 0
    verdict: Verdict = "ran"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleared:
    """A call of a tool that is there and in scope, with arguments that fit; `appraisal` says what it would do."""

    tool: Tool
    call: ToolUse
    appraisal: Appraisal


class Executor:
    """Everything that runs a tool goes through here: `look`, then `perform`."""

    def __init__(
        self, toolbox: Toolbox, clock: Clock, outputs: Outputs, redact: Callable[[str], str] = lambda text: text
    ) -> None:
        """`redact` takes secrets out of what tools give."""
        self.toolbox = toolbox
        self.outputs = outputs
        self.redact = redact
        self._clock = clock
        self._locks: WeakValueDictionary[tuple[ConversationId, str], anyio.Lock] = WeakValueDictionary()

    def is_safe(self, call: ToolUse) -> bool:
        """Whether this call may run beside others; one of an unknown tool fails at once and may."""
        tool = self.toolbox.get(call.name)
        return tool is None or tool.spec.concurrency_safe

    def is_retryable(self, name: str) -> bool:
        """Whether a call that may or may not have run can be run again; nobody knows of one whose tool is gone."""
        tool = self.toolbox.get(name)
        return tool is not None and tool.spec.retryable

    async def look(
        self, call: ToolUse, context: ToolContext, *, allowed: frozenset[str], malformed: str = ""
    ) -> Cleared | Outcome:
        """The effect of the call, before it runs; an Outcome where it cannot be one.

        `allowed` is the agent's scope (B-31); `malformed` says what is wrong with the arguments.
        """
        tool = self.toolbox.get(call.name) if call.name in allowed else None
        if tool is None:
            hint = self.toolbox.nearest(call.name, allowed)
            known = "is not among the tools of this agent" if self.toolbox.get(call.name) else "is no tool"
            return _refused(f"{call.name} {known}; {hint}")
        mistakes = [malformed] if malformed else await _mistakes(call, tool.spec)
        if mistakes:
            return _refused(f"{call.name} was not run: " + "; ".join(mistakes))
        if tool.spec.appraise is None:
            return Cleared(tool=tool, call=call, appraisal=Appraisal(arguments=call.input))
        try:
            appraisal = await tool.spec.appraise(call.input, context)
        except OutOfScope as error:
            return Outcome(content=f"{call.name} was denied, out of scope: {error}", is_error=True, verdict="denied")
        except ToolError as error:
            return _refused(f"{call.name} was not run: {error}")
        except Exception as error:  # the turn's seam, one call narrow: a model can go on without this one
            log.exception("tool %s could not be looked at", call.name, extra={"conversation": context.conversation})
            return _refused(f"{call.name} was not run ({type(error).__name__})")
        return Cleared(tool=tool, call=call, appraisal=appraisal)

    async def run(
        self, call: ToolUse, context: ToolContext, *, allowed: frozenset[str], limits: Limits, malformed: str = ""
    ) -> Outcome:
        """Run a call that no gate stands before."""
        found = await self.look(call, context, allowed=allowed, malformed=malformed)
        return found if isinstance(found, Outcome) else await self.perform(found, context, limits)

    async def perform(
        self, cleared: Cleared, context: ToolContext, limits: Limits, *, confirmed: bool = False
    ) -> Outcome:
        """Run it. A `confirmed` call was approved as it is: it runs once, whatever comes of it (G-02)."""
        began = self._clock.monotonic()
        async with self._turn_of(cleared, context.conversation):
            outcome = await self._within_time(cleared, context, limits, confirmed=confirmed)
        elapsed_ms = round((self._clock.monotonic() - began) * 1000)
        return replace(outcome, elapsed_ms=elapsed_ms, confirmed=confirmed)

    @asynccontextmanager
    async def _turn_of(self, cleared: Cleared, conversation: ConversationId) -> AsyncIterator[None]:
        """Calls of a conversation that have a key in common wait for each other."""
        keys = cleared.tool.spec.keys
        async with AsyncExitStack() as held:
            for key in sorted(keys(cleared.appraisal.arguments)) if keys is not None else ():
                lock = self._locks.get((conversation, key))
                if lock is None:
                    lock = self._locks[(conversation, key)] = anyio.Lock()
                await held.enter_async_context(lock)
            yield

    async def _within_time(self, cleared: Cleared, context: ToolContext, limits: Limits, *, confirmed: bool) -> Outcome:
        timeout = limits.timeouts.get(cleared.tool.spec.category, limits.timeouts["exec"])
        token = CancelToken()  # of this call alone: a time-out must not end the whole run
        name = cleared.call.name
        limit = TimeLimit(timeout)
        with limit.running():
            try:
                within = replace(context, cancel=token, elicit=_in_their_time(context.elicit, limit))
                return await self._retrying(cleared, within, limits, confirmed=confirmed)
            except anyio.get_cancelled_exc_class():
                token.fire("cancelled")  # for what the tool has started and cannot await
                raise
        content = f"{name} was stopped after {timeout:g} s"
        return Outcome(content=content, is_error=True, transient=True, verdict="stopped")

    async def _retrying(self, cleared: Cleared, context: ToolContext, limits: Limits, *, confirmed: bool) -> Outcome:
        tool, name = cleared.tool, cleared.call.name
        attempts = 1 + limits.max_retries if tool.spec.retryable and not confirmed else 1
        retrying = AsyncRetrying(
            retry=retry_if_exception(lambda error: isinstance(error, ToolError) and error.transient),
            stop=stop_after_attempt(attempts) | stop_after_delay(limits.max_retry_duration_s),
            wait=wait_fixed(_RETRY_WAIT_S),
            sleep=self._clock.sleep,
            reraise=True,
        )
        try:
            content: str = await retrying(tool.run, cleared.appraisal.arguments, context)
        except ToolError as error:
            verdict: Verdict = "denied" if isinstance(error, OutOfScope) else "failed"
            content = await self._shown(str(error), context.conversation)
            return Outcome(content=content, is_error=True, transient=error.transient, verdict=verdict)
        except Exception as error:  # the same
            log.exception("tool %s broke", name, extra={"run": context.run, "conversation": context.conversation})
            return Outcome(content=f"{name} failed ({type(error).__name__})", is_error=True, verdict="failed")
        return Outcome(content=await self._shown(content, context.conversation))

    async def _shown(self, content: str, conversation: ConversationId) -> str:
        """A result or an error for the model: whole letters, no secrets, not too long."""
        clean = await worked_on(content, lambda text: self.redact(whole(text)))
        return await self.outputs.shortened(conversation, clean)


async def _mistakes(call: ToolUse, spec: ToolSpec) -> list[str]:
    return spec.check(call.input) if spec.check is not None else await checked(call.input, spec.schema)


def _refused(why: str) -> Outcome:
    return Outcome(content=why, is_error=True, verdict="refused")


def _in_their_time(elicit: Elicit | None, limit: TimeLimit) -> Elicit | None:
    """Stop the tool's time while a person is asked."""
    if elicit is None:
        return None

    async def ask(question: Question) -> Answer:
        with limit.paused():
            return await elicit(question)

    return ask


# Batches: consecutive concurrency-safe calls of one reply run side by side. Pure.

C = TypeVar("C")


def batches_of(calls: Sequence[C], is_safe: Callable[[C], bool], most: int) -> list[tuple[C, ...]]:
    """The calls in order, grouped: s, s, U, s → (s, s), (U), (s). A group holds `most` calls at most."""
    groups: list[list[C]] = []
    open_group = False
    for call in calls:
        safe = is_safe(call)
        if safe and open_group and len(groups[-1]) < most:
            groups[-1].append(call)
        else:
            groups.append([call])
        open_group = safe
    return [tuple(group) for group in groups]
