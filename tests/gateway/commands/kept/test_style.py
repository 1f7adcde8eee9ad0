"""/style: everybody sees how they write, takes it back, and wants none of it; it belongs to what /memory forgets."""

import json

from sqlalchemy import select

from agent.storage.tables import user_model
from tests.gateway.world import BOB, GROUP, World


async def known(world: World) -> set[tuple[str, str, bool]]:
    """Of whom something is kept, where, and whether they want none of it."""
    found = select(user_model.c.person, user_model.c.audience, user_model.c.off)
    return await world.database.read(lambda conn: {(row[0], row[1], bool(row[2])) for row in conn.execute(found)})


async def test_people_see_their_style_and_take_it_back(world: World) -> None:
    for number in range(4):
        await world.answered(f"ok do it {number}")
    assert "nothing yet: I begin with 5" in await world.asks("/style", "How you write here")
    await world.answered("ok do it 4")
    shown = await world.asks("/style show", "terseness: 1.00")
    assert "last 5 messages" in shown
    told = shown.partition("The model is told: “")[2].partition("”")[0]
    assert "short messages" in told
    await world.answered("ok do it 5")
    assert told.replace("5", "6") in json.dumps(world.llm.bodies[-1]["messages"])
    assert "messages counted so far: 6" in await world.asks("/memory", "How you write")
    await world.asks("/memory export", "Everything I have kept here")
    exported = max((world.home / "exports").glob("*.json"), key=lambda path: path.stat().st_mtime)
    assert json.loads(exported.read_text())["your_style"]["messages"] == 6

    await world.answered("ok do it", chat=GROUP)
    await world.answered("ok do it", chat=GROUP, person=BOB)
    assert "1 messages" in await world.asks("/style", "last 1 messages", chat=GROUP)
    await world.asks("/style off", "do not look at how you write any more")
    await world.answered("ok do it 6")
    bobs = ("telegram:78", "place:telegram:-1005", False)
    assert await known(world) == {("telegram:77", "", True), bobs}
    assert "/style on" in await world.asks("/style", "do not look at how you write.")
    await world.asks("/style on", "again, from your next message on")
    await world.answered("ok do it 7")
    assert ("telegram:77", "person:telegram:77", False) in await known(world)
    await world.asks("/style reset", "Forgotten, in every chat")
    assert await known(world) == {("telegram:77", "", False), bobs}
    assert "Wie du hier schreibst" in await world.asks("/style", "Wie du", language="de")
    assert "“love”" in await world.asks("/style love", "I do not know how to do")


async def test_what_is_forgotten_with_everything_else(world: World) -> None:
    for chat in ("77", GROUP):
        await world.answered("ok do it", chat=chat)
    await world.answered("ok do it", chat=GROUP, person=BOB)
    await world.hears(world.said("/memory forget all", chat=GROUP, person=BOB))
    await world.shows("Forget this for good?", GROUP)
    await world.hears(world.said("yes", chat=GROUP, person=BOB))
    await world.shows("Forgotten.", GROUP)
    assert {person for person, _, _ in await known(world)} == {"telegram:77"}, "in a group one's own"
    await world.hears(world.said("/memory forget all"))
    await world.shows("Forget this for good?")
    await world.hears(world.said("yes"))
    await world.shows("Forgotten.")
    assert await known(world) == set(), "from one's own chat everywhere"
