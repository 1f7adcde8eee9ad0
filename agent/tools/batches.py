"""Which calls of one reply may run side by side: consecutive concurrency-safe ones (SPEC §12.2). Pure."""

from collections.abc import Callable, Sequence
from typing import TypeVar

C = TypeVar("C")


def batches_of(calls: Sequence[C], is_safe: Callable[[C], bool], most: int) -> list[tuple[C, ...]]:
    """The calls in order, grouped: s, s, U, s → (s, s), (U), (s). A group holds `most` calls at most."""
    groups: list[list[C]] = []
    open_group = False
    for call in calls:
        safe = is_safe(call)
        if safe and open_group and len(groups[-1]) < most:
            groups[-1].append(call)
        else:
            groups.append([call])
        open_group = safe
    return [tuple(group) for group in groups]
