"""Two processes that have one web account: each page shows what either says."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url

from adapters.web.chat_session import ChatSession
from adapters.web.chat_sessions import FIRST, ChatSessions, channel_id
from adapters.web.chat_store import ChatFiles, ChatLines
from agent.storage.postgres import PostgresDatabase
from gateway.channels.document import Paragraph, Text
from gateway.running.foundation import Lines
from tests.fakes.clock import FakeClock
from tests.fakes.running import running
from tests.fakes.waiting import until

KEEP = 50
ANN = channel_id("ann", FIRST)


class Process:
    """The conversations of one process; `told` is what it tells, which the other hears unless it gets lost."""

    def __init__(self, database: PostgresDatabase, home: Path, clock: FakeClock) -> None:
        self.told: list[str] = []
        self.other: Process | None = None
        self.is_lossy = False
        store = ChatLines(Lines(database, "web"), ChatFiles(home, KEEP), KEEP)
        self.sessions = ChatSessions(store, clock, KEEP, self._tell)

    def _tell(self, words: str) -> None:
        self.told.append(words)
        if self.other is not None and not self.is_lossy:
            self.other.sessions.hear(words)

    async def open(self, where: str = ANN) -> ChatSession:
        return await self.sessions.open(where)

    async def texts(self) -> list[str]:
        return [shown.text for shown in (await self.open()).standing]


class Browser:
    """A page, and the events that it gets."""

    def __init__(self, session: ChatSession) -> None:
        self._session = session
        self.events: list[Any] = []

    async def look(self) -> None:
        async for _, event in self._session.events(None):
            if event is not None:
                self.events.append(event)

    @property
    def grown(self) -> tuple[str, ...]:
        """The blocks of the growing answer."""
        blocks: tuple[str, ...] = ()
        for event in self.of("draft"):
            blocks = (*blocks[: event["from"]], *event["blocks"])
        return blocks

    def of(self, kind: str) -> list[Any]:
        return [event for event in self.events if event["type"] == kind]


@pytest.fixture
async def two(postgres_url: str, tmp_path: Path, clock: FakeClock) -> AsyncIterator[tuple[Process, Process]]:
    database = PostgresDatabase(make_url(postgres_url).set(drivername="postgresql+psycopg"))
    one, other = (Process(database, tmp_path / name, clock) for name in ("one", "other"))
    one.other, other.other = other, one
    yield one, other
    await database.aclose()


def saying(text: str) -> tuple[Paragraph, ...]:
    return (Paragraph((Text(text),)),)


async def say(process: Process, text: str, where: str = ANN, **more: Any) -> str:
    session = await process.open(where)
    values = {"id": session.new_id("m"), "who": "person", "text": text, **more}
    shown = session.appear(**values)
    await session.keep(shown)
    return shown.id


@pytest.mark.requirement("G-162")
async def test_a_page_shows_what_another_process_says(two: tuple[Process, Process]) -> None:
    one, other = two
    browser = Browser(await one.open())
    async with running(browser.look):
        await until(lambda: bool(browser.of("state")))
        id = await say(other, "Tea?")
        await until(lambda: bool(browser.of("shown")))
        assert browser.of("shown")[0]["message"]["text"] == "Tea?"
        session = await other.open()
        await session.take_away(id)
        await until(lambda: bool(browser.of("gone")))
        session.typing("thinking")
        await until(lambda: bool(browser.of("typing")))
        assert await one.texts() == []


@pytest.mark.requirement("G-162")
async def test_an_answer_grows_on_a_page_of_another_process(two: tuple[Process, Process]) -> None:
    one, other = two
    browser = Browser(await one.open())
    session = await other.open()
    async with running(browser.look):
        await until(lambda: bool(browser.of("state")))
        draft = session.open_draft(saying("Once"), None)
        session.grow(draft.id, (*saying("Once"), *saying("upon")))
        session.grow(draft.id, (*saying("Once"), *saying("upon a time")))
        grown = session.draft(draft.id)
        assert grown is not None
        await until(lambda: browser.grown == grown.blocks)
        await say(other, "Once upon a time", who="bot", replaces=draft.id)
        await until(lambda: bool(browser.of("shown")))
        assert not (await one.open()).is_answering


@pytest.mark.requirement("G-162")
async def test_a_page_that_is_opened_later_shows_the_whole_of_what_grows(two: tuple[Process, Process]) -> None:
    one, other = two
    session = await other.open()
    draft = session.open_draft(saying("Once"), None)
    session.grow(draft.id, (*saying("Once"), *saying("upon")))
    late = await one.open()
    seen = late.draft(draft.id)
    assert seen is not None
    assert seen.blocks == session.draft(draft.id).blocks  # type: ignore[union-attr]


@pytest.mark.requirement("G-162")
async def test_other_pages_learn_that_something_came_in(two: tuple[Process, Process]) -> None:
    one, other = two
    browser = Browser(await one.open())
    async with running(browser.look):
        await until(lambda: bool(browser.of("state")))
        await say(other, "Your tea", channel_id("ann", "b1"), who="bot")
        await until(lambda: bool(browser.of("elsewhere")))
        assert browser.of("elsewhere")[0]["room"] == "b1"
        await other.sessions.rename(channel_id("ann", "b1"), "Drinks")
        await until(lambda: len(browser.of("elsewhere")) == 2)
        await say(other, "Bob's", channel_id("bob", FIRST), who="bot")
        assert len(browser.of("elsewhere")) == 2, "that is another person's"


@pytest.mark.requirement("G-162")
async def test_a_conversation_that_is_removed_closes_pages_of_all(two: tuple[Process, Process]) -> None:
    one, other = two
    await say(one, "Tea?")
    browser = Browser(await one.open())
    async with running(browser.look):
        await until(lambda: bool(browser.of("state")))
        await other.sessions.remove(ANN)
        await until(lambda: bool(browser.of("removed")))
    assert (await one.texts(), await other.texts()) == ([], [])


@pytest.mark.requirement("G-162")
async def test_lost_words_are_read_again(two: tuple[Process, Process]) -> None:
    one, other = two
    kept, gone = await say(other, "Tea?"), await say(other, "Milk?")
    session = await other.open()
    ended = session.open_draft(saying("Yes"), None)
    browser = Browser(await one.open())
    async with running(browser.look):
        await until(lambda: bool(browser.of("state")))
        assert len(browser.of("state")[0]["drafts"]) == 1
        other.is_lossy = True
        await say(other, "Yes, please", who="bot", replaces=ended.id)
        await session.take_away(gone)
        growing = session.open_draft(saying("And"), None)
        other.is_lossy = False
        assert await one.texts() == ["Tea?", "Milk?"]
        await one.sessions.read_again()
        assert await one.texts() == ["Tea?", "Yes, please"]
        await until(lambda: len(browser.of("state")) == 2)
        assert browser.of("state")[1]["drafts"] == [], "its answer stands"
        await until(lambda: [event["id"] for event in browser.of("draft")] == [growing.id])
    assert (await one.open()).get(kept) is not None


@pytest.mark.requirement("G-162")
async def test_what_is_shown_and_not_kept_yet_stays_when_all_is_read_again(two: tuple[Process, Process]) -> None:
    one, _ = two
    session = await one.open()
    draft = session.open_draft(saying("Yes"), None)
    shown = session.appear(id="m1", who="person", text="Tea?")
    await one.sessions.read_again()
    assert await one.texts() == ["Tea?"], "it is on its way to the database"
    assert session.draft(draft.id) is not None, "it grows here"
    await session.keep(shown)
    await one.sessions.read_again()
    assert await one.texts() == ["Tea?"]


@pytest.mark.requirement("G-162")
async def test_what_nobody_looks_at_is_read_when_it_is_opened(two: tuple[Process, Process]) -> None:
    one, other = two
    await one.open()
    other.is_lossy = True
    await say(other, "Tea?")
    assert await one.texts() == []
    await one.sessions.read_again()
    assert await one.texts() == ["Tea?"]
