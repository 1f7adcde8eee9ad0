"""Calls of models by a turn: its own, side calls, dumps, and the watch over the cache. A stop ends one at once."""

import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial

import anyio

from agent.compaction.question import Purpose, Question
from agent.core.errors import AgentError, ContextTooLong, Permanent, ProviderBarred, ProviderRefused, ProviderUnpriced
from agent.core.events import (
    CacheBreakDetected,
    DecisionCompleted,
    EstimatorCalibrated,
    ProviderFailedOver,
    ProviderReturned,
    RetryScheduled,
    StreamDelta,
)
from agent.core.failpoints import failpoint
from agent.core.ids import CostAttribution, PersonId
from agent.core.messages import Message, SummaryPart, TextPart, text_message
from agent.providers.provider import COMPACTING, Provider, Request, SystemPrompt
from agent.providers.registry import LazyProvider, may_be_too_long
from agent.providers.replies import Reply
from agent.providers.retry_policy import RetryPolicy
from agent.providers.routing import NO_NEED, Answered, Attempt, Call, Need
from agent.providers.usage import Spent, Unwatched
from agent.run.prefix import Read
from agent.run.run import Run, note_spent
from agent.run.settings import DEFAULT_WINDOW
from agent.turn.states import States, announce
from agent.turn.tokens import count_by_bytes

log = logging.getLogger("tieline.turn")


class CallStopped(Exception):
    """The stop ended the call."""


async def call_model(
    prepare: Callable[[Provider], Attempt],
    run: Run,
    states: States,
    *,
    previewed: bool = True,
    need: Need = NO_NEED,
    once: bool = False,
) -> Answered:
    """Make the call. `previewed` False: the text is not shown while it grows. `need`: how heavy the request is.
    `once`: a failure is not tried again.

    Raises CallStopped, or the AgentError that ended the last attempt; what that one had shown stays in `run.speech`.
    """
    timeouts, slot = run.settings.timeouts, states.provider.slot
    call = Call(
        route=partial(slot.route, need),
        prepare=prepare,
        attribution=run.attribution(),
        counting=states.metrics.estimator,
        silence_s=timeouts.llm,
        stream_s=timeouts.llm_stream,
        seed=f"{run.id}:{run.progress.model_calls}",
        once=once,
        policy=states.provider.policy,
    )
    answered: Answered | None = None
    with run.interrupts.scope():
        answered = await states.provider.models.ask(call, _Following(run, states, previewed, need))
    if answered is None:
        raise CallStopped
    if "tools" in answered.reply.spared:
        run.requests.without_tools = answered.provider.model
    if (contents := states.runtime.services.contents) is not None:
        contents.model_answered(run.id, answered.request, answered.reply)
    announce(
        states,
        DecisionCompleted(
            conversation=states.session.conversation,
            run=run.id,
            provider=answered.provider.name,
            model=answered.provider.model,
            stop_reason=answered.reply.stop_reason,
            tool_calls=len(answered.reply.calls),
            elapsed_ms=answered.elapsed_ms,
            first_token_ms=answered.first_piece_ms,
            routing_hint=answered.request.routing_hint,
            prefix=run.requests.prefix.hash if run.requests.prefix is not None else "",
        ),
    )
    _tell_calibrated(answered.provider, run, states)
    return answered


def _tell_calibrated(provider: Provider, run: Run, states: States) -> None:
    estimator = states.metrics.estimator
    if estimator.take_change():
        event = EstimatorCalibrated(
            conversation=states.session.conversation,
            run=run.id,
            provider=provider.name,
            model=provider.model,
            scale=round(estimator.scale, 3),
            samples=estimator.samples,
        )
        announce(states, event)


