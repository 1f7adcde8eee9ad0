"""Draws, credits and priors: pure, with seeded chance."""

from math import inf, nan
from random import Random

import pytest

from agent.skills.bandit import (
    Arm,
    NoCandidates,
    Outcome,
    aged,
    choose,
    credited,
    prior_of,
    priors_by_rank,
    sample,
)
from tests.bench.bandit import CASES, TURNS, guess, route


@pytest.mark.requirement("W-06")
def test_a_hundred_successes_beat_a_hundred_failures() -> None:
    arms = {"good": Arm(successes=100), "bad": Arm(failures=100)}
    random = Random(1)
    picks = [choose(["bad", "good"], arms.__getitem__, random).name for _ in range(1000)]
    assert picks.count("good") > 990


@pytest.mark.requirement("W-06")
def test_every_candidate_is_drawn_for_and_the_highest_draw_wins() -> None:
    names = [f"skill-{number}" for number in range(50)]
    drawn = Random(3)
    expected = {name: drawn.betavariate(1, 1) for name in names}
    draw = choose(names, lambda name: Arm(), Random(3))
    assert (draw.name, draw.value) == max(expected.items(), key=lambda pair: pair[1])
    assert draw.among == 50
    picked = {choose(names, lambda name: Arm(), Random(seed)).name for seed in range(2000)}
    assert picked == set(names), "whoever nothing is known of has a chance"


def test_nobody_to_choose_from() -> None:
    with pytest.raises(NoCandidates):
        choose([], lambda name: Arm(), Random(1))


@pytest.mark.parametrize(
    "arm",
    [
        pytest.param(Arm(successes=-1), id="no successes at all"),
        pytest.param(Arm(failures=-2), id="below nothing"),
        pytest.param(Arm(successes=nan), id="not a number"),
        pytest.param(Arm(failures=inf), id="without end"),
    ],
)
def test_counts_that_make_no_distribution_are_undecided(arm: Arm) -> None:
    assert sample(arm, Random(1)) == 0.5


@pytest.mark.requirement("W-55")
@pytest.mark.parametrize(
    ("outcome", "after"),
    [
        ("success", Arm(successes=3, failures=1)),
        ("failure", Arm(successes=2, failures=2)),
        ("neutral", Arm(successes=2, failures=1)),
    ],
)
def test_what_an_outcome_counts(outcome: Outcome, after: Arm) -> None:
    assert credited(Arm(successes=2, failures=1), outcome) == after


@pytest.mark.parametrize(
    ("days", "decay", "after"),
    [
        pytest.param(10, 1.0, Arm(successes=8, failures=4), id="by itself nothing is forgotten"),
        pytest.param(0, 0.5, Arm(successes=8, failures=4), id="not on the same day"),
        pytest.param(2, 0.5, Arm(successes=2, failures=1), id="half a day"),
        pytest.param(-1, 0.5, Arm(successes=8, failures=4), id="a clock that runs backwards adds nothing"),
    ],
)
def test_what_time_leaves_of_counts(days: float, decay: float, after: Arm) -> None:
    assert aged(Arm(successes=8, failures=4), days, decay) == after


@pytest.mark.requirement("G-26")
@pytest.mark.parametrize(
    ("score", "measured", "prior"),
    [
        pytest.param(0.7, True, 4, id="a measured score counts five at most"),
        pytest.param(1.0, True, 5, id="the best"),
        pytest.param(0.7, False, 1, id="a guess counts one at most"),
        pytest.param(0.05, False, 0, id="a low guess counts nothing"),
        pytest.param(7.0, True, 5, id="no score is above 1"),
        pytest.param(nan, True, 0, id="no score"),
    ],
)
def test_priors_of_scores(score: float, measured: bool, prior: int) -> None:
    assert prior_of(score, measured=measured) == prior


def test_priors_by_rank_go_by_quarter() -> None:
    assert list(priors_by_rank([str(number) for number in range(8)]).values()) == [3, 3, 2, 2, 1, 1, 0, 0]
    assert priors_by_rank(["only"]) == {"only": 3}
    assert priors_by_rank([]) == {}


@pytest.mark.requirement("W-06")
def test_the_router_loses_little_against_who_knows_the_best() -> None:
    ours, right_in_the_end = route(CASES[0], 1)
    anyones, _ = guess(CASES[0], 1)
    assert ours[-1] < anyones[-1] / 10
    late = TURNS[-1] // 2
    assert ours[-1] - ours[late] < ours[late], "it learns: the second half costs less than the first"
    assert right_in_the_end > 0.9
