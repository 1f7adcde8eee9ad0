"""/guidelines: what compaction has learnt to keep in a chat, seen and taken back."""

from collections.abc import Callable, Sequence

from sqlalchemy import Connection, insert, select

from agent.compaction.guidelines import Guideline, Guidelines, read, written
from agent.storage.tables import guideline, session
from tests.gateway.world import BOB, GROUP, World

LEARNT = Guidelines(
    kept=(Guideline("read", "path=`seats`.csv", 2.0), Guideline("", "which seat?", 1.0)), turn=7, left=6
)


def learn(conn: Connection) -> None:
    """Each conversation has these guidelines in the store."""
    for row in conn.execute(select(session.c.conv, session.c.id).where(session.c.state == "active")).all():
        value = {"conv": row.conv, "session_id": row.id, "body": written(LEARNT), "at": 1}
        conn.execute(insert(guideline).values(value))


def kept(conn: Connection) -> Sequence[int]:
    """The number of rows, by conversation."""
    return [len(read(body).kept) for body in conn.execute(select(guideline.c.body)).scalars()]


async def test_they_are_shown_and_cleared_for_good(world_of: Callable[..., World]) -> None:
    world = world_of()
    async with world.process():
        assert "no guidelines" in await world.asks("/guidelines")
        await world.answered("hello")
        await world.database.write(learn)
    async with world.process():
        seen = await world.asks("/guidelines", "What I keep when I compact")
        assert "results of read: path='seats'.csv" in seen
        assert "what was said: which seat?" in seen
        assert "“all” means nothing here" in await world.asks("/guidelines all", "means nothing")
        await world.asks("/guidelines clear", "2 guidelines are cleared")
        await world.asks("/guidelines", "there are no guidelines")
        await world.settled()
        assert list(await world.database.read(kept)) == [0]
    async with world.process():
        await world.asks("/guidelines list", "there are no guidelines")


async def test_in_a_group_admins_alone_clear_them(world_of: Callable[..., World]) -> None:
    world = world_of()
    async with world.process():
        await world.answered("hello", chat=GROUP)
        await world.database.write(learn)
    async with world.process():
        await world.asks("/guidelines", "which seat?", chat=GROUP, person=BOB)
        await world.asks("/guidelines clear", "admin", chat=GROUP, person=BOB)
        assert list(await world.database.read(kept)) == [2]
        await world.asks("/guidelines clear", "2 guidelines are cleared", chat=GROUP)