@dataclass(slots=True)
class _Following:
    """`agent.providers.usage.Watcher` of a turn."""

    run: Run
    states: States
    previewed: bool
    need: Need
    publishes: bool = field(init=False)
    retrying: bool = False
    barred: bool = False  # the chosen provider, by its budget

    def __post_init__(self) -> None:
        self.publishes = self.states.runtime.services.bus.hears(StreamDelta)

    @property
    def chosen(self) -> str:
        """The provider that is asked first."""
        return self.states.provider.slot.route(self.need)[0].name

    def begins(self, provider: Provider) -> None:
        """The first stand-in is told of at once, people wait; another may only be tried to see whether it can again."""
        state = self.states.provider
        if state.fallback is None and provider.name != self.chosen:
            self._stands_in(provider)

    def _stands_in(self, provider: Provider) -> None:
        """Said once for each change, however long it lasts: not again for every call."""
        state = self.states.provider
        state.fallback, state.over_budget = provider.name, self.barred
        self.retrying = False  # the line about it stays for a while
        event = ProviderFailedOver(
            conversation=self.states.session.conversation,
            run=self.run.id,
            provider=provider.name,
            model=provider.model,
            instead_of=self.chosen,
            over_budget=self.barred,
        )
        announce(self.states, event)

    def answers(self, provider: Provider) -> None:
        state, chosen = self.states.provider, self.chosen
        if state.fallback is not None and provider.name not in (chosen, state.fallback):
            self._stands_in(provider)
        elif state.fallback is not None and provider.name == chosen:
            state.fallback, state.over_budget = None, False
            event = ProviderReturned(
                conversation=self.states.session.conversation,
                run=self.run.id,
                provider=provider.name,
                model=provider.model,
            )
            announce(self.states, event)
        elif self.retrying:
            self.states.runtime.outbox.status("")

    def delta(self, text: str) -> None:
        if self.previewed:
            self.run.speech.delta(text)
        failpoint("model.stream")
        if self.publishes:
            event = StreamDelta(conversation=self.states.session.conversation, run=self.run.id, content=text)
            self.states.runtime.services.bus.publish(event)

    def void(self) -> None:
        if self.previewed:
            self.run.speech.retract()

    def passes(self, provider: Provider, error: AgentError) -> None:
        if provider.name == self.chosen:
            self.barred = isinstance(error, ProviderBarred) and not isinstance(error, ProviderUnpriced)

    def waits(self, provider: Provider, error: AgentError, failures: int, delay_s: float) -> None:
        self.retrying = True
        event = RetryScheduled(
            conversation=self.states.session.conversation,
            run=self.run.id,
            provider=provider.name,
            attempt=failures,
            after_s=delay_s,
            reason=type(error).__name__,
        )
        announce(self.states, event)

    def spent(self, spent: Spent) -> None:
        note_spent(spent, self.run)


# Whether it was the length of a request that a server broke over, or an outage: asked, before anything is made of it.

SHORT = "Answer with one word."
SHORT_WITHIN_S = 20.0
SHORT_MOST = 16  # tokens; the least that every service takes


async def tried_again(
    error: AgentError, tokens: int, repeat: Callable[[], Awaitable[Answered]], run: Run, states: States
) -> Answered | tuple[AgentError, bool]:
    """The answer to the same request, where the outage is over; else the last error, and whether length is at fault.

    It is where a short request is answered and this one of `tokens` fails again. Raises what ends the turn.
    """
    provider = states.provider.slot.current()
    if isinstance(error, ProviderRefused) or not isinstance(provider, LazyProvider):
        return error, False
    if not provider.suspects_length(error, tokens) or not await _answers_short(provider, run, states):
        return error, False
    run.speech.retract()
    try:
        return await repeat()
    except AgentError as again:
        return again, may_be_too_long(again)


def short_call(
    provider: Provider, attribution: CostAttribution, *, seed: str, policy: RetryPolicy | None = None
) -> Call:
    """A call of a few words, which is made once; it must be awaited within `SHORT_WITHIN_S`."""
    text = text_message("user", "Hello")
    request = Request(system=SystemPrompt(stable=SHORT), messages=(text,), max_tokens=SHORT_MOST)
    asked = count_by_bytes(SHORT) + count_by_bytes(text.content, framed=True)
    return Call(
        route=lambda: (provider,),
        prepare=lambda provider: Attempt(request, asked),
        attribution=attribution,
        counting=ByBytes(),
        silence_s=SHORT_WITHIN_S,
        stream_s=SHORT_WITHIN_S,
        seed=seed,
        once=True,
        policy=policy,
    )


