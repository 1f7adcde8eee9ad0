"""Settings of documents that people send; the gateway's configuration embeds the section as it is."""

from dataclasses import dataclass
from typing import Any, ClassVar

from agent.core.settings_section import SECTION_CONFIG, not_above_zero, refuse

LEAST_MEMORY_MB = 64  # Python and a library take half of it before they have read anything


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentSettings:
    """`[documents]`: how far files are read that people send, and what of them goes into the message.

    `shown_tokens` is the room for the beginnings of all documents of one message, `most_chars` the length of the text
    that is kept of one, `most_pages` how many of its pages, slides, sheets or chapters are read, `most_pictures` how
    many pages without text are shown as pictures. The rest are limits of the process that reads one document.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    enabled: bool = True
    shown_tokens: int = 6_000
    most_pages: int = 300
    most_chars: int = 1_000_000
    most_pictures: int = 8
    timeout_s: float = 30.0
    memory_mb: int = 512

    def __post_init__(self) -> None:
        mistakes = [
            f"{key} is {value}; it must be {least} or more"
            for key, value, least in (
                ("shown_tokens", self.shown_tokens, 0),
                ("most_pages", self.most_pages, 1),
                ("most_chars", self.most_chars, 1),
                ("most_pictures", self.most_pictures, 0),
                ("memory_mb", self.memory_mb, LEAST_MEMORY_MB),
            )
            if value < least
        ]
        refuse([*mistakes, *not_above_zero(timeout_s=self.timeout_s)])
