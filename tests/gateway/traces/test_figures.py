"""Figures add up by the hour, and quantiles come from their buckets."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.traces.figures import (
    ABOVE,
    BOUNDS,
    HOUR_US,
    MOST_SERIES,
    OTHER,
    SUM,
    Figures,
    bucket_of,
    counts_of,
    mean,
    quantile,
)


@pytest.mark.requirement("G-65")
@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [
        pytest.param({}, 0.5, None, id="nothing was counted"),
        pytest.param({SUM: 7.0}, 0.5, None, id="a sum is no count"),
        pytest.param({"10": 4}, 0.5, 5.0, id="the middle of the first bucket"),
        pytest.param({"200": 10}, 1.0, 200.0, id="all of a bucket is its bound"),
        pytest.param({"100": 50, "200": 50}, 0.5, 100.0, id="half is at the border"),
        pytest.param({"100": 50, "200": 50}, 0.75, 150.0, id="half of the second bucket"),
        pytest.param({"10": 95, "30000": 5}, 0.95, 10.0, id="nineteen of twenty are quick"),
        pytest.param({"10": 94, "30000": 6}, 0.95, 20_000 + 10_000 / 6, id="one more is slow"),
        pytest.param({ABOVE: 3}, 0.5, 1_800_000.0, id="beyond the bounds: at least the highest"),
        pytest.param({"10": 1, ABOVE: 1}, 0.95, 1_800_000.0, id="the slow one of two"),
        pytest.param({"50": 1}, 0.0, 20.0, id="the least"),
    ],
)
def test_quantiles(values: Mapping[str, float], share: float, expected: float | None) -> None:
    assert quantile(values, share) == (None if expected is None else pytest.approx(expected))


@given(st.lists(st.integers(min_value=0, max_value=BOUNDS[-1]), min_size=1), st.sampled_from([0.01, 0.5, 0.95, 1.0]))
def test_a_quantile_is_in_the_bucket_of_the_true_one(times: list[int], share: float) -> None:
    figures = Figures()
    for ms in times:
        figures.observe(0, "turn_ms", ms)
    values = {label: value for (_, _, label), value in figures.take().items()}
    found = quantile(values, share)
    true = sorted(times)[max(0, -int(-share * len(times) // 1) - 1)]
    low, high = next((low, high) for low, high, _ in counts_of(values) if true <= high)
    assert found is not None
    assert low <= found <= high
    assert mean(values) == pytest.approx(sum(times) / len(times))


@pytest.mark.parametrize(
    ("ms", "label"), [(0, "10"), (10, "10"), (11, "20"), (1_800_000, "1800000"), (1_800_001, ABOVE)]
)
def test_buckets_have_inclusive_upper_ends(ms: float, label: str) -> None:
    assert bucket_of(ms) == label


@pytest.mark.requirement("G-65")
def test_figures_add_up_within_their_hour_and_are_taken_once() -> None:
    figures = Figures()
    assert not figures
    figures.add(HOUR_US + 5, "sent", "telegram")
    figures.add(2 * HOUR_US - 1, "sent", "telegram")
    figures.add(2 * HOUR_US, "sent", "telegram")
    figures.add(0, "cost_usd", "a/m", 0.0)
    assert figures
    assert figures.take() == {("sent", HOUR_US, "telegram"): 2, ("sent", 2 * HOUR_US, "telegram"): 1}
    assert not figures.take()


def test_labels_that_people_make_up_have_a_bound() -> None:
    figures = Figures()
    for number in range(MOST_SERIES + 10):
        figures.add(0, "model_calls", f"main/model-{number}")
    taken = figures.take()
    assert len(taken) == MOST_SERIES + 1
    assert taken["model_calls", 0, OTHER] == 10
