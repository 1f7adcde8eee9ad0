"""A new requirement: the next free id of its group, and a breakage to fill in."""

import shutil
import tomllib
from pathlib import Path

import pytest

from tools.breakages import read
from tools.new_requirement import ROOT, next_id, note

TITLE = 'A reply says "no" in plain words: \\o/'


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "tests" / "breakages").mkdir(parents=True)
    shutil.copy(ROOT / "docs" / "requirements.toml", tmp_path / "docs")
    return tmp_path


@pytest.mark.parametrize("group", ["Z", "G"])
def test_it_comes_behind_the_last_of_its_group_and_is_open(root: Path, group: str) -> None:
    before = tomllib.loads((root / "docs" / "requirements.toml").read_text())
    name, breakage = note(root, group, f" {TITLE} ")
    after = tomllib.loads((root / "docs" / "requirements.toml").read_text())
    assert after == {**before, name: {"status": "open", "text": TITLE}}
    last = [one for one in before if one.startswith(f"{group}-")][-1]
    assert list(after)[list(after).index(last) + 1] == name
    assert int(name[2:]) == int(last[2:]) + 1
    with pytest.raises(ValueError, match="kind is ''; known: condition"):
        read(breakage)
    assert note(root, group, TITLE)[0] == f"{group}-{int(name[2:]) + 1}"


def test_its_outline_becomes_a_breakage_when_it_is_filled_in(root: Path) -> None:
    name, breakage = note(root, "Z", TITLE)
    said = tomllib.loads(breakage.read_text())
    assert list(said) == ["breakage"]
    breakage.write_text(breakage.read_text().replace('kind = ""', 'kind = "wiring"'))
    (one,) = read(breakage)
    assert one.breaks == (name,)


@pytest.mark.parametrize(
    ("group", "title", "words"),
    [
        pytest.param("Q", TITLE, "no group 'Q'; known: B, G, H, R, W, Z", id="no such group"),
        pytest.param("Z", "  ", "say in one line what must hold", id="nothing said"),
        pytest.param("Z", "one\ntwo", "say in one line what must hold", id="two lines"),
    ],
)
def test_what_is_refused(root: Path, group: str, title: str, words: str) -> None:
    before = (root / "docs" / "requirements.toml").read_text()
    with pytest.raises(ValueError, match=words):
        note(root, group, title)
    assert (root / "docs" / "requirements.toml").read_text() == before
    assert not list((root / "tests" / "breakages").iterdir())


def test_a_breakage_that_is_there_is_not_overwritten(root: Path) -> None:
    name = next_id((root / "docs" / "requirements.toml").read_text(), "Z")
    (root / "tests" / "breakages" / f"{name}.toml").write_text("mine")
    with pytest.raises(ValueError, match="is there already"):
        note(root, "Z", TITLE)
