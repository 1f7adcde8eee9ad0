"""Shares of questions answered, by way and kind of question. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, median

from tests.bench.memory.feeding import Found

ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """Shares are 0..1, of the questions that have an answer. `whole10`: every message of it is among the first ten.

    `any_shown`, `all_shown`: one, every message of the answer stands whole in the block that the model gets.
    `unrelated` questions have nothing to do with the history; `bothered` of them got a block all the same.
    """

    way: str
    kind: str
    questions: int
    hit5: float
    hit10: float
    whole10: float
    any_shown: float
    all_shown: float
    chars: float
    p50_ms: float
    cpu_ms: float
    unrelated: int = 0
    bothered: int = 0


def figures(found: Sequence[Found], *, by_kind: bool = True) -> list[Figure]:
    """One for each way and kind, and for all kinds together."""
    ways = list(dict.fromkeys(one.way for one in found))
    kinds = [*dict.fromkeys(one.kind for one in found if one.evidence and by_kind), ALL]
    return [
        _figure(way, kind, [one for one in found if one.way == way and kind in (one.kind, ALL)])
        for way in ways
        for kind in kinds
        if any(one.way == way and one.evidence and kind in (one.kind, ALL) for one in found)
    ]


def table(results: Sequence[tuple[str, Figure]]) -> str:
    """As Markdown; each figure with the name of its set."""
    heads = (
        "set", "way", "questions", "number", "hit@5", "hit@10", "all@10", "in the block", "all of it", "characters",
        "p50", "CPU", "unrelated with a block",
    )  # fmt: skip
    lines = ["| " + " | ".join(heads) + " |", "| " + " | ".join("---" for _ in heads) + " |"]
    lines += [
        f"| {name} | {one.way} | {one.kind} | {one.questions} | {one.hit5:.3f} | {one.hit10:.3f} | {one.whole10:.3f} "
        f"| {one.any_shown:.3f} | {one.all_shown:.3f} | {one.chars:,.0f} | {one.p50_ms:.1f} ms | {one.cpu_ms:.1f} ms "
        f"| {f'{one.bothered} of {one.unrelated}' if one.unrelated else ''} |"
        for name, one in results
    ]
    return "\n".join(lines)


def _figure(way: str, kind: str, every: Sequence[Found]) -> Figure:
    found = [one for one in every if one.evidence]
    unrelated = [one for one in every if not one.evidence]
    count = len(found)
    return Figure(
        way=way,
        kind=kind,
        questions=count,
        hit5=sum(any(place <= 5 for place in one.places) for one in found) / count,
        hit10=sum(any(place <= 10 for place in one.places) for one in found) / count,
        whole10=sum(len(one.places) == one.evidence for one in found) / count,
        any_shown=sum(one.shown > 0 for one in found) / count,
        all_shown=sum(one.shown == one.evidence for one in found) / count,
        chars=mean(one.chars for one in found),
        p50_ms=median(one.ms for one in found),
        cpu_ms=mean(one.cpu_ms for one in found),
        unrelated=len(unrelated),
        bothered=sum(one.chars > 0 for one in unrelated),
    )
