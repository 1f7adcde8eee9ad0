"""How things stand at this moment: what a scrape asks the rest of the gateway. Pure data."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauges:
    """`queue_depth` counts inbox rows that are new, `outbox_open` rows not yet sent, `outbox_dead` dead letters.

    `adapters` says per channel type whether the account hears, `budgets` by scope and span how full the fullest one is.
    """

    version: str = ""
    ready: bool = False
    queue_depth: int = 0
    outbox_open: int = 0
    outbox_dead: int = 0
    awake: int = 0
    tasks: int = 0  # of the event loop, alive now
    troubles_open: int = 0
    loop_lag_s: float = 0.0
    loop_lag_worst_s: float = 0.0
    adapters: Mapping[str, bool] = field(default_factory=dict)
    budgets: Mapping[tuple[str, str], float] = field(default_factory=dict)
