"""Suggestions of platforms for a command: what that person may use there, and what exists now."""

from collections.abc import Sequence

from tests.gateway.world import ANN, BOB, ZOE, World


async def suggested(world: World, text: str, *, person: str = ANN, chat: str | None = None) -> Sequence[str]:
    return await world.services.gateway.suggest(world.said(text, person=person, chat=chat))


async def test_names_are_suggested_as_they_are_now(world: World) -> None:
    every = await suggested(world, "/provider ")
    names = [f"provider {one.name}" for one in world.live.settings.llm.providers]
    assert {*names, "provider reset", "provider lock"} < set(every)
    bobs = await suggested(world, "/provider ", person=BOB)
    assert {*names, "provider reset"} < set(bobs), "BOB is no admin, and chats alone"
    assert not {"provider lock", "provider unlock"} & set(bobs)
    assert await suggested(world, "/provider re") == ("provider reset",)
    assert await suggested(world, "/persona def") == ("persona default",)
    folder = world.home / "agents" / "pirate"
    folder.mkdir(parents=True)
    (folder / "AGENT.md").write_text("---\nname: pirate\n---\nYou are a pirate.\n")
    assert "persona pirate" in await suggested(world, "/persona p")
    assert (await suggested(world, "/verbose "))[0] == "verbose quiet"
    assert await suggested(world, "/timezone berl") == ("timezone Europe/Berlin",)
    assert len(await suggested(world, "/timezone ")) == 25
    assert (await suggested(world, "/prov"))[0] == "provider"
    assert await suggested(world, "provider") == ()


async def test_nothing_is_suggested_that_would_not_be_answered(world: World) -> None:
    assert await suggested(world, "/provider ", person=ZOE) == ()
    assert "debug-dump" in await suggested(world, "/debug")
    assert await suggested(world, "/debug", person=BOB) == ()
    assert await suggested(world, "/debug-dump o", person=BOB) == ()
    assert world.texts(ZOE) == [], "no code was made for a stranger who only typed"
