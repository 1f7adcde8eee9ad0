"""Thoughts between tags in the content: taken out of it, however the content comes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.providers.openai.stream import Tagged


def heard(pieces: list[str], *, opened: bool = False, cut: bool = False) -> tuple[str, str]:
    """The words that stand at the end, and the thoughts."""
    tagged, words, thoughts = Tagged(opened=opened), "", ""
    for piece in [*pieces, None]:
        for kind, text in tagged.rest(cut=cut) if piece is None else tagged.taken(piece):
            words = "" if kind == "withdrawn" else words + text if kind == "words" else words
            thoughts += text if kind == "thought" else ""
    return words, thoughts


CASES = [
    pytest.param("Hello.", "Hello.", "", id="none"),
    pytest.param("<think>hm</think>Hello.", "Hello.", "hm", id="whole"),
    pytest.param("\n<think>\nhm\n</think>\n\nHello.\n", "Hello.\n", "\nhm\n", id="on lines of its own"),
    pytest.param("<think>\n\n</think>\n\nHello.", "Hello.", "\n\n", id="empty"),
    pytest.param("<thinking>a < b </think></thinking>\nHi", "Hi", "a < b </think>", id="another tag"),
    pytest.param("Secret\nplan.\n</think>\n\nHello.", "Hello.", "", id="only closed"),
    pytest.param("</think>\nHello.", "Hello.", "", id="closed at once"),
    pytest.param("Secret.\n</think>", "", "", id="closed at the end"),
    pytest.param("The tag </think> closes it.", "The tag </think> closes it.", "", id="told of in a sentence"),
    pytest.param("Use\n```\n</think>\n```\nthus", "Use\n```\n</think>\n```\nthus", "", id="told of in code"),
    pytest.param("<think> is a tag.", "<think> is a tag.", " is a tag.", id="never closed"),
    pytest.param("x <think>y</think> z", "x <think>y</think> z", "", id="not at the beginning"),
    pytest.param("<think>a</think>b\n</think>\nc", "b\n</think>\nc", "a", id="one thought alone"),
    pytest.param("<thin", "<thin", "", id="a part of a tag"),
    pytest.param("a\n</thi", "a\n</thi", "", id="a part of a tag at the end"),
    pytest.param("", "", "", id="nothing"),
]


@pytest.mark.parametrize(("content", "words", "thoughts"), CASES)
def test_what_is_said_and_what_is_thought(content: str, words: str, thoughts: str) -> None:
    assert heard([content]) == (words, thoughts)
    said, thought = heard(list(content))
    assert said == words
    assert thought in (thoughts, content.removeprefix("<think>"))


def test_a_thought_that_was_cut_off_is_no_answer() -> None:
    assert heard(["<think>so far"], cut=True) == ("", "so far")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param("hm\n</think>\n\nHello.", "Hello.", id="with its end"),
        pytest.param("Hello.", "Hello.", id="not this time"),
    ],
)
def test_a_model_that_begins_inside_a_thought(content: str, words: str) -> None:
    assert heard([content], opened=True)[0] == words
    assert heard(list(content), opened=True)[0] == words


def test_a_closing_tag_behind_blanks_is_found_however_it_is_cut() -> None:
    assert heard([" </", "think>\n", "Hi"])[0] == heard([" </think>\nHi"])[0] == "Hi"


@given(
    st.lists(st.sampled_from(["<think>", "</think>", "</thi", "nk>", "\n", " ", "a", "```", "<"]), max_size=12),
    st.data(),
)
def test_where_the_content_is_cut_changes_nothing(parts: list[str], data: st.DataObject) -> None:
    content = "".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(content)), max_size=6)))
    pieces = [content[start:end] for start, end in zip([0, *cuts], [*cuts, len(content)], strict=True)]
    assert heard(pieces)[0] == heard([content])[0]
