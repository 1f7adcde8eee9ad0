"""The allowances of an account: a table of the policy, and the promises that hold for every order of calls."""

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.telegram.limits import MAX_WAIT_S, Allowances, Limiter, Rates
from gateway.channels.errors import ChannelBusy
from tests.fakes.clock import FakeClock

PERSON, OTHER, GROUP = 77, 78, -1005
RATES = Rates()


def at_once(allowances: Allowances, chat: int, *, final: bool, now: float = 100.0) -> int:
    """The number of calls that may go at that moment."""
    count = 0
    while allowances.ask(chat, now, final=final, longest_s=0.0) == 0.0:
        count += 1
        assert count < 1000
    return count


@pytest.mark.requirement("G-09")
def test_a_private_chat_takes_a_burst_then_one_a_second() -> None:
    allowances = Allowances(RATES)
    assert at_once(allowances, PERSON, final=True) == RATES.private_burst
    assert at_once(allowances, PERSON, final=True, now=100.9) == 0
    assert at_once(allowances, PERSON, final=True, now=101.0) == 1


@pytest.mark.requirement("G-09")
def test_a_group_takes_twenty_in_any_minute() -> None:
    allowances = Allowances(RATES)
    assert at_once(allowances, GROUP, final=True) == 20
    assert at_once(allowances, GROUP, final=True, now=159.9) == 0
    assert at_once(allowances, GROUP, final=True, now=160.0) == 20


@pytest.mark.requirement("G-09")
@pytest.mark.parametrize(("chat", "reserve"), [(PERSON, RATES.private_reserve), (GROUP, RATES.group_reserve)])
def test_previews_leave_room_for_finals(chat: int, reserve: int) -> None:
    allowances = Allowances(RATES)
    at_once(allowances, chat, final=False)
    assert at_once(allowances, chat, final=True) == reserve


def test_previews_of_all_chats_leave_room_for_finals() -> None:
    allowances = Allowances(RATES)
    previews = sum(allowances.ask(chat, 100.0, final=False, longest_s=0.0) == 0.0 for chat in range(1, 200))
    finals = sum(allowances.ask(chat, 100.0, final=True, longest_s=0.0) == 0.0 for chat in range(1, 200))
    assert (previews, finals) == (21, 9)


def test_signs_of_life_leave_room_too_and_cost_the_chat_nothing() -> None:
    allowances = Allowances(RATES)
    signs = 0
    while not allowances.ask_aside(PERSON, 100.0):
        signs += 1
    assert signs == 21
    assert at_once(allowances, PERSON, final=True) == RATES.private_burst


@pytest.mark.requirement("G-09")
def test_a_refusal_closes_that_chat_alone() -> None:
    allowances = Allowances(RATES)
    allowances.close(PERSON, 107.0)
    assert allowances.ask(PERSON, 100.0, final=True, longest_s=0.0) == 7.0
    assert allowances.ask(OTHER, 100.0, final=False, longest_s=0.0) == 0.0
    assert allowances.ask(PERSON, 107.0, final=False, longest_s=0.0) == 0.0


def test_finals_are_booked_one_behind_the_other() -> None:
    allowances = Allowances(RATES)
    at_once(allowances, PERSON, final=True)
    assert [allowances.ask(PERSON, 100.0, final=True, longest_s=10.0) for _ in range(3)] == [1.0, 2.0, 3.0]


def test_what_is_not_booked_costs_nothing() -> None:
    allowances = Allowances(RATES)
    at_once(allowances, PERSON, final=True)
    for _ in range(5):
        assert allowances.ask(PERSON, 100.0, final=True, longest_s=0.5) == 1.0


def test_memory_is_bounded() -> None:
    allowances = Allowances(RATES, max_chats=50)
    for chat in range(1, 500):
        allowances.ask(chat, float(chat), final=True, longest_s=0.0)
        allowances.close(-chat, 1e9)
    assert allowances.chats <= 50


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 2), st.sampled_from([PERSON, OTHER, GROUP]), st.booleans()), max_size=150))
@pytest.mark.requirement("G-09")
def test_no_window_ever_holds_more_than_is_allowed(steps: list[tuple[float, int, bool]]) -> None:
    allowances, now = Allowances(RATES), 50.0
    sent: dict[int, list[float]] = {PERSON: [], OTHER: [], GROUP: []}
    for pause, chat, final in steps:
        now += pause
        wait_s = allowances.ask(chat, now, final=final, longest_s=30.0 if final else 0.0)
        if wait_s <= (30.0 if final else 0.0):
            sent[chat].append(now + wait_s)
    for chat, moments in sent.items():
        moments.sort()
        for number, moment in enumerate(moments):
            if chat == GROUP:
                assert sum(other <= moment < other + 59.999 for other in moments) <= 20
            else:
                earlier = moments[: number + 1]
                assert all(
                    len(earlier) - begun <= RATES.private_burst + moment - earlier[begun] + 1e-6
                    for begun in range(len(earlier))
                )


async def test_a_preview_never_waits() -> None:
    limiter = Limiter(RATES, FakeClock())
    for _ in range(RATES.private_burst - RATES.private_reserve):
        await limiter.turn(PERSON, final=False)
    with pytest.raises(ChannelBusy) as raised:
        await limiter.turn(PERSON, final=False)
    assert raised.value.after_s == pytest.approx(1.0)


@pytest.mark.requirement("G-09")
async def test_a_final_waits_its_turn() -> None:
    clock = FakeClock()
    limiter = Limiter(RATES, clock)
    for _ in range(RATES.private_burst):
        await limiter.turn(PERSON, final=True)
    order: list[int] = []

    async def write(number: int) -> None:
        await limiter.turn(PERSON, final=True)
        order.append(number)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for number in range(3):
                tasks.start_soon(write, number)
            for second in range(3):
                while clock.sleepers < 3 - second:
                    await anyio.lowlevel.checkpoint()
                assert len(order) == second
                clock.advance(1.0)
                while len(order) <= second:
                    await anyio.lowlevel.checkpoint()
    assert order == [0, 1, 2]


async def test_a_final_that_would_wait_long_is_given_back() -> None:
    limiter = Limiter(RATES, FakeClock())
    await limiter.refused(PERSON, MAX_WAIT_S + 5)
    with pytest.raises(ChannelBusy) as raised:
        await limiter.turn(PERSON, final=True)
    assert raised.value.after_s == pytest.approx(MAX_WAIT_S + 5)
    with pytest.raises(ChannelBusy):
        await limiter.aside(PERSON)
