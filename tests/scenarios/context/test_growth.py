"""A turn costs what is new in it: our own work is the same at turn 10 and at turn 2,000 of a conversation."""

import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from agent.core.messages import text_message
from agent.providers.anthropic.requests import Encoder as AnthropicEncoder
from agent.providers.openai.requests import Dialect
from agent.providers.openai.requests import Encoder as OpenAIEncoder
from agent.providers.provider import Request, Usage
from agent.storage.database import Database
from tests.agent.world import World
from tests.fakes.provider import ScriptedProvider, says

OURS = str(Path(__file__).parents[3] / "agent")


class Encoding(ScriptedProvider):
    """Puts every request into the form of both APIs, as the real providers do.

    What it reports is now a little more, now a little less than we counted: so how much of what we count its window
    holds is another number each time.
    """

    openai = OpenAIEncoder("openai")
    anthropic = AnthropicEncoder("anthropic")

    async def stream(self, request: Request):  # type: ignore[no-untyped-def]
        tokens = len(self.openai.body(request, model="m", dialect=Dialect())) // 4 + len(self.requests) % 7
        self.otherwise = says("Certainly.", usage=Usage(prompt=tokens, output=5))
        self.anthropic.body(request, model="m", max_tokens=99, tier=request.cache_tier)
        async for chunk in super().stream(request):
            yield chunk


async def work_of(world: World, text: str) -> int:
    """Calls of functions of ours in one turn."""
    calls: Counter[str] = Counter()

    def count(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(OURS):
            calls[frame.f_code.co_qualname] += 1

    sys.setprofile(count)
    try:
        await world.say(text)
    finally:
        sys.setprofile(None)
    return calls.total()


@pytest.mark.requirement("R-03")
async def test_a_turn_takes_no_more_work_late_than_early(sqlite_database: Database, tmp_path: Path) -> None:
    world = World(sqlite_database, tmp_path, Encoding(context_window=2_000_000))
    for number in range(10):
        await world.say(f"turn {number}")
    early = await work_of(world, "early")
    grown = [text_message(role, f"{role} {n}") for n in range(2000) for role in ("user", "assistant")]
    world.agent.message.compaction.window.extend(grown)
    await world.say("the first one meets it all")
    late = await work_of(world, "late")
    assert late <= early * 1.1, f"{early} calls early, {late} late"
