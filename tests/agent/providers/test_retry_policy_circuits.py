"""Circuits: when a provider is skipped, and when it is asked again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.errors import AgentError, ProviderBusy, ProviderRefused
from agent.providers.retry_policy import LONGEST_REST_S, Circuit, RetryPolicy, choose, others_let

POLICY = RetryPolicy(breaker_failures=4, breaker_open_ms=30_000)
BUSY = ProviderBusy("500")
LIMITED = ProviderBusy("429", after_s=60, limited=True)
BAD_KEY = ProviderRefused("401", any_request=True)


def after(*errors: AgentError, at: float = 0.0) -> Circuit:
    circuit = Circuit()
    for error in errors:
        circuit.begin()
        circuit.failed(error, at, POLICY)
    return circuit


@pytest.mark.parametrize(
    ("errors", "opens_for"),
    [
        pytest.param([BUSY] * 3, 0, id="three failures are bad luck"),
        pytest.param([BUSY] * 4, 30, id="four in a row are a pattern"),
        pytest.param([BAD_KEY], 30, id="a refused key at once"),
        pytest.param([LIMITED], 60, id="as long as the server asks to be left alone"),
        pytest.param([ProviderBusy("503", after_s=3)], 0, id="a short wait is no reason"),
        pytest.param([ProviderBusy("503", after_s=1e6)], LONGEST_REST_S, id="a mad header is cut"),
    ],
)
def test_what_opens_it_and_for_how_long(errors: list[AgentError], opens_for: float) -> None:
    circuit = after(*errors)
    assert circuit.lets(0.0) is (opens_for == 0)
    if opens_for:
        assert not circuit.lets(opens_for - 0.001)
        assert circuit.lets(opens_for)
        assert circuit.state(opens_for) == "half_open"


def test_an_answer_between_failures_begins_the_count_anew() -> None:
    circuit = after(BUSY, BUSY, BUSY)
    assert circuit.succeeded() is False
    for _ in range(3):
        assert circuit.failed(BUSY, 0.0, POLICY) is False
    assert circuit.state(0.0) == "closed"
    assert circuit.failed(BUSY, 0.0, POLICY) is True


def test_half_open_lets_one_probe_through_whose_end_decides() -> None:
    circuit = after(*[BUSY] * 4)
    assert circuit.lets(31)
    circuit.begin()
    assert not circuit.lets(31), "a second call goes elsewhere while the probe is out"
    circuit.failed(BUSY, 40, POLICY)
    assert not circuit.lets(69)
    assert circuit.lets(70)
    circuit.begin()
    circuit.left()
    assert circuit.lets(70), "a probe that was stopped by its person says nothing"
    circuit.begin()
    assert circuit.succeeded() is True
    assert circuit.state(70) == "closed"


@pytest.mark.requirement("B-37")
def test_breaking_is_told_once_and_a_rate_limit_is_no_breaking() -> None:
    circuit = Circuit()
    assert [circuit.failed(BUSY, 0, POLICY) for _ in range(6)] == [False, False, False, True, False, False]
    limited = Circuit()
    assert not any(limited.failed(LIMITED, 0, POLICY) for _ in range(6))
    assert limited.is_patient(), "waiting helps"
    assert not circuit.is_patient()


def test_who_is_asked() -> None:
    closed, open_, later = Circuit(), Circuit(open_until=10), Circuit(open_until=5)
    assert choose([closed, open_], 0) == 0
    assert choose([open_, closed], 0) == 1
    assert choose([open_, later], 0) == 1, "nobody lets a call through: the one that soonest will"
    assert choose([open_, closed], 11) == 0, "the first one is probed again"
    assert others_let([open_, closed], 0, 0)
    assert not others_let([open_, closed], 1, 0)


@given(st.lists(st.sampled_from(["ok", "busy", "limited", "refused", "stopped"]), max_size=30), st.data())
def test_it_is_never_closed_for_good(steps: list[str], data: st.DataObject) -> None:
    circuit, now = Circuit(), 0.0
    errors: dict[str, AgentError] = {"busy": BUSY, "limited": LIMITED, "refused": BAD_KEY}
    for step in steps:
        now += data.draw(st.floats(0, 100))
        circuit.begin()
        if step == "ok":
            circuit.succeeded()
        elif step == "stopped":
            circuit.left()
        else:
            circuit.failed(errors[step], now, POLICY)
    assert circuit.lets(now + LONGEST_REST_S)
    circuit.begin()
    circuit.succeeded()
    assert circuit.state(now) == "closed"
