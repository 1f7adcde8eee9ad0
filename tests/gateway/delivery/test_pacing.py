"""Pacing of a conversation: tables and properties over a clock that is only a number."""

import pytest

from gateway.delivery import pacing
from gateway.delivery.pacing import Budget, Pace


@pytest.mark.requirement("G-11")
@pytest.mark.parametrize("interval_s", [1.0, 1.5, 2.0, 3.0])
def test_frames_are_an_interval_apart(interval_s: float) -> None:
    pace = pacing.first_frame(interval_s, 100.0)
    assert pacing.wait_for(pace, 100.0) == pytest.approx(pacing.FIRST_FRAME_AFTER_S)
    pace = pacing.after_frame(pace, 100.1)
    assert pacing.wait_for(pace, 100.1) == pytest.approx(interval_s)
    assert pacing.wait_for(pace, 100.1 + interval_s) == 0.0


@pytest.mark.requirement("G-09")
@pytest.mark.parametrize(
    ("after_s", "wait", "interval_s"),
    [
        pytest.param(7.0, 7.0, 2.0, id="as long as the platform says"),
        pytest.param(0.1, 2.0, 2.0, id="but at least twice as long as before"),
    ],
)
def test_a_refused_frame_slows_the_preview_down(after_s: float, wait: float, interval_s: float) -> None:
    pace = pacing.after_refusal(Pace(interval_s=1.0, not_before=0.0), 50.0, after_s)
    assert pacing.wait_for(pace, 50.0) == pytest.approx(wait)
    assert (pace.interval_s, pace.refusals) == (interval_s, 1)
    assert pacing.after_frame(pace, 60.0).refusals == 0


@pytest.mark.parametrize(
    ("after_s", "failures", "wait"),
    [
        pytest.param(3.0, 1, 3.0, id="the platform's own time"),
        pytest.param(0.0, 1, 0.5, id="soon after the first failure"),
        pytest.param(0.0, 4, 4.0, id="doubling"),
        pytest.param(0.0, 1000, 60.0, id="capped"),
        pytest.param(300.0, 1000, 300.0, id="never sooner than asked"),
    ],
)
@pytest.mark.requirement("G-09")
def test_how_long_a_message_waits(after_s: float, failures: int, wait: float) -> None:
    assert pacing.retry_after(after_s, failures) == wait


def test_frames_leave_one_call_for_the_final() -> None:
    budget = Budget(1.0, 0.0)
    sent = 0
    while budget.wait(0.0) == 0.0:
        budget.spend(0.0)
        sent += 1
    assert sent == pacing.BURST - pacing.RESERVE


def test_finals_make_frames_wait_but_not_for_ever() -> None:
    budget = Budget(1.0, 0.0)
    for _ in range(20):
        budget.spend(0.0)
    assert budget.wait(0.0) == pytest.approx(6.0)
