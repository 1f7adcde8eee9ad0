"""The number of concurrent turns, without those that wait for a person."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

import anyio
import pytest

from agent.core.ids import ConversationId
from agent.inbox import Source, Work
from agent.storage import inbox_rows
from agent.storage.database import Database
from tests.fakes.agents import QUICK, EchoAgent, House, admit, answers
from tests.fakes.waiting import until

ONE = replace(QUICK, most_turns=1)


class Parking(EchoAgent):
    """Waits for a person in the middle of each turn that asks for one."""

    word: anyio.Event
    parked = 0

    async def run(self, source: Source) -> None:
        async for work in source:
            if work.incoming.text == "ask":
                source.park()
                source.park()  # two of its calls
                Parking.parked += 1
                await Parking.word.wait()
                await source.unpark()
                await source.unpark()
                Parking.parked -= 1
            await self.turn(work)
            await self.database.write(partial(self._commit, work=work))


@pytest.mark.requirement("R-54")
async def test_who_waits_for_a_person_takes_no_place_and_gets_one_again(database: Database) -> None:
    Parking.word, Parking.parked = anyio.Event(), 0
    busy, free = anyio.Event(), anyio.Event()

    async def turn(work: Work) -> None:
        if work.incoming.text == "busy":
            busy.set()
            await free.wait()

    services = House(database, turn, make=Parking, timing=ONE)
    async with services.running():
        await services.says("telegram:1", "ask")
        await services.says("telegram:2", "ask")
        await until(lambda: Parking.parked == 2)
        assert services.dispatcher.is_running(ConversationId("telegram:1")), "it is a turn all the same"
        await services.says("telegram:3", "hello")
        await until(answered(database, "hello"))
        await services.says("telegram:3", "busy")
        await busy.wait()
        Parking.word.set()
        await anyio.wait_all_tasks_blocked()
        assert Parking.parked == 2, "they go on when there is a place"
        free.set()
        await until(answered(database, "hello", "busy", "ask", "ask"))


def answered(database: Database, *texts: str) -> "Callable[[], Awaitable[bool]]":
    async def said() -> bool:
        return await answers(database) == list(texts)

    return said


@pytest.mark.requirement("R-51")
async def test_runs_that_came_to_wait_for_a_person_are_no_failed_tries(database: Database) -> None:
    """A restart in each of them: more than a message has tries, and then it is done."""
    tries = ONE.most_attempts + 2
    done = anyio.Event()

    async def turn(work: Work) -> None:
        if work.attempt <= tries:
            await database.write(lambda conn: inbox_rows.forgive(conn, work.inbox_id))
            raise RuntimeError("the process ended here")
        done.set()

    services = House(database, turn, timing=ONE)
    await admit(database, "telegram:1", "ask")
    async with services.running():
        with anyio.fail_after(30):
            await done.wait()
        await until(answered(database, "ask"))
    assert services.dead == []
