"""Events of a turn about its memory and its counting: names, numbers, and no words."""

from pathlib import Path

import pytest

from agent.core.events import EstimatorCalibrated, MemoryCompacted, MemoryRead, MemorySearched, MemoryWritten
from agent.providers.provider import Usage
from agent.storage.database import Database
from tests.agent.world import World, offering
from tests.fakes.provider import ScriptedProvider, calls, says

TOOLS = ("remember", "recall", "write_notes")


async def test_what_is_read_written_searched_and_shortened_is_told(sqlite_database: Database, tmp_path: Path) -> None:
    scripts = [
        calls("remember", {"fact": "Ann's boat is called Albatross."}, id="c1"),
        calls("recall", {"query": "What is the boat called?"}, id="c2"),
        calls("write_notes", {"text": "a long note about boats"}, id="c3"),
        calls("write_notes", {"text": "short", "replace": True}, id="c4"),
        says("kept", usage=Usage()),
        says("well", usage=Usage()),
    ]
    world = World(sqlite_database, tmp_path, ScriptedProvider(scripts=scripts), agent_md=offering(*TOOLS))
    assert await world.say("please keep my boat in mind") == ["kept"]
    assert await world.say("how are you?") == ["well"]
    told = [
        event
        for event in world.events
        if isinstance(event, MemoryRead | MemoryWritten | MemorySearched | MemoryCompacted)
    ]
    assert all(event.conversation and event.run for event in told)
    assert [(one.kind, one.delta) for one in told if isinstance(one, MemoryWritten)] == [
        ("fact", 31),
        ("notes", 24),
        ("notes", -18),
    ]
    assert [(one.before, one.after) for one in told if isinstance(one, MemoryCompacted)] == [(24, 6)]
    assert any(isinstance(one, MemorySearched) and one.results == 1 for one in told)
    assert [one.size for one in told if isinstance(one, MemoryRead)][-1] >= len("short")
    names = {event.name for event in told}
    assert names == {"memory:read", "memory:write", "memory:search", "memory:compact"}
    assert not any("Albatross" in repr(event) or "boat" in repr(event) for event in told)


@pytest.mark.parametrize(("reported", "times"), [(2_000, 1), (0, 0)], ids=["another count", "none reported"])
async def test_a_changed_calibration_is_told_once(
    sqlite_database: Database, tmp_path: Path, reported: int, times: int
) -> None:
    provider = ScriptedProvider(otherwise=says("ok", usage=Usage(prompt=reported, output=1 if reported else 0)))
    world = World(sqlite_database, tmp_path, provider)
    await world.say("hello")
    told = [event for event in world.events if isinstance(event, EstimatorCalibrated)]
    assert len(told) == times
    if told:
        assert told[0].scale == round(world.agent.metrics.estimator.scale, 3) != 1.0
        assert (told[0].name, told[0].samples, told[0].provider) == ("estimator_calibrated", 1, provider.name)
        learnt = world.agent.metrics.estimator
        learnt.learn(1_000, int(1_000 * learnt.scale))
        assert not learnt.take_change(), "as good as the same"
