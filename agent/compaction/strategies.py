"""The pruning strategies by name: each gives every block a score, the lowest goes first (SPEC §8.9). Pure.

None of them gives up what belongs to the active subgoal (Z-39). Those of information gain compare every block with
every other: with more than a few, score in a worker thread (Z-64).
"""

from collections.abc import Callable, Mapping, Sequence

from agent.compaction.blocks import Block, Scene
from agent.compaction.relevance import frequencies, similarity
from agent.compaction.scoring import marginal_gains
from agent.compaction.settings import CompressionSettings
from agent.compaction.tiers import Tier

RECENCY = 0.05  # the most that being newer adds to a tier: it never lifts a block into the next one

Scorer = Callable[[Sequence[Block], Scene], list[float | None]]  # None: never evict this one


def reactive(blocks: Sequence[Block], scene: Scene) -> list[float | None]:
    """Oldest first."""
    return [_unless_active(block, scene, float(block.position)) for block in blocks]


def task_aware(blocks: Sequence[Block], scene: Scene) -> list[float | None]:
    """What has least to do with the goal goes first; without a goal, what is oldest."""
    if not scene.goal:
        return reactive(blocks, scene)
    return [
        _unless_active(block, scene, relevance)
        for block, relevance in zip(blocks, _relevances(blocks, scene), strict=True)
    ]


def mig(blocks: Sequence[Block], scene: Scene) -> list[float | None]:
    """What tells least about the goal that nothing more relevant tells too; without a goal newer is more relevant."""
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
