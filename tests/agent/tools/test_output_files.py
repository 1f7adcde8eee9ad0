"""Results that are too long to show: what is shown, what is kept, how the rest is read."""

import stat
from pathlib import Path

import pytest

from agent.core.cancellation import CancelToken
from agent.core.errors import ToolError
from agent.core.ids import CallId, ConversationId, RunId
from agent.core.tools import ToolContext
from agent.tools.output_files import FOLDER, LONGEST_SHOWN, MOST_CHARS, SHOWN_HEAD, Outputs

HERE, THERE = ConversationId("telegram:1"), ConversationId("telegram:2")
LONG = "".join(f"line {number}: nothing to see\n" for number in range(4_000))


def context(conversation: ConversationId = HERE) -> ToolContext:
    return ToolContext(
        conversation=conversation,
        run=RunId("r"),
        call=CallId("c"),
        person=None,
        idempotency_key="1:c",
        cancel=CancelToken(),
    )


async def test_what_is_short_enough_passes_untouched(tmp_path: Path) -> None:
    assert await Outputs(tmp_path).shortened(HERE, "x" * LONGEST_SHOWN) == "x" * LONGEST_SHOWN
    assert not (tmp_path / FOLDER).exists()


async def test_a_longer_one_shows_beginning_and_end_and_how_to_read_the_rest(tmp_path: Path) -> None:
    shown = await Outputs(tmp_path).shortened(HERE, LONG)
    assert len(shown) < LONGEST_SHOWN + 200
    assert shown.startswith(LONG[:SHOWN_HEAD])
    assert shown.endswith(LONG[-100:])
    [path] = (tmp_path / FOLDER).rglob("*.txt")
    assert path.read_text("utf-8") == LONG
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.stem in shown


async def test_the_rest_can_be_read_to_its_end(tmp_path: Path) -> None:
    outputs = Outputs(tmp_path)
    name = await outputs.keep(HERE, LONG)
    read, begin = "", 0
    while begin < len(LONG):
        stretch = await outputs.read_output.run({"output": name, "from_char": begin}, context())
        read += stretch.split("\n", 1)[1]
        begin += MOST_CHARS
    assert read == LONG


async def test_a_text_is_found_with_what_stands_around_it(tmp_path: Path) -> None:
    outputs = Outputs(tmp_path)
    name = await outputs.keep(HERE, LONG + "FATAL at the very end")
    found = await outputs.read_output.run({"output": name, "find": "FATAL"}, context())
    assert found.endswith("line 3999: nothing to see\nFATAL at the very end")
    with pytest.raises(ToolError, match="does not stand in"):
        await outputs.read_output.run({"output": name, "find": "absent"}, context())
    with pytest.raises(ToolError, match="from_char is 999999"):
        await outputs.read_output.run({"output": name, "from_char": 999_999}, context())


async def test_another_conversation_cannot_read_it(tmp_path: Path) -> None:
    outputs = Outputs(tmp_path)
    name = await outputs.keep(HERE, LONG)
    await outputs.keep(THERE, LONG + "of their own")
    (tmp_path / "notes.txt").write_text("of the gateway", "utf-8")
    for wanted in (name, f"../telegram%3A1/{name}", "../../notes"):
        with pytest.raises(ToolError, match="there is no output"):
            await outputs.read_output.run({"output": wanted}, context(THERE))


async def test_a_full_disk_costs_the_rest_and_not_the_call(tmp_path: Path) -> None:
    (tmp_path / FOLDER).write_text("a file where the folder should be", "utf-8")
    shown = await Outputs(tmp_path).shortened(HERE, LONG)
    assert "could not be kept" in shown
