"""Time limits of work: paused while people are awaited, and cut short by a stop."""

from contextlib import ExitStack

import anyio
import pytest

from agent.core.cancellation import CancelToken, TimeLimit


@pytest.mark.requirement("B-40")
async def test_the_time_in_which_people_are_waited_for_does_not_count() -> None:
    limit = TimeLimit(0.2)
    with limit.running() as scope:
        with limit.paused(), limit.paused():
            await anyio.sleep(0.3)  # longer than the limit
        assert not scope.cancel_called
        await anyio.sleep(1)  # ended by the limit
    assert scope.cancelled_caught


@pytest.mark.parametrize("is_paused", [False, True])
async def test_a_stop_does_not_wait_for_people(is_paused: bool) -> None:
    limit = TimeLimit(60)
    with anyio.fail_after(5), limit.running() as scope, ExitStack() as stack:
        if is_paused:
            stack.enter_context(limit.paused())
        limit.end_within(0.05)
        await anyio.sleep(4)  # ended by the stop
    assert scope.cancelled_caught


async def test_a_stop_counts_also_for_what_pauses_later() -> None:
    limit = TimeLimit(60)
    with anyio.fail_after(5), limit.running() as scope:
        limit.end_within(0.1)
        with limit.paused():
            pass
        with limit.paused():
            await anyio.sleep(4)  # ended by the stop
    assert scope.cancelled_caught


async def test_a_stop_that_is_obeyed_ends_nothing() -> None:
    limit = TimeLimit(60)
    with limit.running() as scope:
        limit.end_within(0.05)
    await anyio.sleep(0.1)  # longer than the stop gave it
    assert not scope.cancelled_caught


def test_who_listens_for_a_stop_hears_it_once_and_only_while_listening() -> None:
    token, heard = CancelToken(), list[str]()
    with token.telling(lambda: heard.append("before")):
        pass
    with token.telling(lambda: heard.append("now")):
        token.fire("stop")
        token.fire("again")
    with token.telling(lambda: heard.append("late")):
        pass
    assert heard == ["now", "late"]
