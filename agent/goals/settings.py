"""The section `[agent.goal]`. Light: the configuration imports it before anything slow is loaded."""

from dataclasses import dataclass
from math import isfinite
from typing import Any, ClassVar

from agent.core.settings_section import SECTION_CONFIG, refuse

COMPLETION_PHRASES = ("task complete", "done", "finished", "completed")


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalSettings:
    """Limits of goals, and of the work on them without a person.

    `track_in_system_prompt`: what people ask for is followed as the session's goal, and the model reads it.
    `completion_phrases` end a goal when an answer without tool calls says one of them and means it (`claims`).
    `autonomous_max_turns` is both what `--auto` gets without `--turns` and the most it may ask for.
    `autonomous_max_tokens` and `autonomous_max_cost_usd` hold for every autonomous goal that sets no limit of its own
    (None: no cap).
    `supervisor_provider` None: the supervisor asks the conversation's own provider.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    enabled: bool = True
    track_in_system_prompt: bool = False
    completion_phrases: tuple[str, ...] = COMPLETION_PHRASES
    autonomous_enabled: bool = False
    autonomous_max_turns: int = 50
    autonomous_max_tokens: int | None = 2_000_000
    autonomous_max_cost_usd: float | None = 5.0
    autonomous_max_running: int = 10
    autonomous_turn_delay_ms: int = 500
    autonomous_turn_timeout_secs: int = 300
    supervisor_provider: str | None = None
    verify_interval: int = 5
    supervisor_timeout_secs: int = 30
    max_supervisor_fail_count: int = 3
    max_stuck_count: int = 3

    def __post_init__(self) -> None:
        self.validate()

    @property
    def follows_session(self) -> bool:
        """Whether a session has a goal that nobody has set with /goal: its first request, and what replaces it."""
        return self.enabled and self.track_in_system_prompt

    @property
    def may_work_alone(self) -> bool:
        """Whether goals are worked on without a person."""
        return self.enabled and self.autonomous_enabled

    def validate(self) -> None:
        """Raise ValueError that names every impossible key and what it may be."""
        least_one = (
            "autonomous_max_turns",
            "autonomous_max_running",
            "autonomous_turn_delay_ms",
            "autonomous_turn_timeout_secs",
            "verify_interval",
            "supervisor_timeout_secs",
            "max_supervisor_fail_count",
            "max_stuck_count",
        )
        found = [f"{key} is {getattr(self, key)}; it must be 1 or more" for key in least_one if getattr(self, key) < 1]
        tokens, usd = self.autonomous_max_tokens, self.autonomous_max_cost_usd
        if tokens is not None and tokens < 1:
            found.append(f"autonomous_max_tokens is {tokens}; it must be 1 or more, or left out for no cap")
        if usd is not None and not (isfinite(usd) and usd > 0):
            found.append(f"autonomous_max_cost_usd is {usd}; it must be more than 0, or left out for no cap")
        if not all(phrase.strip() for phrase in self.completion_phrases):
            found.append("completion_phrases has an empty phrase; leave it out")
        refuse(found)
