"""How much a place in the window matters to what goes on now (SPEC §8.10, §8.11). No I/O."""

from collections.abc import Sequence
from enum import Enum
from typing import Protocol


class Tier(Enum):
    """The value is the relevance of a block of that tier (Z-38, H-06)."""

    ACTIVE = 1.0
    COMPLETED = 0.3
    OUTDATED = 0.1


class Tiers(Protocol):
    """Which subgoal each position of one window belongs to. Positions are those of the window as it is now."""

    def tier(self, position: int) -> Tier: ...

    def active(self, size: int) -> Sequence[int]:
        """The positions below `size` that belong to the active subgoal, ascending: they outlive every stage."""


class NoTiers:
    """For strategies without subgoals: nothing is active, everything is outdated."""

    def tier(self, position: int) -> Tier:
        return Tier.OUTDATED

    def active(self, size: int) -> Sequence[int]:
        return ()
