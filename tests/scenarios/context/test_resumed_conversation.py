"""Cost of a resumed conversation: each message was counted when it was written."""

from pathlib import Path

from agent.storage.database import Database
from tests.agent.world import World
from tests.fakes.provider import ScriptedProvider, calls, says

LATER = 60  # messages


async def test_what_was_counted_once_is_not_counted_again(database: Database, tmp_path: Path) -> None:
    asked: list[str] = []

    def count(text: str) -> int:
        asked.append(text)
        return len(text) // 3

    model = ScriptedProvider(otherwise=says("an answer"))
    world = World(database, tmp_path, model, count=count)
    for number in range(LATER // 2):
        if number % 5 == 0:
            model.scripts = [calls("calculate", {"expression": "6 * 7"}, id=f"call_{number}")]
        asked.clear()
        await world.say(f"number {number}")
        assert asked.count(f"number {number}") == 1, "a person's words, once"
        assert asked.count("an answer") == 1
    weights = [entry.tokens for entry in world.agent.message.compaction.window]
    await world.restart()
    asked.clear()
    await world.say("and now?")
    assert [entry.tokens for entry in world.agent.message.compaction.window][: len(weights)] == weights
    said = [text for text in asked if text.startswith("number") or text in ("an answer", "42")]
    assert said == ["an answer"], "the new one, and nothing of what was said before"
