"""Every call of a model: failover > circuit > retry > meter > provider. Turns, judges and summaries all come through.

Each call begins at the provider that was chosen; another one that stood in for it is no choice and is not kept.
"""

import asyncio
import logging
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from fnmatch import fnmatchcase
from itertools import chain
from typing import Literal, Protocol, TypeGuard

import anyio

from agent.core.clock import Clock
from agent.core.errors import (
    AgentError,
    NoModelAllowed,
    NoProviders,
    ProviderBarred,
    ProviderBusy,
    ProviderRefused,
    ProviderUnpriced,
)
from agent.core.ids import CostAttribution
from agent.core.model_facts import OpenCircuit
from agent.providers.provider import Provider, Request, TextWithdrawn
from agent.providers.registry import LazyProvider, Registry
from agent.providers.replies import Accumulator, Reply
from agent.providers.retry_policy import PATIENCE_S, Circuit, RetryPolicy, State, choose, delay_for, others_let
from agent.providers.settings import is_model_name
from agent.providers.usage import Counting, End, Meter, Unmetered, Watcher, read_of, spent_by

KEPT_CIRCUITS = 256
TOLD_AGAIN_S = 1.0  # a circuit that stays open for less than this longer than others know is not told again
LOAD_WITHIN_S = 120.0  # a library that takes longer on a loaded machine is as good as missing

Key = tuple[str, str]  # name and model

log = logging.getLogger("tieline.providers")


class ModelTooSlow(AgentError):
    """The whole stream took longer than it may; what came so far stands (B-33)."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A request for a provider and its raw estimate."""

    request: Request
    raw_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One question to a model.

    `route` gives the chosen provider and then those that may stand in, `prepare` the request for one of them; both are
    asked before each attempt, so that another choice counts at once (Z-20). `silence_s` bounds the wait for each piece,
    `stream_s` the whole stream. `seed` spreads the back-off and is the same in a replay (B-02). A call to make `once`
    is not repeated at the same provider: whoever asks has another way. `policy` is that of its turn (Z-21), None: the
    one in force.
    """

    route: Callable[[], Sequence[Provider]]
    prepare: Callable[[Provider], Attempt]
    attribution: CostAttribution
    counting: Counting
    silence_s: float
    stream_s: float
    seed: str
    once: bool = False
    policy: RetryPolicy | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A whole reply and who gave it. Milliseconds since the last attempt began."""

    reply: Reply
    provider: Provider
    request: Request
    elapsed_ms: int
    first_piece_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """Calls that a provider failed in this process, not by the request's own fault: how many, and the last one."""

    count: int
    last: str
    at: datetime


@dataclass(slots=True)
class _Tries:
    """The failures of one call so far, by provider."""

    failed: dict[Key, dict[bool, int]] = field(default_factory=dict)  # attempts that had not, and that had, begun
    patient: dict[Key, bool] = field(default_factory=dict)
    given_up: dict[Key, AgentError] = field(default_factory=dict)
    unanswered: set[Key] = field(default_factory=set)  # who has left an attempt without a byte

    def give_up(self, key: Key, error: AgentError) -> None:
        """Ask no more there. A server that breaks over a request may be gone at the attempts after it."""
        if key in self.unanswered and isinstance(error, ProviderBusy):
            error.unanswered = True
        self.given_up[key] = error

    @property
    def failures(self) -> int:
        return sum(sum(counts.values()) for counts in self.failed.values())


class SharedCircuits(Protocol):
    """Circuits that other processes opened, and are told of. Never raises for trouble of where they are kept."""

    async def read_all(self) -> Sequence[OpenCircuit] | None:
        """All that did not close; None: nobody knows."""

    async def open(self, circuit: OpenCircuit) -> bool:
        """Tell that it is open; whether that was possible."""

    async def close(self, provider: str, model: str | None = None) -> None:
        """Tell that it is closed; without a model, that all of the provider are."""

    async def may_try(self, provider: str, model: str, hold_s: float) -> bool:
        """Whether this process is the one to try the provider now; the others then wait for `hold_s`."""


