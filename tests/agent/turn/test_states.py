"""The run that a stop is meant for, by the moments of messages and starts."""

from datetime import UTC, datetime

import pytest

from agent.core.cancellation import CancelToken
from agent.core.ids import RunId
from agent.turn.states import LifecycleState


def moment(second: int) -> datetime:
    return datetime(2026, 3, 1, 12, 0, second, tzinfo=UTC)


def begun(state: LifecycleState, second: int, *, said: int) -> LifecycleState:
    state.begin(RunId(f"run of {second}"), CancelToken(), at=moment(second), said_at=moment(said))
    return state


@pytest.mark.requirement("G-05")
@pytest.mark.parametrize(
    ("stop", "meant"),
    [pytest.param(2, False, id="said before its words"), pytest.param(4, True, id="said before it had begun"),
     pytest.param(6, True, id="said while it goes on")],
)  # fmt: skip
def test_of_the_only_run(stop: int, meant: bool) -> None:
    assert begun(LifecycleState(), 5, said=3).is_meant(moment(stop)) is meant


@pytest.mark.requirement("G-05", "R-53")
@pytest.mark.parametrize(
    ("stop", "meant"),
    [pytest.param(4, False, id="said of the run before, which then ended by itself"),
     pytest.param(6, True, id="said when the one before was over")],
)  # fmt: skip
def test_of_a_run_that_waited_for_another(stop: int, meant: bool) -> None:
    state = begun(LifecycleState(), 1, said=0)
    state.end(moment(5))
    assert begun(state, 7, said=3).is_meant(moment(stop)) is meant


@pytest.mark.requirement("G-05")
@pytest.mark.parametrize(
    ("stop", "meant"),
    [pytest.param(4, False, id="the stop that ended the one before"),
     pytest.param(6, True, id="said again while the one before was ending")],
)  # fmt: skip
def test_of_a_run_that_follows_a_stopped_one(stop: int, meant: bool) -> None:
    state = begun(LifecycleState(), 1, said=0)
    assert state.stop("once", moment(5))
    assert state.is_ending
    assert state.stop("twice", moment(6))
    state.end(moment(8))
    assert begun(state, 9, said=3).is_meant(moment(stop)) is meant
    assert not LifecycleState().stop("nothing runs", moment(1))


@pytest.mark.requirement("G-05")
@pytest.mark.parametrize(
    ("stop", "meant"),
    [pytest.param(2, False, id="said before its words"), pytest.param(4, True, id="said right behind its words"),
     pytest.param(21, False, id="said while the one before went on")],
)  # fmt: skip
def test_of_a_run_whose_words_were_read_from_a_history(stop: int, meant: bool) -> None:
    """Nobody was at work when all of it was said; the one before was stopped by a stop of the history, too."""
    state = begun(LifecycleState(), 20, said=1)
    assert state.stop("once", moment(22))
    state.end(moment(23))
    assert begun(state, 24, said=3).is_meant(moment(stop)) is meant
