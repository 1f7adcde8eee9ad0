"""Agents are awake by need: one a conversation, never too many, never put to sleep while they run."""

import anyio
import pytest

from agent.core.ids import ConversationId
from agent.inbox import Source
from gateway.conversations.registry import Registry
from tests.fakes.clock import FakeClock
from tests.fakes.waiting import until


class Sleeper:
    """An agent that only notes what happens to it."""

    def __init__(self, conversation: ConversationId) -> None:
        self.conversation = conversation
        self.closed = self.rested = 0
        self.reasons: list[str] = []
        self.may_close = anyio.Event()
        self.may_close.set()
        self.closing_fails = False

    async def run(self, source: Source) -> None:
        raise AssertionError("the registry gives nobody work")

    def stop(self, reason: str) -> bool:
        self.reasons.append(reason)
        return True

    async def rest(self) -> None:
        self.rested += 1

    async def aclose(self) -> None:
        await self.may_close.wait()
        self.closed += 1
        if self.closing_fails:
            raise ZeroDivisionError


class Nursery:
    """Makes sleepers and remembers them."""

    def __init__(self) -> None:
        self.made: list[Sleeper] = []

    async def wake(self, conversation: ConversationId) -> Sleeper:
        await anyio.lowlevel.checkpoint()
        self.made.append(Sleeper(conversation))
        return self.made[-1]


def key(number: int) -> ConversationId:
    return ConversationId(f"telegram:{number}")


@pytest.fixture
def nursery() -> Nursery:
    return Nursery()


async def visit(registry: Registry, conversation: ConversationId) -> None:
    async with registry.use(conversation):
        pass


@pytest.mark.requirement("G-06", "Z-01")
async def test_there_is_one_agent_a_conversation_however_many_come_at_once(nursery: Nursery, clock: FakeClock) -> None:
    registry = Registry(nursery.wake, clock=clock)
    async with anyio.create_task_group() as tasks:
        for number in (1, 2) * 10:
            tasks.start_soon(visit, registry, key(number))
    assert sorted(agent.conversation for agent in nursery.made) == [key(1), key(2)]
    assert set(registry.awake) == {key(1), key(2)}


@pytest.mark.requirement("G-33")
async def test_an_agent_sleeps_after_thirty_idle_minutes_and_is_woken_by_the_next_message(
    nursery: Nursery, clock: FakeClock
) -> None:
    registry = Registry(nursery.wake, clock=clock)
    await visit(registry, key(1))
    clock.advance(1799)
    await registry.tidy()
    assert registry.awake == (key(1),)
    clock.advance(1)
    await registry.tidy()
    assert not registry.awake
    assert nursery.made[0].closed == 1
    await visit(registry, key(1))
    assert len(nursery.made) == 2


async def test_beyond_the_bound_the_least_recently_used_sleeps(nursery: Nursery, clock: FakeClock) -> None:
    registry = Registry(nursery.wake, clock=clock, most=2)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(registry.run)
        for number in (1, 2, 1, 3):
            await visit(registry, key(number))
        await until(lambda: registry.awake == (key(1), key(3)))
        tasks.cancel_scope.cancel()


@pytest.mark.requirement("G-33")
async def test_an_agent_that_runs_is_never_put_to_sleep(nursery: Nursery, clock: FakeClock) -> None:
    registry = Registry(nursery.wake, clock=clock, most=1)
    async with registry.use(key(1)), registry.use(key(2)):
        clock.advance(10_000)
        await registry.tidy()
        assert set(registry.awake) == {key(1), key(2)}
    await registry.tidy()
    assert len(registry.awake) == 1


async def test_who_comes_while_another_is_being_put_to_sleep_stays_awake(nursery: Nursery, clock: FakeClock) -> None:
    registry = Registry(nursery.wake, clock=clock)
    for number in (1, 2):
        await visit(registry, key(number))
    nursery.made[0].may_close = anyio.Event()
    clock.advance(1800)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(registry.tidy)
        await anyio.wait_all_tasks_blocked()
        async with registry.use(key(2)):
            nursery.made[0].may_close.set()
            await until(lambda: registry.awake == (key(2),))
            await anyio.wait_all_tasks_blocked()
    assert registry.awake == (key(2),)


async def test_who_comes_while_an_agent_is_closing_gets_a_new_one(nursery: Nursery, clock: FakeClock) -> None:
    registry = Registry(nursery.wake, clock=clock)
    await visit(registry, key(1))
    nursery.made[0].may_close = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(registry.forget, key(1))
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(visit, registry, key(1))
        await anyio.wait_all_tasks_blocked()
        assert len(nursery.made) == 1  # two at a time would write over each other
        nursery.made[0].may_close.set()
    assert len(nursery.made) == 2
    assert registry.awake == (key(1),)


async def test_an_agent_that_fails_to_close_is_gone_all_the_same(nursery: Nursery, clock: FakeClock) -> None:
    registry = Registry(nursery.wake, clock=clock)
    await visit(registry, key(1))
    nursery.made[0].closing_fails = True
    await registry.forget(key(1))
    assert not registry.awake


async def test_an_agent_that_cannot_be_woken_leaves_nothing_behind(clock: FakeClock) -> None:
    async def broken(_: ConversationId) -> Sleeper:
        raise ZeroDivisionError

    registry = Registry(broken, clock=clock)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            await visit(registry, key(1))
    assert not registry.awake


async def test_stop_reaches_the_agent_that_is_awake(nursery: Nursery, clock: FakeClock) -> None:
    registry = Registry(nursery.wake, clock=clock)
    assert not registry.stop(key(1), "because")
    await visit(registry, key(1))
    assert registry.stop(key(1), "because")
    assert nursery.made[0].reasons == ["because"]
    await registry.forget(key(1))
    assert not registry.stop(key(1), "because")
    await registry.forget(key(1))


async def test_at_the_end_all_are_closed(nursery: Nursery, clock: FakeClock) -> None:
    registry = Registry(nursery.wake, clock=clock)
    for number in range(5):
        await visit(registry, key(number))
    await registry.aclose()
    assert [agent.closed for agent in nursery.made] == [1] * 5
    assert not registry.awake
