"""The contract of every channel, kept by Telegram over polling and over a webhook."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.testing.channel_contract import ChannelContract
from gateway.testing.harness import Harness
from tests.adapters.telegram.stage import hooked, stage


@pytest.mark.requirement("G-07", "Z-06")
class TestPolling(ChannelContract):
    @pytest.fixture
    async def harness(self, tmp_path: Path) -> AsyncIterator[Harness]:
        async with stage(tmp_path) as harness:
            yield harness


@pytest.mark.requirement("G-07", "Z-06")
class TestWebhook(ChannelContract):
    @pytest.fixture
    async def harness(self, tmp_path: Path) -> AsyncIterator[Harness]:
        async with hooked(tmp_path) as harness:
            yield harness
