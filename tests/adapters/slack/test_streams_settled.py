"""The streamed part of a growing answer is never taken back, and the whole answer is there in the end."""

from pathlib import Path

import pytest

from adapters.slack.markdown import markdown
from adapters.slack.streams import settled
from gateway.delivery.rendering.markdown import parse

LONG = Path(__file__).with_name("long_answer.md").read_text()[:2500]


@pytest.mark.parametrize(
    ("so_far", "streamed"),
    [
        pytest.param("Hello the", "Hello the", id="words at once"),
        pytest.param("Hello **bo", "Hello ", id="bold not yet closed"),
        pytest.param("Hello **bold** x", "Hello **bold** x", id="bold closed"),
        pytest.param("see [the pa", "see ", id="half a link"),
        pytest.param("see `co", "see ", id="half a code"),
        pytest.param("one\n\n-", "one", id="perhaps a list"),
        pytest.param("one\n\n12", "one", id="perhaps a number"),
        pytest.param("- a\n- b", "- a\n- b", id="a list"),
        pytest.param("x\n\n```py\na = 1\nb", "x\n\n```py\na = 1\nb", id="code, still open"),
        pytest.param("x\n\n```py\na = 1\n``", "x\n\n```py\na = 1\n", id="perhaps its end"),
        pytest.param("x **y**\n\n```py", "x **y**", id="code, its language perhaps not whole"),
        pytest.param("x **y**\n\n| a | b |\n|---|---|\n| c", "x **y**", id="a table grows"),
        pytest.param("```\n", "", id="a bare fence"),
        pytest.param("```py\n\n", "", id="a fence with nothing in it"),
        pytest.param("**", "", id="nothing sure yet"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_settled(so_far: str, streamed: str) -> None:
    assert settled(parse(so_far)) == streamed


@pytest.mark.parametrize(
    "text",
    ["```\nx = 1\ny = 2\n```\nDone.", "```py\nx = 1\n```\nDone **now**", "~~~\n\nx\n~~~\nb", "- ```\n  x\n  ```\n"],
)
def test_a_stream_that_begins_with_a_fence_goes_on(text: str) -> None:
    whole = markdown(parse(text))
    assert all(whole.startswith(settled(parse(text[:end]))) for end in range(1, len(text) + 1))


def test_an_ordinary_answer_is_hardly_ever_taken_back() -> None:
    """Edits take over where streamed text would have to change, as with a list item that looks like a heading."""
    whole = markdown(parse(LONG))
    cuts = range(1, len(LONG), 9)
    wrong = [at for at in cuts if not whole.startswith(settled(parse(LONG[:at])))]
    assert len(wrong) <= len(cuts) // 100
