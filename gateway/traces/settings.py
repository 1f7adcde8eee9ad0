"""The section `[traces]`. Light: the configuration imports it before anything slow is loaded."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from agent.core.settings_section import SECTION_CONFIG

# Beyond these the calendar ends: a moment that much earlier cannot be computed.
MOST_DAYS = 36_500
MOST_MB = 1_000_000
LONGEST_S = 366 * 24 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSettings:
    """Which turns leave a trace, and how much of these is kept. False `enabled`: neither traces nor figures.

    `sample` is the share of turns, 0..1. A turn that failed is kept always, and so is one that took more than
    `always_slower_s`, its time in the queue included. Figures count every turn.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    enabled: bool = True
    sample: float = 1.0
    always_slower_s: float = 30.0
    days: int = 14
    max_mb: int = 200

    def mistakes(self) -> Iterator[str]:
        for key, low, high in (
            ("sample", 0, 1),
            ("always_slower_s", 0, LONGEST_S),
            ("days", 1, MOST_DAYS),
            ("max_mb", 1, MOST_MB),
        ):
            if not low <= getattr(self, key) <= high:
                yield f"traces.{key}: {getattr(self, key)} must be {low} to {high}"