class Models:
    """Makes calls for the whole process and remembers which providers fail."""

    def __init__(
        self,
        clock: Clock,
        *,
        meter: Meter | None = None,
        policy: Callable[[], RetryPolicy] = RetryPolicy,
        on_health: Callable[[Provider, AgentError | None], None] = lambda provider, trouble: None,
        on_first_answer: Callable[[Provider], None] = lambda provider: None,
        on_failure: Callable[[Provider, AgentError, CostAttribution], None] = lambda provider, error, attribution: None,
        shared: SharedCircuits | None = None,
    ) -> None:
        """`shared` is where other processes learn of circuits that open and close; None: there are none.

        `on_health` hears of a provider that is passed over, and why; None when it is back.

        `on_first_answer` hears of each that answers for the first time in this process, `on_failure` of each attempt
        that fails, not by the request's own fault, and for whom it was made.
        """
        self._clock = clock
        self._meter = meter or Unmetered()
        self._policy = policy
        self._on_health, self._on_first_answer, self._on_failure = on_health, on_first_answer, on_failure
        self._circuits: dict[Key, Circuit] = {}
        self._answered: set[Key] = set()
        self._failures: dict[Key, Failures] = {}
        self._shared = shared
        self._told: dict[Key, float] = {}  # circuits that others know as open, and until when: monotonic seconds
        self._telling: set[Key] = set()
        self._tellings = 0
        self._passed_over: dict[Key, Provider] = {}  # as `on_health` was told

    @property
    def policy(self) -> RetryPolicy:
        """The one in force."""
        return self._policy()

    def state_of(self, provider: Provider) -> State:
        """The state of its circuit."""
        circuit = self._circuits.get(_key(provider))
        return circuit.state(self._clock.monotonic()) if circuit else "closed"

    def failures_of(self, provider: Provider) -> Failures | None:
        """Its failures since the start; None without any."""
        return self._failures.get(_key(provider))

    def forget(self, name: str) -> None:
        """Take it for healthy until the next call tells: its settings were changed, or an operator has mended it."""
        self._circuits = {key: circuit for key, circuit in self._circuits.items() if key[0] != name}
        self._answered = {key for key in self._answered if key[0] != name}

    async def forgive(self, name: str) -> None:
        """The same for all processes."""
        self.forget(name)
        if self._shared is not None:
            await self._shared.close(name)

    async def read_circuits(self) -> None:
        """Take over which circuits other processes have opened and closed."""
        if self._shared is None:
            return
        found: Sequence[OpenCircuit] | None = None
        tellings = -1
        while tellings != self._tellings:  # a circuit that opens here meanwhile may not be among them
            tellings = self._tellings
            found = await self._shared.read_all()
        if found is None:
            return
        now = self._clock.monotonic()
        for one in found:
            key = one.provider, one.model
            self._told[key] = now + one.rest_s
            self._circuit(key).heard_open(now + one.rest_s, limited=one.limited, broken=one.broken)
        for key in self._told.keys() - {(one.provider, one.model) for one in found} - self._telling:
            del self._told[key]
            circuit, provider = self._circuits.get(key), self._passed_over.pop(key, None)
            if circuit is not None and circuit.succeeded() and provider is not None:
                log.info("%s answers again, as another process found", provider.name)
                self._on_health(provider, None)

    async def ask(self, call: Call, watcher: Watcher) -> Answered:
        """Make the call.

        Raises the AgentError that ended the last attempt, or NoProviders when several were asked in vain. What the last
        attempt had shown is not taken back.
        """
        tries = _Tries()
        while True:
            whole = call.route()
            route = [provider for provider in whole if _key(provider) not in tries.given_up]
            if not route:
                raise _verdict(tries, _key(whole[0]))
            circuits = [self._circuit(_key(provider)) for provider in route]
            index = choose(circuits, self._clock.monotonic())
            provider, circuit = route[index], circuits[index]
            if self._shared is not None and circuit.state(self._clock.monotonic()) == "half_open":
                elsewhere = await self._is_tried_elsewhere(self._shared, call, provider, circuit)
                if elsewhere and others_let(circuits, index, self._clock.monotonic()):
                    continue
            patient = tries.patient.setdefault(_key(provider), circuit.is_patient())
            taker = Accumulator(provider.family)
            outcome = await self._try(call, provider, circuit, taker, watcher)
            if _is_about_the_request(outcome) and _key(provider) == _key(whole[0]):
                raise outcome  # of a stand-in it is no reason: the request was made for another
            if isinstance(outcome, Answered):
                return outcome
            if isinstance(outcome, ProviderBusy) and outcome.unanswered:
                tries.unanswered.add(_key(provider))
            again = patient and not call.once and not isinstance(outcome, ProviderBarred)
            delay = self._delay(call, outcome, provider, taker.begun, tries) if again else None
            if delay is not None and delay > PATIENCE_S and others_let(circuits, index, self._clock.monotonic()):
                delay = None
            if delay is None:
                tries.give_up(_key(provider), outcome)
                if len(route) == 1:
                    raise _verdict(tries, _key(whole[0]))
                log.warning("%s; asking another provider", outcome, extra={"run": call.attribution.run})
                watcher.void()
                watcher.passes(provider, outcome)
            else:
                watcher.void()
                log.warning("%s; trying again in %.1f s", outcome, delay, extra={"run": call.attribution.run})
                watcher.waits(provider, outcome, tries.failures, delay)
                await self._clock.sleep(delay)

    async def _is_tried_elsewhere(
        self, shared: SharedCircuits, call: Call, provider: Provider, circuit: Circuit
    ) -> bool:
        """Whether another process is the one to find out whether the provider is well; it is passed over meanwhile."""
        hold_s = (call.policy or self.policy).breaker_open_ms / 1000
        circuit.begin()  # for the others of this process
        try:
            elsewhere = not await shared.may_try(provider.name, provider.model, hold_s)
        finally:
            circuit.left()
        if elsewhere and circuit.open_until is not None:
            circuit.open_until = self._clock.monotonic() + hold_s
        return elsewhere

    async def _tell_open(self, key: Key, circuit: Circuit) -> None:
        """Tell other processes until when it is open, unless they know."""
        until = circuit.open_until
        if self._shared is None or until is None or until - self._told.get(key, 0.0) < TOLD_AGAIN_S:
            return
        self._told[key] = until
        self._telling.add(key)
        self._tellings += 1
        name, model = key
        rest_s = until - self._clock.monotonic()
        told = OpenCircuit(provider=name, model=model, rest_s=rest_s, limited=circuit.limited, broken=circuit.is_broken)
        try:
            if not await self._shared.open(told):
                self._told.pop(key, None)
        finally:
            self._telling.discard(key)
            self._tellings += 1

    def _circuit(self, key: Key) -> Circuit:
        if len(self._circuits) >= KEPT_CIRCUITS:  # people may name any model
            self._circuits = {key: circuit for key, circuit in self._circuits.items() if circuit.failures}
            self._answered &= self._circuits.keys()
            self._failures = {key: failed for key, failed in self._failures.items() if key in self._circuits}
        return self._circuits.setdefault(key, Circuit())

    async def _try(
        self, call: Call, provider: Provider, circuit: Circuit, taker: Accumulator, watcher: Watcher
    ) -> Answered | AgentError:
        """One attempt: the answer, or what speaks against asking this provider now. Raises what ends the call."""
        circuit.begin()
        key = _key(provider)
        try:
            answered = await self._attempt(call, provider, taker, watcher)
        except ProviderBarred as error:
            return error  # it says nothing about the provider's health
        except (ProviderBusy, ProviderRefused) as error:
            if _is_about_the_request(error):
                return error
            before = self._failures.get(key)
            count = before.count + 1 if before is not None else 1
            self._failures[key] = Failures(count=count, last=str(error), at=self._clock.now())
            self._on_failure(provider, error, call.attribution)
            if circuit.failed(error, self._clock.monotonic(), call.policy or self.policy):
                log.error("%s is passed over for a while: %s", provider.name, error)  # noqa: TRY400 - no defect of ours
                self._passed_over[key] = provider
                self._on_health(provider, error)
            await self._tell_open(key, circuit)
            return error
        finally:
            circuit.left()
        if circuit.succeeded():
            log.info("%s answers again", provider.name)
            self._passed_over.pop(key, None)
            self._on_health(provider, None)
        if self._shared is not None and self._told.pop(key, None) is not None:
            await self._shared.close(*key)
        if key not in self._answered:
            self._answered.add(key)
            self._on_first_answer(provider)
        return answered

    def _delay(self, call: Call, error: AgentError, provider: Provider, begun: bool, tries: _Tries) -> float | None:
        counts = tries.failed.setdefault(_key(provider), {False: 0, True: 0})
        counts[begun] += 1
        jitter = zlib.crc32(f"{call.seed}:{counts[begun]}".encode()) / 0x7FFFFFFF - 1
        return delay_for(error, attempt=counts[begun], started=begun, jitter=jitter, policy=call.policy or self.policy)

    async def _attempt(self, call: Call, provider: Provider, taker: Accumulator, watcher: Watcher) -> Answered:
        if not provider.is_warm:
            await _warmed(provider)
        attempt = call.prepare(provider)
        tokens = call.counting.scaled(attempt.raw_tokens)
        reservation = await self._meter.reserve(call.attribution, provider, attempt.request, tokens)
        end: End = "cut"  # also by a stop: the request is out
        answered: Answered | None = None
        try:
            watcher.begins(provider)
            answered = await self._consume(call, attempt, provider, taker, watcher)
            end = "done"
            if isinstance(provider, LazyProvider) and provider.doubts_window:
                usage = answered.reply.usage
                provider.known.answered((read_of(usage) if usage is not None else 0) or tokens, tokens)
        except AgentError as error:
            if not taker.begun and not (isinstance(error, ProviderBusy) and error.sent):
                end = "refused"
            raise
        finally:
            reply = answered.reply if answered is not None else taker.reply()
            spent = spent_by(provider, attempt.raw_tokens, reply, call.counting, end=end)
            reservation.settle(spent)
            if end != "refused":
                watcher.spent(spent)
        return answered

    async def _consume(
        self, call: Call, attempt: Attempt, provider: Provider, taker: Accumulator, watcher: Watcher
    ) -> Answered:
        """Read one stream to its end. Raises ProviderBusy when it stalls or closes without saying so (W-42)."""
        clock = self._clock
        began = clock.monotonic()
        first_ms: int | None = None
        loop_time = asyncio.get_running_loop().time  # anyio finds out each time which loop runs
        heard = loop_time()
        last = heard + call.stream_s
        with anyio.CancelScope(deadline=min(last, heard + call.silence_s)) as scope:
            async with aclosing(provider.stream(attempt.request)) as chunks:
                async for chunk in chunks:
                    delta = taker.take(chunk)
                    if isinstance(chunk, TextWithdrawn):
                        watcher.void()
                    if first_ms is None:
                        first_ms = round((clock.monotonic() - began) * 1000)
                        watcher.answers(provider)
                    if delta:
                        watcher.delta(delta)
                    # Setting a deadline costs more than asking for the time.
                    if (now := loop_time()) > heard + call.silence_s / 20:
                        heard, scope.deadline = now, min(last, now + call.silence_s)
        if not taker.done:
            if scope.cancelled_caught:
                if loop_time() >= last:
                    raise ModelTooSlow(f"{provider.name}: the stream took longer than {call.stream_s:g} s")
                raise ProviderBusy(f"{provider.name}: nothing came for {call.silence_s:g} s", sent=True)
            raise ProviderBusy(f"{provider.name}: the stream ended without its closing event", sent=True)
        for what in taker.unknown:
            log.warning("unknown piece of a stream left out: %s", what, extra={"run": call.attribution.run})  # G-34
        return Answered(
            reply=taker.reply(),
            provider=provider,
            request=attempt.request,
            elapsed_ms=round((clock.monotonic() - began) * 1000),
            first_piece_ms=first_ms,
        )


