"""Settings of what is read along in groups, and of speaking there unasked; the gateway's configuration embeds them.

Impossible settings are refused when they are built, so that a turn never meets them.
"""

from dataclasses import dataclass
from math import isfinite
from typing import Any, ClassVar

from agent.core.settings_section import SECTION_CONFIG, refuse

MOST_MESSAGES, MOST_HOURS, MOST_TOKENS = 500, 168, 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupContextSettings:
    """`[group_context]`: how much is kept of each place with `context = "window"`, and read with a question there.

    Of each stream (a channel, a topic, a thread) the newest `messages` of the last `hours` are kept. A question is
    given `max_tokens` of them at most, by the estimate of its model's tokens.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    messages: int = 50
    hours: int = 24
    max_tokens: int = 2_000

    def __post_init__(self) -> None:
        refuse(
            [
                f"{key} is {value}; it must be {least} to {most:,}"
                for key, value, least, most in (
                    ("messages", self.messages, 1, MOST_MESSAGES),
                    ("hours", self.hours, 1, MOST_HOURS),
                    ("max_tokens", self.max_tokens, 100, MOST_TOKENS),
                )
                if not least <= value <= most
            ]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AmbientSettings:
    """`[ambient]`: limits of one place with `mention = "ambient"`, whose turns nobody asks for.

    The bot speaks there `messages_per_hour` times at most, and thinks about speaking `turns_per_hour` times. What such
    turns take in a UTC day ends them at `daily_tokens` (prompt and answer) or `daily_usd`; None: no cap.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    messages_per_hour: int = 3
    turns_per_hour: int = 20
    daily_tokens: int | None = 400_000
    daily_usd: float | None = 0.50

    def __post_init__(self) -> None:
        mistakes = [
            f"{key} is {value}; it must be 1 or more"
            for key, value in (("messages_per_hour", self.messages_per_hour), ("turns_per_hour", self.turns_per_hour))
            if value < 1
        ]
        if self.daily_tokens is not None and self.daily_tokens < 1:
            mistakes.append(f"daily_tokens is {self.daily_tokens}; it must be 1 or more, or left out for no cap")
        if self.daily_usd is not None and not (isfinite(self.daily_usd) and self.daily_usd > 0):
            mistakes.append(f"daily_usd is {self.daily_usd}; it must be more than 0, or left out for no cap")
        refuse(mistakes)
