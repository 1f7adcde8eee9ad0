"""The file tools, each through its appraisal as the dispatcher calls it; every call stays in its own workspace."""

from pathlib import Path

import pytest

from agent.core.errors import OutOfScope, ToolError
from agent.core.tools import Tool
from agent.tools.files.edit import EditTools, read, replaced
from agent.tools.files.search import fits, glob, grep, list_folder, parts_of, set_working_directory
from agent.tools.settings import FileSettings
from tests.fakes.calls import call_in, called

EDITS = EditTools(FileSettings)
WRITE, EDIT = EDITS.write, EDITS.edit


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    made = tmp_path / "ws"
    (made / "src" / "deep").mkdir(parents=True)
    (made / "notes.md").write_text("# Notes\nmilk\neggs\n")
    (made / "src" / "a.py").write_text("import os\nprint(os.name)\n")
    (made / "src" / "deep" / "b.py").write_text("import re\n")
    (made / "src" / "raw.bin").write_bytes(b"\x00\x01import")
    return made


async def test_a_file_is_read_with_line_numbers(ws: Path) -> None:
    text = await called(read, call_in(ws, cwd="src"), path="../notes.md", from_line=2, lines=1)
    assert text == "     2\tmilk\n[1 lines follow; go on with from_line=3]"


@pytest.mark.parametrize(
    ("path", "said"), [("src/raw.bin", "is no text"), ("notes", "there is notes.md"), ("notes.md", "has 3 lines")]
)
async def test_what_cannot_be_shown_is_told(ws: Path, path: str, said: str) -> None:
    with pytest.raises(ToolError, match=said):
        await called(read, call_in(ws), path=path, from_line=9)


@pytest.mark.requirement("R-30")
async def test_an_approval_shows_the_canonical_path_and_what_is_written(ws: Path) -> None:
    assert WRITE.spec.appraise is not None
    appraisal = await WRITE.spec.appraise({"path": "../notes.md", "content": "gone"}, call_in(ws, cwd="src"))
    assert appraisal.arguments == {"path": "/workspace/notes.md", "content": "gone"}
    assert appraisal.shown.startswith("Replace /workspace/notes.md (18 bytes) with 4 characters:\ngone")


async def test_an_approval_of_a_long_text_shows_its_beginning_and_its_end(ws: Path) -> None:
    long = f"first line\n{'x = 1' + chr(10)}" + "pass\n" * 2_000 + "rm -rf everything"
    for tool, given in ((WRITE, {"content": long}), (EDIT, {"old": "milk", "new": long})):
        assert tool.spec.appraise is not None
        shown = (await tool.spec.appraise({"path": "notes.md", **given}, call_in(ws))).shown
        assert "first line" in shown
        assert shown.rstrip().endswith("rm -rf everything")
        assert len(shown) < 2_000


async def test_a_file_is_written_and_changed(ws: Path) -> None:
    context = call_in(ws)
    assert (
        await called(WRITE, context, path="new/x.txt", content="one\ntwo\n")
        == "Written: /workspace/new/x.txt, 8 bytes."
    )
    assert (
        await called(EDIT, context, path="new/x.txt", old="two", new="2") == "Changed: /workspace/new/x.txt, 1 place."
    )
    assert (ws / "new" / "x.txt").read_text() == "one\n2\n"


@pytest.mark.parametrize(
    ("old", "everywhere", "said"),
    [
        ("x", False, "stands there 3 times .lines 1, 2, 2"),
        ("y", False, "does not stand"),
        ("z", False, "are the same"),
    ],
)
def test_a_change_that_is_not_clear_is_none(old: str, everywhere: bool, said: str) -> None:
    with pytest.raises(ToolError, match=said):
        replaced("x\nx x\n", old, "z", everywhere=everywhere)


def test_every_place_and_windows_lines() -> None:
    assert replaced("x\nx x\n", "x", "z", everywhere=True) == ("z\nz z\n", 3)
    assert replaced("a\r\nb\r\nc", "a\nb", "1\n2", everywhere=False) == ("1\r\n2\r\nc", 1)


async def test_a_full_workspace_takes_no_more(ws: Path) -> None:
    files, room = (
        EditTools(lambda: FileSettings(workspace_files=1)).write,
        EditTools(lambda: FileSettings(workspace_mb=1)).write,
    )
    with pytest.raises(ToolError, match="holds 4 files"):
        await called(files, call_in(ws), path="x", content="")
    await called(files, call_in(ws), path="notes.md", content="a file that is there may change")
    with pytest.raises(ToolError, match="of 1 MiB"):
        await called(room, call_in(ws), path="x", content="x" * (1024 * 1024))


