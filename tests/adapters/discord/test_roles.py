"""Roles of members and the server around a place, and what Discord keeps from a bot without the intent."""

from datetime import UTC, datetime, timedelta

import pytest

from gateway.channels.channel import Position
from gateway.channels.inbound import Membership, MessageReceived
from gateway.channels.outbound import CommandSpec
from tests.adapters.discord.harness import ANN, BOT, GENERAL, GUILD, Discord, House, connected, eventually, given
from tests.doubles.discord_api import CONTENT, PRIVILEGED


@pytest.mark.requirement("G-44")
async def test_a_members_roles_and_the_server_around_come_with_what_they_do(discord: Discord, services: House) -> None:
    """Without a request of its own: the events bring the member along."""
    discord.double.roles[ANN] = ["600000000000000001", "600000000000000002"]
    roles = frozenset(discord.double.roles[ANN])
    async with connected(discord, services) as adapter:
        await adapter.publish([CommandSpec(name="status", description="How it stands")])
        before = len(await discord.calls())
        said = await discord.says("in the server", GENERAL)
        await discord.event(kind="slash", channel=GENERAL, command="status")
        await discord.says("direct")
        await eventually(lambda: len(services.of(MessageReceived)) == 3)
        found = {said.text: said for said in services.of(MessageReceived)}
        assert found["in the server"].sender.platform_roles == found["/status"].sender.platform_roles == roles
        assert found["in the server"].around == found["/status"].around == GUILD
        assert (found["direct"].sender.platform_roles, found["direct"].around) == (frozenset(), None)
        asked = (await discord.calls())[before:]
        assert {call["name"] for call in asked} <= {"interaction_callback", "followup_delete", "followup_edit"}
        thread = await discord.thread(GENERAL, said)
        await discord.says("in the thread", thread)
        await eventually(lambda: len(services.of(MessageReceived)) == 4)
        last = services.of(MessageReceived)[-1]
        assert (last.sender.platform_roles, last.parent, last.around) == (roles, GENERAL, GUILD)


async def test_a_history_does_not_tell_the_roles_of_its_people(discord: Discord, services: House) -> None:
    """Discord leaves the member out there, and roles that nobody told are none."""
    discord.double.roles[ANN] = ["600000000000000001"]
    async with connected(discord, services) as adapter:
        await discord.says("written", GENERAL)
        page = await given(adapter.channel(GENERAL).history).since(Position(at=datetime.now(UTC) - timedelta(hours=1)))
        assert [(said.text, said.sender.platform_roles, said.around) for said in page.messages] == [
            ("written", frozenset(), GUILD)
        ]


async def test_the_server_is_around_its_places_and_not_around_itself(discord: Discord, services: House) -> None:
    async with connected(discord, services):
        await discord.event(t="GUILD_DELETE", d={"id": GUILD})
        await eventually(lambda: bool(services.of(Membership)))
        (gone,) = services.of(Membership)
        assert (gone.place, gone.around) == (GUILD, None)


@pytest.mark.requirement("G-45")
async def test_it_is_told_that_messages_cannot_be_read_without_the_intent(discord: Discord, services: House) -> None:
    async with connected(discord, services) as adapter:
        assert adapter.health().withheld == ()
    await discord.control("settings", {"privileged_intents": PRIVILEGED & ~CONTENT})
    async with connected(discord, services, message_content=False) as adapter:
        (withheld,) = adapter.health().withheld
        assert withheld.affects == ("unaddressed messages",)
        assert "Privileged Gateway Intents" in withheld.fix
        assert withheld.diagnosis("intents") in await adapter.diagnose()
        await discord.says("not for the bot", GENERAL)
        await discord.says(f"<@{BOT}> for the bot", GENERAL)
        await eventually(lambda: services.texts() == ["for the bot"])
