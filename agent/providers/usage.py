"""Usage and price of a call, its attribution, and the meter that every call passes.

`agent.providers.routing` asks the meter before each real attempt (retries and other providers are attempts of their
own) and settles after it, whatever happened; the ledger implements it.
"""

from dataclasses import dataclass, replace
from typing import Literal, Protocol

from agent.core.errors import AgentError
from agent.core.ids import CostAttribution
from agent.providers.provider import Prices, Provider, Request, Usage
from agent.providers.replies import Reply

# Price of a call, by the four tiers of tokens. Pure.

PER = 1_000_000


def cost_of(usage: Usage, prices: Prices | None) -> float | None:
    """USD; None when the price is unknown."""
    if prices is None:
        return None
    return (
        usage.prompt * prices.input
        + usage.output * prices.output
        + usage.cache_creation * prices.of_cache_write
        + usage.cache_read * prices.of_cache_read
    ) / PER


NO_USAGE = Usage()

# How an attempt ended: properly; refused (or nobody was reached), which nobody bills; else cut off, whoever cut it.
End = Literal["done", "refused", "cut"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Usage of one attempt. `estimated`: not all of it was reported. `cost_usd` None: the price is unknown.

    A refused attempt has taken nothing: all zero, and not estimated.
    """

    provider: str
    model: str
    usage: Usage
    cost_usd: float | None
    estimated: bool

    @property
    def is_nothing(self) -> bool:
        return self.usage == NO_USAGE and not self.estimated


class Reservation(Protocol):
    """A hold for one attempt."""

    def settle(self, spent: Spent) -> None:
        """Give back what was not used. Called exactly once; never raises, and waits for nothing."""


class Meter(Protocol):
    """Lets calls pass, or not."""

    async def reserve(
        self, attribution: CostAttribution, provider: Provider, request: Request, input_tokens: int
    ) -> Reservation:
        """Set aside what the attempt may cost at most. `input_tokens` is the calibrated estimate of the request.

        Raises Refused when it exceeds what is left: then no call is made, and no other provider is asked unless it is a
        ProviderBarred.
        """


class Counting(Protocol):
    """The estimator of a conversation's tokens; `agent.turn.tokens.Estimator` keeps this promise."""

    def text(self, text: str) -> int: ...
    def scaled(self, raw: int) -> int: ...
    def learn(self, raw: int, real: int) -> None: ...


class Unmetered:
    """Lets everything pass and notes nothing."""

    async def reserve(
        self, attribution: CostAttribution, provider: Provider, request: Request, input_tokens: int
    ) -> Reservation:
        return self

    def settle(self, spent: Spent) -> None:
        pass


def spent_by(provider: Provider, raw_tokens: int, reply: Reply, counting: Counting, *, end: End) -> Spent:
    """Usage of an attempt: as reported, else estimated and said to be. Learns from a report.

    A report counts at a proper end only: before it, it is a running total or leaves the answer out.
    """
    reported = reply.usage or NO_USAGE
    exact = end == "done" and reported != NO_USAGE
    if exact:
        usage = reported
        counting.learn(raw_tokens, read_of(usage))  # the raw value: a calibrated one would calibrate itself
    elif end == "refused":
        usage = NO_USAGE
    else:
        written = (reply.text, reply.thought, *(f"{call.name}{dict(call.input)}" for call in reply.calls))
        output = counting.scaled(sum(map(counting.text, written)))
        usage = replace(
            reported,
            prompt=reported.prompt if read_of(reported) else counting.scaled(raw_tokens),
            output=max(reported.output, output),
        )
    return Spent(
        provider=provider.name,
        model=provider.model,
        usage=usage,
        cost_usd=cost_of(usage, provider.prices) if end != "refused" else 0.0,
        estimated=not exact and end != "refused",
    )


def read_of(usage: Usage) -> int:
    """Input tokens of all tiers."""
    return usage.prompt + usage.cache_creation + usage.cache_read


# Observer of a call under way. It changes nothing of the call.


class Watcher(Protocol):
    """Hears how a call goes. Nothing in it waits or raises."""

    def begins(self, provider: Provider) -> None:
        """An attempt begins."""

    def answers(self, provider: Provider) -> None:
        """The first piece of an attempt has come."""

    def delta(self, text: str) -> None:
        """The reply grows."""

    def void(self) -> None:
        """Drop the output of this attempt: another follows."""

    def passes(self, provider: Provider, error: AgentError) -> None:
        """This call does not ask that provider again: another one is next."""

    def waits(self, provider: Provider, error: AgentError, failures: int, delay_s: float) -> None:
        """The call will be made again after `delay_s`."""

    def spent(self, spent: Spent) -> None:
        """Usage of an attempt; also of one that was cut off, since it is paid for all the same."""


class Unwatched:
    """The observer of calls whose progress nobody sees."""

    def begins(self, provider: Provider) -> None: ...
    def answers(self, provider: Provider) -> None: ...
    def delta(self, text: str) -> None: ...
    def void(self) -> None: ...
    def passes(self, provider: Provider, error: AgentError) -> None: ...
    def waits(self, provider: Provider, error: AgentError, failures: int, delay_s: float) -> None: ...
    def spent(self, spent: Spent) -> None: ...
