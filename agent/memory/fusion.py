"""Several orders of the same things made into one: by rank, by age, by what is said already. Pure."""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

# Cormack, Clarke and Büttcher (2009) took 60, for lists of a thousand; of 40 things it lets two middling places beat a
# first one. 10 found more on the histories of this tree and on others (docs/memory.md).
K = 10
T = TypeVar("T")
H = TypeVar("H", bound=Hashable)


def reciprocal(*orders: Mapping[H, float]) -> dict[H, float]:
    """A score for each thing: what stands high in several orders comes before what stands first in one.

    An order is told by how its mapping is filled; the numbers say how much each thing's place in it counts.
    """
    scores: dict[H, float] = {}
    for order in orders:
        for rank, (thing, weight) in enumerate(order.items()):
            scores[thing] = scores.get(thing, 0.0) + weight / (K + rank + 1)
    return scores


def faded(score: float, at: datetime, now: datetime, half_life_days: float) -> float:
    """The score after its age; a half-life of 0 leaves it as it is."""
    if half_life_days <= 0:
        return score
    days = max(0.0, (now - at).total_seconds() / 86_400)
    return score * math.exp2(-days / half_life_days)


def diverse(
    things: Sequence[T], score: Callable[[T], float], alike: Callable[[T, T], float], *, keep: float, most: int
) -> list[T]:
    """Maximal marginal relevance: at most `most`, each weighed against what it repeats of those before it.

    `keep` (0..1) is how much its own score counts; 1 leaves the order as it is.
    """
    left, chosen = list(things), list[T]()
    top = max((score(thing) for thing in left), default=0.0) or 1.0
    while left and len(chosen) < most:
        best = max(
            left,
            key=lambda thing: (
                keep * score(thing) / top - (1 - keep) * max((alike(thing, other) for other in chosen), default=0.0)
            ),
        )
        left.remove(best)
        chosen.append(best)
    return chosen
