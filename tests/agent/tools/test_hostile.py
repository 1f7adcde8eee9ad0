"""The hostile corpus: every shipped case is refused or defused, and what is harmless goes on working."""

from pathlib import Path

import pytest

from tests.bench.hostile.__main__ import CONTROL, SHIPPED, read, tried

DOCS = Path(__file__).parents[3] / "docs" / "security.md"


@pytest.mark.requirement("R-27", "B-36", "B-93", "G-17")
@pytest.mark.parametrize("file", sorted(SHIPPED.glob("*.toml")), ids=lambda file: file.stem)
async def test_every_case_comes_out_as_it_says(file: Path) -> None:
    outcomes = await tried(list(read(file)))
    wrong = [(case["kind"], case["text"], found, case["expect"]) for case, found in outcomes if found != case["expect"]]
    assert not wrong


def test_the_count_in_the_documentation_is_the_count() -> None:
    cases = [case for file in SHIPPED.glob("*.toml") for case in read(file)]
    hostile = sum(case["expect"] not in CONTROL for case in cases)
    assert hostile >= 200
    assert f"{hostile} hostile inputs" in DOCS.read_text()


def test_a_stranger_may_add_a_file_and_mistakes_in_it_are_told(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[[group]]\nkind = "shell"\nexpect = "ask"\ncases = ["rm x", {text = "cp a b"}]\n')
    assert [case["text"] for case in read(file)] == ["rm x", "cp a b"]
    file.write_text('[[group]]\nkind = "spell"\nexpect = "ask"\ncases = []\n')
    with pytest.raises(ValueError, match="no kind 'spell'; known: shell"):
        list(read(file))
