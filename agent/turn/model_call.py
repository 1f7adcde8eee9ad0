"""One call of the model for a turn: shows what comes, says who stands in for whom, and ends at once on a stop."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from agent.core.context_events import EstimatorCalibrated
from agent.core.errors import AgentError, ProviderBarred, ProviderUnpriced
from agent.core.events import StreamDelta
from agent.core.failpoints import failpoint
from agent.core.provider_events import DecisionCompleted, ProviderFailedOver, ProviderReturned, RetryScheduled
from agent.providers.calling import Answered, Attempt, Call
from agent.providers.metering import CostAttribution, Spent
from agent.providers.provider import Provider
from agent.providers.slot import NO_NEED, Need
from agent.turn.accounting import note_spent
from agent.turn.run import Run
from agent.turn.states import States, announce

SUBAGENT = "subagent"  # the purpose of its calls


class CallStopped(Exception):
    """The stop ended the call."""


async def call_model(
    prepare: Callable[[Provider], Attempt], run: Run, states: States, *, previewed: bool = True, need: Need = NO_NEED
) -> Answered:
    """Make the call. `previewed` False: the text is not shown while it grows. `need`: how heavy the request is.

    Raises CallStopped, or the AgentError that ended the last attempt; what that one had shown stays in `run.speech`.
    """
    timeouts, slot = run.settings.timeouts, states.provider.slot
    call = Call(
        route=partial(slot.route, need),
        prepare=prepare,
        attribution=attribution_of(run, states),
        counting=states.metrics.estimator,
        silence_s=timeouts.llm,
        stream_s=timeouts.llm_stream,
        seed=f"{run.id}:{run.progress.model_calls}",
        policy=states.provider.policy,
    )
    answered: Answered | None = None
    with run.interrupts.scope():
        answered = await states.provider.models.ask(call, _Following(run, states, previewed, need))
    if answered is None:
        raise CallStopped
    if "tools" in answered.reply.spared:
        run.without_tools = answered.provider.model
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
            prefix=run.prefix.hash if run.prefix is not None else "",
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


def attribution_of(run: Run, states: States, *, purpose: str = "turn") -> CostAttribution:
    """Who pays for the turn's own calls, and for others that are made for it; a sub-agent's are its parent's to pay."""
    incoming = run.work.incoming
    return CostAttribution(
        purpose=purpose if run.parent is None else SUBAGENT,
        conversation=states.session.conversation,
        session=run.session,
        inbox_id=run.work.inbox_id,
        run=run.id,
        person=incoming.person,
        job=incoming.job,
        goal=str(run.goal) if run.goal is not None else None,
        unattended=incoming.wake_up is not None,
    )


@dataclass(slots=True)
class _Following:
    """`agent.providers.watching.Watcher` of a turn."""

    run: Run
    states: States
    previewed: bool
    need: Need
    publishes: bool = field(init=False)
    retrying: bool = False
    barred: bool = False  # the chosen provider, by its budget

    def __post_init__(self) -> None:
        self.publishes = self.states.runtime.bus.hears(StreamDelta)

    @property
    def chosen(self) -> str:
        """Who is asked first."""
        return self.states.provider.slot.route(self.need)[0].name

    def begins(self, provider: Provider) -> None:
        """The first stand-in is told of at once, people wait; another may only be tried to see whether it can again."""
        state = self.states.provider
        if state.fallback is None and provider.name != self.chosen:
            self._stands_in(provider)

    def _stands_in(self, provider: Provider) -> None:
        """Said once for each change, however long it lasts: not again for every call (PEERS §3.14)."""
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
            self.states.runtime.bus.publish(event)

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
