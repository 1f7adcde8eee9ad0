"""The retry policy, in numbers."""

import pytest

from agent.core.errors import AgentError, ContextTooLong, NoProviders, ProviderBusy, ProviderRefused
from agent.providers.retry_policy import RetryPolicy, delay_for

BUSY = ProviderBusy("busy")


@pytest.mark.requirement("B-32", "B-86", "B-87", "Z-33", "R-18")
@pytest.mark.parametrize(
    ("attempt", "jitter", "delay"),
    [
        pytest.param(1, 0.0, 1.0, id="first retry after a second"),
        pytest.param(2, 0.0, 2.0, id="then twice that"),
        pytest.param(3, 0.0, 4.0, id="third and last"),
        pytest.param(4, 0.0, None, id="no fourth"),
        pytest.param(1, 1.0, 1.1, id="ten per cent more"),
        pytest.param(1, -1.0, 0.9, id="ten per cent less"),
    ],
)
def test_before_the_first_chunk(attempt: int, jitter: float, delay: float | None) -> None:
    assert delay_for(BUSY, attempt=attempt, started=False, jitter=jitter) == (delay and pytest.approx(delay))


@pytest.mark.requirement("W-41", "W-43")
@pytest.mark.parametrize(("attempt", "delay"), [(1, 0.5), (2, 1.0), (3, None)])
def test_after_the_first_chunk(attempt: int, delay: float | None) -> None:
    assert delay_for(BUSY, attempt=attempt, started=True, jitter=1.0) == delay


@pytest.mark.requirement("B-37")
@pytest.mark.parametrize("started", [False, True])
@pytest.mark.parametrize(
    ("after_s", "delay"),
    [
        pytest.param(7.0, 7.0, id="a longer wait is kept"),
        pytest.param(0.01, None, id="a shorter one is not"),
        pytest.param(600.0, 30.0, id="never over the cap"),
    ],
)
def test_the_wait_a_provider_asks_for(started: bool, after_s: float, delay: float | None) -> None:
    own = delay_for(BUSY, attempt=1, started=started, jitter=0.0)
    assert delay_for(ProviderBusy("busy", after_s=after_s), attempt=1, started=started, jitter=0.0) == (delay or own)


@pytest.mark.requirement("Z-33")
@pytest.mark.parametrize("error", [ProviderRefused("no"), ContextTooLong("long"), NoProviders("none"), AgentError("x")])
@pytest.mark.parametrize("started", [False, True])
def test_what_a_repetition_does_not_change_is_not_repeated(error: AgentError, started: bool) -> None:
    assert delay_for(error, attempt=1, started=started, jitter=0.0) is None


def test_the_cap_holds_for_the_doubling_too() -> None:
    policy = RetryPolicy(max_retries=10)
    assert delay_for(BUSY, attempt=9, started=False, jitter=1.0, policy=policy) == 30.0


@pytest.mark.parametrize(
    "wrong",
    [{"max_retries": 11}, {"stream_retries": -1}, {"backoff_ms": 0}, {"cap_ms": -5}, {"jitter": 1.0}],
)
def test_impossible_numbers_are_refused_by_name(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        RetryPolicy(**wrong)


def test_what_is_worth_one_more_attempt_gets_one() -> None:
    once = ProviderBusy("unreadable", retries=1)
    assert delay_for(once, attempt=1, started=False, jitter=0.0) == 1.0
    assert delay_for(once, attempt=2, started=False, jitter=0.0) is None
    assert delay_for(once, attempt=2, started=True, jitter=0.0) is None
