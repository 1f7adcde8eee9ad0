"""The lease: who works on a conversation, and how it becomes free again."""

from functools import partial

import pytest
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.exc import OperationalError

from agent.core.errors import Fenced
from agent.core.ids import ConversationId
from agent.storage import conversation_rows as rows
from agent.storage.database import Database, check_epoch

CHAT = ConversationId("telegram:1")


async def claim(database: Database, worker: str, run: str, *, now: int = 0, until: int = 900) -> int | None:
    return await database.write(partial(rows.claim, key=CHAT, worker=worker, run=run, now=now, until=until))


@pytest.mark.requirement("B-60", "B-63", "B-88")
async def test_a_lease_is_had_by_one_at_a_time_and_says_by_whom(database: Database) -> None:
    assert await claim(database, "w1", "r1", now=5) == 1
    assert await claim(database, "w2", "r2", now=6) is None
    lease = await database.read(partial(rows.lease, key=CHAT))
    assert lease == rows.Lease(
        conversation=CHAT, session=None, worker="w1", run="r1", epoch=1, acquired_at=5, expires_at=900
    )


@pytest.mark.requirement("B-64", "B-85")
async def test_a_lease_that_ran_out_can_be_taken_and_its_former_owner_is_fenced(database: Database) -> None:
    assert await claim(database, "w1", "r1", until=900) == 1
    assert await claim(database, "w2", "r2", now=899, until=2_000) is None
    assert await claim(database, "w2", "r2", now=900, until=2_000) == 2
    with pytest.raises(Fenced, match="epoch 1 is over, 2 holds"):
        await database.write(partial(check_epoch, conversation=CHAT, epoch=1))
    await database.write(partial(check_epoch, conversation=CHAT, epoch=2))
    assert not await database.write(partial(rows.release, key=CHAT, run="r1"))


@pytest.mark.requirement("B-91")
async def test_only_the_run_that_took_a_lease_frees_it(database: Database) -> None:
    await claim(database, "w1", "r1")
    assert not await database.write(partial(rows.release, key=CHAT, run="r2"))
    assert await database.read(partial(rows.lease, key=CHAT)) is not None
    assert await database.write(partial(rows.release, key=CHAT, run="r1"))
    assert await database.read(partial(rows.lease, key=CHAT)) is None
    assert await claim(database, "w2", "r2") == 2


@pytest.mark.requirement("B-49")
async def test_by_force_a_lease_goes_unless_a_later_owner_has_come(database: Database) -> None:
    await claim(database, "w1", "r1")
    await claim(database, "w2", "r2", now=900, until=2_000)
    assert not await database.write(partial(rows.force_release, key=CHAT, epoch=1))
    assert await database.read(partial(rows.lease, key=CHAT)) is not None
    assert await database.write(partial(rows.force_release, key=CHAT, epoch=2))
    assert await database.read(partial(rows.lease, key=CHAT)) is None


async def test_a_worker_takes_up_the_lease_it_failed_to_free(database: Database) -> None:
    assert await claim(database, "w1", "r1") == 1
    assert await claim(database, "w1", "r2") == 2


async def test_a_worker_renews_all_its_leases_and_learns_which_it_has(database: Database) -> None:
    other = ConversationId("telegram:2")
    await claim(database, "w1", "r1")
    await database.write(partial(rows.claim, key=other, worker="w2", run="r2", now=0, until=900))
    assert await database.write(partial(rows.extend, keys=[CHAT, other], worker="w1", until=1_800)) == {CHAT: "r1"}
    assert await claim(database, "w3", "r3", now=1_000) is None
    found = await database.read(partial(rows.lease, key=other))
    assert found is not None
    assert found.expires_at == 900


async def test_at_the_start_of_a_sole_owner_all_leases_go(database: Database) -> None:
    await claim(database, "w1", "r1")
    assert await database.write(rows.clear_all) == 1
    assert await database.write(rows.clear_all) == 0
    assert await claim(database, "w2", "r2") == 2


async def test_a_place_can_be_gone_and_back(database: Database) -> None:
    await database.write(partial(rows.ensure, key=CHAT, at=1))
    for gone in (False, True, False):
        await database.write(partial(rows.set_gone, key=CHAT, gone=gone))
        assert await database.read(partial(rows.is_gone, key=CHAT)) is gone


async def test_a_conversation_that_is_not_known_is_fenced(database: Database) -> None:
    with pytest.raises(Fenced):
        await database.write(partial(check_epoch, conversation=CHAT, epoch=0))


async def test_who_admits_keeps_others_from_admitting_there(postgres_url: str) -> None:
    """Else ids would not follow the order of arrival: the later transaction could commit first."""
    engine = create_engine(make_url(postgres_url).set(drivername="postgresql+psycopg"))
    with engine.begin() as first:
        rows.ensure(first, CHAT, 1)
    with engine.begin() as first, engine.connect() as second:
        rows.lock_row(first, CHAT)
        second.execute(text("set lock_timeout = '100ms'"))
        with pytest.raises(OperationalError, match="lock timeout"):
            rows.lock_row(second, CHAT)
        second.rollback()
        rows.lock_row(second, ConversationId("telegram:2"))
    engine.dispose()
