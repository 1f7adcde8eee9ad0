"""Order in one lane, freedom between lanes, a bound over all."""

from collections.abc import Awaitable, Callable

import anyio

from adapters.discord.keyed_queue import KeyedQueue


async def test_lanes() -> None:
    done: list[str] = []
    hold = anyio.Event()

    def job(name: str, *, waits: bool = False) -> Callable[[], Awaitable[None]]:
        async def run() -> None:
            if waits:
                await hold.wait()
            done.append(name)

        return run

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            queues = KeyedQueue(group, limit=4)
            assert queues.put("a", job("a1", waits=True))
            assert queues.put("a", job("a2"))
            assert queues.put("b", job("b1"))
            assert queues.waiting("a")
            await anyio.wait_all_tasks_blocked()
            assert done == ["b1"]
            assert not queues.waiting("b")
            hold.set()
        assert done == ["b1", "a1", "a2"]


async def test_a_job_that_breaks_is_left_behind() -> None:
    done: list[str] = []

    async def breaks() -> None:
        raise KeyError("author")

    async def works() -> None:
        done.append("behind it")

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            queues = KeyedQueue(group, limit=2)
            assert queues.put("a", breaks)
            assert queues.put("a", works)
    assert done == ["behind it"]


async def test_a_closed_gate_lets_a_job_be_put_in_front() -> None:
    done: list[int] = []

    def job(number: int) -> Callable[[], Awaitable[None]]:
        async def run() -> None:
            done.append(number)

        return run

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            queues = KeyedQueue(group, limit=3)
            queues.close_gate()
            assert all(queues.put("a", job(number)) for number in (1, 2))
            assert queues.put("a", job(0), first=True)
            assert not queues.put("a", job(3))  # full: nothing is taken that could not be done
            await anyio.wait_all_tasks_blocked()
            assert done == []
            queues.open_gate()
    assert done == [0, 1, 2]
