"""Slack's rate limits as policy."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.slack.api import RATES, limit_key, limits_of_account

POST, UPDATE = "chat.postMessage", "chat.update"


class Buckets:
    """One account's limits, asked as a call asks."""

    def __init__(self) -> None:
        self.limits = limits_of_account()

    def ask(self, method: str, channel: str, now: float, *, frame: bool = False) -> float:
        return self.limits.ask(limit_key(method, channel), now, frame=frame)

    def shut(self, method: str, channel: str, now: float, after_s: float) -> None:
        self.limits.close(limit_key(method, channel), now, after_s)


def allowed(buckets: Buckets, method: str, channel: str, now: float, *, frame: bool = False) -> int:
    count = 0
    while buckets.ask(method, channel, now, frame=frame) == 0.0:
        count += 1
    return count


@pytest.mark.requirement("G-09")
def test_a_channel_takes_one_post_a_second_after_a_few_at_once() -> None:
    buckets = Buckets()
    assert allowed(buckets, POST, "C1", 0.0) == 4
    assert buckets.ask(POST, "C1", 0.0) == pytest.approx(1.0)
    assert allowed(buckets, POST, "C1", 1.0) == 1
    assert allowed(buckets, POST, "C1", 1.5) == 0


def test_channels_do_not_wait_for_each_other() -> None:
    buckets = Buckets()
    allowed(buckets, POST, "C1", 0.0)
    assert buckets.ask(POST, "C2", 0.0) == 0.0


@pytest.mark.requirement("G-09")
def test_a_429_for_a_post_shuts_that_channel_only() -> None:
    buckets = Buckets()
    buckets.shut(POST, "C1", 0.0, 30.0)
    assert buckets.ask(POST, "C1", 1.0) == pytest.approx(29.0)
    assert buckets.ask(POST, "C2", 1.0) == 0.0
    assert buckets.ask(UPDATE, "C1", 1.0) == 0.0
    assert buckets.ask(POST, "C1", 30.0) == 0.0


def test_a_429_for_a_method_shuts_it_everywhere() -> None:
    buckets = Buckets()
    buckets.shut(UPDATE, "C1", 0.0, 5.0)
    assert buckets.ask(UPDATE, "C2", 0.0) == pytest.approx(5.0)
    assert buckets.ask("chat.appendStream", "C1", 0.0) == 0.0


def test_frames_leave_room_for_final_texts() -> None:
    buckets = Buckets()
    frames = allowed(buckets, UPDATE, "C1", 0.0, frame=True)
    finals = allowed(buckets, UPDATE, "C1", 0.0)
    assert (frames, finals) == (30, 20)
    assert buckets.ask(UPDATE, "C1", 0.0, frame=True) > buckets.ask(UPDATE, "C1", 0.0)


def test_methods_without_a_limit_of_ours_pass_until_slack_says_otherwise() -> None:
    buckets = Buckets()
    assert {buckets.ask("auth.test", "", 0.0) for _ in range(100)} == {0.0}
    buckets.shut("auth.test", "", 0.0, 10.0)
    assert buckets.ask("auth.test", "", 4.0) == pytest.approx(6.0)
    assert buckets.ask("auth.test", "", 10.0) == 0.0


def test_many_channels_do_not_fill_the_memory() -> None:
    buckets = Buckets()
    for number in range(10_000):
        buckets.ask(POST, f"C{number}", number * 0.01)
    assert len(buckets.limits) < 5000


@given(st.sampled_from(sorted(RATES)), st.lists(st.floats(0, 30), max_size=60))
def test_no_minute_holds_more_than_burst_and_refill(method: str, pauses: list[float]) -> None:
    buckets, now, sent = Buckets(), 0.0, 0
    for pause in pauses:
        now += pause
        sent += buckets.ask(method, "C1", now) == 0.0
    assert sent <= RATES[method].burst + RATES[method].per_s * now + 1e-6
