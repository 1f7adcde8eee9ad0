"""Shares of questions answered, by strategy and kind of question. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from tests.bench.memory.feeding import Found

ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """Shares are 0..1. `whole10`: every message of the answer is among the first ten."""

    strategy: str
    kind: str
    questions: int
    hit5: float
    hit10: float
    whole10: float
    p50_ms: float


def figures(found: Sequence[Found]) -> list[Figure]:
    """One for each strategy and kind, and for all kinds together."""
    strategies = list(dict.fromkeys(one.strategy for one in found))
    kinds = [*dict.fromkeys(one.kind for one in found), ALL]
    return [
        _figure(strategy, kind, some)
        for strategy in strategies
        for kind in kinds
        if (some := [one for one in found if one.strategy == strategy and kind in (one.kind, ALL)])
    ]


def table(results: Sequence[Figure]) -> str:
    """As Markdown."""
    lines = [
        "| strategy | questions | number | hit@5 | hit@10 | all@10 | p50 |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {one.strategy} | {one.kind} | {one.questions} | {one.hit5:.1%} | {one.hit10:.1%} | {one.whole10:.1%} "
        f"| {one.p50_ms:.1f} ms |"
        for one in results
    ]
    return "\n".join(lines)


def _figure(strategy: str, kind: str, found: Sequence[Found]) -> Figure:
    count = len(found)
    return Figure(
        strategy=strategy,
        kind=kind,
        questions=count,
        hit5=sum(any(place <= 5 for place in one.places) for one in found) / count,
        hit10=sum(any(place <= 10 for place in one.places) for one in found) / count,
        whole10=sum(len(one.places) == one.evidence for one in found) / count,
        p50_ms=median(one.ms for one in found),
    )