async def test_half_a_character_is_not_written(ws: Path) -> None:
    with pytest.raises(ToolError, match="unicode"):
        await called(WRITE, call_in(ws), path="x", content="a\ud83d")


async def test_a_folder_is_listed(ws: Path) -> None:
    (ws / "link").symlink_to("/etc/passwd")
    (ws / "two\nlines").touch()
    lines = (await called(list_folder, call_in(ws))).splitlines()
    assert lines[0] == "/workspace: 4 entries"
    assert lines[1] == "other   link (a link or a device; it is not opened)"
    assert lines[2].startswith("file    notes.md  18  20")
    assert lines[3:] == ["folder  src/", *lines[4:]]
    assert "two\\u000alines" in lines[4], "a name is one line, whatever is in it"


@pytest.mark.parametrize(
    ("pattern", "path", "fitting"),
    [
        ("*.py", "a.py", True),
        ("*.py", "src/a.py", False),
        ("**/*.py", "a.py", True),
        ("**/*.py", "src/deep/b.py", True),
        ("src/**", "src/deep/b.py", True),
        ("src/**/b.py", "src/b.py", True),
        ("s?c/[ab].py", "src/b.py", True),
        ("[!a].py", "a.py", False),
        ("**/a/**/b", "a/x/y/b", True),
    ],
)
def test_patterns(pattern: str, path: str, fitting: bool) -> None:
    assert fits(path.split("/"), parts_of(pattern)) is fitting


def test_a_pattern_of_many_stars_ends() -> None:
    assert not fits(["a"] * 60, parts_of("/".join(["**", "a"] * 15 + ["b"])))
    assert not fits(["a" * 200], parts_of("*a" * 60 + "b"))


@pytest.mark.parametrize("pattern", ["/etc/*", "../*", "a/../../*"])
def test_a_pattern_stays_below(pattern: str) -> None:
    with pytest.raises(ToolError, match="stays below"):
        parts_of(pattern)


async def test_files_are_found(ws: Path) -> None:
    found = await called(glob, call_in(ws, cwd="src"), pattern="**/*.py")
    assert found == "/workspace/src/a.py\n/workspace/src/deep/b.py"
    assert await called(glob, call_in(ws), pattern="*.rs") == "Nothing below /workspace fits *.rs."


async def test_lines_are_found(ws: Path) -> None:
    found = await called(grep, call_in(ws), pattern=r"^import (\w+)", files="src/**")
    assert found == "/workspace/src/a.py:1: import os\n/workspace/src/deep/b.py:1: import re"
    around = await called(grep, call_in(ws), pattern="MILK", path="notes.md", ignore_case=True, around=1)
    assert around.splitlines()[:3] == [
        "/workspace/notes.md-1: # Notes", "/workspace/notes.md:2: milk", "/workspace/notes.md-3: eggs"
    ]  # fmt: skip


async def test_a_pattern_that_never_ends_is_stopped(ws: Path) -> None:
    (ws / "long").write_text("a" * 40 + "b\n")
    found = await called(grep, call_in(ws), pattern=r"^(?:a|aa|a?)+(?:a|aa)+$(?<!x)c", path="long")
    assert "Nothing in" in found
    with pytest.raises(ToolError, match="no regular expression"):
        await called(grep, call_in(ws), pattern="(")


async def test_a_pattern_that_would_fill_the_memory_is_refused_with_a_reason(ws: Path) -> None:
    with pytest.raises(ToolError, match="its repeats are too large"):
        await called(grep, call_in(ws), pattern="a{100000000}")


@pytest.mark.requirement("Z-112")
async def test_the_working_directory_is_set_for_later(ws: Path) -> None:
    moved: list[Path] = []
    context = call_in(ws, move=moved.append)
    assert "from the next message on" in await called(set_working_directory, context, path="src")
    assert moved == [ws / "src"]
    assert context.execution.cwd == ws, "this turn keeps its own"
    with pytest.raises(ToolError, match="no folder"):
        await called(set_working_directory, context, path="notes.md")


@pytest.mark.requirement("B-36", "B-93")
@pytest.mark.parametrize("tool", [read, WRITE, EDIT, list_folder, glob, grep, set_working_directory])
async def test_no_tool_leaves_the_workspace(ws: Path, tool: Tool) -> None:
    others = {"content": "x", "old": "a", "new": "b", "pattern": "x"}
    (ws / "way").symlink_to(ws.parent)
    for path in ("/etc/passwd", "../other/file"):
        with pytest.raises(OutOfScope):
            await called(tool, call_in(ws), path=path, **others)
    fields = {name: others[name] for name in tool.spec.schema["properties"] if name in others}
    with pytest.raises(ToolError):
        await called(tool, call_in(ws), path="way/x", **fields)
