"""Calls that run in parallel."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.tools.executor import batches_of


@pytest.mark.requirement("G-04", "R-34")
@pytest.mark.parametrize(
    ("calls", "groups"),
    [
        ("", []),
        ("ssUs", ["ss", "U", "s"]),
        ("UU", ["U", "U"]),
        ("sssss", ["sss", "ss"]),
    ],
)
def test_batches_of(calls: str, groups: list[str]) -> None:
    assert ["".join(batch) for batch in batches_of(calls, str.islower, 3)] == groups


@pytest.mark.requirement("G-04", "R-34")
@given(st.text("sU"), st.integers(1, 8))
def test_order_is_kept_and_unsafe_calls_stand_alone(calls: str, most: int) -> None:
    batches = batches_of(calls, str.islower, most)
    assert "".join(call for batch in batches for call in batch) == calls
    assert all(len(batch) <= most and (len(batch) == 1 or "U" not in batch) for batch in batches)