async def _answers_short(provider: Provider, run: Run, states: States) -> bool:
    """Whether that model answers a request of a few words now. Raises CallStopped."""
    attribution = run.attribution(purpose="window")
    call = short_call(provider, attribution, seed=f"{run.id}:window", policy=states.provider.policy)
    answered = False
    with run.interrupts.scope():
        try:
            with anyio.fail_after(SHORT_WITHIN_S):
                await states.provider.models.ask(call, Unwatched())
            answered = True
        except (AgentError, TimeoutError) as error:
            log.info("a short request fails as well: %s", error, extra={"run": run.id})
    if run.token.fired:
        raise CallStopped
    return answered


# Side calls: calls of a model outside a turn's own, for summaries, subgoals and shortened results. Made here alone.

SUMMARY_TIMEOUT_S = 300.0
MOST_SUMMARY = 8_000  # tokens of what a service writes itself
OUTPUT_SHARE = 4  # a quarter of a small window at most is kept for the answer


class NoAnswer(Permanent):
    """The model said nothing, or was cut before it was done."""


class ByBytes:
    """Close enough for a question, and no time is lost; a turn's calibration is not touched."""

    def text(self, text: str) -> int:
        return count_by_bytes(text)

    def scaled(self, raw: int) -> int:
        return raw

    def learn(self, raw: int, real: int) -> None:
        """Questions are not built like turns: nothing is learnt from them."""


