"""What is learnt and followed: facts for the bus."""

from dataclasses import dataclass
from typing import ClassVar

from agent.core.events import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillsReloaded(Event):
    """Skills were changed; they count for this conversation from its next turn on (Z-08)."""

    name: ClassVar[str] = "skills_reloaded"
    usable: int
    waiting: int  # for somebody's approval


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillPicked(Event):
    """A skill is hinted in this turn. `asked_for`: a person named it."""

    name: ClassVar[str] = "skill_picked"
    skill: str
    asked_for: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillDrafted(Event):
    """A draft of a skill waits for approval."""

    name: ClassVar[str] = "skill_drafted"
    skill: str
    evidence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectionHeard(Event):
    """A person's words sound as if the answer before was not what they wanted (Z-05)."""

    name: ClassVar[str] = "correction_heard"
    kind: str
    confidence: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningFailed(Event):
    """Something could not be learnt; the turn went on. `step`: priors, draft, outcomes or correction."""

    name: ClassVar[str] = "learning_failed"
    step: str
