"""What several ways have found made into one order: by score, by age, by what is said already. Pure."""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

T = TypeVar("T")
H = TypeVar("H", bound=Hashable)


def summed(by_words: Mapping[H, float], by_meaning: Mapping[H, float]) -> dict[H, float]:
    """A score for each thing: by words as a share of the best, by meaning between the worst (0) and the best (1).

    Similarities of one model lie close together, and words that fit nothing score near 0. By rank alone, what words
    leave no doubt about would come after what both find in the middle.
    """
    top = max(by_words.values(), default=0.0) or 1.0
    scores = {thing: score / top for thing, score in by_words.items()}
    low, high = min(by_meaning.values(), default=0.0), max(by_meaning.values(), default=0.0)
    for thing, score in by_meaning.items():
        near = (score - low) / (high - low) if high > low else 1.0
        scores[thing] = scores.get(thing, 0.0) + near
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
