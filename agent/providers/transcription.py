"""Transcription of speech: settings, contract, and the transcriber that is loaded when it is first needed."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

from agent.core.settings_section import SECTION_CONFIG, no_amounts, not_above_zero, refuse
from agent.providers.models import Card
from agent.providers.named_endpoint import NamedEndpoint
from agent.providers.provider import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptionSettings:
    """`[transcription]`. `provider` names one of type "openai" in `[[llm.providers]]`; "": voice is not written down.

    `language` is an ISO 639-1 hint; `usd_per_minute` the price, where the price list has none or another.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    provider: str = ""
    model: str = "whisper-1"
    language: str = ""
    usd_per_minute: float | None = None
    timeout_s: float = 60.0
    max_mb: float = 25.0

    def __post_init__(self) -> None:
        mistakes = []
        if self.provider and not self.model:
            mistakes.append('model is missing: set model = "whisper-1"')
        mistakes += no_amounts(usd_per_minute=self.usd_per_minute)
        mistakes += not_above_zero(timeout_s=self.timeout_s, max_mb=self.max_mb)
        refuse(mistakes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """Transcribed words. `usage` or `seconds` as the endpoint reported them; None where it did not."""

    text: str
    usage: Usage | None = None
    seconds: float | None = None


class Transcriber(Protocol):
    """One endpoint that writes speech down."""

    name: str
    model: str
    card: Card

    async def transcribe(self, path: Path, mime_type: str) -> Transcript:
        """The words in a sound file. Raises ProviderBusy (retry) or ProviderRefused."""


class Transcribers(NamedEndpoint[TranscriptionSettings, Transcriber]):
    """Gives the transcriber that `[transcription]` names."""

    section = "transcription"
    module = "agent.providers.openai.transcription"
    kind = "OpenAITranscriber"
