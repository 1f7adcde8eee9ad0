"""Speech of text: settings, contract, and the speaker that is loaded when it is first needed."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, get_args

from agent.core.settings_section import SECTION_CONFIG, no_amounts, not_above_zero, refuse
from agent.providers.models import Card
from agent.providers.named_endpoint import NamedEndpoint

VoiceRule = Literal["off", "reply", "always"]  # which answers of a place are read out; "reply": those to voice messages
SoundFormat = Literal["opus", "mp3", "aac", "flac", "wav"]
# The type of each format, and the ending of its files. Only Ogg Opus is a voice message on every platform.
SOUNDS: dict[SoundFormat, tuple[str, str]] = {
    "opus": ("audio/ogg", "ogg"), "mp3": ("audio/mpeg", "mp3"), "aac": ("audio/aac", "aac"),
    "flac": ("audio/flac", "flac"), "wav": ("audio/wav", "wav"),
}  # fmt: skip
MOST_CHARS = 4096  # of one request, at OpenAI


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechSettings:
    """`[speech]`. `provider` names one of type "openai" in `[[llm.providers]]`; "": answers are not read out.

    `instructions` tell the voice how to speak, where the model takes any. `max_chars` bounds what is read out of one
    answer, `timeout_s` all tries of it together, `max_mb` the sound that is taken.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = SECTION_CONFIG

    provider: str = ""
    model: str = "gpt-4o-mini-tts"
    voice: str = "alloy"
    format: SoundFormat = "opus"
    instructions: str = ""
    max_chars: int = 1500
    usd_per_million_chars: float | None = None
    timeout_s: float = 45.0
    max_mb: float = 10.0

    def __post_init__(self) -> None:
        mistakes = [
            f'{key} is missing: set {key} = "{usual}"'
            for key, value, usual in (("model", self.model, "gpt-4o-mini-tts"), ("voice", self.voice, "alloy"))
            if self.provider and not value
        ]
        if self.format not in get_args(SoundFormat):
            mistakes.append(f"format is {self.format!r}; it must be one of {', '.join(SOUNDS)}")
        if not 1 <= self.max_chars <= MOST_CHARS:
            mistakes.append(f"max_chars is {self.max_chars}; it must be 1 to {MOST_CHARS}")
        mistakes += no_amounts(usd_per_million_chars=self.usd_per_million_chars)
        mistakes += not_above_zero(timeout_s=self.timeout_s, max_mb=self.max_mb)
        refuse(mistakes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sound:
    """Spoken words in the format asked for. `seconds` is how long they are, 0 where the format does not tell."""

    data: bytes
    seconds: float = 0.0


class Speaker(Protocol):
    """One endpoint that reads text out."""

    name: str
    model: str
    card: Card

    async def speak(self, text: str) -> Sound:
        """The text as sound, whole. Raises ProviderBusy (retry) or ProviderRefused."""


class Speakers(NamedEndpoint[SpeechSettings, Speaker]):
    """Gives the speaker that `[speech]` names."""

    section = "speech"
    module = "agent.providers.openai.speech"
    kind = "OpenAISpeaker"
