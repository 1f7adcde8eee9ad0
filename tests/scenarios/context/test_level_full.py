"""`[context] compaction = "full"`: what is shortened besides, what another process finds, and how the model gets it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agent.compaction.selection import STUB, SUPERSEDED
from agent.compaction.settings import CompressionSettings, MemorySettings
from agent.core.tools import ToolContext, ToolSpec
from agent.run.settings import ContextSettings, Settings
from agent.storage.database import Database
from tests.agent.world import World
from tests.fakes.provider import ScriptedProvider, calls, says

PAGE = "a line of the page\n" * 20
BODY = "the whole of the poem about herons " * 40


@dataclass(frozen=True)
class Desk:
    """A tool that takes and gives what it likes."""

    spec: ToolSpec
    gives: str

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        return self.gives


def tool(name: str, gives: str) -> Desk:
    spec = ToolSpec(name=name, description=f"Does a {name}.", schema={"type": "object"}, risk="safe")
    return Desk(spec, gives)


def shown(world: World) -> list[Any]:
    """Arguments and results as the model sees them."""
    parts = [part for entry in world.agent.message.compaction.window for part in entry.message.parts]
    uses = [dict(part.input) for part in parts if part.kind == "tool_use"]
    return [*uses, *(part.content for part in parts if part.kind == "tool_result")]


@pytest.mark.requirement("W-65")
async def test_stubs_outlive_the_process_and_are_found_again(database: Database, tmp_path: Path) -> None:
    model = ScriptedProvider(otherwise=says("ok"))
    memory = MemorySettings(compression=CompressionSettings(pruning_strategy="reactive"))
    settings = Settings(context=ContextSettings(compaction="full"), memory=memory)
    world = World(database, tmp_path, model, settings=settings, tools=(tool("write", "written"), tool("read", PAGE)))
    model.scripts = [
        calls("write", {"path": "poem.txt", "body": BODY}, id="call_0"),
        *(calls("read", {"path": path}, id=f"call_{number}") for number, path in enumerate("aab", start=1)),
    ]
    await world.say("write my poem, then read a, a and b")
    seen = shown(world)
    assert seen[0] == {"path": "poem.txt", "body": STUB.format(count=len(BODY))}
    assert seen[-4:] == ["written", SUPERSEDED, PAGE, PAGE]
    await world.restart()
    await world.say("go on")
    assert shown(world) == seen
    stored = [use.input for one in await world.transcript() for use in one.message.tool_uses]
    assert stored[0] == {"path": "poem.txt", "body": BODY}, "the transcript keeps it"
    model.scripts = [
        calls("tool_search", {"tool_name": "recall_transcript"}, id="call_8"),
        calls("recall_transcript", {"query": "poem herons"}, id="call_9"),
    ]
    await world.say("what was the poem?")
    assert "poem about herons" in shown(world)[-1]
