"""What an operator may set about skills; the gateway's configuration embeds the section (SPEC §14.1)."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from agent.core.section_config import SECTION_CONFIG
from agent.skills.learning_settings import LearningSettings

PromptMode = Literal["auto", "full", "compact"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillSettings:
    """`[skills]`. `prompt_mode` "compact": of a skill that fits only the name and what it is for, the model loads it;
    "auto": so where fewer than 8,192 tokens are left.

    `min_score`: what fits less is left out; `clearly_better`: so is what fits that much less than the best.
    `list_chars` is how long the list of all skills in the prompt may get; 0: no list.
    `learning` is `[skills.learning]`.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    enabled: bool = True
    max_active: int = 3
    min_score: float = 0.20
    clearly_better: float = 0.20
    prompt_mode: PromptMode = "auto"
    list_chars: int = 3_000
    learning: LearningSettings = field(default_factory=LearningSettings)

    def __post_init__(self) -> None:
        mistakes = []
        if not 0 <= self.max_active <= 10:
            mistakes.append(f"max_active is {self.max_active}; it must be 0 (none by itself) to 10")
        mistakes += [
            f"{key} is {value}; it must be 0 to 1"
            for key, value in (("min_score", self.min_score), ("clearly_better", self.clearly_better))
            if not 0 <= value <= 1
        ]
        if not 0 <= self.list_chars <= 20_000:
            mistakes.append(f"list_chars is {self.list_chars}; it must be 0 (no list) to 20000")
        if mistakes:
            raise ValueError("; ".join(mistakes))
