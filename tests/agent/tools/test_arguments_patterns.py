"""A stranger's regular expression is weighed before it is compiled, and run for a limited time."""

import re

import pytest

from agent.tools.arguments import HEAVIEST, LONGEST, Unfit, compiled, weight


@pytest.mark.parametrize(
    "pattern",
    [
        r"\b(?:foo|bar)+\s*\(\d{1,3}\)",
        r"^import (\w+)",
        r"(\w+\s?)+$",
        r"[a-z]{1,200}@[a-z]{1,200}",
        r"\d{4}-\d{2}-\d{2}T(?:\d{2}:){2}\d{2}",
        r"[({\[]{2,}",
        "a{5000}",
        "x" * LONGEST,
    ],
)
def test_ordinary_ones_are_compiled(pattern: str) -> None:
    assert compiled(pattern).pattern == pattern


@pytest.mark.parametrize(
    "pattern",
    [
        pytest.param("a{100000000}", id="a large count"),
        pytest.param("a{20000,}", id="a large least count"),
        pytest.param("(?:a{300}){300}", id="counts within counts"),
        pytest.param("(?:" * 25 + "a" + ")+" * 25, id="nested repeats"),
        pytest.param("(?:" * 14 + "a" + "){2}" * 14, id="nested small counts"),
        pytest.param("(?#()" + "(?:a{300}){300}", id="a bracket in a comment"),
        pytest.param("[(](?:a{300}){300}", id="a bracket in a set"),
        pytest.param("[](](?:a{300}){300}", id="a set that begins with its end"),
        pytest.param(r"[\](](?:a{300}){300}", id="an escape in a set"),
        pytest.param(r"\((?:a{300}){300}", id="an escaped bracket"),
        pytest.param("(?:(?:x|a{300})y){300}", id="a count in a branch"),
    ],
)
def test_those_that_would_grow_large_are_not(pattern: str) -> None:
    assert weight(pattern) > HEAVIEST
    with pytest.raises(Unfit, match="repeats are too large"):
        compiled(pattern)


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        pytest.param("x" * (LONGEST + 1), "more than 1000 characters", id="too long"),
        pytest.param("(?x)a # (", "flags x and V1", id="free spacing"),
        pytest.param("(?iV1)[[a]b]", "flags x and V1", id="nested sets"),
        pytest.param("(", "missing \\)", id="none at all"),
        pytest.param("a{2}{3}", "multiple repeat", id="a repeat of a repeat"),
    ],
)
def test_others_are_refused_with_a_reason(pattern: str, why: str) -> None:
    with pytest.raises(Unfit, match=re.compile(why)):
        compiled(pattern)


def test_one_that_does_not_end_is_stopped() -> None:
    with pytest.raises(TimeoutError):
        compiled(r"^(?:a|aa|a?)+(?:a|aa)+$(?<!x)c").search("a" * 5_000, timeout=0.05, concurrent=True)
