"""The web chat's messages where another process goes on with the account: in PostgreSQL, each home of its own."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url, select

from adapters.web.chat_sessions import FIRST, ChatSessions, channel_id
from adapters.web.chat_store import ChatFiles, ChatLines
from agent.storage.postgres import PostgresDatabase
from gateway.channels.errors import GatewayUnavailable
from gateway.running.foundation import Lines
from gateway.storage.tables import adapter_line
from tests.fakes.clock import FakeClock

KEEP = 20
ANN = channel_id("ann", FIRST)


@pytest.fixture
async def processes(
    postgres_url: str, clock: FakeClock, tmp_path: Path
) -> AsyncIterator[Callable[[str], ChatSessions]]:
    database = PostgresDatabase(make_url(postgres_url).set(drivername="postgresql+psycopg"))

    def start(home: str) -> ChatSessions:
        files = ChatFiles(tmp_path / home, KEEP)
        return ChatSessions(ChatLines(Lines(database, "web"), files, KEEP), clock, KEEP)

    yield start
    await database.aclose()


async def say(sessions: ChatSessions, text: str, where: str = ANN) -> None:
    session = await sessions.open(where)
    await session.keep(session.appear(id=session.new_id("m"), who="person", text=text))


async def texts(sessions: ChatSessions, where: str = ANN) -> list[str]:
    return [shown.text for shown in (await sessions.open(where)).standing]


@pytest.mark.requirement("G-153")
async def test_another_process_shows_what_stood_on_the_page(
    processes: Callable[[str], ChatSessions], clock: FakeClock, tmp_path: Path
) -> None:
    one = processes("one")
    other_place = channel_id("ann", "b1")
    await say(one, "Tea?")
    clock.advance(1)
    await say(one, "Coffee?", other_place)
    await say(one, "Nobody else's", channel_id("anna", FIRST))
    await one.rename(ANN, "Drinks")
    assert not (tmp_path / "one").exists(), "nothing lies on the machine"
    other = processes("other")
    assert (await texts(other), await texts(other, other_place)) == (["Tea?"], ["Coffee?"])
    assert [entry.title for entry in await other.list("ann")] == ["Coffee?", "Drinks"]
    assert [entry.title for entry in await processes("third").find("ann", "tea")] == ["Drinks"]


@pytest.mark.requirement("G-153")
async def test_a_conversation_that_is_removed_is_gone_for_all(
    processes: Callable[[str], ChatSessions], postgres_url: str
) -> None:
    one = processes("one")
    await say(one, "Tea?")
    await one.rename(ANN, "Drinks")
    await one.remove(ANN)
    assert await texts(processes("other")) == []
    database = PostgresDatabase(make_url(postgres_url).set(drivername="postgresql+psycopg"))
    lines = await database.read(lambda conn: conn.execute(select(adapter_line.c.line)).scalars().all())
    await database.aclose()
    assert not any("Tea" in line or "Drinks" in line for line in lines)


async def test_the_newest_messages_stay_and_the_journal_stays_short(
    processes: Callable[[str], ChatSessions], postgres_url: str
) -> None:
    one = processes("one")
    for number in range(3 * KEEP + 50):
        await say(one, str(number))
    assert await texts(processes("other")) == [str(number) for number in range(2 * KEEP + 50, 3 * KEEP + 50)]
    database = PostgresDatabase(make_url(postgres_url).set(drivername="postgresql+psycopg"))
    found = await database.read(lambda conn: conn.execute(select(adapter_line.c.id)).all())
    await database.aclose()
    assert len(found) <= 2 * KEEP + 50


@pytest.mark.requirement("G-153")
async def test_files_of_a_version_that_kept_them_are_taken_over_once(
    processes: Callable[[str], ChatSessions], clock: FakeClock, tmp_path: Path
) -> None:
    before = ChatSessions(ChatFiles(tmp_path / "one", KEEP), clock, KEEP)
    await say(before, "Tea?")
    await before.rename(ANN, "Drinks")
    one = processes("one")
    assert [entry.title for entry in await one.list("ann")] == ["Drinks"]
    await say(one, "Coffee?")
    await one.rename(ANN, "Hot drinks")
    assert await texts(processes("one")) == ["Tea?", "Coffee?"]
    other = processes("other")
    assert (await texts(other), [entry.title for entry in await other.list("ann")]) == (
        ["Tea?", "Coffee?"],
        ["Hot drinks"],
    )
    await one.remove(ANN)
    kept = {path.name: path.read_text() for path in (tmp_path / "one").rglob("*") if path.is_file()}
    assert not [name for name, text in kept.items() if "Tea" in text or "drinks" in text.lower()]


async def test_a_database_that_fails_is_told_as_a_disk_that_does(clock: FakeClock, tmp_path: Path) -> None:
    class Failing:
        async def names(self, beginning: str) -> Any:
            raise GatewayUnavailable("no server")

        read = append = replace = names

    sessions = ChatSessions(ChatLines(Failing(), ChatFiles(tmp_path, KEEP), KEEP), clock, KEEP)  # type: ignore[arg-type]
    with pytest.raises(OSError, match="no server"):
        await sessions.list("ann")
    with pytest.raises(OSError, match="no server"):
        await sessions.open(ANN)
