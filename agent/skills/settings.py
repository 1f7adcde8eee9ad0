"""Settings of skills; the gateway's configuration embeds the sections."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from agent.core.settings_section import SECTION_CONFIG, refuse

# Section `[skills.learning]`: hints, drafts and corrections.

MOST_CORRECTIONS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningSettings:
    """`router` hints one of the skills that fit a request and credits it; `drafting` makes a draft of what went well
    three times.

    `min_fit`: what fits a request less (0..1) is not hinted; it may well be put before the model (`min_score`).
    `preferred` names skills, best first, that begin with simulated successes. `seed` None: each
    draw follows from its message; else they follow from one another, the first from this.
    `feedback` keeps corrections that people make and reminds of them.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    router: bool = True
    min_fit: float = 0.3
    decay: float = 1.0  # of both counts, a day
    seed: int | None = None
    preferred: tuple[str, ...] = ()
    drafting: bool = True
    most_drafts: int = 50
    feedback: bool = False
    feedback_threshold: float = 0.7
    corrections: int = 3
    min_similarity: float = 0.75

    def __post_init__(self) -> None:
        mistakes = []
        if not 0 < self.decay <= 1:
            mistakes.append(f"decay is {self.decay}; it must be more than 0, and 1 (off) at most")
        if not 0 < self.min_fit <= 1:
            mistakes.append(f"min_fit is {self.min_fit}; it must be more than 0, and 1 at most, or set router = false")
        if self.most_drafts < 1:
            mistakes.append(f"most_drafts is {self.most_drafts}; it must be 1 or more, or set drafting = false")
        if not 0 <= self.feedback_threshold <= 1:
            mistakes.append(f"feedback_threshold is {self.feedback_threshold}; it must be 0 to 1")
        if not 0 <= self.corrections <= MOST_CORRECTIONS:
            mistakes.append(f"corrections is {self.corrections}; it must be 0 to {MOST_CORRECTIONS}")
        if not 0 <= self.min_similarity <= 1:
            mistakes.append(f"min_similarity is {self.min_similarity}; it must be 0 to 1")
        if len(set(self.preferred)) < len(self.preferred):
            mistakes.append("preferred names a skill twice; name each once")
        refuse(mistakes)


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
        refuse(mistakes)
