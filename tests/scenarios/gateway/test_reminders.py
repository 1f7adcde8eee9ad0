"""Reminders through the real gateway: set in a chat, they come back in it."""

import pytest

from tests.gateway.world import BOB, GROUP, World


async def test_a_plain_reminder_comes_without_a_model(world: World) -> None:
    assert "I will remind you" in await world.asks("/remind in 1 sec check the oven")
    await world.shows("⏰ check the oven")
    await world.settled()
    assert world.llm.calls == []


async def test_in_a_group_it_names_whom_it_is_for(world: World) -> None:
    await world.asks("/remind me in 1 sec to leave", person=BOB, chat=GROUP)
    await world.shows(f"⏰ Person {BOB}: leave", chat=GROUP)


@pytest.mark.requirement("G-14")
async def test_a_task_is_a_turn_of_the_conversation(world: World) -> None:
    await world.asks("/remind ask in 1 sec what is new?")
    await world.shows("[Scheduled task] what is new?")
    await world.settled()
    assert len(world.llm.calls) == 1
