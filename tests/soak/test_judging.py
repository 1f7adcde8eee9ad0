"""The judgement of the soaks: what counts as out of order, and how much a process grows."""

import pytest

from tests.soak.cluster import LEAST_TURNS, Life, Point
from tests.soak.crowd import Shown, disordered

ONE, TWO, THREE = "c00001t0001", "c00001t0002", "c00001t0003"


@pytest.mark.parametrize(
    ("shown", "late"),
    [
        pytest.param([(ONE, TWO)], [], id="merged into one answer"),
        pytest.param([(ONE,), (TWO,), (THREE,)], [], id="in the order in which they were asked"),
        pytest.param([(TWO,), (ONE,), (THREE,)], [ONE], id="one behind a later one"),
        pytest.param([(TWO, ONE)], [ONE], id="the wrong way round in one answer"),
    ],
)
def test_order_is_that_of_the_questions_of_a_chat(shown: list[tuple[str, ...]], late: list[str]) -> None:
    assert disordered([Shown("telegram 1", words, is_repeat=False) for words in shown]) == late


def test_repeats_and_other_chats_are_not_out_of_order() -> None:
    shown = [("telegram 1", TWO, False), ("telegram 1", ONE, True), ("telegram 2", ONE, False)]
    assert disordered([Shown(chat, (word,), is_repeat) for chat, word, is_repeat in shown]) == []


@pytest.mark.parametrize(
    ("grows_mb", "turns", "slope_mb"),
    [
        pytest.param(2.0, 4 * LEAST_TURNS, 2.0, id="two megabytes in a thousand turns"),
        pytest.param(0.0, 4 * LEAST_TURNS, 0.0, id="none"),
        pytest.param(2.0, LEAST_TURNS - 100, None, id="too few turns to tell"),
    ],
)
def test_growth_is_counted_once_a_process_is_warm(grows_mb: float, turns: int, slope_mb: float | None) -> None:
    life = Life("worker", 0.0, [Point(at_s, 0, 50.0 + at_s, 0) for at_s in range(0, 60, 5)])  # it starts
    for step in range(21):
        done = turns * step / 20
        life.points.append(Point(60.0 + step, done, 150.0 + grows_mb * done / 1000, 50))
    assert life.slope_mb == (None if slope_mb is None else pytest.approx(slope_mb))
