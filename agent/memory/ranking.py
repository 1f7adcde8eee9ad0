"""Which of the things that hold a question's words are about it. Pure.

A chat message is seldom understood alone: each is scored by its own words and, less, by those of the two before and
after it in its session (docs/memory.md). A thing is known by its slot: neighbours have slots next to each other.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest

from agent.memory.lexicon import Term
from agent.memory.records import Item

NEIGHBOURS = ((-2, 0.25), (-1, 0.5), (0, 1.0), (1, 0.5), (2, 0.25))  # slots away, and what their words count
SATURATION = 1.2  # k1 of BM25
LENGTH = 0.4  # b of BM25
USUAL = 8.0  # words of a chat message that tell something
PROMISING = 200  # by their own words, whose neighbourhood is looked at
CONSIDERED = 100
ENOUGH = 0.33  # of what the words of a question are worth


@dataclass(frozen=True, slots=True, kw_only=True)
class Posting:
    """The slots that hold one word of the question, the newest first; `cut` when there are more."""

    slots: Sequence[int]
    cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """What each word of a question is worth by how few things hold it; `total` is the worth of all of them."""

    worth: tuple[float, ...]
    total: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One slot. It and its neighbours hold `held` words of the question, `share` (0..1) of what all are worth."""

    slot: int
    score: float
    share: float
    held: int


def weighed(postings: Sequence[Posting], things: int) -> Weighed:
    """The inverse document frequency of each word among so many things."""
    many = max(things, *(len(posting.slots) for posting in postings), 1)
    worth = []
    for posting in postings:
        holders = max(len(posting.slots), many / 4 if posting.cut else 0)
        worth.append(math.log(1 + (many - holders + 0.5) / (holders + 0.5)))
    return Weighed(worth=tuple(worth), total=sum(worth))


def candidates(postings: Sequence[Posting], weights: Weighed) -> list[Candidate]:
    """The most promising slots, the best first. Some may hold nothing: neighbours that are no more.

    A word that is cut off counts only where no rarer one is: its newest holders must not come before older ones.
    """
    whole = [index for index, posting in enumerate(postings) if posting.slots and not posting.cut]
    used = whole or [index for index, posting in enumerate(postings) if posting.slots]
    own: dict[int, float] = {}
    for index in used:
        worth = weights.worth[index]
        for slot in postings[index].slots:
            own[slot] = own.get(slot, 0.0) + worth
    promising = nlargest(PROMISING, own, key=lambda slot: (own[slot], slot)) if len(own) > PROMISING else list(own)
    around: dict[int, float] = {}
    for slot in promising:
        worth = own[slot]
        for away, share in NEIGHBOURS:
            around[slot + away] = around.get(slot + away, 0.0) + worth * share
    best = nlargest(CONSIDERED, around, key=lambda slot: (around[slot], slot))
    holding = [(weights.worth[index], frozenset(postings[index].slots)) for index in used]
    found = [_candidate(slot, holding, weights.total) for slot in best]
    return sorted(found, key=lambda one: (-one.score, -one.slot))


def _candidate(slot: int, holding: Sequence[tuple[float, frozenset[int]]], total: float) -> Candidate:
    score = share = 0.0
    held = 0
    for worth, slots in holding:
        often = 0.0
        for away, counts in NEIGHBOURS:
            if slot + away in slots:
                often += counts
        if often:
            held += 1
            share += worth
            score += worth * often * (SATURATION + 1) / (often + SATURATION)
    return Candidate(slot=slot, score=score, share=share / total if total else 0.0, held=held)


def by_length(score: float, words: int) -> float:
    """The score of a thing of so many words: long ones hold much by chance."""
    return score / (1 - LENGTH + LENGTH * math.sqrt(max(words, 1) / USUAL))


def with_common(score: float, words: frozenset[str], forms: Mapping[int, Sequence[str]], weights: Weighed) -> float:
    """The score with the words that are too common to look for, where the thing itself holds them."""
    return score + sum(weights.worth[index] for index, some in forms.items() if not words.isdisjoint(some))


def surely(items: Sequence[Item], terms: Sequence[Term]) -> tuple[Item, ...]:
    """All of them where the best is about the question, none where nothing is: nobody asked to see them."""
    best = max((item.share for item in items), default=0.0)
    return tuple(items) if best >= ENOUGH else ()
