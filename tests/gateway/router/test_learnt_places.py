"""The channel and the server of a place, which its key does not tell: learnt before any rule is looked up."""

from collections.abc import Callable
from typing import Any

import pytest

from agent.core.ids import ConversationId
from gateway.channels.inbound import ButtonClicked, ChatType, Edited, Mention, MessageReceived
from gateway.storage.grants import Grant
from tests.gateway.world import ANN, BOB, ZOE, World

SERVER, CHANNEL, THREAD = "900", "500", "501"
RULES = f'[[places]]\nmatch = "discord:{SERVER}"\nmention = "always"\nlanguage = "de"\n'
IN_THREAD: dict[str, Any] = {
    "on": "discord",
    "chat": THREAD,
    "place": CHANNEL,
    "parent": CHANNEL,
    "around": SERVER,
    "chat_type": ChatType.GROUP,
}


@pytest.fixture
def ruled(world_of: Callable[..., World]) -> World:
    """A server on Discord with rules of its own."""
    return world_of(config=RULES, accounts=("telegram", "discord"))


def learnt(world: World) -> tuple[str | None, str | None]:
    """The channel of the thread and the server of the channel, as they are known now."""
    settings = world.services.router._deps.settings  # noqa: SLF001
    return settings.parent_of(ConversationId(f"discord:{THREAD}")), settings.group_of(
        ConversationId(f"discord:{CHANNEL}")
    )


def place_of(said: MessageReceived) -> dict[str, Any]:
    """The fields that every inbound value of that message shares with it."""
    names = ("key", "place", "message_id", "sender", "received_at", "chat_type", "parent", "around")
    return {name: getattr(said, name) for name in names}


@pytest.mark.requirement("G-42")
async def test_rules_of_the_server_hold_for_the_first_message_of_a_thread(ruled: World) -> None:
    ruled.access += '\ngroups = "open"'
    async with ruled.process() as world:
        receipt = await world.say("nobody is named", person=BOB, mention=Mention.NONE, **IN_THREAD)
        assert receipt.outcome == "accepted"
        await world.shows("nobody is named", THREAD, on="discord")
        assert "code de" in str(world.llm.bodies[-1]["messages"][0])


@pytest.mark.requirement("G-42")
async def test_they_hold_for_the_first_press_too(ruled: World) -> None:
    ruled.access += '\ngroups = "open"'
    async with ruled.process() as world:
        said = world.said("", person=BOB, **IN_THREAD)
        await world.hears(ButtonClicked(**place_of(said), action="c:/whoami", interaction_id="i1"))
        await world.shows("Du bist", THREAD, on="discord")
        assert learnt(world) == (CHANNEL, SERVER)


async def test_nothing_is_kept_of_places_where_nobody_is_answered(ruled: World) -> None:
    """Anybody may bring the bot to as many as they like."""
    ruled.grants = (Grant(subject=f"discord:{BOB}", kind="person", role="member", granted_by="x", at=1),)
    async with ruled.process() as world:
        for number, person in enumerate((ZOE, BOB)):
            said = world.said("hello", person=person, **IN_THREAD)
            assert (await world.hears(said)).reason == "group not allowed"
            await world.hears(Edited(**place_of(said), text="hello again", version=str(number)))
        assert learnt(world) == (None, None)
        assert (await world.say("hello", person=ANN, **IN_THREAD)).outcome == "accepted"
        assert learnt(world) == (CHANNEL, SERVER), "an admin is answered in any group"
