"""Ranking of what the memory finds: by its words, those around it, by age and by meaning. Pure.

A chat message is seldom understood alone: each is scored by its own words and, less, by those of the three before
and after it in its session (docs/memory-recall.md). A thing is known by its slot; neighbours have adjacent slots.
"""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from heapq import nlargest
from math import exp, log
from typing import NamedTuple, TypeVar

from agent.memory.lexicon import Term, telling, words_of
from agent.memory.records import Item, Strategy
from agent.memory.settings import RecallSettings

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
    """The weight of each word of a question, by how few things hold it; `total` is the weight of all of them.

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
    """The certainty (0..1) that a question is about it: by the words that stand there, less by those known at all."""
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


# One order of what several ways have found: by score, by age, by what is said already. Pure.

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


# Findings by words and findings by meaning in one list: each thing once, the best first. Pure.


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


# Routing of a question to the way of lookup that fits it. Pure.

_WORD = re.compile(r"\w+")

_RELATIONS = frozenset(
    _WORD.findall(
        """
        related relation relationship relative relatives connected connection between wife husband spouse partner
        married mother father parent parents sister brother sibling siblings son daughter child children cousin aunt
        uncle grandmother grandfather friend friends colleague colleagues boss manager neighbour neighbor works owns
        belongs verwandt beziehung zwischen frau mann mutter vater eltern schwester bruder geschwister sohn tochter
        kind kinder tante onkel freund freundin freunde kollege kollegin chef chefin nachbar nachbarin arbeitet
        gehört
        """
    )
)
_QUESTIONS = frozenset(
    _WORD.findall(
        """
        what when where which who whom whose why how was wann wo welche welcher welches wer wem wessen warum wie
        """
    )
)
# Whether there is any, not which: one character on either side of a sign is enough.
_CODE = re.compile(r"[\w.]\(\)|\w::\w|\w_\w|[a-z][A-Z]\w|[\w-]/[\w./-]|\w-*+\.[a-z]{1,4}\b|[{}<>=;`]")
FEW, MANY = 3, 6  # words


def route(query: str) -> Strategy:
    """Relations: the graph. Code, or a few words that ask nothing: by keyword. Questions, many words: by meaning."""
    words = words_of(query)
    if any(word in _RELATIONS for word in words):
        return "graph"
    asks = any(word in _QUESTIONS for word in words)
    if _CODE.search(query) or (len(words) <= FEW and not asks):
        return "keyword"
    return "semantic" if asks or len(words) >= MANY else "hybrid"


# Retention of a memory: the forgetting curve of Ebbinghaus. Pure.

STRENGTH_S = 86_400.0  # how long an access is good for


def retention(age_s: float, accesses: int, strength_s: float = STRENGTH_S) -> float:
    """0 (forgotten) to 1 for something last used `age_s` seconds ago and used `accesses` times in all (Z-30).

    What was never used decays almost at once: a factor of e in a second.
    """
    return exp(-decay(age_s, accesses, strength_s))


def decay(age_s: float, accesses: int, strength_s: float = STRENGTH_S) -> float:
    """The curve's exponent: it still orders what is forgotten so far that every retention is 0."""
    return max(0.0, age_s) / max(1.0, strength_s * log(1 + max(0, accesses)))
