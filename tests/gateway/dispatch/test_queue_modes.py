"""What a message meets while its conversation is busy."""

import pytest

from gateway.dispatch.queue_modes import QueueMode, Verdict, verdict


@pytest.mark.requirement("B-65", "B-66", "B-67")
@pytest.mark.parametrize(
    ("mode", "is_running", "waiting", "expected"),
    [
        pytest.param("queue", False, 0, Verdict.ADMIT, id="queue: idle"),
        pytest.param("queue", True, 3, Verdict.ADMIT, id="queue: waits and runs in order"),
        pytest.param("drop", False, 0, Verdict.ADMIT, id="drop: idle"),
        pytest.param("drop", True, 0, Verdict.REFUSE_BUSY, id="drop: busy at once"),
        pytest.param("drop", False, 1, Verdict.REFUSE_BUSY, id="drop: another is about to run"),
        pytest.param("interrupt", False, 0, Verdict.ADMIT, id="interrupt: nothing to cancel"),
        pytest.param("interrupt", False, 2, Verdict.ADMIT, id="interrupt: what waits is not cancelled"),
        pytest.param("interrupt", True, 0, Verdict.ADMIT_AND_CANCEL, id="interrupt: cancels, then runs"),
    ],
)
def test_queue_modes(mode: QueueMode, is_running: bool, waiting: int, expected: Verdict) -> None:
    assert verdict(mode, is_running=is_running, waiting=waiting) is expected


@pytest.mark.requirement("B-66")
def test_whoever_writes_while_a_plan_or_goal_is_worked_on_is_not_refused() -> None:
    assert verdict("drop", is_running=True, preemptible=True) is Verdict.ADMIT
    assert verdict("drop", is_running=True, preemptible=True, waiting=1) is Verdict.REFUSE_BUSY
