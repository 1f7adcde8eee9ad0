"""Settings of turns; the gateway's configuration embeds these sections as they are.

Impossible settings are refused when they are built, so that a turn never meets them.
"""

from dataclasses import dataclass, field
from math import isfinite
from typing import Any, ClassVar, Literal

from agent.compaction.settings import (
    AgentCompressionSettings,
    Level,
    MemorySettings,
    MicrocompactSettings,
    TacoSettings,
)
from agent.core.settings_section import SECTION_CONFIG, refuse
from agent.goals.settings import GoalSettings
from agent.plans.settings import PlanSettings
from agent.providers.provider import Reasoning
from agent.providers.speech import VoiceRule
from agent.skills.settings import SkillSettings
from agent.tools.mcp.settings import McpSettings
from agent.tools.settings import ApprovalSettings, FileSettings, RoleSettings, ShellSettings, WebSettings

Encoding = Literal["bytes", "cl100k_base", "o200k_base"]

MOST_TOOL_ITERATIONS = 100
LARGEST_WINDOW = 2_000_000
DEFAULT_WINDOW = 128_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """`[agent]`: how far one run may go. `max_turns` counts calls of the model in one run; None: no cap (W-22).

    `goal` is `[agent.goal]`.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    name: str = "default"
    max_tool_iterations: int = 10
    max_turns: int | None = None
    execution_timeout_ms: int = 600_000
    step_budget: int = 200
    recovery_budget: int = 5
    max_message_chars: int = 32_000
    compression: AgentCompressionSettings = field(default_factory=AgentCompressionSettings)
    goal: GoalSettings = field(default_factory=GoalSettings)

    def __post_init__(self) -> None:
        self.validate()

    def validate(self) -> None:
        """Raise ValueError that names every impossible key and what it may be."""
        mistakes = []
        if not 1 <= self.max_tool_iterations <= MOST_TOOL_ITERATIONS:
            mistakes.append(
                f"max_tool_iterations is {self.max_tool_iterations}; it must be 1 to {MOST_TOOL_ITERATIONS}"
            )
        if self.max_turns is not None and self.max_turns < 1:
            mistakes.append(f"max_turns is {self.max_turns}; it must be 1 or more, or left out for no cap")
        mistakes += [
            f"{key} is {value}; it must be 1 or more"
            for key, value in (
                ("execution_timeout_ms", self.execution_timeout_ms),
                ("step_budget", self.step_budget),
                ("recovery_budget", self.recovery_budget),
                ("max_message_chars", self.max_message_chars),
            )
            if value < 1
        ]
        refuse(mistakes)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeoutSettings:
    """`[timeouts]`, all in seconds. `context_prep = 0`: preparing the context is not bounded (Z-23)."""

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    context_prep: float = 30.0
    no_providers_backoff: float = 2.0
    llm: float = 120.0  # longest silence of a stream
    llm_stream: float = 300.0  # a whole stream
    stop_grace: float = 10.0  # from a stop to the hard cancel
    tool_exec: float = 600.0
    tool_mcp: float = 120.0
    tool_info: float = 30.0
    tool_edit: float = 30.0

    def __post_init__(self) -> None:
        self.validate()

    def validate(self) -> None:
        """Raise ValueError that names every impossible key and what it may be."""
        mistakes = [
            f"{key} is {value}; it must be more than 0"
            for key, value in (
                ("no_providers_backoff", self.no_providers_backoff),
                ("llm", self.llm),
                ("llm_stream", self.llm_stream),
                ("stop_grace", self.stop_grace),
                ("tool_exec", self.tool_exec),
                ("tool_mcp", self.tool_mcp),
                ("tool_info", self.tool_info),
                ("tool_edit", self.tool_edit),
            )
            if not (isfinite(value) and value > 0)
        ]
        if not (isfinite(self.context_prep) and self.context_prep >= 0):
            mistakes.append(f"context_prep is {self.context_prep}; it must be 0 (unbounded) or more")
        refuse(mistakes)


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetSettings:
    """`[budget]`: caps of one run; `max_daily_cost_usd` of one conversation and UTC day. None: no cap.

    The daily one is a limit among those of `[spending]`; the ledger holds it.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    max_tokens_in: int | None = 10_000_000
    max_tokens_out: int | None = 1_000_000
    max_tool_runtime_secs: float | None = 14_400.0  # of all tools of a run together, sub-agents' included
    max_cost_usd: float | None = 25.0
    max_daily_cost_usd: float | None = None

    def __post_init__(self) -> None:
        self.validate()

    def validate(self) -> None:
        """Raise ValueError that names every impossible key and what it may be."""
        mistakes = [
            f"{key} is {value}; it must be 1 or more, or left out for no cap"
            for key, value in (("max_tokens_in", self.max_tokens_in), ("max_tokens_out", self.max_tokens_out))
            if value is not None and value < 1
        ]
        mistakes += [
            f"{key} is {value}; it must be a finite amount of 0 or more"
            for key, value in (("max_cost_usd", self.max_cost_usd), ("max_daily_cost_usd", self.max_daily_cost_usd))
            if value is not None and not (isfinite(value) and value >= 0)
        ]
        longest = self.max_tool_runtime_secs
        if longest is not None and not (isfinite(longest) and longest > 0):
            mistakes.append(f"max_tool_runtime_secs is {longest}; it must be more than 0, or left out for no cap")
        refuse(mistakes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextSettings:
    """`[context]`, in tokens; for windows too small for the reserves a share of the window is used instead.

    `tokenizer`: a real one (40 MB, "o200k_base" 85 MB) is loaded once a context fills a quarter of its window; with
    "bytes" it stays an estimate. `compaction`: "off" leaves only the clearing of old results, "full"
    also shortens without a model (W-63).
    Compaction begins at window - `reserve_floor` at the latest, notes are written at window - `flush_threshold`.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    output_reserve: int = 20_000
    emergency_buffer: int = 3_000
    reserve_floor: int = 4_000
    flush_threshold: int = 8_000
    memory_chars: int = 50_000
    project_chars: int = 8_000  # of AGENTS.md in the workspace; 0: it is not read
    compaction: Level = "safe"
    microcompact: MicrocompactSettings = field(default_factory=MicrocompactSettings)
    tokenizer: Encoding = "cl100k_base"

    def __post_init__(self) -> None:
        self.validate()

    def validate(self) -> None:
        """Raise ValueError that names every impossible key and what it may be."""
        mistakes = [
            f"{key} is {value}; it must be 0 or more"
            for key, value in (
                ("output_reserve", self.output_reserve),
                ("emergency_buffer", self.emergency_buffer),
                ("reserve_floor", self.reserve_floor),
                ("flush_threshold", self.flush_threshold),
                ("memory_chars", self.memory_chars),
                ("project_chars", self.project_chars),
            )
            if value < 0
        ]
        if self.output_reserve + self.emergency_buffer >= LARGEST_WINDOW:
            mistakes.append(
                f"output_reserve + emergency_buffer is {self.output_reserve + self.emergency_buffer}; "
                f"it must be less than {LARGEST_WINDOW}"
            )
        refuse(mistakes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSettings:
    """`[tools]`: how calls run together and what stops a model that repeats itself."""

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    max_parallel: int = 8
    repeat_threshold: int = 2
    max_retries: int = 2
    max_retry_duration_secs: float = 30.0
    files: FileSettings = field(default_factory=FileSettings)
    shell: ShellSettings = field(default_factory=ShellSettings)
    web: WebSettings = field(default_factory=WebSettings)
    taco: TacoSettings = field(default_factory=TacoSettings)

    def __post_init__(self) -> None:
        self.validate()

    def validate(self) -> None:
        """Raise ValueError that names every impossible key and what it may be."""
        mistakes = []
        if not 1 <= self.max_parallel <= 64:
            mistakes.append(f"max_parallel is {self.max_parallel}; it must be 1 to 64")
        if self.repeat_threshold < 1:
            mistakes.append(f"repeat_threshold is {self.repeat_threshold}; it must be 1 or more")
        if not 0 <= self.max_retries <= 10:
            mistakes.append(f"max_retries is {self.max_retries}; it must be 0 to 10")
        if not (isfinite(self.max_retry_duration_secs) and self.max_retry_duration_secs >= 0):
            mistakes.append(f"max_retry_duration_secs is {self.max_retry_duration_secs}; it must be 0 or more")
        refuse(mistakes)


@dataclass(frozen=True, slots=True, kw_only=True)
class DebugSettings:
    """`[debug]`: every conversation is dumped from its first turn on; `output_dir` lies below the data directory."""

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    enabled: bool = False
    output_dir: str = "dumps"

    def __post_init__(self) -> None:
        self.validate()

    def validate(self) -> None:
        """Raise ValueError when the directory is none."""
        if not self.output_dir.strip():
            raise ValueError("output_dir is empty; name a directory, such as dumps")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacePolicy:
    """Rules of one place, as the gateway resolved them for the next turn (`[[places]]`, `/settings`).

    `instructions` go below the agent's own. `language` ("de") is the one to answer in; "": the person's. `reasoning`
    None: as the provider is configured. `models` are lists of patterns of `provider/model` that may answer here,
    `tools` and `skills` lists of patterns of names that may be used: each list must fit, no list leaves all.
    `denied_tools` win over `tools`. Without `memory` nothing is recalled or kept beyond the session. `reads_along`: a
    question reads what people said around it. `speaks_unasked`: turns may be begun that nobody asked for. `voice` says
    which answers are read out; None: as configured.
    """

    instructions: str = ""
    language: str = ""
    reasoning: Reasoning | None = None
    models: tuple[tuple[str, ...], ...] = ()
    tools: tuple[tuple[str, ...], ...] = ()
    denied_tools: tuple[str, ...] = ()
    skills: tuple[tuple[str, ...], ...] = ()
    memory: bool = True
    reads_along: bool = False
    speaks_unasked: bool = False
    voice: VoiceRule | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All of it; replaced as a whole between turns when the configuration is read anew (Z-21)."""

    agent: AgentSettings = field(default_factory=AgentSettings)
    timeouts: TimeoutSettings = field(default_factory=TimeoutSettings)
    budget: BudgetSettings = field(default_factory=BudgetSettings)
    context: ContextSettings = field(default_factory=ContextSettings)
    tools: ToolSettings = field(default_factory=ToolSettings)
    approvals: ApprovalSettings = field(default_factory=ApprovalSettings)
    memory: MemorySettings = field(default_factory=MemorySettings)
    debug: DebugSettings = field(default_factory=DebugSettings)
    mcp: McpSettings = field(default_factory=McpSettings)
    skills: SkillSettings = field(default_factory=SkillSettings)
    plans: PlanSettings = field(default_factory=PlanSettings)
    place: PlacePolicy = field(default_factory=PlacePolicy)
    roles: tuple[RoleSettings, ...] = ()
