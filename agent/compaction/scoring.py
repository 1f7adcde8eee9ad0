"""Scores of pieces of context: marginal information gain, relatedness, forgetting, and the pruning strategies.

Pure, and quadratic in the number of pieces: whoever has more than a few asks in a worker thread (Z-64).
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from agent.compaction.selection import names_before
from agent.compaction.settings import CompressionSettings
from agent.compaction.subgoals import Tier, Tiers
from agent.compaction.window import Cleared, Clearing, Entry, Window
from agent.core.messages import ToolUse
from agent.memory.ranking import retention

Frequencies = Mapping[str, float]


def redundancies(
    relevances: Sequence[float], texts: Sequence[Frequencies], pause: Callable[[], None] | None = None
) -> list[float]:
    """The largest similarity of each piece with a piece of higher relevance; 0 where there is none.

    The same as asking `relevance.similarity` for every pair; done word by word, since most pairs share few. `pause` is
    called after each piece.
    """
    order = sorted(range(len(relevances)), key=lambda index: -relevances[index])
    weights = [sum(text.values()) for text in texts]
    found = [0.0] * len(relevances)
    holders: dict[str, list[tuple[int, float]]] = {}  # of each word: pieces strictly more relevant, and its share there
    level: list[int] = []  # exactly as relevant as the one looked at: no rivals of each other
    for index in order:
        if pause is not None:
            pause()
        if level and relevances[level[0]] > relevances[index]:
            for above in level:
                for word, share in texts[above].items():
                    holders.setdefault(word, []).append((above, share))
            level = []
        level.append(index)
        found[index] = _largest(texts[index], weights, weights[index], holders)
    return found


def _largest(
    text: Frequencies, weights: Sequence[float], weight: float, holders: Mapping[str, list[tuple[int, float]]]
) -> float:
    shared: dict[int, float] = {}
    theirs: dict[int, float] = {}  # what the other one holds of the words that both have
    for word, mine in text.items():
        for other, share in holders.get(word, ()):
            shared[other] = shared.get(other, 0.0) + min(mine, share)
            theirs[other] = theirs.get(other, 0.0) + share
    return max((both / (weight + weights[other] - theirs[other]) for other, both in shared.items()), default=0.0)


def marginal_gains(
    relevances: Sequence[float], texts: Sequence[Frequencies], pause: Callable[[], None] | None = None
) -> list[float]:
    """Relevance less redundancy; what tells little, or only what others tell, is the first to go (Z-53)."""
    return [
        relevance - redundancy
        for relevance, redundancy in zip(relevances, redundancies(relevances, texts, pause), strict=True)
    ]


# Relatedness of two texts: shared words, weighted by how often they occur. Pure.

_WORD = re.compile(r"\w{3,}")  # shorter ones tell nothing

# Words that say nothing about a subject: articles and the like, keywords of languages, noise of compilers and shells.
STOP_WORDS = frozenset(
    """
    the and for with that this from are was were has have had not but you your our their its his her they them then than
    there here what which who whom when where why how all any some each will would can could should may might into onto
    out over under about after before between also just only very more most such too own same other
    def class return import self none true false null let var const function func static public private void int str
    string bool float fn pub use mod impl struct enum match else elif while break continue try except catch finally
    raise throw new async await lambda yield pass
    error warning note info debug line file help compiling finished running target warnings unused
    """.split()  # noqa: SIM905 - as lines of words they can be read
)


def telling_words(text: str) -> list[str]:
    """The words that say something about a subject, in lower case, in order."""
    return [word for word in _WORD.findall(text.lower()) if word not in STOP_WORDS]


def frequencies(text: str) -> dict[str, float]:
    """The share of each telling word among all of them; empty for a text without any."""
    words = Counter(telling_words(text))
    total = words.total()
    return {word: count / total for word, count in words.items()} if total else {}


def similarity(one: Frequencies, other: Frequencies) -> float:
    """Weighted Jaccard, 0 (nothing shared) to 1: what both share over what either holds."""
    union = sum(one.values()) + sum(weight for word, weight in other.items() if word not in one)
    if not union:
        return 0.0
    small, large = (one, other) if len(one) <= len(other) else (other, one)
    return sum(min(weight, large[word]) for word, weight in small.items() if word in large) / union


# Candidates of pruning: results of tools outside the protected tail. Pure.

EVICTED = "[Result left out to save room; recall_transcript can find it.]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One result that may be evicted. `tokens` is about what that would free, raw."""

    position: int
    call: str
    tool: str  # "" where its call is not in the window
    text: str
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Input of a score besides the blocks. `goal` is "" while none is known.

    `pause` lets others go on for a moment: a worker thread calls it now and then, so that the event loop is not late.
    """

    size: int  # messages in the window
    goal: str
    tiers: Tiers
    pause: Callable[[], None] | None = None


def blocks_in(
    window: Window, *, protect_tokens: int, notice_tokens: int, exempt: Collection[str] = ()
) -> tuple[Block, ...]:
    """The results that may go, oldest first; `notice_tokens` is the weight of the notice in their place.

    Pinned and cleared ones may not go, nor those of `exempt` tools, nor what stands in the newest `protect_tokens`.
    """
    if not window.results:
        return ()
    # The newest message is spared whatever it weighs: the model has not seen it yet.
    end, tail = len(window) - 1, window[-1].tokens
    while end > window.results[0] and tail + window[end - 1].tokens <= protect_tokens:
        end -= 1
        tail += window[end].tokens
    found = []
    for position in window.results:
        if position >= end:
            break
        entry = window[position]
        if entry.pinned:
            continue
        names = names_before(window, position)
        original = {part.tool_use_id: part.content for part in entry.stored.tool_results}
        chars = sum(len(part.content) for part in entry.message.tool_results)
        for part in entry.message.tool_results:
            name = names.get(part.tool_use_id, "")
            if part.content != original.get(part.tool_use_id) or name in exempt:
                continue
            saved = entry.tokens * len(part.content) // max(1, chars) - notice_tokens
            if saved > 0:
                found.append(
                    Block(position=position, call=part.tool_use_id, tool=name, text=part.content, tokens=saved)
                )
    return tuple(found)


def evicted(blocks: Sequence[Block], scores: Sequence[float | None], need: int) -> Clearing:
    """The blocks of the lowest scores, as many as free `need` raw tokens; None is never taken, ties go oldest first."""
    order = sorted((score, index) for index, score in enumerate(scores) if score is not None)
    taken: list[Cleared] = []
    reclaimed = 0
    for _, index in order:
        if reclaimed >= need:
            break
        block = blocks[index]
        taken.append(Cleared(position=block.position, call=block.call, text=EVICTED))
        reclaimed += block.tokens
    return Clearing(results=tuple(taken))


# Forgetting: the order in which a hard compaction gives up results, the worst remembered first (Z-30). Pure.

SHORTEST = 4  # characters of a value that can be told from chance


def retentions(blocks: Sequence[Block], entries: Sequence[Entry], now: datetime) -> list[float]:
    """The retention of each block: a later call that took a value out of a result has used it again."""
    uses = [
        (position, entry.stored.created_at, _values(entry.message.tool_uses))
        for position, entry in enumerate(entries)
        if entry.message.tool_uses
    ]
    found = []
    for block in blocks:
        used_at = entries[block.position].stored.created_at
        accesses = 0
        for position, at, values in uses:
            if position > block.position and any(value in block.text for value in values):
                accesses, used_at = accesses + 1, at
        age_s = (now - used_at).total_seconds() if used_at is not None else 0.0
        found.append(retention(age_s, accesses))
    return found


def _values(uses: Iterable[ToolUse]) -> frozenset[str]:
    return frozenset(
        value
        for use in uses
        for given in use.input.values()
        for value in (given if isinstance(given, list) else [given])
        if isinstance(value, str) and len(value) >= SHORTEST
    )


# Pruning strategies by name. Each gives every block a score; the lowest goes first. Pure.

RECENCY = 0.05  # the most that being newer adds to a tier: it never lifts a block into the next one

Scorer = Callable[[Sequence[Block], Scene], list[float | None]]  # None: never evict this one


def reactive(blocks: Sequence[Block], scene: Scene) -> list[float | None]:
    """Oldest first."""
    return [_unless_active(block, scene, float(block.position)) for block in blocks]


def task_aware(blocks: Sequence[Block], scene: Scene) -> list[float | None]:
    """Scores by relevance to the goal, the least relevant lowest; without a goal, by age."""
    if not scene.goal:
        return reactive(blocks, scene)
    return [
        _unless_active(block, scene, relevance)
        for block, relevance in zip(blocks, _relevances(blocks, scene), strict=True)
    ]


def mig(blocks: Sequence[Block], scene: Scene) -> list[float | None]:
    """Scores by what a block adds about the goal to more relevant ones; without a goal newer is more relevant."""
    return _gains(blocks, scene, _relevances(blocks, scene))


def subgoal(blocks: Sequence[Block], scene: Scene) -> list[float | None]:
    """Outdated before completed, older before newer, active never (Z-39, Z-40)."""
    return [_unless_active(block, scene, _standing(block, scene)) for block in blocks]


def subgoal_mig(blocks: Sequence[Block], scene: Scene) -> list[float | None]:
    """Information gain over the standing of a block's subgoal; active ones are never taken (Z-53, Z-54)."""
    return _gains(blocks, scene, [_standing(block, scene) for block in blocks])


