"""The section `[scheduler]`. Light: the configuration imports it before anything slow is loaded."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar

from agent.core.settings_section import SECTION_CONFIG
from gateway.scheduler.triggers.zones import is_zone

# Beyond these the calendar ends: a moment that much earlier or later cannot be computed.
MOST_DAYS = 36_500
LONGEST_S = 366 * 24 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSettings:
    """Times in seconds.

    `zone` holds for people whose zone nobody knows. What fires more than `late_after_s` after its moment is late.
    `min_period_s` is the shortest period of anything that recurs, `group_period_s` that of
    what members set in groups. `spread_s` lies between agents that would all be woken at once. After `max_failures` in
    a row a schedule is switched off.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    enabled: bool = True
    zone: str = "UTC"
    per_conversation: int = 100
    per_person: int = 100
    min_period_s: int = 5
    group_period_s: int = 600
    late_after_s: float = 60.0
    spread_s: float = 0.5
    max_failures: int = 3
    ledger_days: int = 90

    def mistakes(self) -> Iterator[str]:
        bounds = {
            "per_conversation": (1, inf),
            "per_person": (1, inf),
            "min_period_s": (1, LONGEST_S),
            "group_period_s": (1, LONGEST_S),
            "late_after_s": (1, LONGEST_S),
            "spread_s": (0, LONGEST_S),
            "max_failures": (1, inf),
            "ledger_days": (1, MOST_DAYS),
        }
        for key, (low, high) in bounds.items():
            if not low <= getattr(self, key) <= high:
                range_ = f"{low} or more" if high == inf else f"{low} to {high}"
                yield f"scheduler.{key}: {getattr(self, key)} must be {range_}"
        if not is_zone(self.zone):
            yield f'scheduler.zone: {self.zone!r} is no IANA time zone; write it as "Europe/Berlin"'
