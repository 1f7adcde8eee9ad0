"""Focus through a whole turn, and long results that the model reads on in."""

from pathlib import Path

from agent.compaction.settings import FocusSettings, MemorySettings
from agent.run.settings import Settings
from agent.storage.database import Database
from agent.tools.output_files import LONGEST_SHOWN
from agent.tools.session_tools import FOCUS_TOOLS
from tests.agent.world import World
from tests.fakes.provider import ScriptedProvider, calls, says
from tests.fakes.tools import FakeTool
from tests.scenarios.tools.test_tool_turns import results

ON = Settings(memory=MemorySettings(focus=FocusSettings(enabled=True, min_messages_per_focus=2)))


async def test_what_lies_between_opening_and_closing_leaves_the_next_request(
    database: Database, tmp_path: Path
) -> None:
    provider = ScriptedProvider(
        scripts=[
            calls("start_focus", {"scope": "the berth"}, id="open"),
            calls("echo", {"text": "many ships"}, id="look"),
            calls("complete_focus", {"summary": "it is berth 7"}, id="close"),
            says("Berth 7."),
        ]
    )
    world = World(database, tmp_path, provider, settings=ON, tools=(FakeTool(),))
    assert await world.say("where is it?") == ["Berth 7."]
    assert {spec.name for spec in provider.requests[0].tools.specs}.issuperset(FOCUS_TOOLS)
    sent = provider.requests[3].messages
    assert sent[0].content == "[knowledge]\n1. the berth: it is berth 7"
    assert [use.id for message in sent for use in message.tool_uses] == ["open", "close"]
    await world.restart()
    provider.scripts.append(says("As I said."))
    assert await world.say("sure?") == ["As I said."]
    assert "it is berth 7" in provider.requests[4].messages[0].content, "another process has it too"
    assert "many ships" in "".join([content for _, content in await world.texts()]), "the transcript keeps all"


async def test_the_tools_are_there_only_when_it_is_on(sqlite_database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider(scripts=[calls("start_focus", {"scope": "x"}, unoffered=True), says("Then not.")])
    world = World(sqlite_database, tmp_path, provider)
    assert await world.say("go") == ["Then not."]
    assert FOCUS_TOOLS.isdisjoint(spec.name for spec in provider.requests[0].tools.specs)
    assert results(provider.requests[1])[0].is_error


async def test_the_model_reads_on_in_a_result_that_was_too_long(sqlite_database: Database, tmp_path: Path) -> None:
    long = "".join(f"row {number}\n" for number in range(5_000))
    provider = ScriptedProvider(scripts=[calls("echo", {"text": long}, id="a")])
    world = World(sqlite_database, tmp_path, provider, tools=(FakeTool(),))
    await world.say("list them")
    shown = results(provider.requests[1])[0].content
    assert len(shown) < LONGEST_SHOWN + 200
    assert "row 2500\n" not in shown
    name = shown.split('output "')[1].split('"')[0]
    provider.scripts += [
        calls("tool_search", {"tool_name": "read_output"}, id="b"),
        calls("read_output", {"output": name, "find": "row 2500\n"}, id="c"),
    ]
    await world.say("and row 2500?")
    assert "row 2500\n" in results(provider.requests[4])[-1].content