def subgoal_mig_multiplied(blocks: Sequence[Block], scene: Scene) -> list[float | None]:
    """The gain of `mig`, weighed by the tier (H-12); a lower tier makes a loss count for more, not for less."""
    gains = _gains(blocks, scene, _relevances(blocks, scene))
    weights = [scene.tiers.tier(block.position).value for block in blocks]
    return [
        gain if gain is None else gain * weight if gain > 0 else gain / weight
        for gain, weight in zip(gains, weights, strict=True)
    ]


STRATEGIES: Mapping[str, Scorer] = {
    "reactive": reactive,
    "task_aware": task_aware,
    "mig": mig,
    "subgoal": subgoal,
    "subgoal_mig": subgoal_mig,
    "subgoal_mig_multiplied": subgoal_mig_multiplied,
}
QUADRATIC = frozenset({"mig", "subgoal_mig", "subgoal_mig_multiplied"})


def strategy_for(settings: CompressionSettings, *, subgoals_known: bool) -> str:
    """The key of the strategy that counts now.

    While no subgoals are known (the extraction is off, or failed), those that go by them are task_aware (H-11).
    """
    name = settings.pruning_strategy
    if name in ("subgoal", "subgoal_mig") and not subgoals_known:
        return "task_aware"
    if name == "subgoal_mig" and settings.subgoal_mig_mode == "multiplicative":
        return "subgoal_mig_multiplied"
    return name


def _standing(block: Block, scene: Scene) -> float:
    return scene.tiers.tier(block.position).value + RECENCY * block.position / scene.size


def _relevances(blocks: Sequence[Block], scene: Scene) -> list[float]:
    if not scene.goal:
        return [block.position / scene.size for block in blocks]
    goal = frequencies(scene.goal)
    return [similarity(goal, frequencies(block.text)) for block in blocks]


def _gains(blocks: Sequence[Block], scene: Scene, relevances: Sequence[float]) -> list[float | None]:
    texts = []
    for block in blocks:
        texts.append(frequencies(block.text))
        if scene.pause is not None:
            scene.pause()
    gains = marginal_gains(relevances, texts, scene.pause)
    return [_unless_active(block, scene, gain) for block, gain in zip(blocks, gains, strict=True)]


def _unless_active(block: Block, scene: Scene, score: float) -> float | None:
    return None if scene.tiers.tier(block.position) is Tier.ACTIVE else score
