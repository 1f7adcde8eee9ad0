"""`[skills]`: what an operator may set about skills (SPEC §20.4)."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

from agent.skills.learning_settings import LearningSettings

FORBID_UNKNOWN: dict[str, Any] = {"extra": "forbid"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillSettings:
    """`[skills]`; `learning` is `[skills.learning]`."""

    __pydantic_config__: ClassVar[dict[str, Any]] = FORBID_UNKNOWN

    learning: LearningSettings = field(default_factory=LearningSettings)
