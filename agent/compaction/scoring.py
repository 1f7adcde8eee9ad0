"""What a piece of context tells beyond the others: marginal information gain (SPEC §8.10).

Pure, and quadratic in the number of pieces: whoever has more than a few asks in a worker thread (Z-64).
"""

from collections.abc import Mapping, Sequence

from agent.compaction.relevance import similarity

Frequencies = Mapping[str, float]


def redundancies(relevances: Sequence[float], texts: Sequence[Frequencies]) -> list[float]:
    """For each piece its largest similarity with a piece of higher relevance; 0 where there is none (SPEC §8.10)."""
    order = sorted(range(len(relevances)), key=lambda index: -relevances[index])
    found = [0.0] * len(relevances)
    above: list[int] = []  # strictly more relevant than the one looked at
    level: list[int] = []  # exactly as relevant: no rivals of each other
    for index in order:
        if level and relevances[level[0]] > relevances[index]:
            above += level
            level = []
        level.append(index)
        found[index] = max((similarity(texts[index], texts[other]) for other in above), default=0.0)
    return found


def marginal_gains(relevances: Sequence[float], texts: Sequence[Frequencies]) -> list[float]:
    """Relevance less redundancy; what tells little, or only what others tell, is the first to go (Z-53)."""
    return [
        relevance - redundancy
        for relevance, redundancy in zip(relevances, redundancies(relevances, texts), strict=True)
    ]
