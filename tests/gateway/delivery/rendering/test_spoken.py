"""Words as a voice reads them: without what nobody can listen to, and to the end of a sentence."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.delivery.rendering.markdown import parse
from gateway.delivery.rendering.spoken import spoken_words

REST = "The rest is above."


@pytest.mark.parametrize(
    ("markdown", "words"),
    [
        pytest.param("It **rains** _hard_.", "It rains hard.", id="marks are not read"),
        pytest.param("# Weather\n\nIt rains", "Weather.\nIt rains.", id="a heading and a text end like sentences"),
        pytest.param("- one\n- two!", "one.\ntwo!", id="items one after another"),
        pytest.param("See [the page](https://example.org/a?b=c).", "See the page.", id="of a link its words"),
        pytest.param("See https://example.org/a?b=c now", "See example.org now.", id="of an address its host"),
        pytest.param("> quoted\n\nsaid", "quoted.\nsaid.", id="a quotation"),
        pytest.param("Run this:\n\n```\nls -l\n```", f"Run this:\n{REST}", id="code is left to the text"),
        pytest.param("Look:\n\n| a | b |\n|---|---|\n| 1 | 2 |", f"Look:\n{REST}", id="a table is left to the text"),
        pytest.param("```\nls\n```", "", id="nothing to read"),
        pytest.param("One. " * 30, f"{'One. ' * 15}One.\n{REST}", id="up to the end of a sentence"),
        pytest.param("word " * 40, f"{'word ' * 15}word\n{REST}", id="else of a word"),
        pytest.param("x" * 200, f"{'x' * 81}\n{REST}", id="else where it must"),
    ],
)
def test_spoken_words(markdown: str, words: str) -> None:
    assert spoken_words(parse(markdown), 100, REST) == words


@given(st.text(max_size=400), st.integers(min_value=1, max_value=200))
def test_never_more_than_may_be_read(text: str, most: int) -> None:
    assert len(spoken_words(parse(text), most, REST)) <= most
