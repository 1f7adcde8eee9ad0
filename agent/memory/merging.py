"""What was found by words and what was found by meaning, made into one answer: each thing once, the best first. Pure.

`agent.memory.fusion` knows orders of anything; here is what these orders say of things that were kept.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from agent.memory.fusion import diverse, faded, reciprocal
from agent.memory.records import Item
from agent.memory.settings import RecallSettings
from agent.memory.words import coverage, telling, words_of


def merged(
    words: Sequence[str],
    by_words: Sequence[Item],
    similar: dict[int, Item],
    recall: RecallSettings,
    *,
    now: datetime,
    limit: int,
) -> tuple[Item, ...]:
    """At most `limit` of both, scored by their place in each, their age and what they repeat of better ones."""
    items = {item.id: item for item in by_words} | similar
    told = _told(words, by_words) if similar else dict.fromkeys((item.id for item in by_words), 1.0)
    scores = {
        id: faded(score, items[id].at, now, recall.half_life_days)
        for id, score in reciprocal(told, dict.fromkeys(similar, 1.0)).items()
    }
    found = sorted((items[id] for id in scores), key=lambda item: (-scores[item.id], -item.id))
    if recall.diversity:
        found = diverse(found, lambda item: scores[item.id], _alike, keep=1 - recall.diversity, most=limit)
    return tuple(replace(item, score=scores[item.id]) for item in found[:limit])


def _told(words: Sequence[str], items: Sequence[Item]) -> dict[int, float]:
    """Those that say some of the words, with the share of them, best first.

    A name that is only the speaker's says little: all their messages have it, and would stand before what fits.
    """
    shares = {
        item.id: coverage([word for word in words if word not in words_of(item.speaker)], item.text) for item in items
    }
    best = sorted(items, key=lambda item: (-(shares[item.id] ** 2) * max(item.score, 1e-9), -item.id))
    return {item.id: shares[item.id] for item in best if shares[item.id]}


def _alike(one: Item, other: Item) -> float:
    """The share of words that two texts have in common."""
    mine, theirs = set(telling(one.text)), set(telling(other.text))
    return len(mine & theirs) / len(mine | theirs) if mine | theirs else 0.0
