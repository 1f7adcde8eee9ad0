"""`python -m tests.bench.bandit`: what the sampler adds where several skills fit (docs/skill-learning-measured.md).

Simulated turns: several skills fit each request, each helps with a chance of its own that nobody knows. The router sees
what it sees in a chat: that the turn was answered, whether the model loaded the skill, now and then thanks or a
correction. Regret is the number of turns that would have gone well with the best skill and did not. Seeded: the same
figures on every machine.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from random import Random
from statistics import mean

from agent.skills.bandit import Use, counted
from agent.skills.hints import Router
from agent.skills.settings import LearningSettings
from tests.fakes.clock import FakeClock

TURNS = (100, 1_000, 5_000)  # after which regret is read
RUNS = 10
DAY_TURNS = 200  # turns a day, for what fades by the day
OTHERS = 14  # skills of the catalogue that do not fit
UNFITTING = 0.4  # the chance that a turn goes well with the hint of one of those

Chances = Callable[[int], Sequence[float]]  # of each fitting skill, in that turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Requests that several skills fit; `chances` are those that a turn with each goes well.

    Of answers that helped, people thank for `thanked`; of the others they correct `corrected`. `loaded`: how often the
    model itself brings in a skill that helps; else it stood in the prompt anyway, and nobody sees whether it was used.
    """

    name: str
    chances: Chances
    decay: float = 1.0
    thanked: float = 0.15
    corrected: float = 0.3
    loaded: float = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """Regret and share of turns in which the best skill was hinted, as means of all runs."""

    case: str
    way: str
    regret: tuple[float, ...]  # after each of TURNS
    best_share: float  # of the last fifth of the turns


Life = tuple[list[float], float]  # regret after each turn, and how often it was right in the end


def names(count: int) -> list[str]:
    return [f"skill-{number}" for number in range(count)]


def steady(*chances: float) -> Chances:
    return lambda turn: chances


def turning(turn: int) -> Sequence[float]:
    """The best of three becomes the worst half way."""
    return (0.5, 0.65, 0.9) if turn < TURNS[-1] // 2 else (0.9, 0.65, 0.4)


CASES = (
    Case(name="3 fit, one clearly best", chances=steady(0.5, 0.65, 0.9)),
    Case(name="2 fit, nearly alike", chances=steady(0.60, 0.66)),
    Case(name="6 fit, one clearly best", chances=steady(0.5, 0.55, 0.6, 0.65, 0.7, 0.9)),
    Case(name="3 fit, people never say a word", chances=steady(0.5, 0.65, 0.9), thanked=0.0, corrected=0.0),
    Case(
        name="3 fit, and nothing is ever seen",
        chances=steady(0.5, 0.65, 0.9),
        thanked=0.0,
        corrected=0.0,
        loaded=0.0,
    ),
    Case(name="3 fit, the best changes", chances=turning),
    Case(name="3 fit, the best changes, `decay = 0.8`", chances=turning, decay=0.8),
)


def route(case: Case, seed: int) -> Life:
    """The real router through one life, among those that fit."""
    clock, settings = FakeClock(), LearningSettings(decay=case.decay)
    router = Router(None, clock, settings=lambda: settings, chance=Random(seed))
    ends, candidates = Random(seed + 1_000_000), names(len(case.chances(0)))

    def pick(turn: int) -> int:
        return candidates.index(router.pick(candidates, "").name)

    def learn(place: int, good: bool) -> None:
        use: Use = "used" if good and ends.random() < case.loaded else "shown"
        router.credit(candidates[place], *counted("success", use))
        if ends.random() < (case.thanked if good else case.corrected):
            router.credit(candidates[place], "success" if good else "failure")
        if case.decay < 1.0:
            clock.advance(86_400 / DAY_TURNS)

    return live(case, ends, pick, learn)


def route_among_all(case: Case, seed: int) -> Life:
    """As it was: the router among the whole catalogue, where each answered turn counts as a success."""
    clock, settings = FakeClock(), LearningSettings(decay=case.decay)
    router = Router(None, clock, settings=lambda: settings, chance=Random(seed))
    candidates = names(len(case.chances(0)) + OTHERS)

    def pick(turn: int) -> int:
        return candidates.index(router.pick(candidates, "").name)

    return live(case, Random(seed + 1_000_000), pick, lambda place, good: router.credit(candidates[place], "success"))


def guess(case: Case, seed: int) -> Life:
    """Any of those that fit, every turn."""
    chance, ends = Random(seed), Random(seed + 1_000_000)
    return live(case, ends, lambda turn: chance.randrange(len(case.chances(turn))), lambda place, good: None)


def match(case: Case, seed: int) -> Life:
    """Always the one whose words fit best, which says nothing of how good it is."""
    chance, ends = Random(seed), Random(seed + 1_000_000)
    fits = [chance.random() for _ in case.chances(0)]

    def pick(turn: int) -> int:
        so_far = [fit + chance.gauss(0, 0.1) for fit in fits]  # each request has other words
        return so_far.index(max(so_far))

    return live(case, ends, pick, lambda place, good: None)


WAYS: tuple[tuple[str, Callable[[Case, int], Life]], ...] = (
    ("router among those that fit", route),
    ("any that fits", guess),
    ("the best match", match),
    ("router among all, any answer a success", route_among_all),
)


def live(case: Case, ends: Random, pick: Callable[[int], int], learn: Callable[[int, bool], None]) -> Life:
    regret, best_in_the_end, so_far = [], 0, 0.0
    for turn in range(TURNS[-1]):
        chances = case.chances(turn)
        place = pick(turn)
        chance = chances[place] if place < len(chances) else UNFITTING
        so_far += max(chances) - chance
        regret.append(so_far)
        learn(place, ends.random() < chance)
        best_in_the_end += turn >= TURNS[-1] * 4 // 5 and chance == max(chances)
    return regret, best_in_the_end / (TURNS[-1] // 5)


def figures(cases: Sequence[Case] = CASES, runs: int = RUNS) -> list[Figure]:
    found = []
    for case in cases:
        for way, one_life in WAYS:
            lives = [one_life(case, seed) for seed in range(runs)]
            regret = tuple(mean(life[0][turns - 1] for life in lives) for turns in TURNS)
            found.append(Figure(case=case.name, way=way, regret=regret, best_share=mean(life[1] for life in lives)))
    return found


def table(results: Sequence[Figure]) -> str:
    """As Markdown. Always the best skill has a regret of nothing."""
    heads = " | ".join(f"regret after {turns:,} turns" for turns in TURNS)
    lines = [
        f"| requests | hint | {heads} | the best hinted, in the end |",
        "| --- | --- |" + " --- |" * (len(TURNS) + 1),
    ]
    for one in results:
        regret = " | ".join(f"{value:,.0f}" for value in one.regret)
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
