"""/memory: what guests may do with it, and what it says of a place whose rules switch it off."""

from collections.abc import Callable

import pytest

from gateway.commands.kept.memory import FOR_ADMINS, FOR_GUESTS, VERBS
from tests.gateway.world import ANN, GROUP, ZOE, World

OPEN = "-2002"


@pytest.mark.requirement("G-46")
async def test_guests_look_and_change_nothing(world_of: Callable[..., World]) -> None:
    world = world_of()
    world.access += '\ngroups = "open"'
    async with world.process():
        await world.asks("/memory add the key is red", "Kept as fact", chat=OPEN)
        for verb in VERBS.keys() - FOR_GUESTS:
            told = await world.asks(f"/memory {verb} the key is blue", person=ZOE, chat=OPEN)
            if verb in FOR_ADMINS:
                assert "for admins" in told, verb
            else:
                assert told == f"/memory {verb} is for people who were let in; you are a guest here."
        for words in ("", " list", " search red"):
            assert "the key is red" in await world.asks(f"/memory{words}", person=ZOE, chat=OPEN)
        assert "Person 77" in await world.asks("/memory forget 1", person=ZOE, chat=OPEN), "it is not theirs"
        assert "blue" not in await world.asks("/memory", "the key is red", person=ANN, chat=OPEN)


@pytest.mark.requirement("G-43")
async def test_the_list_says_that_the_rules_of_a_place_switch_it_off(world_of: Callable[..., World]) -> None:
    config = f'[[places]]\nmatch = "telegram:{GROUP}"\nmemory = false\n'
    async with world_of(config=config).process() as world:
        assert "switched off here" in await world.asks("/memory", chat=GROUP)
        assert "switched off here" in await world.asks("/memory", chat=f"{GROUP}:7"), "a topic of that group"
        assert "switched off" not in await world.asks("/memory")
