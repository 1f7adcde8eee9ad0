"""The promise of every channel, kept by Discord over the real library and the double."""

from collections.abc import AsyncIterator

import pytest

from gateway.channels.adapter import Adapter
from gateway.channels.channel import Channel
from gateway.testing.channel_contract import ChannelContract, plain
from gateway.testing.harness import Harness
from tests.adapters.discord.harness import Discord, DiscordHarness, House, connected


def keeps_the_types(harness: DiscordHarness) -> tuple[Harness, Adapter, Channel]:
    """Checked by mypy alone."""
    return harness, harness.adapter, harness.channel


@pytest.mark.requirement("G-07")
class TestDiscord(ChannelContract):
    @pytest.fixture
    async def harness(self, discord: Discord, services: House) -> AsyncIterator[DiscordHarness]:
        async with connected(discord, services) as adapter:
            yield DiscordHarness(discord, services, adapter)

    async def test_an_answer_stands_below_what_it_answers(self, harness: DiscordHarness) -> None:
        said = await harness.says("hi")
        await harness.channel.send(plain("an answer", reply_to=said))
        await harness.channel.send(plain("of its own"))
        assert [message.reply_to for message in await harness.seen()] == [said, None]
