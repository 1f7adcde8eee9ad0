"""When a failed call is made again, and after how long (SPEC §7.2, §21.7). Pure: the jitter comes as an argument."""

from dataclasses import dataclass

from agent.core.errors import AgentError, ProviderBusy

MOST = 10  # retries of either kind that a configuration may ask for


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """The numbers. Raises ValueError with the key that is wrong.

    Before the first chunk: `max_retries` times, `backoff_ms` × 2^n ± `jitter`, never over `cap_ms`. After it:
    `stream_retries` times, `stream_backoff_ms` × attempt. After `breaker_failures` in a row, whoever's calls they were,
    the provider is passed over for `breaker_open_ms` where another can answer (`agent.providers.circuits`).
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
        wait_ms = policy.backoff_ms * 2 ** (attempt - 1) * (1 + policy.jitter * max(-1.0, min(1.0, jitter)))
    return float(min(max(wait_ms, (error.after_s or 0.0) * 1000), policy.cap_ms)) / 1000
