"""What a piece of context tells beyond the others: marginal information gain (SPEC §8.10).

Pure, and quadratic in the number of pieces: whoever has more than a few asks in a worker thread (Z-64).
"""

from collections.abc import Callable, Mapping, Sequence

Frequencies = Mapping[str, float]


def redundancies(
    relevances: Sequence[float], texts: Sequence[Frequencies], pause: Callable[[], None] | None = None
) -> list[float]:
    """For each piece its largest similarity with a piece of higher relevance; 0 where there is none.

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