class SideCalls:
    """Keeps the promise of `compaction.question.Ask` for one conversation, on the account of `person` where it is their
    wish."""

    def __init__(self, states: States, *, person: PersonId | None = None) -> None:
        self._states = states
        self._person = person

    async def write_summary(self, messages: Sequence[Message]) -> SummaryPart | None:
        """Keeps the promise of `compaction.question.WriteSummary`."""
        slot = self._states.provider.slot
        route = slot.route()
        if len(route) != 1 or route[0].family not in COMPACTING:
            return None

        def prepare(provider: Provider) -> Attempt:
            asked = sum(count_by_bytes(message.content) for message in messages)
            request = Request(
                system=SystemPrompt(stable=""), messages=_trimmed(messages), max_tokens=MOST_SUMMARY, compact=True
            )
            return Attempt(request, asked)

        call = self._call(prepare, slot.route, "compaction", SUMMARY_TIMEOUT_S)
        with anyio.fail_after(SUMMARY_TIMEOUT_S):
            answered = await self._states.provider.models.ask(call, Unwatched())
        summary = answered.reply.summary
        if summary is None:
            raise NoAnswer(f"{answered.provider.name}: no summary of its own")
        return replace(summary, sealed_by=answered.provider.name)

    async def __call__(self, question: Question) -> str:
        states = self._states
        slot = states.provider.slot
        asked = count_by_bytes(question.system) + count_by_bytes(question.text, framed=True)

        def prepare(provider: Provider) -> Attempt:
            window = provider.context_window or DEFAULT_WINDOW
            most = min(question.max_tokens, window // OUTPUT_SHARE)
            if asked + most > window:
                raise ContextTooLong(f"{provider.name}: {asked} tokens to ask about do not fit {window}")
            request = Request(
                system=SystemPrompt(stable=question.system),
                messages=(text_message("user", question.text),),
                max_tokens=most,
            )
            return Attempt(request, asked)

        route = (lambda: (slot.named(question.provider),)) if question.provider else slot.route
        call = self._call(prepare, route, question.purpose, question.timeout_s)
        with anyio.fail_after(question.timeout_s):
            answered = await states.provider.models.ask(call, Unwatched())
        reply = answered.reply
        text = reply.text.strip()
        if not text or reply.stop_reason == "max_tokens":
            raise NoAnswer(f"{answered.provider.name}: no whole answer to a question about {question.purpose}")
        self._dump(question, text)
        return text

    def _call(
        self,
        prepare: Callable[[Provider], Attempt],
        route: Callable[[], Sequence[Provider]],
        purpose: Purpose,
        timeout_s: float,
    ) -> Call:
        return Call(
            route=route,
            prepare=prepare,
            attribution=self._attribution(purpose),
            counting=ByBytes(),
            silence_s=timeout_s,
            stream_s=timeout_s,
            seed=f"{self._states.session.conversation}:{purpose}",
            once=True,
            policy=self._states.provider.policy,
        )

    def _attribution(self, purpose: str) -> CostAttribution:
        """The payer of a side call: those of a goal's own turn are the goal's as well."""
        session, goal = self._states.session, self._states.lifecycle.goal
        return CostAttribution(
            purpose=purpose,
            conversation=session.conversation,
            session=session.id,
            person=self._person,
            goal=str(goal) if goal is not None else None,
            unattended=goal is not None,
        )

    def _dump(self, question: Question, answer: str) -> None:
        dumps = self._states.context.dumps
        if dumps.on:
            dumps.write(f"{question.purpose}-request.txt", f"{question.system}\n\n{question.text}")
            dumps.write(f"{question.purpose}-response.txt", answer)


def _trimmed(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The messages; the last loses the blanks at its end, which the API refuses of an assistant's."""
    *others, last = messages
    if last.role != "assistant" or not last.parts or not isinstance(last.parts[-1], TextPart):
        return tuple(messages)
    text = replace(last.parts[-1], text=last.parts[-1].text.rstrip())
    return (*others, replace(last, parts=(*last.parts[:-1], text)))


# Debug dump of a turn's requests and replies, while one is on.


def dump_request(request: Request, states: States) -> None:
    """`NNNN-request.json`: what the model is about to get; in the form "raw" as text."""
    dumps = states.context.dumps
    if not dumps.on:
        return
    if dumps.form == "raw":
        said = ((message.role, message.content) for message in request.messages)
        prompt = "\n\n".join(filter(None, (request.system.stable, request.system.volatile)))
        everything = (("system", prompt), *said, ("reminder", request.reminder))
        dumps.write("request.txt", "\n\n".join(f"[{who}]\n{text}" for who, text in everything if text) + "\n")
        return
    written = {
        "system": asdict(request.system),
        "reminder": request.reminder,
        "tools": [spec.name for spec in request.tools.specs],
        "messages": [_plain(message) for message in request.messages],
    }
    dumps.write("request.json", json.dumps(written, ensure_ascii=False, indent=1, default=str))


def dump_reply(reply: Reply, states: States) -> None:
    """`NNNN-response.txt`: what came back."""
    dumps = states.context.dumps
    if dumps.on:
        calls = "".join(f"\n[{call.name} {json.dumps(dict(call.input), ensure_ascii=False)}]" for call in reply.calls)
        dumps.write("response.txt", f"{reply.text}{calls}\n")


def _plain(message: Message) -> dict[str, object]:
    return {"role": message.role, "id": message.id, "parts": [asdict(part) for part in message.parts]}


# Cache watch: tells when a provider read much less of its cache than before, and which part of ours had changed.


def note_cache(answered: Answered, run: Run, states: States) -> None:
    """Compare a call with the one before; a break is an event and a line in the log with its causes."""
    usage, watch = answered.reply.usage, states.provider.cache
    if usage is None or run.requests.prefix is None:
        return
    read = Read(
        prefix=run.requests.prefix,
        cache_read=usage.cache_read,
        at=states.runtime.services.clock.monotonic(),
        tier=answered.request.cache_tier,
    )
    found = watch.after(read, usage)
    if found is not None:
        why = ", ".join(found.causes) or "nothing of ours changed"
        log.warning(
            "the provider's cache was read %d tokens less: %s",
            found.before - found.now,
            why,
            extra={"run": run.id, "prefix": run.requests.prefix.hash},
        )
        event = CacheBreakDetected(
            conversation=states.session.conversation,
            run=run.id,
            causes=found.causes,
            tokens_before=found.before,
            tokens_after=found.now,
        )
        states.runtime.services.bus.publish(event)
    if watch.is_poor(usage):
        log.warning("%s reads little from its cache here", answered.provider.name, extra={"run": run.id})
