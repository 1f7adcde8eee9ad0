"""The value of a setting in a place: chosen there, else around it, else configured; rows are read once and anew."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine

from agent.core.ids import ConversationId
from agent.storage.database import Database
from gateway.channels.keys import ConversationKey
from gateway.config.live import Live
from gateway.config.places import PlaceSection
from gateway.config.sections import QueueSettings
from gateway.config.settings import Settings
from gateway.conversations.place_settings import DEEPEST, InForce, PlaceSettings
from gateway.storage import settings_rows
from tests.fakes.clock import FakeClock

GROUP, TOPIC = ConversationKey("telegram", "-1005"), ConversationKey("telegram", "-1005:7")
CHANNEL, THREAD = ConversationKey("discord", "500"), ConversationKey("discord", "501")


@dataclass(frozen=True)
class Colour:
    """A setting of numbers; the configured one is how many messages may wait."""

    key: str = "colour"
    inherits: bool = True
    default: Callable[[Settings, ConversationKey], int] = lambda settings, place: settings.queue.max_depth
    parse: Callable[[str], int] = int


COLOUR, ALONE = Colour(), Colour(key="alone", inherits=False)
DEFAULT = QueueSettings().max_depth


def settings_on(database: Database) -> PlaceSettings:
    """As a process has them before its start."""
    return PlaceSettings((COLOUR, ALONE), database, FakeClock(), live_with(QueueSettings()))


def live_with(queue: QueueSettings, *places: PlaceSection) -> Live:
    return Live(Settings.model_construct(queue=queue, source=None, places=places, home=Path()), {})


def stored(place: ConversationKey, value: str, key: str = "colour") -> "partial[None]":
    """A row as another process writes it."""
    return partial(settings_rows.put, conversation=ConversationId(str(place)), key=key, value=value, at=1)


async def test_the_nearest_choice_counts_and_says_where_it_was_made(sqlite_database: Database) -> None:
    settings = settings_on(sqlite_database)
    assert settings.find(COLOUR, TOPIC) == InForce(DEFAULT, None)
    await settings.put(COLOUR, GROUP, "1", by="telegram:77")
    assert settings.find(COLOUR, TOPIC) == InForce(1, GROUP)
    await settings.put(COLOUR, TOPIC, "2", by="telegram:77")
    assert (settings.get(COLOUR, TOPIC), settings.get(COLOUR, GROUP)) == (2, 1)
    assert settings.find(COLOUR, TOPIC, own=False) == InForce(1, GROUP)
    await settings.clear(COLOUR, TOPIC, by="telegram:77")
    assert settings.find(COLOUR, TOPIC) == InForce(1, GROUP)


async def test_a_setting_that_does_not_inherit_holds_in_its_place_alone(sqlite_database: Database) -> None:
    settings = settings_on(sqlite_database)
    await settings.put(ALONE, GROUP, "1", by="telegram:77")
    assert (settings.get(ALONE, GROUP), settings.get(ALONE, TOPIC)) == (1, DEFAULT)


async def test_a_thread_whose_key_tells_no_parent_inherits_from_the_one_an_adapter_named(
    sqlite_database: Database,
) -> None:
    settings = settings_on(sqlite_database)
    await settings.put(COLOUR, CHANNEL, "1", by="telegram:77")
    assert settings.get(COLOUR, THREAD) == DEFAULT
    await settings.learn_parent(THREAD, CHANNEL.channel_id)
    later = settings_on(sqlite_database)
    await later.load()
    for one in (settings, later):
        assert one.find(COLOUR, THREAD) == InForce(1, CHANNEL)


async def test_places_that_are_told_to_be_part_of_each_other_end(sqlite_database: Database) -> None:
    settings = settings_on(sqlite_database)
    names = [str(number) for number in range(DEEPEST + 3)]
    for inner, outer in zip(names, (*names[1:], names[0]), strict=True):
        await settings.learn_parent(ConversationKey("discord", inner), outer)
    assert [key.channel_id for key in settings.around(ConversationKey("discord", "0"))] == ["1", "2", "3", "4"]
    await settings.learn_parent(ConversationKey("discord", "1"), "0")
    assert [key.channel_id for key in settings.around(ConversationKey("discord", "0"))] == ["1"]


async def test_the_default_is_the_configuration_of_now(sqlite_database: Database) -> None:
    live = live_with(QueueSettings(max_depth=3))
    settings = PlaceSettings((COLOUR,), sqlite_database, FakeClock(), live)
    assert settings.get(COLOUR, GROUP) == 3
    live.settings = live_with(QueueSettings(max_depth=4)).settings
    assert settings.get(COLOUR, GROUP) == 4


async def test_all_is_read_in_one_query_and_no_value_asks_the_database(sqlite_database: Database) -> None:
    for place in (GROUP, TOPIC, CHANNEL):
        for key in ("colour", "alone", "owner"):
            await sqlite_database.write(stored(place, "5", key))
    queries: list[str] = []

    def note(conn: object, cursor: object, statement: str, *rest: object) -> None:
        if "channel_setting" in statement:
            queries.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        settings = settings_on(sqlite_database)
        await settings.load()
        assert len(queries) == 1
        assert [settings.get(COLOUR, place) for place in (GROUP, TOPIC, CHANNEL, THREAD)] == [5, 5, 5, DEFAULT]
        assert len(queries) == 1
        await settings.refresh(TOPIC)
        assert len(queries) == 2, "one for a place and all around it"
    finally:
        event.remove(Engine, "before_cursor_execute", note)


async def test_a_change_of_another_process_counts_when_the_place_is_read_anew(sqlite_database: Database) -> None:
    settings = settings_on(sqlite_database)
    await settings.put(COLOUR, GROUP, "1", by="telegram:77")
    await settings.put(ALONE, TOPIC, "2", by="telegram:77")
    await sqlite_database.write(stored(GROUP, "7"))
    clear = partial(settings_rows.clear, conversation=ConversationId(str(TOPIC)), key="alone")
    await sqlite_database.write(clear)
    read = await sqlite_database.read(partial(settings.snapshot, place=TOPIC))
    assert settings.find(COLOUR, TOPIC, read) == InForce(7, GROUP), "as it is stored now"
    assert (settings.get(COLOUR, TOPIC), settings.get(ALONE, TOPIC)) == (1, 2)
    settings.keep(read)
    assert (settings.get(COLOUR, TOPIC), settings.get(ALONE, TOPIC)) == (7, DEFAULT)


async def test_what_was_read_before_a_change_of_ours_does_not_undo_it(sqlite_database: Database) -> None:
    settings = settings_on(sqlite_database)
    read = await sqlite_database.read(partial(settings.snapshot, place=GROUP))
    await settings.put(COLOUR, GROUP, "1", by="telegram:77")
    settings.keep(read)
    assert settings.get(COLOUR, GROUP) == 1
    read = await sqlite_database.read(partial(settings.snapshot, place=GROUP))
    await settings.clear(COLOUR, GROUP, by="telegram:77")
    settings.keep(read)
    assert settings.get(COLOUR, GROUP) == DEFAULT


async def test_a_stored_text_without_a_value_is_left_out_and_told(
    sqlite_database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    await sqlite_database.write(stored(GROUP, "1"))
    await sqlite_database.write(stored(TOPIC, "red"))
    settings = settings_on(sqlite_database)
    with caplog.at_level(logging.WARNING):
        await settings.load()
    assert settings.find(COLOUR, TOPIC) == InForce(1, GROUP)
    assert "the setting colour of telegram:-1005:7 is not used" in caplog.text
    with pytest.raises(ValueError, match="blue"):
        await settings.put(COLOUR, TOPIC, "blue", by="telegram:77")
    assert settings.find(COLOUR, TOPIC) == InForce(1, GROUP), "nothing was stored"
