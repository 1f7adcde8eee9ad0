"""AGENT.md: loaded, checked, read again when it changes (B-06, B-09, B-10)."""

import os
from pathlib import Path

import pytest

from agent.core.errors import AgentInvalid, AgentMissing
from agent.definitions import Definitions

SHIPPED = Path(__file__).parents[2] / "config" / "agents"
TOOLS = frozenset({"current_time", "calculate", "final_answer", "fail", "ask_user"})


def definitions(root: Path, text: str | None = None, name: str = "helper") -> Definitions:
    if text is not None:
        write(root, text, name)
    return Definitions([root], known_tools=TOOLS)


def write(root: Path, text: str, name: str = "helper") -> Path:
    path = root / name / "AGENT.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    return path


FULL = """\
---
name: Helper
description: Helps.
provider: main
tools: [calculate, ask_user]
max_tool_iterations: 3
max_turns: 5
max_tokens: 800
---

You help.

---
Always.
"""


@pytest.mark.requirement("B-06")
def test_a_full_definition(tmp_path: Path) -> None:
    loaded = definitions(tmp_path, FULL).load("helper")
    assert (loaded.name, loaded.description, loaded.provider) == ("helper", "Helps.", "main")
    assert loaded.tools == frozenset({"calculate", "ask_user"})
    assert (loaded.max_tool_iterations, loaded.max_turns, loaded.max_tokens) == (3, 5, 800)
    assert loaded.identity == "You help.\n\n---\nAlways."


def test_windows_line_ends_and_a_byte_order_mark_are_fine(tmp_path: Path) -> None:
    assert definitions(tmp_path, "\ufeff---\r\nname: A\r\n---\r\nHi.\r\n").load("helper").identity == "Hi."


@pytest.mark.requirement("B-06", "B-10")
@pytest.mark.parametrize(
    ("text", "mistakes"),
    [
        pytest.param("You help.", ['begin with a line "---"'], id="no front matter"),
        pytest.param("---\nname: A\nYou help.", ["not closed"], id="not closed"),
        pytest.param("---\nname: [\n---\nHi.", ["not valid YAML in line 2"], id="no YAML"),
        pytest.param("---\n- a\n---\nHi.", ["must be `key: value` lines"], id="a list"),
        pytest.param("---\nname: A\n---\n", ["the text after the front matter is empty"], id="nobody"),
        pytest.param(
            "---\nname: A\ntool: [x]\nmax_turns: 0\ntools: [calculat]\n---\nHi.",
            ["tool: unknown key; did you mean tools?", "max_turns: input should be greater than or equal to 1, got 0"],
            id="all mistakes at once",
        ),
        pytest.param(
            "---\nname: A\nmax_turns: 0\n---\n",
            ["max_turns: input should be greater than or equal to 1, got 0", "text after the front matter is empty"],
            id="nobody, and a mistake",
        ),
        pytest.param(
            "---\nname: A\ntools: [calculat]\n---\n",
            ["text after the front matter is empty", "no tool 'calculat'; did you mean calculate?"],
            id="an unknown tool",
        ),
        pytest.param(
            "---\nname: A\nmax_turns: many\n---\nHi.", ["max_turns: input should be a valid integer"], id="type"
        ),
    ],
)
def test_mistakes_are_told_with_the_fix(tmp_path: Path, text: str, mistakes: list[str]) -> None:
    with pytest.raises(AgentInvalid) as caught:
        definitions(tmp_path, text).load("helper")
    for mistake in mistakes:
        assert mistake in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_a_file_beyond_reason_or_no_text_at_all_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AgentInvalid, match="is the most"):
        definitions(tmp_path, "---\nname: A\n---\n" + "x" * 300_000).load("helper")
    path = write(tmp_path, "", "binary")
    path.write_bytes(b"---\nname: \xff")
    with pytest.raises(AgentInvalid, match="not UTF-8"):
        definitions(tmp_path).load("binary")


@pytest.mark.requirement("B-09")
@pytest.mark.parametrize("name", ["helpr", "../helper", "", "a/b", "."])
def test_an_agent_that_is_not_there_says_what_is(tmp_path: Path, name: str) -> None:
    with pytest.raises(AgentMissing, match="helper"):
        definitions(tmp_path, FULL).load(name)


def test_the_first_root_wins_and_all_names_are_listed(tmp_path: Path) -> None:
    write(tmp_path / "mine", "---\nname: A\n---\nMine.", "default")
    write(tmp_path / "shipped", "---\nname: A\n---\nShipped.", "default")
    write(tmp_path / "shipped", "---\nname: A\n---\nOther.", "other")
    both = Definitions([tmp_path / "mine", tmp_path / "shipped"], known_tools=TOOLS)
    assert both.load("default").identity == "Mine."
    assert both.names() == ("default", "other")


@pytest.mark.requirement("Z-21")
def test_a_changed_file_is_read_again_and_a_broken_one_is_not_taken(tmp_path: Path) -> None:
    known = definitions(tmp_path, "---\nname: A\n---\nOne.")
    one = known.load("helper")
    assert known.load("helper") is one
    path = write(tmp_path, "---\nname: A\n---\nTwo.")
    os.utime(path, ns=(1, 1))
    assert known.reloaded(one, "helper").identity == "Two."
    write(tmp_path, "---\nname: A\n---\n")
    assert known.reloaded(one, "helper") is one
    path.unlink()
    assert known.reloaded(one, "helper") is one


def test_what_is_shipped_is_sound() -> None:
    loaded = Definitions([SHIPPED], known_tools=TOOLS).load("default")
    assert loaded.tools is None
    assert "Tieline" in loaded.identity
