"""An answer that is cut at a length of ours is asked for once more, whole."""

from pathlib import Path

import pytest

from agent.core.errors import ProviderBusy
from agent.core.events import OutputSlotEscalated
from agent.providers.provider import Done, TextDelta, ToolCallDelta, ToolCallDone, ToolCallStart, Usage
from agent.storage.database import Database
from tests.agent.world import World
from tests.fakes.provider import Script, ScriptedProvider, calls, fails, says

USED = Usage(prompt=10, output=5)
CUT = Script(chunks=(TextDelta("Once upon"), USED, Done("max_tokens")))
CUT_CALL = Script(
    chunks=(
        ToolCallStart(0, "c1", "calculate"),
        ToolCallDelta(0, '{"expression": "1+'),
        ToolCallDone(0),
        USED,
        Done("max_tokens"),
    )
)


@pytest.mark.requirement("R-17", "R-22", "R-45")
async def test_a_cut_answer_is_asked_for_at_the_models_limit(database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider(scripts=[CUT, says("Once upon a time.")], output_ceiling=64_000)
    world = World(database, tmp_path, provider)
    assert await world.say("tell me") == ["Once upon a time."]
    assert [request.max_tokens for request in provider.requests] == [None, 64_000]
    (escalated,) = [event for event in world.events if isinstance(event, OutputSlotEscalated)]
    assert escalated.max_tokens == 64_000
    assert world.names().count("llm_decision_complete") == 2, "told after either call"
    assert world.outbox.preview_text == "Once upon a time."
    assert world.outbox.previews == ["Once upon", "", "Once upon a time."], "the cut text stays on show"


@pytest.mark.requirement("R-22")
async def test_it_happens_once_and_what_is_still_cut_is_said_to_be(sqlite_database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider(otherwise=CUT, output_ceiling=64_000)
    world = World(sqlite_database, tmp_path, provider)
    text, notice = await world.say("tell me")
    assert text == "Once upon"
    assert "cut at the model's limit" in notice
    assert len(provider.requests) == 2


@pytest.mark.requirement("R-23")
async def test_who_limits_its_answers_itself_is_not_asked_again(sqlite_database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider(otherwise=CUT)
    world = World(sqlite_database, tmp_path, provider)
    assert (await world.say("tell me"))[0] == "Once upon"
    assert len(provider.requests) == 1


@pytest.mark.requirement("R-12", "R-23")
async def test_a_length_that_the_operator_set_is_kept(sqlite_database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider(otherwise=CUT, output_ceiling=64_000)
    agent_md = "---\nname: Brief\nmax_tokens: 100\n---\n\nBe brief.\n"
    world = World(sqlite_database, tmp_path, provider, agent_md=agent_md)
    await world.say("tell me")
    assert [request.max_tokens for request in provider.requests] == [100]


async def test_if_the_second_call_fails_the_cut_answer_stands(sqlite_database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider(scripts=[CUT], otherwise=fails(ProviderBusy("500")), output_ceiling=64_000)
    world = World(sqlite_database, tmp_path, provider)
    assert (await world.say("tell me"))[0] == "Once upon"
    assert (await world.texts())[-1] == ("assistant", "Once upon")


async def test_a_call_that_was_cut_is_asked_for_shorter_once_and_nothing_of_it_stays(
    sqlite_database: Database, tmp_path: Path
) -> None:
    provider = ScriptedProvider(scripts=[CUT_CALL, calls("calculate", {"expression": "1+1"}), says("2")])
    world = World(sqlite_database, tmp_path, provider)
    assert await world.say("what is it") == ["2"]
    hints = ["cut in the middle of a tool call" in request.reminder for request in provider.requests]
    assert hints == [False, True, False]
    assert "cut in the middle" not in str(await world.texts())
