"""Notices of what was forgotten, from one process to another: in time, and found where they were lost."""

import pytest
from sqlalchemy import Connection, insert

from agent.core.ids import ConversationId
from agent.memory.records import LONGEST_ERASURE_S, Audience, Forgotten
from agent.storage.database import Database
from agent.storage.tables import memory_erasure
from gateway.running.beside.told import Erasures
from tests.fakes.clock import FakeClock

HERE, ELSEWHERE = ConversationId("telegram:77"), ConversationId("telegram:78")
ANN = Audience("person:telegram:77")


def two(database: Database, clock: FakeClock) -> tuple[Forgotten, Forgotten, Erasures]:
    """That of a process which erases, and that of one which hears of it."""
    erasing, hearing = Forgotten(clock.monotonic), Forgotten(clock.monotonic)
    there = Erasures(hearing, database, lambda name, told: None)
    Erasures(erasing, database, lambda name, told: there.hear(told))
    return erasing, hearing, there


@pytest.mark.requirement("G-164")
def test_what_is_rewritten_by_one_is_stored_by_none(database: Database, clock: FakeClock) -> None:
    erasing, hearing, _ = two(database, clock)
    told: list[ConversationId] = []
    hearing.listen(told.append)
    assert hearing.may_write(HERE, 0)
    with erasing.going_on((HERE,)):
        assert not hearing.may_write(HERE, 0)
        assert hearing.may_write(ELSEWHERE, 0)
        erasing.tell(ANN, (HERE,))
        assert not hearing.may_write(HERE, 1), "it is not over yet"
    assert not hearing.may_write(HERE, 0), "it was read before"
    assert hearing.may_write(HERE, 1)
    assert (hearing.facts([ANN]), told) == (1, [HERE])


@pytest.mark.requirement("G-164")
def test_what_a_dead_process_was_erasing_may_be_written_some_day(database: Database, clock: FakeClock) -> None:
    erasing, hearing, _ = two(database, clock)
    with erasing.going_on((HERE,)):
        clock.advance(LONGEST_ERASURE_S - 1)
        assert not hearing.may_write(HERE, 0)
        clock.advance(2)
        assert hearing.may_write(HERE, 0)


@pytest.mark.requirement("G-164")
async def test_lost_notices_are_found(database: Database, clock: FakeClock) -> None:
    _, hearing, there = two(database, clock)
    await there.look_for_missed()  # as after the first connection
    await there.look_for_missed()
    assert (hearing.words(HERE), hearing.facts([ANN])) == (0, 0)

    def erase(conn: Connection) -> None:
        conn.execute(insert(memory_erasure).values(conv=HERE, items=0, messages=1, at=1))

    await database.write(erase)
    await there.look_for_missed()
    assert (hearing.words(HERE), hearing.words(ELSEWHERE), hearing.facts([ANN])) == (1, 1, 1)
    assert not hearing.may_write(HERE, 0)
    assert hearing.may_write(HERE, 1)
