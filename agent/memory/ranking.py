"""Which of the things that hold a question's words are about it. Pure.

A chat message is seldom understood alone: each is scored by its own words and, less, by those of the three before
and after it in its session (docs/memory.md). A thing is known by its slot: neighbours have slots next to each other.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from typing import NamedTuple

from agent.memory.lexicon import Term
from agent.memory.records import Item

NEIGHBOURS = ((-3, 0.15), (-2, 0.3), (-1, 0.55), (0, 1.0), (1, 0.55), (2, 0.3), (3, 0.15))  # what their words count
SATURATION = 1.2  # k1 of BM25
LENGTH = 0.4  # b of BM25
USUAL = 12.0  # words that tell something: so many a chat message has at most, mostly
PROMISING = 150  # by their own words, whose neighbourhood is looked at
CONSIDERED = 64
BY_WHO_IS_NAMED = 0.3  # how much more something counts that was said by somebody whom the question names
ENOUGH = 0.33  # certainty with which something is shown unasked

Names = Callable[[str], frozenset[str]]  # the words by which a question names a speaker


@dataclass(frozen=True, slots=True, kw_only=True)
class Posting:
    """The slots that hold one word of the question, the newest first; `cut` when there are more.

    `counts` (0..1): how sure it is a word.
    """

    slots: Sequence[int]
    cut: bool = False
    counts: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """What each word of a question is worth by how few things hold it; `total` is the worth of all of them.

    `known` (0..1) is the share of it that stands anywhere.
    """

    worth: tuple[float, ...]
    total: float
    known: float


class Candidate(NamedTuple):
    """One slot. It and its neighbours hold `share` (0..1) of what the words of the question are worth.

    A tuple, because every search makes dozens.
    """

    slot: int
    score: float
    share: float


def weighed(postings: Sequence[Posting], things: int) -> Weighed:
    """The inverse document frequency of each word among so many things."""
    many = max(things, *(len(posting.slots) for posting in postings), 1)
    worth = []
    for posting in postings:
        holders = max(len(posting.slots), many / 4 if posting.cut else 0)
        worth.append(math.log(1 + (many - holders + 0.5) / (holders + 0.5)))
    total = sum(one * (1 if posting.slots else posting.counts) for one, posting in zip(worth, postings, strict=True))
    known = sum(one for one, posting in zip(worth, postings, strict=True) if posting.slots)
    return Weighed(worth=tuple(worth), total=total, known=known / total if total else 0.0)


def candidates(postings: Sequence[Posting], weights: Weighed) -> list[Candidate]:
    """The most promising slots, the best first. Some may hold nothing: neighbours that are no more.

    A word that is cut off counts only where no rarer one is: its newest holders must not come before older ones.
    """
    whole = [index for index, posting in enumerate(postings) if posting.slots and not posting.cut]
    used = whole or [index for index, posting in enumerate(postings) if posting.slots]
    own: defaultdict[int, float] = defaultdict(float)
    for index in used:
        worth = weights.worth[index]
        for slot in postings[index].slots:
            own[slot] += worth
    by_worth = zip(own.values(), own, strict=True)
    promising = nlargest(PROMISING, by_worth) if len(own) > PROMISING else list(by_worth)
    around: defaultdict[int, float] = defaultdict(float)
    for worth, slot in promising:
        for away, share in NEIGHBOURS:
            around[slot + away] += worth * share
    best = nlargest(CONSIDERED, zip(around.values(), around, strict=True))
    holding = [(weights.worth[index], frozenset(postings[index].slots)) for index in used]
    found = [_candidate(slot, holding, weights.total) for _, slot in best]
    return sorted(found, key=lambda one: (-one.score, -one.slot))


def _candidate(slot: int, holding: Sequence[tuple[float, frozenset[int]]], total: float) -> Candidate:
    score = share = 0.0
    for worth, slots in holding:
        often = 0.0
        for away, counts in NEIGHBOURS:
            if slot + away in slots:
                often += counts
        if often:
            share += worth
            score += worth * often * (SATURATION + 1) / (often + SATURATION)
    return Candidate(slot=slot, score=score, share=share / total if total else 0.0)


def by_length(score: float, words: int) -> float:
    """The score of a thing of so many words: long ones hold much by chance. Short ones are no better for it."""
    return score / (1 - LENGTH + LENGTH * math.sqrt(max(words / USUAL, 1.0)))


def by_speaker(score: float, names: frozenset[str], asked: frozenset[str]) -> float:
    """The score of what somebody of these names said. Who is asked about mostly told of it."""
    return score if names.isdisjoint(asked) else score * (1 + BY_WHO_IS_NAMED)


def with_common(score: float, words: frozenset[str], forms: Mapping[int, Sequence[str]], weights: Weighed) -> float:
    """The score with the words that are too common to look for, where the thing itself holds them."""
    return score + sum(weights.worth[index] for index, some in forms.items() if not words.isdisjoint(some))


def certainty(candidate: Candidate, weights: Weighed) -> float:
    """How sure (0..1) a question is about it: by the words that stand there, less by those known at all."""
    return (2 * candidate.share + weights.known) / 3


def names_any(speakers: Iterable[str], terms: Sequence[Term], names: Names) -> bool:
    """Whether one of the words is a name of one of these."""
    asked = {form for term in terms for form in term.forms}
    return any(not asked.isdisjoint(names(speaker)) for speaker in speakers)


def surely(items: Sequence[Item], terms: Sequence[Term], names: Names | None) -> tuple[Item, ...]:
    """All of them where the question is surely about something here, none where not: nobody asked to see them.

    It is where it names somebody who speaks, or where enough of its words stand together.
    """
    if names is not None and names_any({item.speaker for item in items}, terms, names):
        return tuple(items)
    return tuple(items) if max((item.sure for item in items), default=0.0) >= ENOUGH else ()