async def _warmed(provider: Provider) -> None:
    """Its window and its library are not the stream's time. Raises ProviderBusy when they take too long."""
    try:
        with anyio.fail_after(LOAD_WITHIN_S):
            await provider.warm_up()
    except TimeoutError:
        raise ProviderBusy(f"{provider.name}: its library took longer than {LOAD_WITHIN_S:g} s to load") from None


def _key(provider: Provider) -> Key:
    return provider.name, provider.model


def _is_about_the_request(outcome: Answered | AgentError) -> TypeGuard[ProviderRefused]:
    return isinstance(outcome, ProviderRefused) and not outcome.any_request


def _verdict(tries: _Tries, chosen: Key) -> AgentError:
    """The error of a call for which no provider is left: of one its own error, of several that none can.

    A budget that is used up goes before the others' troubles: somebody can change it at once. So can they name a price
    that the chosen one lacks.
    """
    errors = list(tries.given_up.values())
    spent = (error for error in errors if isinstance(error, ProviderBarred) and not isinstance(error, ProviderUnpriced))
    if (barred := next(spent, None)) is not None:
        return barred
    if len(errors) == 1 or isinstance(errors[0], ProviderUnpriced):
        return errors[0]
    return NoProviders("; ".join(str(error) for error in errors), chosen=tries.given_up.get(chosen))


