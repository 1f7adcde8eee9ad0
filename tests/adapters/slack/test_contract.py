"""Slack keeps the contract of every channel: in a direct message, in threads, over both transports."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.testing.channel_contract import ChannelContract
from tests.adapters.slack.world import DM, SlackHarness, running, workspace
from tests.doubles.slack_api import TEAM

pytestmark = pytest.mark.requirement("G-07")


class TestDirectMessageBySocketMode(ChannelContract):
    @pytest.fixture
    async def harness(self, tmp_path: Path) -> AsyncIterator[SlackHarness]:
        async with workspace() as world, running(world, tmp_path) as adapter:
            yield SlackHarness(world, adapter, DM)


class TestAssistantThreadBySocketMode(ChannelContract):
    @pytest.fixture
    async def harness(self, tmp_path: Path) -> AsyncIterator[SlackHarness]:
        async with workspace() as world, running(world, tmp_path) as adapter:
            root = await world.write("a new thread")
            world.admitted.clear()
            yield SlackHarness(world, adapter, f"{DM}:{root}")


class TestChannelThreadBySignedHttp(ChannelContract):
    @pytest.fixture
    async def harness(self, tmp_path: Path) -> AsyncIterator[SlackHarness]:
        async with (
            workspace() as world,
            running(world, tmp_path, app_token=None, signing_secret="s3cret") as adapter,
        ):
            root = await world.write("hello there", channel="C0GENERAL")
            world.admitted.clear()
            yield SlackHarness(world, adapter, f"{TEAM}:C0GENERAL:{root}")
