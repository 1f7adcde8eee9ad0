"""Settings of compaction; the gateway's configuration embeds these sections.

Impossible settings are refused when they are built, so that a turn never meets them.
"""

from dataclasses import dataclass, field
from math import isfinite
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator

from agent.core.settings_section import SECTION_CONFIG, refuse
from agent.memory.settings import (
    EvictionSettings,
    FlushSettings,
    GraphSettings,
    RecallSettings,
    SemanticSettings,
    StyleSettings,
)

Level = Literal["off", "safe", "full"]
StrategyName = Literal["reactive", "task_aware", "mig", "subgoal", "subgoal_mig"]


def _lowered(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class MicrocompactSettings:
    """`[context.microcompact]`: old results are cleared.

    `min_pressure` is the share of the window from which on the strategy `reactive` clears before each call, 0: always;
    the others clear above the soft threshold what folding and pruning have left. `idle_minutes` 0: the time-based
    variant is off.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    retain_recent: int = 3
    min_pressure: float = 0.0
    exempt_tools: tuple[str, ...] = ()
    idle_minutes: float = 0.0

    def __post_init__(self) -> None:
        mistakes = []
        if self.retain_recent < 1:
            mistakes.append(f"retain_recent is {self.retain_recent}; it must be 1 or more")
        if not 0 <= self.min_pressure < 1:
            mistakes.append(f"min_pressure is {self.min_pressure}; it must be 0 or more and less than 1")
        if not (isfinite(self.idle_minutes) and self.idle_minutes >= 0):
            mistakes.append(f"idle_minutes is {self.idle_minutes}; it must be 0 (off) or more")
        refuse(mistakes)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompressionSettings:
    """`[memory.compression]`: which results go first, and how subgoal_mig weighs."""

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    pruning_strategy: Annotated[StrategyName, BeforeValidator(_lowered)] = "subgoal_mig"
    subgoal_mig_mode: Literal["subtractive", "multiplicative"] = "subtractive"


@dataclass(frozen=True, slots=True, kw_only=True)
class FocusSettings:
    """`[memory.focus]`: the model may bracket a piece of work and keep only what it found."""

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    enabled: bool = False
    compression_interval: int = 12
    reminder_interval: int = 15
    min_messages_per_focus: int = 8
    max_knowledge_tokens: int = 4096
    auto_consolidate_min_window: int = 4  # turns (Z-61)

    def __post_init__(self) -> None:
        refuse(
            [
                f"{key} is {value}; it must be 1 or more"
                for key, value in (
                    ("compression_interval", self.compression_interval),
                    ("reminder_interval", self.reminder_interval),
                    ("min_messages_per_focus", self.min_messages_per_focus),
                    ("max_knowledge_tokens", self.max_knowledge_tokens),
                    ("auto_consolidate_min_window", self.auto_consolidate_min_window),
                )
                if value < 1
            ]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SidequestSettings:
    """`[memory.sidequest]`: a cheap model names the results that can go."""

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    enabled: bool = False
    interval_turns: int = 4
    max_eviction_ratio: float = 0.5
    max_cursors: int = 30
    min_cursor_tokens: int = 100
    provider: str = ""

    def __post_init__(self) -> None:
        mistakes = [
            f"{key} is {value}; it must be 1 or more"
            for key, value in (
                ("interval_turns", self.interval_turns),
                ("max_cursors", self.max_cursors),
                ("min_cursor_tokens", self.min_cursor_tokens),
            )
            if value < 1
        ]
        if not 0 < self.max_eviction_ratio <= 1:
            mistakes.append(f"max_eviction_ratio is {self.max_eviction_ratio}; it must be more than 0, and 1 at most")
        refuse(mistakes)


@dataclass(frozen=True, slots=True, kw_only=True)
class TacoSettings:
    """`[tools.taco]`: a model shortens long output of tools before it enters the conversation. In tokens.

    `provider` "" takes the conversation's own (Z-109). Output of MCP servers is left alone, but for tools that
    `compressible_tools` names in full (`mcp__server__tool`).
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    enabled: bool = False
    threshold: int = 2000
    target_tokens: int = 500
    compressible_tools: tuple[str, ...] = ("shell", "web_scrape", "read")
    provider: str = ""

    def __post_init__(self) -> None:
        mistakes = []
        if self.threshold < 1:
            mistakes.append(f"threshold is {self.threshold}; it must be 1 or more")
        if not 1 <= self.target_tokens < max(2, self.threshold):
            mistakes.append(f"target_tokens is {self.target_tokens}; it must be 1 or more, and less than threshold")
        refuse(mistakes)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubgoalSettings:
    """`[agent.compression.subgoal_config]`: `enabled = false` falls back to task_aware (H-10, H-11)."""

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    enabled: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentCompressionSettings:
    """`[agent.compression]`."""

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    subgoal_config: SubgoalSettings = field(default_factory=SubgoalSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySettings:
    """`[memory]`: the thresholds of the stages, as shares of the window, and what it spares.

    `summary_provider` names the provider that writes summaries; "" takes the conversation's own. `provider_compaction`:
    where the conversation's route is one provider whose service writes and seals summaries itself, it does. `warn`:
    people are told in the chat before a hard compaction begins.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    soft_compaction_threshold: float = 0.60
    high_compaction_threshold: float = 0.75
    hard_compaction_threshold: float = 0.90
    compaction_preserve_tail: int = 6  # messages
    compaction_cooldown_turns: int = 2
    prune_protect_tokens: int = 40_000
    tool_call_cutoff: int = 6  # pairs
    summary_provider: str = ""
    provider_compaction: bool = False
    warn: bool = False
    compression: CompressionSettings = field(default_factory=CompressionSettings)
    focus: FocusSettings = field(default_factory=FocusSettings)
    sidequest: SidequestSettings = field(default_factory=SidequestSettings)
    recall: RecallSettings = field(default_factory=RecallSettings)
    semantic: SemanticSettings = field(default_factory=SemanticSettings)
    graph: GraphSettings = field(default_factory=GraphSettings)
    eviction: EvictionSettings = field(default_factory=EvictionSettings)
    flush: FlushSettings = field(default_factory=FlushSettings)
    style: StyleSettings = field(default_factory=StyleSettings)

    def __post_init__(self) -> None:
        thresholds = (
            self.soft_compaction_threshold,
            self.high_compaction_threshold,
            self.hard_compaction_threshold,
        )
        mistakes = []
        if not 0 < thresholds[0] < thresholds[1] < thresholds[2] < 1:
            mistakes.append(
                f"soft {thresholds[0]}, high {thresholds[1]} and hard {thresholds[2]} compaction_threshold "
                "must rise between 0 and 1"
            )
        mistakes += [
            f"{key} is {value}; it must be {least} or more"
            for key, value, least in (
                ("compaction_preserve_tail", self.compaction_preserve_tail, 1),
                ("compaction_cooldown_turns", self.compaction_cooldown_turns, 0),
                ("prune_protect_tokens", self.prune_protect_tokens, 0),
                ("tool_call_cutoff", self.tool_call_cutoff, 1),
            )
            if value < least
        ]
        strategy = self.compression.pruning_strategy
        if self.sidequest.enabled and strategy in ("subgoal", "subgoal_mig"):  # both would evict by their own lights
            mistakes.append(
                f'sidequest.enabled and compression.pruning_strategy = "{strategy}" exclude each other: switch '
                'sidequest off, or take the strategy "reactive", "task_aware" or "mig"'
            )
        refuse(mistakes)
