"""What of a growing answer is streamed already: it is never taken back, and it is all there in the end."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.slack.markdown import markdown
from adapters.slack.settled import settled
from gateway.delivery.markdown import parse

LONG = Path(__file__).with_name("long_answer.md").read_text()[:4000]


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
        pytest.param("**", "", id="nothing sure yet"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_settled(so_far: str, streamed: str) -> None:
    assert settled(parse(so_far)) == streamed


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(min_value=1, max_value=200), min_size=10, max_size=60))
def test_an_ordinary_answer_only_grows(steps: list[int]) -> None:
    at, before = 0, ""
    for step in steps:
        at = min(len(LONG), at + step)
        now = settled(parse(LONG[:at]))
        assert now.startswith(before) or before.startswith(now)
        before = max(before, now, key=len)
    assert markdown(parse(LONG)).startswith(before)
