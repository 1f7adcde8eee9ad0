"""Waits double, are bounded, and are never shorter than what the other side asked for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.backoff import Backoff, Retries


@pytest.mark.parametrize(
    ("failures", "wait"), [(0, 0.5), (1, 0.5), (2, 1.0), (3, 2.0), (7, 30.0), (5000, 30.0)], ids=str
)
def test_waits_double_up_to_the_longest(failures: int, wait: float) -> None:
    assert Backoff(first_s=0.5, longest_s=30.0).wait_s(failures) == wait


def test_another_factor_than_two() -> None:
    backoff = Backoff(first_s=35.0, longest_s=120.0, factor=1.5)
    assert [backoff.wait_s(failures) for failures in (1, 2, 9, 5000)] == [35.0, 52.5, 120.0, 120.0]


def test_a_wait_that_was_asked_for_is_kept_however_long_and_whatever_chance_takes_off() -> None:
    backoff = Backoff(first_s=0.5, longest_s=30.0, jitter=0.5)
    assert backoff.wait_s(1, asked_s=300.0, chance=1.0) == 300.0
    assert backoff.wait_s(5, asked_s=1.0, chance=1.0) == 4.0


@given(st.integers(0, 10_000), st.floats(0, 1))
def test_chance_takes_off_no_more_than_its_share(failures: int, chance: float) -> None:
    backoff = Backoff(first_s=0.5, longest_s=30.0, jitter=0.5)
    assert 0.25 <= backoff.wait_s(failures, chance=chance) <= 30.0
    assert backoff.wait_s(failures, chance=chance) <= backoff.wait_s(failures + 1, chance=chance)


def test_a_success_makes_the_next_failure_the_first() -> None:
    retries = Retries(Backoff(first_s=1.0, longest_s=60.0))
    assert [retries.failed(), retries.failed(), retries.failed(asked_s=9.0)] == [1.0, 2.0, 9.0]
    retries.succeeded()
    assert (retries.failed(), retries.failures) == (1.0, 1)


def test_those_that_failed_together_do_not_come_back_together() -> None:
    waits = {Retries(Backoff(first_s=8.0, longest_s=60.0, jitter=0.5)).failed() for _ in range(50)}
    assert len(waits) > 40
    assert all(4.0 <= wait <= 8.0 for wait in waits)