# The choice of one conversation: its provider and model, read at the start of each model call (Z-02, Z-20).

Chooser = Literal["default", "user", "admin"]
Scope = Literal["channel", "group", "account"]  # for what it was chosen: this chat, the place it is part of, all chats


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A choice, by whom and for what; the record that is stored and shown. `model` None: as configured."""

    provider: str
    model: str | None = None
    source: Chooser = "default"
    scope: Scope = "channel"


@dataclass(frozen=True, slots=True)
class Need:
    """The weight of a request: the tier of its routing hint, and its scaled tokens."""

    tier: str = ""
    tokens: int = 0


NO_NEED = Need()
FITS = 0.5  # of the window of a provider that takes a request by need: the answer and what is added need room too


Patterns = tuple[str, ...]  # of `provider/model`
EVERY_MODEL: Sequence[Patterns] = ()
_WILDCARD = re.compile(r"[*?\[]")


def allowed(provider: str, model: str, lists: Sequence[Patterns]) -> bool:
    """Whether that model may answer where these lists hold: one pattern of each must fit. No list: every one may.

    `*` stands for any text, `?` for one character; upper and lower case are the same.
    """
    name = f"{provider}/{model}".casefold()
    return all(any(fnmatchcase(name, pattern.casefold()) for pattern in patterns) for patterns in lists)


class ProviderSlot:
    """One per conversation. A choice takes effect at the next call; a call that runs is not touched.

    Within a turn the pool is that of its beginning (Z-21); what was added meanwhile may be chosen all the same. The
    models that may answer are those of its beginning too.
    """

    def __init__(self, registry: Registry, lists: Callable[[], Sequence[Patterns]] = lambda: EVERY_MODEL) -> None:
        """`lists` are those of the models that may answer in this place (`allowed`)."""
        self._registry = self._pool = registry
        self._choice: Choice | None = None
        self._lists = lists
        self._of_turn: Sequence[Patterns] | None = None

    @property
    def choice(self) -> Choice:
        if self._choice is not None and self._choice.provider in self._registry:
            return self._choice
        return Choice(provider=self._registry.default.name)

    def current(self) -> LazyProvider:
        """The provider for the call that begins now: the chosen one where it may answer, else the first that may.

        The chosen one also where none may; `route` refuses then.
        """
        chosen, lists = self._chosen(), self._allowed()
        return chosen if _may(chosen, lists) else next(self._others(lists), chosen)

    def _allowed(self) -> Sequence[Patterns]:
        return self._lists() if self._of_turn is None else self._of_turn

    def _others(self, lists: Sequence[Patterns]) -> Iterator[LazyProvider]:
        """Models that may answer: the default, the configured ones in order, then those that a pattern spells out."""
        pool = self._pool
        for provider in (pool.default, *map(pool.get, pool.names)):
            if _may(provider, lists):
                yield provider
        for pattern in chain.from_iterable(lists):
            name, _, model = pattern.partition("/")
            spelt_out = name in pool and is_model_name(model) and not _WILDCARD.search(pattern)
            if spelt_out and allowed(name, model, lists):
                yield pool.with_model(name, model)

    def _chosen(self) -> LazyProvider:
        choice = self._choice
        pool = self._pool_with(choice.provider) if choice is not None else self._pool
        if choice is None or choice.provider not in pool:
            return self._pool.default
        if choice.model is None:
            return pool.get(choice.provider)
        return pool.with_model(choice.provider, choice.model)

    def named(self, name: str) -> LazyProvider:
        """The configured provider of that name, whatever is chosen here; where it may not answer, the current one.

        Raises UnknownProvider, or NoModelAllowed where the current one may not answer either.
        """
        named, lists = self._pool_with(name).get(name), self._allowed()
        if _may(named, lists):
            return named
        current = self.current()
        if not _may(current, lists):
            raise NoModelAllowed(tuple(chain.from_iterable(lists)))
        return current

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Keep the pool as it is now until the turn is over, whatever a reload makes of it."""
        with self._registry.taken() as self._pool:
            self._of_turn = tuple(self._lists())
            try:
                yield
            finally:
                self._pool = self._registry
                self._of_turn = None

    def _pool_with(self, name: str) -> Registry:
        return self._pool if name in self._pool else self._registry

    def route(self, need: Need = NO_NEED) -> Sequence[Provider]:
        """The provider, then its fallbacks.

        Where nobody has chosen, the one that `[llm.routing]` names for that need goes first, if the request fits it.
        Raises NoModelAllowed where none of them may answer.
        """
        lists = self._allowed()
        route = [one for one in self._pool.route(self.current()) if _may(one, lists)]
        if not route:
            raise NoModelAllowed(tuple(chain.from_iterable(lists)))
        is_free = self._choice is None or self.choice.source == "default"
        routed = self._pool.for_tier(need.tier) if is_free else None
        if routed is None or not _may(routed, lists) or need.tokens > routed.context_window * FITS:
            return route
        return (routed, *(one for one in route if one.name != routed.name))

    def override(self, name: str, source: Chooser = "user", model: str | None = None) -> Choice:
        """Use that provider, with its configured model or another. Raises UnknownProvider and changes nothing."""
        chosen = self._registry.get(name)
        other = model if model != chosen.settings.model else None
        self._choice = Choice(provider=chosen.name, model=other, source=source)
        self._registry.expect(self.current())
        return self._choice

    def use_model(self, model: str, source: Chooser = "user") -> Choice:
        """Keep the provider, use another of its models."""
        provider = self._chosen()
        chosen = None if model == self._registry.get(provider.name).settings.model else model
        self._choice = Choice(provider=provider.name, model=chosen, source=source)
        self._registry.expect(self.current())
        return self._choice

    def restore(self, choice: Choice) -> bool:
        """Take up a stored choice. False, and the default, when its provider is gone from the configuration (Z-70)."""
        if choice.provider not in self._registry:
            self.reset()
            return False
        model = choice.model if is_model_name(choice.model or "") else None
        self._choice = replace(choice, provider=self._registry.get(choice.provider).name, model=model)
        self._registry.expect(self.current())
        return True

    def reset(self) -> Choice:
        """Back to the default."""
        self._choice = None
        return self.choice


def _may(provider: LazyProvider, lists: Sequence[Patterns]) -> bool:
    return allowed(provider.name, provider.model, lists)
