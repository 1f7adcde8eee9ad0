"""The provider of a channel: one record each, over restarts."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from agent.storage.database import Database
from gateway.storage import preferences
from gateway.storage.preferences import Preference
from gateway.storage.repair import open_database

HERE = Preference(channel_type="telegram", channel_id="1", provider="b", updated_at=1)


async def save(database: Database, preference: Preference) -> None:
    await database.write(partial(preferences.save, preference=preference))


async def load(database: Database, channel_type: str, channel_id: str) -> Preference | None:
    return await database.read(partial(preferences.load, channel_type=channel_type, channel_id=channel_id))


@pytest.mark.requirement("Z-65", "Z-67")
async def test_a_preference_is_kept_for_its_channel_alone(database: Database) -> None:
    await save(database, HERE)
    assert await load(database, "telegram", "1") == HERE
    assert await load(database, "telegram", "2") is None
    assert await load(database, "telegram@other", "1") is None


@pytest.mark.requirement("Z-67")
async def test_the_terminal_has_an_empty_channel_id(database: Database) -> None:
    terminal = replace(HERE, channel_type="console", channel_id="")
    await save(database, terminal)
    assert await load(database, "console", "") == terminal


@pytest.mark.requirement("Z-65")
async def test_a_channel_has_one_preference_the_newest(database: Database) -> None:
    await save(database, HERE)
    newer = replace(HERE, provider="c", model="m", source="admin", locked=True, updated_at=2)
    await save(database, newer)
    assert await database.read(preferences.load_all) == (newer,)


async def test_a_reset_goes_back_to_the_default(database: Database) -> None:
    await save(database, HERE)
    forget = partial(preferences.forget, channel_type="telegram", channel_id="1")
    assert await database.write(forget)
    assert await load(database, "telegram", "1") is None
    assert not await database.write(forget)


@pytest.mark.requirement("Z-66")
async def test_a_preference_outlives_the_process(tmp_path: Path) -> None:
    first = await open_database("sqlite:///tieline.db", tmp_path)
    await save(first, HERE)
    await first.aclose()
    second = await open_database("sqlite:///tieline.db", tmp_path)
    assert await load(second, "telegram", "1") == HERE
    await second.aclose()
