"""A word of the private vocabulary fails the check where it is a name, and is counted where it is prose."""

from pathlib import Path

import pytest

from tools import vocabulary


def test_the_tree_keeps_to_the_words_of_the_field() -> None:
    assert vocabulary.main() == 0


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


def test_a_name_that_comes_back_is_told_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "agent" / "here.py"
    file.parent.mkdir()
    file.write_text("x = 1\nhouse = x\n")
    assert vocabulary.private_names(file, tmp_path) == ["agent/here.py:2: house"]
