"""What was found by words and what was found by meaning, made into one answer: each thing once, the best first. Pure.

`agent.memory.fusion` knows orders of anything; here is what these orders say of things that were kept.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from agent.memory.fusion import diverse, faded, summed
from agent.memory.records import Item
from agent.memory.settings import RecallSettings
from agent.memory.words import telling


def merged(
    by_words: Sequence[Item],
    similar: Mapping[int, Item],
    recall: RecallSettings,
    *,
    now: datetime,
    limit: int,
) -> tuple[Item, ...]:
    """At most `limit` of both, scored by both, by their age and by what they repeat of better ones."""
    items = {item.id: item for item in similar.values()} | {item.id: item for item in by_words}
    scores = {
        id: faded(score, items[id].at, now, recall.half_life_days)
        for id, score in summed(
            {item.id: item.score for item in by_words}, {id: item.score for id, item in similar.items()}
        ).items()
    }
    found = sorted((items[id] for id in scores), key=lambda item: (-scores[item.id], -item.id))
    if recall.diversity:
        found = diverse(found, lambda item: scores[item.id], _alike, keep=1 - recall.diversity, most=limit)
    return tuple(replace(item, score=scores[item.id]) for item in found[:limit])


def _alike(one: Item, other: Item) -> float:
    """The share of words that two texts have in common."""
    mine, theirs = set(telling(one.text)), set(telling(other.text))
    return len(mine & theirs) / len(mine | theirs) if mine | theirs else 0.0
