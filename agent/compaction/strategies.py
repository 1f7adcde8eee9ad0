"""The pruning strategies by name: each gives every block a score, the lowest goes first (SPEC §8.9). Pure."""

from collections.abc import Callable, Mapping, Sequence

from agent.compaction.blocks import Block, Scene
from agent.compaction.relevance import frequencies, similarity

Scorer = Callable[[Sequence[Block], Scene], list[float | None]]  # None: never evict this one


def reactive(blocks: Sequence[Block], scene: Scene) -> list[float | None]:
    """Oldest first."""
    return [float(block.position) for block in blocks]


def task_aware(blocks: Sequence[Block], scene: Scene) -> list[float | None]:
    """What has least to do with the goal goes first; without a goal, what is oldest."""
    if not scene.goal:
        return reactive(blocks, scene)
    goal = frequencies(scene.goal)
    return [similarity(goal, frequencies(block.text)) for block in blocks]


STRATEGIES: Mapping[str, Scorer] = {
    "reactive": reactive,
    "task_aware": task_aware,
}
