"""`python -m tests.bench.bandit`: how much the router loses against who knows the best skill (docs/skill-learning.md).

Simulated turns: each skill helps with a chance of its own, the router sees only how turns end. Regret is the number of
turns that would have gone well with the best skill and did not. Seeded: the same figures on every machine.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from random import Random
from statistics import mean

from agent.skills.learning_settings import LearningSettings
from agent.skills.router import Router
from tests.fakes.clock import FakeClock

TURNS = (100, 1_000, 5_000)  # after which regret is read
RUNS = 10
DAY_TURNS = 200  # turns a day, for what fades by the day

Chances = Callable[[int], Sequence[float]]  # of each skill, in that turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A catalogue; `skills` are the chances that a turn with each goes well."""

    name: str
    chances: Chances
    decay: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """Regret and share of turns in which the best skill was hinted, as means of all runs."""

    case: str
    way: str
    regret: tuple[float, ...]  # after each of TURNS
    best_share: float  # of the last fifth of the turns


def names(count: int) -> list[str]:
    return [f"skill-{number}" for number in range(count)]


def steady(*chances: float) -> Chances:
    return lambda turn: chances


def turning(turn: int) -> Sequence[float]:
    """The best of six becomes the worst half way."""
    return (0.5, 0.55, 0.6, 0.65, 0.7, 0.9) if turn < TURNS[-1] // 2 else (0.9, 0.55, 0.6, 0.65, 0.7, 0.4)


CASES = (
    Case(name="6 skills, one clearly best", chances=steady(0.5, 0.55, 0.6, 0.65, 0.7, 0.9)),
    Case(name="6 skills, nearly alike", chances=steady(0.60, 0.61, 0.62, 0.63, 0.64, 0.66)),
    Case(name="40 skills, one clearly best", chances=steady(*[0.5 + 0.005 * place for place in range(39)], 0.9)),
    Case(name="6 skills, the best changes", chances=turning),
    Case(name="6 skills, the best changes, `decay = 0.8`", chances=turning, decay=0.8),
)


def route(case: Case, seed: int) -> tuple[list[float], float]:
    """The real router through one life; its regret after each turn, and how often it was right in the end."""
    clock, settings = FakeClock(), LearningSettings(decay=case.decay)
    router = Router(None, clock, settings=lambda: settings, chance=Random(seed))
    ends, candidates = Random(seed + 1_000_000), names(len(case.chances(0)))

    def pick(turn: int) -> int:
        return candidates.index(router.pick(candidates, "").name)

    def learn(place: int, good: bool) -> None:
        router.credit(candidates[place], "success" if good else "failure")
        if case.decay < 1.0:
            clock.advance(86_400 / DAY_TURNS)

    return live(case, ends, pick, learn)


def guess(case: Case, seed: int) -> tuple[list[float], float]:
    """Any skill, every turn."""
    chance, ends = Random(seed), Random(seed + 1_000_000)
    return live(case, ends, lambda turn: chance.randrange(len(case.chances(turn))), lambda place, good: None)


def live(
    case: Case, ends: Random, pick: Callable[[int], int], learn: Callable[[int, bool], None]
) -> tuple[list[float], float]:
    regret, best_in_the_end, so_far = [], 0, 0.0
    for turn in range(TURNS[-1]):
        chances = case.chances(turn)
        place = pick(turn)
        so_far += max(chances) - chances[place]
        regret.append(so_far)
        learn(place, ends.random() < chances[place])
        best_in_the_end += turn >= TURNS[-1] * 4 // 5 and chances[place] == max(chances)
    return regret, best_in_the_end / (TURNS[-1] // 5)


def figures(cases: Sequence[Case] = CASES, runs: int = RUNS) -> list[Figure]:
    found = []
    for case in cases:
        for way, one_life in (("router", route), ("any skill", guess)):
            lives = [one_life(case, seed) for seed in range(runs)]
            regret = tuple(mean(life[0][turns - 1] for life in lives) for turns in TURNS)
            found.append(Figure(case=case.name, way=way, regret=regret, best_share=mean(life[1] for life in lives)))
    return found


def table(results: Sequence[Figure]) -> str:
    """As Markdown. Always the best skill has a regret of nothing."""
    heads = " | ".join(f"regret after {turns:,} turns" for turns in TURNS)
    lines = [
        f"| catalogue | hint | {heads} | the best hinted, in the end |",
        "| --- | --- |" + " --- |" * (len(TURNS) + 1),
    ]
    for one in results:
        regret = " | ".join(f"{value:.0f}" for value in one.regret)
        lines.append(f"| {one.case} | {one.way} | {regret} | {one.best_share:.0%} |")
    return "\n".join(lines)


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m tests.bench.bandit")
    options.add_argument("--runs", type=int, default=RUNS, help="lives that each figure is the mean of")
    options.add_argument("--json", action="store_true")
    chosen = options.parse_args()
    results = figures(runs=chosen.runs)
    print(json.dumps([asdict(one) for one in results], indent=1) if chosen.json else table(results))


if __name__ == "__main__":
    main()
