"""When a conversation may be compacted hard again (SPEC §8.7). Pure: each function gives the next state."""

from dataclasses import dataclass, replace
from typing import Literal

Phase = Literal["ready", "compacted", "cooling", "exhausted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cooldown:
    """`left` turns of cooling remain. `warned`: the person was told that nothing more can be compacted."""

    phase: Phase = "ready"
    left: int = 0
    warned: bool = False

    @property
    def is_ready(self) -> bool:
        return self.phase == "ready"


def advanced(state: Cooldown) -> Cooldown:
    """A turn begins, before anything in it may compact."""
    match state.phase:
        case "compacted":
            return Cooldown(phase="cooling", left=state.left) if state.left else Cooldown()
        case "cooling":
            return replace(state, left=state.left - 1) if state.left > 1 else Cooldown()
        case _:
            return state


def compacted(turns: int) -> Cooldown:
    """A hard compaction was done in this turn; the hard stage rests for `turns` turns after it."""
    return Cooldown(phase="compacted", left=turns)


def exhausted(state: Cooldown, *, warned: bool = False) -> Cooldown:
    """Compacting gained nothing; it is not tried again until /clear, /new or another provider."""
    return Cooldown(phase="exhausted", warned=state.warned or warned)
