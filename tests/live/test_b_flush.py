"""The look back before a compaction, with the shipped agent: whoever asks for the compaction."""

import json

import pytest
from sqlalchemy import text

from agent.core.events import CompactTriggered, MemoryFlushed
from agent.core.ids import ConversationId
from agent.memory.notes import path_of
from tests.gateway.world import ANN, World

LOOK_BACK = "answer with exactly: NO_REPLY"
SUMMARY = "<summary>\nGoal: birds\nAccomplished: seen\nKey Decisions: none\nRelevant Files: none\n</summary>"
NOTES = "## Decisions\n- tea at four"


def script(world: World) -> None:
    """A model that may only call what it is offered: it notes a decision, and says a word that nobody may read."""
    note = {"type": "tool_use", "name": "write_notes", "input": {"text": NOTES}}
    world.script(
        {"match": {"contains": LOOK_BACK, "tool_result": False}, "reply": {"blocks": [note]}},
        {"match": {"contains": LOOK_BACK}, "reply": {"text": "NO_REPLY " * 20, "token_delay": 0.02}},
        {"match": {"system_contains": "You write the memory"}, "reply": {"text": SUMMARY}},
        {"match": {}, "reply": {"text": "fine"}},
    )


async def talk(world: World, turns: int, words: int = 100) -> None:
    for number in range(turns):
        await world.answered(f"bird number {number} " + "and more about it " * words, "fine")


def looked_back(world: World) -> list[dict[str, object]]:
    return [body for body in world.llm.bodies if LOOK_BACK in json.dumps(body["messages"])]


def order(world: World) -> list[type]:
    return [type(event) for event in world.events if isinstance(event, MemoryFlushed | CompactTriggered)]


@pytest.mark.requirement("B-45", "B-54", "B-55", "B-56", "B-57", "B-58", "B-59", "B-16", "B-22", "G-21")
async def test_notes_are_written_before_compact_once_a_cycle_and_shown_after(world: World) -> None:
    script(world)
    file = path_of(world.home, ConversationId(f"telegram:{ANN}"))
    await talk(world, 6)
    assert not file.exists()
    assert "→" in await world.asks("/compact", "Summarised")
    await world.settled()
    assert order(world) == [MemoryFlushed, CompactTriggered]
    assert file.read_text() == f"{NOTES}\n"
    asked = looked_back(world)
    assert len(asked) == 2, "the call and what came after it"
    assert "write_notes" in {tool["function"]["name"] for tool in asked[0]["tools"]}  # type: ignore[attr-defined]
    whole = json.dumps(asked[0]["messages"])
    assert "will soon be summarised" in whole
    assert "MEMORY.md" in whole
    assert "bird number 0" in whole
    assert not any("NO_REPLY" in call.text for call in world.screen().calls), "not even while it is written"
    await world.answered("go on", "fine")
    last = json.dumps(world.llm.bodies[-1]["messages"])
    assert "tea at four" in last, "the notes stand in the prompt"
    assert "conversation summary" in last
    assert LOOK_BACK not in last, "the look back is stored nowhere"
    file.write_text("- coffee at five, says a person\n")
    await world.answered("and now", "fine")
    assert "coffee at five" in json.dumps(world.llm.bodies[-1]["messages"]), "the file is read anew"
    assert await costs(world, "flush") == 2


async def costs(world: World, purpose: str) -> int:
    """The number of calls for that purpose in the ledger."""
    statement = text("select count(*) from usage where purpose = :purpose")
    return int(await world.database.read(lambda conn: conn.execute(statement, {"purpose": purpose}).scalar_one()))


@pytest.mark.requirement("B-24", "G-21")
async def test_a_request_that_was_refused_as_too_long_is_looked_back_on_before_it_is_summarised(world: World) -> None:
    script(world)
    await talk(world, 8, 300)
    world.llm.fails(kind="error", status=400, code="context_length_exceeded", message="maximum context length is 9000")
    await world.answered("and what is new", "fine")
    assert order(world) == [MemoryFlushed, CompactTriggered]
    assert path_of(world.home, ConversationId(f"telegram:{ANN}")).read_text() == f"{NOTES}\n"
    assert "conversation summary" in json.dumps(world.llm.bodies[-1]["messages"])
