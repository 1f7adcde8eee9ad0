"""The Discord double keeps its promises to the real client library."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.adapters.discord.harness import DM, GENERAL, Discord

ROOT = Path(__file__).parents[3]


@pytest.mark.slow  # the double alone
def test_the_checks_of_the_double_pass() -> None:
    """In a process of their own: they point the library's globals at the double."""
    command = [sys.executable, "-m", "tests.doubles.checks.check_discord"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr or done.stdout
    assert done.stdout.rstrip().endswith("0 failed")


async def test_history_is_paged(discord: Discord) -> None:
    ids = [await discord.says(str(number), GENERAL) for number in range(7)]
    await discord.says("elsewhere", DM)

    async def page(**query: str) -> list[str]:
        assert discord.client is not None
        headers = {"Authorization": "Bot good-token"}
        path = f"/api/v10/channels/{GENERAL}/messages"
        async with discord.client.get(path, params=query, headers=headers) as response:
            return [row["content"] for row in await response.json()] if response.status == 200 else ["refused"]

    assert await page() == ["6", "5", "4", "3", "2", "1", "0"]
    assert await page(limit="2") == ["6", "5"]
    assert await page(limit="2", after=ids[1]) == ["3", "2"]  # right behind it, and newest first all the same
    assert await page(limit="2", before=ids[3]) == ["2", "1"]
    assert await page(after=ids[6]) == []
    assert await page(limit="101") == ["refused"]
    assert await page(after=ids[0], before=ids[3]) == ["refused"]
