"""Circuit breaker and retries of providers. Pure: time is given.

closed ──failures──▶ open ──time──▶ half open (one probe) ──success──▶ closed, ──failure──▶ open
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from agent.core.backoff import Backoff
from agent.core.errors import AgentError, ProviderBusy

# Retries: when a failed call is made again, and after how long. Pure: the jitter comes as an argument.

MOST = 10  # retries of either kind that a configuration may ask for


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """The numbers. Raises ValueError with the key that is wrong.

    Before the first chunk: `max_retries` times, `backoff_ms` × 2^n ± `jitter`, never over `cap_ms`. After it:
    `stream_retries` times, `stream_backoff_ms` × attempt. After `breaker_failures` in a row, whoever's calls they were,
    the provider is passed over for `breaker_open_ms` where another can answer (`agent.providers.retry_policy`).
    """

    max_retries: int = 3
    backoff_ms: int = 1000
    cap_ms: int = 30_000
    jitter: float = 0.1
    stream_retries: int = 2
    stream_backoff_ms: int = 500
    breaker_failures: int = 4
    breaker_open_ms: int = 30_000

    def __post_init__(self) -> None:
        for key in ("max_retries", "stream_retries"):
            if not 0 <= (value := getattr(self, key)) <= MOST:
                raise ValueError(f"{key} = {value}: must lie between 0 and {MOST}")
        for key in ("backoff_ms", "cap_ms", "stream_backoff_ms", "breaker_failures", "breaker_open_ms"):
            if (value := getattr(self, key)) <= 0:
                raise ValueError(f"{key} = {value}: must be above 0")
        if not 0 <= self.jitter < 1:
            raise ValueError(f"jitter = {self.jitter}: must lie between 0 and 1")


DEFAULT = RetryPolicy()


def delay_for(
    error: AgentError, *, attempt: int, started: bool, jitter: float, policy: RetryPolicy = DEFAULT
) -> float | None:
    """Seconds to wait before the next attempt; None when there shall be none.

    `attempt` is the number of the attempt that failed, 1 for the first. `started`: it had yielded a chunk.
    `jitter` lies between -1 and 1, from the caller's source of chance. A wait that the provider asked for is kept,
    up to the cap.
    """
    if not isinstance(error, ProviderBusy):
        return None  # client errors and everything else that a repetition does not change
    if error.retries is not None and attempt > error.retries:
        return None
    if started:
        if attempt > policy.stream_retries:
            return None
        wait_ms = float(policy.stream_backoff_ms * attempt)
    else:
        if attempt > policy.max_retries:
            return None
        backoff = Backoff(first_s=policy.backoff_ms, longest_s=policy.cap_ms)
        wait_ms = backoff.wait_s(attempt) * (1 + policy.jitter * max(-1.0, min(1.0, jitter)))
    return float(min(max(wait_ms, (error.after_s or 0.0) * 1000), policy.cap_ms)) / 1000


State = Literal["closed", "open", "half_open"]

PATIENCE_S = 5.0  # where others can answer, nobody waits longer than this for one that asks to be left alone
LONGEST_REST_S = 600.0  # however long a server asks for: its header may be wrong


@dataclass(slots=True)
class Circuit:
    """The health of one provider, as this process knows it. Moments are monotonic seconds."""

    failures: int = 0  # in a row
    open_until: float | None = None
    limited: bool = False  # the last failure was a rate limit: it lives, and waiting helps
    probing: bool = False
    is_broken: bool = False  # not merely asked to wait

    def state(self, now: float) -> State:
        if self.open_until is None:
            return "closed"
        return "open" if now < self.open_until else "half_open"

    def lets(self, now: float) -> bool:
        """Whether a call may be made without passing it over; while it is half open there is one at a time."""
        return self.state(now) == "closed" or (self.state(now) == "half_open" and not self.probing)

    def is_patient(self) -> bool:
        """Whether a failed call may be made again: one that is known to be broken is asked once."""
        return self.open_until is None or self.limited

    def begin(self) -> None:
        self.probing = self.open_until is not None

    def succeeded(self) -> bool:
        """Note an answer; returns whether that mended what was broken."""
        mended = self.is_broken
        self.failures, self.open_until = 0, None
        self.limited = self.probing = self.is_broken = False
        return mended

    def failed(self, error: AgentError, now: float, policy: RetryPolicy) -> bool:
        """Note a failure; returns whether the provider counts as broken from now on.

        A probe that fails, a wait longer than `PATIENCE_S` that the server asks for, and a refusal that any request
        would meet open it at once.
        """
        asked_s = min(error.after_s or 0.0, LONGEST_REST_S) if isinstance(error, ProviderBusy) else 0.0
        refused = not isinstance(error, ProviderBusy)
        fails_on = self.failures + 1 >= policy.breaker_failures or self.open_until is not None
        self.failures += 1
        self.limited = isinstance(error, ProviderBusy) and error.limited
        self.probing = False
        if refused or fails_on:
            self.open_until = now + max(asked_s, policy.breaker_open_ms / 1000)
        elif asked_s > PATIENCE_S:
            self.open_until = now + asked_s
        breaks = (refused or fails_on) and not self.limited and not self.is_broken
        self.is_broken = self.is_broken or breaks
        return breaks

    def heard_open(self, until: float, *, limited: bool, broken: bool) -> None:
        """Another process found it open; what this one found does not count beside that."""
        self.open_until, self.limited, self.is_broken = until, limited, broken
        self.failures = max(self.failures, 1)

    def left(self) -> None:
        """The call ended without saying anything about the provider: stopped, or its request was at fault."""
        self.probing = False


def choose(circuits: Sequence[Circuit], now: float) -> int:
    """The position of the provider to ask: the first that lets a call through, else the one that will soonest.

    A circuit never silences the bot: where all are open, each is asked once all the same.
    """
    for index, circuit in enumerate(circuits):
        if circuit.lets(now):
            return index
    return min(range(len(circuits)), key=lambda index: circuits[index].open_until or 0.0)


def others_let(circuits: Sequence[Circuit], index: int, now: float) -> bool:
    """Whether somebody else could take the call now."""
    return any(circuit.lets(now) for position, circuit in enumerate(circuits) if position != index)
