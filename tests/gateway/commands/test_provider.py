"""/provider and /model: a choice of one chat, kept with who made it."""

from tests.gateway.world import World


async def test_it_lists(world: World) -> None:
    answer = await world.asks("/provider")
    assert "Providers" in answer
    assert await world.asks("hello") == "echo: hello"
