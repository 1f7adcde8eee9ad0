"""Definitions of sub-agents: read as their files stand, refused with every mistake."""

from pathlib import Path

import pytest

from agent.assembly import built_in_tool_names, known_tools
from agent.core.errors import AgentInvalid, AgentMissing
from agent.definitions import LARGEST
from agent.subagent.profiles import Listed, Profile, Profiles

KNOWN = frozenset({"read", "write", "Agent"})


def profiles(*roots: Path) -> Profiles:
    return Profiles(roots, known_tools=KNOWN)


def write(root: Path, name: str, text: str) -> None:
    root.mkdir(exist_ok=True)
    (root / f"{name}.md").write_text(text, "utf-8")


def test_a_definition_says_who_it_is_and_what_it_may(tmp_path: Path) -> None:
    front = "name: scout\ndescription: Looks.\ntools: [read, mcp__time__*]\nwithout: [write]\nsteps: 4\ntimeout_s: 9\n"
    write(tmp_path, "scout", f"---\n{front}max_tokens: 50\n---\n\nYou look.\n")
    assert profiles(tmp_path).load("scout") == Profile(
        name="scout",
        description="Looks.",
        identity="You look.",
        tools=frozenset({"read", "mcp__time__*"}),
        without=frozenset({"write"}),
        steps=4,
        timeout_s=9.0,
        max_tokens=50,
    )


def test_left_out_everything_is_as_without_a_definition(tmp_path: Path) -> None:
    write(tmp_path, "plain", "---\n---\n\nYou are plain.\n")
    assert profiles(tmp_path).load("plain") == Profile(name="plain", identity="You are plain.")


def test_the_operators_own_stands_before_the_shipped_one_and_a_change_counts_at_once(tmp_path: Path) -> None:
    own, shipped = tmp_path / "own", tmp_path / "shipped"
    write(shipped, "scout", "---\n---\n\nShipped.\n")
    found = profiles(own, shipped)
    assert found.load("scout").identity == "Shipped."
    write(own, "scout", "---\n---\n\nMine.\n")
    assert found.load("scout").identity == "Mine."


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        pytest.param("You.", "must begin with a line", id="no front matter"),
        pytest.param("---\ntols: [read]\n---\n\nYou.", "tols: unknown key; did you mean tools?", id="unknown key"),
        pytest.param("---\ntools: [raed]\n---\n\nYou.", "no tool 'raed'; did you mean read?", id="unknown tool"),
        pytest.param("---\nwithout: [raed]\n---\n\nYou.", "no tool 'raed'", id="unknown tool it shall not have"),
        pytest.param("---\nsteps: 51\n---\n\nYou.", "steps:", id="too many steps"),
        pytest.param("---\ntimeout_s: 600\n---\n\nYou.", "timeout_s:", id="longer than a call may take"),
        pytest.param("---\nname: other\n---\n\nYou.", "name: 'other' is not the file's; write x", id="another's name"),
        pytest.param("---\nsteps: 3\n---\n", "the text after the front matter is empty", id="no text"),
        pytest.param("---\n---\n\n" + "x" * LARGEST, "is the most", id="too large"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, mistake: str) -> None:
    write(tmp_path, "x", text)
    with pytest.raises(AgentInvalid, match=r"x\.md") as raised:
        profiles(tmp_path).load("x")
    assert mistake in str(raised.value)
    assert profiles(tmp_path).listed()[0].mistake in str(raised.value)


@pytest.mark.parametrize("name", ["../secret", "", ".x", "a" * 65, "a b", "nobody"])
def test_a_name_is_a_name(tmp_path: Path, name: str) -> None:
    write(tmp_path, "secret", "---\n---\n\nYou.\n")
    with pytest.raises(AgentMissing, match=r"known: secret|did you mean secret"):
        profiles(tmp_path / "agents", tmp_path).load(name)


def test_what_is_shipped_is_sound() -> None:
    shipped = Path(__file__).parents[3] / "config" / "agents"
    known = known_tools(built_in_tool_names())
    (one,) = Profiles((shipped,), known_tools=known).listed()
    assert one == Listed(
        "researcher", "Looks things up in files and on the web and reports what it found, with sources."
    )
