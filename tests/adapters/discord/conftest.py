"""The double and the gateway's side, fresh for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.adapters.discord.harness import Discord, House


@pytest.fixture
async def discord() -> AsyncIterator[Discord]:
    async with Discord().served() as served:
        yield served


@pytest.fixture
def services(tmp_path: Path) -> House:
    return House(tmp_path)
