"""A word of the private vocabulary fails the check where it is a name, and is counted where it is prose."""

from pathlib import Path

import pytest

from tools import vocabulary


@pytest.mark.parametrize(
    ("source", "found"),
    [
        pytest.param("house = 1", [(1, "house")], id="a variable"),
        pytest.param("class Purse: ...", [(1, "Purse")], id="a class"),
        pytest.param("x = 1\ny.take_in()", [(2, "take_in")], id="a method"),
        pytest.param("warehouse = households", [], id="a part of another word"),
        pytest.param('x = "house"  # a house', [], id="no name"),
    ],
)
def test_names_are_found(source: str, found: list[tuple[int, str]]) -> None:
    assert [(line, name) for line, name in vocabulary.names(source) if name in vocabulary.NAMES] == found


def test_prose_is_counted() -> None:
    texts = list(vocabulary.prose('"""The errand of the house."""\nx = 1  # two desks'))
    assert vocabulary.private_words(texts) == {"errand": 1, "the house": 1, "desks": 1}


def test_honest_uses_do_not_count() -> None:
    assert vocabulary.private_words(['model = "whisper-1"', 'case "whisper":', "a whisper to her"]) == {"whisper": 1}


def test_a_docstring_that_begins_with_a_pronoun_is_told_with_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "gateway" / "here.py"
    file.parent.mkdir()
    file.write_text('def one() -> None:\n    """What was spent."""\n\n\nSAID = "What was spent"\n')
    assert vocabulary.main(tmp_path) == 1
    assert capsys.readouterr().out.startswith('gateway/here.py:2: """What was spent."""')
    file.write_text('def one() -> None:\n    """Whoever spends it."""\n')
    assert vocabulary.main(tmp_path) == 1
    file.write_text('def one() -> None:\n    """The sum that was spent; whatever it is."""\n')
    assert vocabulary.main(tmp_path) == 0


def test_a_name_that_comes_back_is_told_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "agent" / "here.py"
    file.parent.mkdir()
    file.write_text("x = 1\nhouse = x\n")
    assert vocabulary.private_names(file, tmp_path) == ["agent/here.py:2: house"]


@pytest.mark.parametrize(
    ("words", "is_one"),
    [
        pytest.param("as SP{}EC {sign}8.4 says", True, id="a section"),
        pytest.param("SP{}EC 20.6, row 2", True, id="a section without its sign"),
        pytest.param("see ENG{}INE.md", True, id="a file"),
        pytest.param("PE{}ERS themes 4 to 6", True, id="a theme"),
        pytest.param("(document\n# {sign}8.4)", True, id="a section that a line break parted from its document"),
        pytest.param("RFC 6749 {sign}6", False, id="a section of an RFC"),
        pytest.param("SP{}EC = 1", False, id="a name of the code"),
        pytest.param("(Z-17), docs/context.md", False, id="a requirement and a page"),
    ],
)
def test_a_citation_of_a_document_that_is_not_here_is_found(tmp_path: Path, words: str, is_one: bool) -> None:
    file = tmp_path / "here.py"
    file.write_text(words.format("", sign="\N{SECTION SIGN}"))  # this file cites none itself
    assert bool(vocabulary.citations(file, tmp_path)) is is_one


def test_a_citation_fails_the_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "docs" / "page.md"
    page.parent.mkdir()
    page.write_text("Kept, see (Z-17).\n")
    assert vocabulary.main(tmp_path) == 0
    page.write_text(f"Kept.\nSee {'design'.upper()}.md.\n")
    assert vocabulary.main(tmp_path) == 1
    assert "docs/page.md:2: See" in capsys.readouterr().out
