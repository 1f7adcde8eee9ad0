"""/persona: which AGENT.md answers in a chat."""

import logging
from collections.abc import Callable

import pytest

from tests.gateway.world import ANN, BOB, GROUP, World

PIRATE = "---\nname: Pirate\nprovider: b\n---\n\nYou talk like a pirate.\n"
BROKEN = "---\nname: Broken\ncolour: red\n---\n\nYou are broken.\n"


def write(world: World, name: str, text: str) -> None:
    path = world.home / "agents" / name / "AGENT.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


async def test_it_lists_the_agents_with_a_button_for_each_other_one(world: World) -> None:
    write(world, "pirate", PIRATE)
    answer = await world.asks("/persona")
    assert "(here: default)" in answer
    assert "▸ default" in answer
    assert "• pirate" in answer
    assert world.screen().shown[-1].actions == ("c:/persona pirate",)


@pytest.mark.requirement("B-03")
async def test_a_persona_answers_from_the_next_message_on_and_after_a_restart(world_of: Callable[..., World]) -> None:
    world = world_of()
    write(world, "pirate", PIRATE)
    async with world.process():
        assert "From the next message on I am pirate." in await world.asks("/persona pirate")
        await world.say("ahoy")
        await world.shows("ahoy")
        assert "like a pirate" in str(world.llm.bodies[-1]["messages"][0])
        assert world.models_asked[-1] == "model-b", "the provider that its AGENT.md asks for"
    async with world.process():
        await world.say("again")
        await world.shows("again")
        assert "like a pirate" in str(world.llm.bodies[-1]["messages"][0])
        await world.say("elsewhere", chat=GROUP)
        await world.shows("elsewhere", GROUP)
        assert "like a pirate" not in str(world.llm.bodies[-1]["messages"][0])


@pytest.mark.requirement("B-03")
async def test_the_persona_of_a_section_answers_there_and_nowhere_else(world_of: Callable[..., World]) -> None:
    world = world_of(config=f'[[places]]\nmatch = "telegram:{GROUP}"\npersona = "pirate"\n')
    write(world, "pirate", PIRATE)
    async with world.process():
        await world.say("ahoy", chat=GROUP)
        await world.shows("ahoy", GROUP)
        assert "like a pirate" in str(world.llm.bodies[-1]["messages"][0])
        await world.say("elsewhere")
        await world.shows("elsewhere")
        assert "like a pirate" not in str(world.llm.bodies[-1]["messages"][0])
        assert "From the next message on I am default." in await world.asks("/persona default", chat=GROUP)
        await world.say("again", chat=GROUP)
        await world.shows("again", GROUP)
        assert "like a pirate" not in str(world.llm.bodies[-1]["messages"][0]), "what people chose counts more"


async def test_a_persons_choice_of_provider_stands_before_the_personas(world: World) -> None:
    write(world, "pirate", PIRATE)
    await world.asks("/model other", "now asks")
    await world.asks("/persona pirate", "I am pirate")
    await world.say("ahoy")
    await world.shows("ahoy")
    assert world.models_asked[-1] == "other"


async def test_a_broken_one_changes_nothing_and_its_mistakes_are_in_the_log(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    write(world, "broken", BROKEN)
    with caplog.at_level(logging.WARNING):
        assert "broken cannot be used" in await world.asks("/persona broken")
    assert "colour: unknown key" in caplog.text
    assert "(here: default)" in await world.asks("/persona", "Who I can be")


@pytest.mark.parametrize("name", ["nobody", "../../etc", "x" * 100])
async def test_an_unknown_one_is_named_with_the_known(world: World, name: str) -> None:
    assert "There are: default." in await world.asks(f"/persona {name}")


async def test_in_a_group_it_is_the_admins(world: World) -> None:
    write(world, "pirate", PIRATE)
    assert "is for admins" in await world.asks("/persona pirate", person=BOB, chat=GROUP)
    assert "I am pirate" in await world.asks("/persona pirate", chat=GROUP, person=ANN)
