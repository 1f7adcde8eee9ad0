"""Rate limits of platforms: tables and properties over a clock that is only a number."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.channels.kit.rate_limits import Rate, RateLimits, TokenBucket

CHAT = Rate(per_s=1.0, burst=4.0, reserve=1.0)


@given(
    st.lists(st.floats(0, 5), max_size=60),
    st.floats(2, 11),
    st.floats(0.1, 10),
)
@pytest.mark.requirement("G-09")
def test_frames_never_exceed_the_rate_and_keep_the_reserve(pauses: list[float], burst: float, per_s: float) -> None:
    rate = Rate(per_s=per_s, burst=burst, reserve=1.0)
    now = start = 10.0
    bucket, taken = TokenBucket.full(rate, now), 0
    for pause in pauses:
        now += pause
        if wait_s := bucket.wait_s(now, frame=True):
            assert bucket.wait_s(now + wait_s + 1e-6, frame=True) == 0.0
        else:
            bucket, taken = bucket.taken(now), taken + 1
            assert bucket.tokens >= rate.reserve - 1e-6
    assert taken <= burst - rate.reserve + per_s * (now - start) + 1e-6


@pytest.mark.requirement("G-09")
def test_what_frames_leave_is_there_for_the_final() -> None:
    bucket = TokenBucket.full(CHAT, 0.0)
    while not bucket.wait_s(0.0, frame=True):
        bucket = bucket.taken(0.0)
    assert bucket.wait_s(0.0) == 0.0
    assert bucket.taken(0.0).wait_s(0.0) == pytest.approx(1.0)


def test_calls_are_booked_one_behind_the_other() -> None:
    bucket = TokenBucket.full(CHAT, 0.0)
    moments = []
    for _ in range(7):
        wait_s = bucket.wait_s(0.0)
        moments.append(wait_s)
        bucket = bucket.taken(wait_s)
    assert moments == pytest.approx([0, 0, 0, 0, 1, 2, 3])
    assert bucket.wait_s(3.0) == pytest.approx(1.0)


def test_a_call_that_is_booked_late_does_not_pay_for_the_time_before() -> None:
    bucket = TokenBucket.full(CHAT, 0.0)
    for _ in range(4):
        bucket = bucket.taken(0.0)
    bucket = bucket.taken(100.0)  # another limit had it wait: by then this one is full again
    for _ in range(3):
        assert bucket.wait_s(100.0) == 0.0
        bucket = bucket.taken(100.0)
    assert bucket.wait_s(100.0) == pytest.approx(1.0)


def test_debts_are_bounded_where_they_are_to_be() -> None:
    bucket = TokenBucket.full(CHAT, 0.0)
    for _ in range(50):
        bucket = bucket.taken(0.0, debt=4.0)
    assert bucket.wait_s(0.0) == pytest.approx(5.0)


@pytest.mark.requirement("G-09")
def test_a_bucket_that_the_platform_closed_opens_for_one_call() -> None:
    bucket = TokenBucket.full(CHAT, 0.0).closed(30.0)
    assert bucket.wait_s(1.0) == pytest.approx(29.0)
    assert bucket.wait_s(30.0) == 0.0
    assert bucket.taken(30.0).wait_s(30.0) == pytest.approx(1.0)
    assert bucket.closed(10.0).wait_s(1.0) == pytest.approx(29.0)  # the longer of two waits holds


def test_keys_do_not_wait_for_each_other() -> None:
    limits: RateLimits[str] = RateLimits(lambda key: CHAT)
    while limits.ask("a", 0.0) == 0.0:
        pass
    assert limits.ask("a", 0.0) == pytest.approx(1.0)
    assert limits.ask("b", 0.0) == 0.0
    limits.close("b", 0.0, 9.0)
    assert [limits.ask("b", 0.0), limits.ask("c", 0.0)] == pytest.approx([9.0, 0.0])


def test_many_keys_do_not_fill_the_memory() -> None:
    limits: RateLimits[int] = RateLimits(lambda key: CHAT, most=50)
    for number in range(500):
        limits.ask(number, 0.0)
        limits.close(-number, 0.0, 9.0)
    assert len(limits) == 50
