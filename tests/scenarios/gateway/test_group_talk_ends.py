"""How talk that was read along ends, through the whole gateway: forgotten, switched off, old, moved, shown out."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread
from sqlalchemy import Connection, Select, create_engine, make_url, select, text

from agent.storage.tables import ambient_turn, group_message, group_stream
from gateway.channels.inbound import Mention, MessageReceived
from gateway.channels.keys import ConversationKey
from tests.fakes.waiting import until
from tests.gateway.router.test_changes import NEW, membership, moved
from tests.gateway.world import ANN, BOB, GROUP, World
from tests.scenarios.gateway.test_group_context import AMBIENT, TOLD, WINDOW, chat, kept, last_words

CEM = "79"
MINE, THEIRS = "zyzzyva", "quagga"  # in no language of the catalogue


async def forgets(world: World) -> None:
    """Bob takes back what he said."""
    await world.hears(world.said("/memory forget all", chat=GROUP, person=BOB))
    await until(lambda: any(shown.actions for shown in world.screen(GROUP).shown))
    shown = next(shown for shown in world.screen(GROUP).shown if shown.actions)
    await world.press(shown.actions[0], person=BOB, chat=GROUP)
    await world.settled()


async def switches_off(world: World) -> None:
    """An admin wants it no more."""
    await world.asks("/settings context off", "context is off", chat=GROUP)


async def remembers_nothing(world: World) -> None:
    """An admin wants nothing remembered there."""
    await world.asks("/memory off", "The memory is off here", chat=GROUP)


async def waits(world: World) -> None:
    """A day goes by."""
    world.clock.ahead_s += 25 * 3600


async def is_shown_out(world: World) -> None:
    await world.hears(membership(world, present=False))


@asynccontextmanager
async def talking(world: World) -> AsyncIterator[World]:
    """Bob and Cem have talked, one of them twice, and once the bot was asked."""
    async with world.process() as world:
        await chat(world, f"{MINE} of mine", f"another {MINE}")
        await chat(world, f"not mine, a {THEIRS}", person=CEM)
        yield world


def bytes_of_sqlite(home: Path) -> bytes:
    return b"".join(path.read_bytes() for path in home.glob("tieline.db*"))


async def bytes_of_postgresql(url: str) -> bytes:
    """All of the files of its tables and indexes, as they are on the disk after a VACUUM FULL."""
    return await to_thread.run_sync(_bytes_of_postgresql, url)  # it waits for transactions of this loop


def _bytes_of_postgresql(url: str) -> bytes:
    engine = create_engine(make_url(url).set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT")
    files = (
        "select pg_relation_filepath(c.oid) from pg_class c join pg_namespace n on n.oid = c.relnamespace "
        "where n.nspname = 'public' and pg_relation_filepath(c.oid) is not null "
        "union select pg_relation_filepath(c.reltoastrelid) from pg_class c join pg_namespace n "
        "on n.oid = c.relnamespace where n.nspname = 'public' and c.reltoastrelid <> 0"
    )
    with engine.connect() as conn:
        conn.execute(text("VACUUM FULL"))
        conn.execute(text("CHECKPOINT"))
        folder = Path(conn.execute(text("show data_directory")).scalar_one())
        paths = [folder / path for path in conn.execute(text(files)).scalars()]
    engine.dispose()
    return b"".join(path.read_bytes() for path in paths)


@pytest.mark.requirement("G-50")
@pytest.mark.parametrize(
    ("ends", "left"),
    [
        pytest.param(forgets, (THEIRS,), id="forgotten by who said it"),
        pytest.param(switches_off, (), id="switched off"),
        pytest.param(remembers_nothing, (), id="nothing is remembered"),
        pytest.param(waits, (), id="a day old"),
        pytest.param(is_shown_out, (), id="the bot was removed"),
    ],
)
async def test_within_a_day_no_byte_of_it_is_in_the_file(
    world_of: Callable[..., World], ends: Callable[[World], Awaitable[None]], left: tuple[str, ...]
) -> None:
    async with talking(world_of(config=WINDOW)) as world:
        assert len(await kept(world)) == 3
        await ends(world)
        await world.services.upkeep.run_once()
        assert len(await kept(world)) == len(left)
        content = bytes_of_sqlite(world.home)  # while it runs: at its end the log goes anyway
    assert (MINE.encode() in content, THEIRS.encode() in content) == (MINE in left, THEIRS in left)


@pytest.mark.requirement("G-50")
@pytest.mark.parametrize(
    ("ends", "left"),
    [pytest.param(forgets, (THEIRS,), id="forgotten"), pytest.param(switches_off, (), id="switched off")],
)
async def test_postgresql_keeps_no_byte_of_it_either(
    world_of: Callable[..., World], postgres_url: str, ends: Callable[[World], Awaitable[None]], left: tuple[str, ...]
) -> None:
    config = f'{WINDOW}\n[database]\nurl = "{postgres_url}"\n'
    async with talking(world_of(config=config)) as world:
        assert world.database.dialect == "postgresql"
        content = await bytes_of_postgresql(postgres_url)
        assert all(word.encode() in content for word in (MINE, THEIRS)), "it finds what is there"
        await ends(world)
        await world.services.upkeep.run_once()
        assert len(await kept(world)) == len(left)
        content = await bytes_of_postgresql(postgres_url)
        assert (MINE.encode() in content, THEIRS.encode() in content) == (MINE in left, THEIRS in left)


def _values_of(conn: Connection, query: Select[Any]) -> set[str]:
    return {row[0] for row in conn.execute(query)}


@pytest.mark.requirement("G-50")
async def test_it_follows_a_group_that_becomes_a_supergroup(world_of: Callable[..., World]) -> None:
    config = AMBIENT.replace("-1005", "*").replace("messages_per_hour = 2", "messages_per_hour = 1")
    world = world_of(config=config)
    world.script(
        {"match": {"outside": "lost"}, "reply": {"text": "To the left."}}, {"match": {}, "reply": {"text": "So."}}
    )
    async with world.process() as world:
        await chat(world, "I am lost")
        await world.shows("To the left.", GROUP)
        await world.settled()
        await chat(world, "we meet at the pier", to_others=True)
        await world.hears(moved(world))
        await world.hears(world.said("at nine", person=BOB, chat=NEW, mention=Mention.NONE, to_others=True))
        await world.hears(world.said("lost again", person=BOB, chat=NEW, mention=Mention.NONE))
        await world.settled()
        assert not [shown for shown in world.texts(NEW) if TOLD in shown], "they were told"
        assert "To the left." not in world.texts(NEW), "what it said unasked counts"
        await world.answered("where do we meet?", "So.", person=ANN, chat=NEW)
        words = last_words(world)
        assert words.index("we meet at the pier") < words.index("at nine")
        for column in (group_message.c.stream, group_message.c.conv, group_stream.c.conv, ambient_turn.c.conv):
            found = await world.database.read(partial(_values_of, query=select(column)))
            assert found == {f"telegram:{NEW}"}


@pytest.mark.requirement("G-50")
async def test_threads_that_nobody_asked_in_go_with_the_bot_as_well(world_of: Callable[..., World]) -> None:
    world = world_of(config='[[places]]\nmatch = "slack:*"\ncontext = "window"\n', accounts=("slack",))
    world.access += '\ngroups = "open"'

    def said(words: str, ts: str, root: str | None = None) -> MessageReceived:
        key = ConversationKey("slack", f"T:-C:{root or ts}")
        fields: dict[str, Any] = {"key": key, "place": "T:-C", "id": ts, "thread_root": root, "mention": Mention.NONE}
        return world.said(words, person=BOB, chat="-C", on="slack", **fields)

    async with world.process() as world:
        await world.hears(said("in the channel", "1.1"))
        await world.hears(said("in a thread", "1.2", root="1.1"))
        await world.shows(TOLD, "T:-C", "slack")
        assert await kept(world) == ["in the channel", "in a thread"]
        await world.hears(membership(world, "T:-C", present=False, on="slack"))
        assert await kept(world) == []
