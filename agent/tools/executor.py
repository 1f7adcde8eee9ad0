"""Runs one tool call: scope, arguments, time limit, retries; whatever happens is an outcome the model can read.

One executor serves all agents of a process (Z-03). It holds no state of any conversation.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace

import anyio
from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt, stop_after_delay, wait_fixed

from agent.core.cancel import CancelToken
from agent.core.clock import Clock
from agent.core.errors import ToolError
from agent.core.messages import ToolUse
from agent.core.tools import Category, Tool, ToolContext
from agent.tools.arguments import mistakes_in
from agent.tools.overflow import Outputs
from agent.tools.toolbox import Toolbox

_RETRY_WAIT_S = 0.2

log = logging.getLogger("tieline.tools")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Seconds a call of each category may take (SPEC §12.2), and how often a transient failure is tried again."""

    timeouts: Mapping[Category, float]
    max_retries: int = 2
    max_retry_duration_s: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a call came to. `transient`: the same may work later (Z-34). `confirmed`: a person allowed this very one."""

    content: str
    is_error: bool = False
    transient: bool = False
    confirmed: bool = False
    elapsed_ms: int = 0


class Executor:
    """Everything that runs a tool goes through here."""

    def __init__(self, toolbox: Toolbox, clock: Clock, outputs: Outputs) -> None:
        self.toolbox = toolbox
        self.outputs = outputs
        self._clock = clock

    def is_safe(self, name: str) -> bool:
        """Whether calls of this tool may run beside others; an unknown one fails at once and may."""
        tool = self.toolbox.get(name)
        return tool is None or tool.spec.concurrency_safe

    def is_retryable(self, name: str) -> bool:
        """Whether a call that may or may not have run can be run again."""
        tool = self.toolbox.get(name)
        return tool is None or tool.spec.retryable

    async def run(
        self, call: ToolUse, context: ToolContext, *, allowed: frozenset[str], limits: Limits, malformed: str = ""
    ) -> Outcome:
        """Run the call. `allowed` is the agent's scope (B-31); `malformed` says what is wrong with the arguments."""
        tool = self.toolbox.get(call.name) if call.name in allowed else None
        if tool is None:
            hint = self.toolbox.nearest(call.name, allowed)
            known = "is not among the tools of this agent" if self.toolbox.get(call.name) else "is no tool"
            return Outcome(content=f"{call.name} {known}; {hint}", is_error=True)
        mistakes = [malformed] if malformed else mistakes_in(call.input, tool.spec.schema)
        if mistakes:
            return Outcome(content=f"{call.name} was not run: " + "; ".join(mistakes), is_error=True)
        began = self._clock.monotonic()
        outcome = await self._within_time(tool, call, context, limits)
        return replace(outcome, elapsed_ms=round((self._clock.monotonic() - began) * 1000))

    async def _within_time(self, tool: Tool, call: ToolUse, context: ToolContext, limits: Limits) -> Outcome:
        timeout = limits.timeouts[tool.spec.category]
        token = CancelToken()  # of this call alone: a time-out must not end the whole run
        with anyio.move_on_after(timeout):
            try:
                return await self._retrying(tool, call, replace(context, cancel=token), limits)
            except anyio.get_cancelled_exc_class():
                token.fire("cancelled")  # for what the tool has started and cannot await
                raise
        return Outcome(content=f"{call.name} was stopped after {timeout:g} s", is_error=True, transient=True)

    async def _retrying(self, tool: Tool, call: ToolUse, context: ToolContext, limits: Limits) -> Outcome:
        attempts = 1 + limits.max_retries if tool.spec.retryable else 1
        retrying = AsyncRetrying(
            retry=retry_if_exception(lambda error: isinstance(error, ToolError) and error.transient),
            stop=stop_after_attempt(attempts) | stop_after_delay(limits.max_retry_duration_s),
            wait=wait_fixed(_RETRY_WAIT_S),
            sleep=self._clock.sleep,
            reraise=True,
        )
        try:
            content: str = await retrying(tool.run, call.input, context)
        except ToolError as error:
            return Outcome(content=str(error), is_error=True, transient=error.transient)
        except Exception as error:
            log.exception("tool %s broke", call.name, extra={"run": context.run, "conversation": context.conversation})
            return Outcome(content=f"{call.name} failed ({type(error).__name__})", is_error=True)
        return Outcome(content=await self.outputs.shortened(context.conversation, content))
