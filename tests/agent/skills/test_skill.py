"""Parsing of SKILL.md, whatever is wrong with it."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.skills.catalogue import block
from agent.skills.skill import Origin, Skill, digest_of, parsed, slug

WHOLE = """---
name: Travel Plan
description: Plans a trip
version: 1.2
triggers: [plan a trip, itinerary]
allowed_tools: [read, web_search]
env: {TRIP: "1", LEVEL: 2}
category: planning
when_to_use: somebody travels
model: large
effort: high
paths: [docs]
arguments: [place, days]
argument_hint: place and days
user_invocable: false
hide_from_model_invocation: true
max_turns: 4
max_tokens: 900
hooks: {stop: echo}
artifacts: [plan.md]
---

# Travel plan

Begin with the place.
"""


def test_what_a_draft_quotes_is_for_its_approver_alone() -> None:
    draft = '---\nname: x\n---\n\n# Refactor\n\n- Somebody wrote: "my code is heron"\n\n1. Find out.\n'
    drafted, _ = read(draft, origin="auto")
    assert "heron" in drafted.body
    assert "heron" not in block(drafted)
    assert "1. Find out." in block(drafted)
    assert "heron" in block(read(draft)[0]), "who writes skills by hand may begin lines as they like"


def read(text: str, folder: str = "some-folder", origin: Origin = "operator") -> tuple[Skill, str]:
    found = parsed(text, folder=Path(folder), origin=origin)
    return found.skill, found.warning


def test_every_field_that_is_accepted_is_taken() -> None:
    skill, warning = read(WHOLE)
    assert warning == ""
    assert skill == Skill(
        name="travel-plan",
        description="Plans a trip",
        body="# Travel plan\n\nBegin with the place.",
        origin="operator",
        folder=Path("some-folder"),
        digest=digest_of(WHOLE),
        version="1.2",
        category="planning",
        triggers=("plan a trip", "itinerary"),
        when_to_use="somebody travels",
        tools=("read", "web_search"),
        env=(("LEVEL", "2"), ("TRIP", "1")),
        model="large",
        arguments=("place", "days"),
        argument_hint="place and days",
        user_invocable=False,
        invocable_by_model=False,
        further=(
            ("effort", "high"),
            ("paths", "docs"),
            ("max_turns", "4"),
            ("max_tokens", "900"),
            ("hooks", "stop: echo"),
            ("artifacts", "plan.md"),
        ),
    )
    assert skill.grants == {"tool:read", "tool:web_search", "env:LEVEL", "env:TRIP"}


@pytest.mark.parametrize(
    ("text", "name", "description", "body", "told"),
    [
        pytest.param("---\nname: [a\n---\nBody.", "some-folder", "Body.", "Body.", "not valid YAML", id="bad YAML"),
        pytest.param("---\n- a\n---\nBody.", "some-folder", "Body.", "Body.", "key: value", id="a list for keys"),
        pytest.param("---\r\nname: A\r\n---\r\nOne.\r\nTwo.\r\n", "a", "One.", "One.\nTwo.", "", id="CRLF"),
        pytest.param("---\nname: a\ndescription: D\n\n# Head\n\nBody.", "a", "D", "# Head\n\nBody.", "",
                     id="a fence that is not closed"),
        pytest.param("# Head\n\n## Sub\nFirst line.\nMore.", "some-folder", "First line.",
                     "# Head\n\n## Sub\nFirst line.\nMore.", "no front matter",
                     id="no matter: the first line is no heading"),
        pytest.param("\ufeff---\nname: a\n---\n", "a", "a", "", "", id="a byte order mark, and no body"),
        pytest.param("---\nname: a\ncolour: red\n---\nB", "a", "B", "B", "unknown keys: colour", id="an unknown key"),
        pytest.param("---\nname: '***'\n---\nB", "some-folder", "B", "B", "", id="a name without letters"),
        pytest.param("---\nname: a\nuser_invocable: maybe\nenv: [X]\n---\nB", "a", "B", "B",
                     "env must be `NAME: value` lines; it counts for nothing; user_invocable must be true or false",
                     id="two mistakes are one warning"),
        pytest.param("---\nname: a\nwhen: 2026-99-99\n---\nB", "some-folder", "B", "B", "not valid YAML", id="a date"),
    ],
)  # fmt: skip
def test_something_usable_comes_out(text: str, name: str, description: str, body: str, told: str) -> None:
    skill, warning = read(text)
    assert (skill.name, skill.description, skill.body) == (name, description, body)
    assert told in warning
    assert bool(told) is bool(warning)


def test_a_drafted_one_is_called_after_its_folder() -> None:
    assert read(WHOLE, "billing-module", "auto")[0].name == "billing-module"


@given(st.text(max_size=200), st.sampled_from(["", "---\n", "---\nname: "]))
@settings(max_examples=60, deadline=None)
def test_no_text_breaks_it(text: str, before: str) -> None:
    skill, _ = read(before + text)
    assert skill.name
    assert len(skill.description) <= 1_024


def test_a_name_can_be_typed() -> None:
    assert slug("  Übersicht: der _Woche_! ") == "übersicht-der-woche"
    assert slug("../../etc") == "etc"


@pytest.mark.parametrize(
    ("written", "tools"),
    [
        pytest.param("allowed-tools: Read, Write, Edit", ("read", "write", "edit"), id="commas"),
        pytest.param("allowed-tools: Bash Read Grep Glob", ("shell", "read", "grep", "glob"), id="blanks"),
        pytest.param("allowed-tools: Bash(git add:*), Bash(npm run test:*) Read", ("shell", "read"), id="commands"),
        pytest.param("allowed-tools:\n  - WebFetch\n  - Task", ("web_fetch", "web_scrape", "Agent"), id="a list"),
        pytest.param("allowed-tools: [mcp__time__*, Bash(ls *, cat)]", ("mcp__time__*", "shell"), id="a comma inside"),
        pytest.param("tools: read_output, WebSearch", ("read_output", "web_search"), id="our own names"),
        pytest.param("allowed-tools: TodoWrite", ("task_create", "task_update"), id="one that is two"),
        pytest.param("allowed-tools: Nonesuch", ("Nonesuch",), id="an unknown one stays"),
        pytest.param("allowed-tools: ''", (), id="none"),
        pytest.param("version: 1", None, id="not named"),
    ],
)
def test_tools_are_known_by_the_names_of_the_public_format(written: str, tools: tuple[str, ...] | None) -> None:
    skill, _ = read(f"---\nname: a\n{written}\n---\nB")
    assert skill.tools == tools


@pytest.mark.parametrize(
    ("front", "description"),
    [
        pytest.param("description: Use when: it rains", "Use when: it rains", id="a colon"),
        pytest.param("description: Fixes a: b\n  and c: d\nlicense: MIT", "Fixes a: b and c: d", id="on two lines"),
        pytest.param('description: Says "no": often', 'Says "no": often', id="with quotes inside"),
        pytest.param("description: Ü: ä\nmetadata:\n  author: x", "Ü: ä", id="before a mapping"),
    ],
)
def test_a_colon_in_a_value_voids_nothing(front: str, description: str) -> None:
    skill, warning = read(f"---\nname: a-b\n{front}\n---\nB")
    assert (skill.name, skill.description, warning) == ("a-b", description, "")


def test_every_field_of_the_public_format_is_taken() -> None:
    front = 'license: MIT\ncompatibility: Python 3\nmetadata:\n  author: me\n  version: "1.2"\nallowed-tools: Read'
    skill, warning = read(f"---\nname: a\ndescription: {'d' * 1_024}\n{front}\n---\nB")
    assert (warning, skill.version, len(skill.description)) == ("", "1.2", 1_024)
    assert dict(skill.further) == {
        "license": "MIT",
        "compatibility": "Python 3",
        "metadata": "author: me, version: 1.2",
    }
