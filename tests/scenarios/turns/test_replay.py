"""The loop is deterministic: recorded streams, clock and ids give the same transcript, byte for byte (B-02, G-32)."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from pathlib import Path

import pytest
from sqlalchemy import Connection

from agent.built_ins import CommandResult
from agent.core.errors import ProviderBusy
from agent.core.events import LoopStarted
from agent.inbox import RunOpener, Work
from agent.operations import Operations
from agent.storage.database import Database
from tests.agent.world import ListSource, World
from tests.fakes.provider import ScriptedProvider, calls, calls_all, cut, fails, says, thinks
from tests.fakes.replay import Recorder, Recording, read_recording
from tests.fakes.tools import FakeTool

RECORDINGS = sorted((Path(__file__).parents[2] / "recordings" / "agent").glob("*.json"))


async def replayed(recording: Recording, database: Database, home: Path) -> tuple[str, World]:
    """The transcript as JSON lines, and the world it came of."""
    world = World(database, home, recording.provider(), tools=(FakeTool(),))
    for message in recording.messages:
        await world.say(message)
    return await world.agent.operations.export(), world


@pytest.mark.requirement("B-02", "G-32")
@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
async def test_a_recording_gives_its_transcript_again(sqlite_database: Database, tmp_path: Path, path: Path) -> None:
    recording = read_recording(path)
    transcript, world = await replayed(recording, sqlite_database, tmp_path)
    assert transcript.encode() == recording.transcript.encode()
    assert world.slot.current().scripts == [], "every recorded call was made"  # type: ignore[attr-defined]


@pytest.mark.requirement("B-02", "G-32")
async def test_a_replay_repeats_events_and_ids_as_well(
    sqlite_database: Database, sqlite_template: Path, tmp_path: Path
) -> None:
    databases = import_module("tests.fakes.databases")
    (tmp_path / "again").mkdir()
    recording = read_recording(RECORDINGS[0])
    _, first = await replayed(recording, sqlite_database, tmp_path)
    other = await databases.open_sqlite(tmp_path / "again", sqlite_template)
    try:
        _, second = await replayed(recording, other, tmp_path / "again")
        assert first.events == second.events
        assert [stored.message.parts for stored in await first.transcript()] == [
            stored.message.parts for stored in await second.transcript()
        ]
    finally:
        await other.aclose()


@dataclass
class OpeningSource(ListSource):
    """Lets the agent write the start of each run in a transaction of the source, as the dispatcher's does."""

    database: Database = field(kw_only=True)
    opening: RunOpener = field(init=False)

    def opens_with(self, opening: RunOpener) -> None:
        self.opening = opening

    async def __aiter__(self) -> AsyncIterator[Work]:
        async for work in super().__aiter__():
            opened = await self.database.write(partial(_opened, self.opening, work))
            yield replace(work, opened=opened)


def _opened(opening: RunOpener, work: Work, conn: Connection) -> object:
    return opening(conn, work)


class OpeningWorld(World):
    """Its agent opens runs early."""

    async def run(self, *work: Work) -> None:
        await self.agent.run(OpeningSource(list(work), self.key, self.epoch, database=self.database))


async def fresh(work: Work, agent: Operations) -> CommandResult:
    agent.new_session()
    return CommandResult()


@pytest.mark.requirement("G-32")
async def test_a_replay_names_each_session_as_before(
    sqlite_database: Database, sqlite_template: Path, tmp_path: Path
) -> None:
    databases = import_module("tests.fakes.databases")
    (tmp_path / "again").mkdir()
    other = await databases.open_sqlite(tmp_path / "again", sqlite_template)
    try:
        named = []
        for database, home in ((sqlite_database, tmp_path), (other, tmp_path / "again")):
            world = OpeningWorld(database, home, ScriptedProvider())
            world.built_ins.commands["/new"] = fresh
            await world.say("hi")
            await world.say("/new")
            await world.say("afresh")
            named.append([event.session for event in world.events if isinstance(event, LoopStarted)])
        assert named[0] == named[1]
        assert len(set(named[0])) == 2
    finally:
        await other.aclose()


@pytest.mark.requirement("G-32")
async def test_what_is_recorded_can_be_played(sqlite_database: Database, tmp_path: Path) -> None:
    recording = Recording(messages=["what is six times seven?", "thanks"])
    inner = ScriptedProvider(
        scripts=[
            fails(ProviderBusy("429 slow down")),
            thinks("I should calculate.", "c2ln", calls("calculate", {"expression": "6*7"}, text="One moment. ")),
            cut("It is "),
            says("It is **42**. 🙂"),
            calls_all([("echo", {"text": "a"}, "c1"), ("echo", {"txt": "b"}, "c2")]),
            says("You're welcome."),
        ]
    )
    world = World(sqlite_database, tmp_path, Recorder(inner, recording), tools=(FakeTool(),))
    for message in recording.messages:
        await world.say(message)
    recording.transcript = await world.agent.operations.export()
    path = tmp_path / "recording.json"
    recording.save(path)
    again = read_recording(path)
    assert [call.chunks for call in again.calls] == [call.chunks for call in recording.calls]
    assert again.transcript == recording.transcript
    (kept,) = [path for path in RECORDINGS if path.stem == "tools_retries_and_thinking"]
    assert kept.read_text("utf-8") == path.read_text("utf-8"), "the recording in the repository is this one"
