"""One call of the model: streams, shows, retries within bounds, and ends at once on a stop (SPEC §6.7, §7.2)."""

import logging
import zlib
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass

import anyio

from agent.core.errors import AgentError, ProviderBusy
from agent.core.events import DecisionCompleted, RetryScheduled, StreamDelta
from agent.providers.provider import Provider, Request
from agent.providers.replies import Accumulator, Reply
from agent.providers.retries import delay_for
from agent.turn.accounting import note_call
from agent.turn.run import Run
from agent.turn.states import States, announce

log = logging.getLogger("tieline.turn")


class ModelTooSlow(AgentError):
    """The whole stream took longer than it may; what came so far stands (B-33)."""


class CallStopped(Exception):
    """The stop ended the call."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A request for a provider and its raw estimate."""

    provider: Provider
    request: Request
    raw_tokens: int


async def call_model(prepare: Callable[[], Attempt], run: Run, states: States) -> Reply:
    """Make the call. `prepare` is asked before each attempt, so that another choice of provider counts at once (Z-20).

    Raises CallStopped, or the AgentError that ended the last attempt; what that one had shown stays in `run.speech`.
    """
    failed = {False: 0, True: 0}  # attempts that had not, and that had, begun to stream
    while True:
        attempt = prepare()
        accumulator = Accumulator(attempt.provider.family)
        try:
            try:
                await _consume(attempt, accumulator, run, states, retrying=any(failed.values()))
            finally:
                if accumulator.begun:
                    note_call(attempt.provider, attempt.raw_tokens, accumulator.reply(), run, states)
        except ProviderBusy as error:
            failed[accumulator.begun] += 1
            number = failed[accumulator.begun]
            delay = delay_for(
                error,
                attempt=number,
                started=accumulator.begun,
                jitter=_jitter(run, number),
                policy=states.provider.retries(),
            )
            if delay is None:
                raise
            run.speech.retract()
            await _back_off(delay, sum(failed.values()), error, attempt.provider, run, states)
        else:
            for what in accumulator.unknown:
                log.warning("unknown piece of a stream left out: %s", what, extra={"run": run.id})  # G-34
            return accumulator.reply()


async def _consume(attempt: Attempt, taker: Accumulator, run: Run, states: States, *, retrying: bool) -> None:
    """Read one stream to its end. Raises ProviderBusy when it stalls or closes without saying so (W-42)."""
    timeouts, runtime = run.settings.timeouts, states.runtime
    conversation = states.session.conversation
    began = runtime.clock.monotonic()
    first_token_ms: int | None = None
    publishes = runtime.bus.hears(StreamDelta)
    heard = anyio.current_time()
    last = heard + timeouts.llm_stream
    with run.interrupts.scope() as scope:
        scope.deadline = min(last, heard + timeouts.llm)
        async with aclosing(attempt.provider.stream(attempt.request)) as chunks:
            async for chunk in chunks:
                delta = taker.take(chunk)
                if first_token_ms is None:
                    first_token_ms = round((runtime.clock.monotonic() - began) * 1000)
                    if retrying:
                        runtime.outbox.status("")
                if delta:
                    run.speech.delta(delta)
                    if publishes:
                        runtime.bus.publish(StreamDelta(conversation=conversation, run=run.id, content=delta))
                # Setting a deadline costs more than asking for the time.
                if (now := anyio.current_time()) > heard + timeouts.llm / 20:
                    heard, scope.deadline = now, min(last, now + timeouts.llm)
    if not taker.done:
        if run.token.fired:
            raise CallStopped
        if scope.cancelled_caught:
            name = attempt.provider.name
            if anyio.current_time() >= last:
                raise ModelTooSlow(f"{name}: the stream took longer than {timeouts.llm_stream:g} s")
            raise ProviderBusy(f"{name}: nothing came for {timeouts.llm:g} s")
        raise ProviderBusy(f"{attempt.provider.name}: the stream ended without its closing event")
    reply = taker.reply()
    announce(
        states,
        DecisionCompleted(
            conversation=conversation,
            run=run.id,
            provider=attempt.provider.name,
            model=attempt.provider.model,
            stop_reason=reply.stop_reason,
            tool_calls=len(reply.calls),
            elapsed_ms=round((runtime.clock.monotonic() - began) * 1000),
            first_token_ms=first_token_ms,
        ),
    )


async def _back_off(
    delay: float, failures: int, error: ProviderBusy, provider: Provider, run: Run, states: States
) -> None:
    runtime = states.runtime
    log.warning("%s; trying again in %.1f s", error, delay, extra={"run": run.id})
    event = RetryScheduled(
        conversation=states.session.conversation,
        run=run.id,
        provider=provider.name,
        attempt=failures,
        after_s=delay,
        reason=type(error).__name__,
    )
    announce(states, event)
    with run.interrupts.scope():
        await runtime.clock.sleep(delay)
    if run.token.fired:
        raise CallStopped


def _jitter(run: Run, attempt: int) -> float:
    """-1 to 1, spread over runs and the same for the same run: a replay waits as long (B-02)."""
    return zlib.crc32(f"{run.id}:{run.progress.model_calls}:{attempt}".encode()) / 0x7FFFFFFF - 1
