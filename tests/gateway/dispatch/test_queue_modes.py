"""Queue modes: a message while its conversation is busy."""

import pytest

from gateway.dispatch.queue_modes import QueueMode, Verdict, verdict


@pytest.mark.requirement("B-65", "B-66", "B-67")
@pytest.mark.parametrize(
    ("mode", "is_running", "expected"),
    [
        pytest.param("queue", False, Verdict.ADMIT, id="queue: idle"),
        pytest.param("queue", True, Verdict.ADMIT, id="queue: waits and runs in order"),
        pytest.param("drop", False, Verdict.ADMIT, id="drop: idle"),
        pytest.param("drop", True, Verdict.REFUSE_BUSY, id="drop: busy at once"),
        pytest.param("interrupt", False, Verdict.ADMIT, id="interrupt: nothing to cancel"),
        pytest.param("interrupt", True, Verdict.ADMIT_AND_CANCEL, id="interrupt: cancels, then runs"),
    ],
)
def test_queue_modes(mode: QueueMode, is_running: bool, expected: Verdict) -> None:
    assert verdict(mode, is_running=is_running) is expected


@pytest.mark.requirement("B-65", "B-66", "B-67")
@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        pytest.param("queue", Verdict.ADMIT, id="queue: its turn comes"),
        pytest.param("drop", Verdict.ADMIT, id="drop: it is not refused"),
        pytest.param("interrupt", Verdict.ADMIT_AND_CANCEL, id="interrupt: that is cancelled as well"),
    ],
)
def test_whoever_writes_while_a_plan_or_goal_is_worked_on(mode: QueueMode, expected: Verdict) -> None:
    assert verdict(mode, is_running=True, preemptible=True) is expected
    assert verdict(mode, is_running=False, preemptible=True) is Verdict.ADMIT
