"""Voice messages as words: through the configured transcriber, entered in the ledger like any call.

What cannot be written down never loses the message: a line says that it could not be.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from agent.core.clock import Clock
from agent.core.errors import AgentError, ProviderRefused
from agent.core.files.store import FileStore, LocalFiles
from agent.core.ids import CostAttribution
from agent.core.messages import FilePart
from agent.ledger.ledger import Ledger, Reserved
from agent.ledger.spending import Entry
from agent.providers.provider import Usage
from agent.providers.repetition import repeated
from agent.providers.retry_policy import RetryPolicy
from agent.providers.transcription import Transcriber, Transcribers, Transcript, TranscriptionSettings
from agent.providers.usage import cost_of

PURPOSE = "transcription"
BYTES_A_SECOND = 2000  # of speech as messengers send it: Opus at 16 kbit/s
TOKENS_A_SECOND = 10  # of sound, at the models that count tokens
WORDS_A_SECOND = 4  # tokens of text, for fast speakers
MEGABYTE = 1024 * 1024

log = logging.getLogger("tieline.hearing")


@dataclass(frozen=True, slots=True, kw_only=True)
class VoiceTranscription:
    """Shared by all agents. Off where `[transcription]` names no provider."""

    home: Path
    clock: Clock
    ledger: Ledger
    transcribers: Transcribers | None = None
    policy: Callable[[], RetryPolicy] = RetryPolicy
    files: FileStore = field(default_factory=LocalFiles)

    def wanted(self, files: Sequence[FilePart], text: str, takes: frozenset[str]) -> tuple[FilePart, ...]:
        """The sound files that are to be written down: what the model does not hear itself, and is not yet."""
        if self.transcribers is None or not self.transcribers.settings.provider:
            return ()
        return tuple(
            file
            for file in files
            if file.mime_type.startswith("audio/") and file.mime_type not in takes and _heading(file) not in text
        )

    def hidden_from_history(self, files: Sequence[FilePart], takes: frozenset[str]) -> bool:
        """Whether nobody hears a sound file: neither the model, nor a transcriber."""
        if not any(file.mime_type.startswith("audio/") and file.mime_type not in takes for file in files):
            return False
        return self.transcribers is None or not self.transcribers.settings.provider

    async def written(self, file: FilePart, attribution: CostAttribution) -> str:
        """The words said in it, under a line that names it; or a line that they could not be written down."""
        try:
            transcript = await self._transcript(file, replace(attribution, purpose=PURPOSE))
        except AgentError as error:
            log.warning(
                "a voice message is not written down: %s", error, extra={"conversation": attribution.conversation}
            )
            return f"[{file.name} could not be transcribed]"
        return f"{_heading(file)}\n{transcript.text}" if transcript.text else f"[no speech was heard in {file.name}]"

    async def _transcript(self, file: FilePart, attribution: CostAttribution) -> Transcript:
        assert self.transcribers is not None
        settings = self.transcribers.settings
        if file.size > settings.max_mb * MEGABYTE:
            raise ProviderRefused(f"{file.name} is larger than [transcription] max_mb = {settings.max_mb:g}")
        path = (self.home / file.path).resolve()
        if not path.is_relative_to(self.home.resolve()):
            raise ProviderRefused(f"{file.name} lies outside the data directory")
        try:
            await self.files.need(file.path)
        except OSError as error:
            raise ProviderRefused(f"{file.name} cannot be read: {error}") from error
        transcribers = self.transcribers

        async def attempt() -> Transcript:
            return await self._attempt(await transcribers.current(), path, file, attribution, settings)

        return await repeated(attempt, self.clock, self.policy())

    async def _attempt(
        self,
        transcriber: Transcriber,
        path: Path,
        file: FilePart,
        attribution: CostAttribution,
        settings: TranscriptionSettings,
    ) -> Transcript:
        guess = Transcript(text="", seconds=file.size / BYTES_A_SECOND)
        most = _entered(guess, transcriber, settings)
        reserved = await self.ledger.hold_for(
            attribution,
            transcriber.name,
            transcriber.model,
            tokens=most.prompt + most.output,
            prompt=most.prompt,
            usd=most.cost_usd,
            least_usd=most.cost_usd,
        )
        with reserved.at_most(self._entry(reserved, most, estimated=True)):
            transcript = await transcriber.transcribe(path, file.mime_type)
        reported = transcript.usage is not None or transcript.seconds is not None
        came_to = _entered(transcript if reported else replace(guess, text=transcript.text), transcriber, settings)
        reserved.enter(self._entry(reserved, came_to, estimated=not reported))
        return transcript

    def _entry(self, reserved: Reserved, took: "_Took", *, estimated: bool) -> Entry:
        return replace(
            reserved.entry,
            prompt=took.prompt,
            output=took.output,
            audio_s=took.seconds,
            cost_usd=took.cost_usd,
            estimated=estimated,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Took:
    prompt: int
    output: int
    seconds: float
    cost_usd: float | None


def _entered(transcript: Transcript, transcriber: Transcriber, settings: TranscriptionSettings) -> _Took:
    """By the minute where it is sold so, else by tokens; without a price of either kind it is unknown."""
    seconds = transcript.seconds or 0.0
    usage = transcript.usage
    per_second = transcriber.card.usd_per_second if settings.usd_per_minute is None else settings.usd_per_minute / 60
    if usage is None and per_second is None and transcriber.card.prices is not None:  # guessed for who sells tokens
        usage = Usage(prompt=round(seconds * TOKENS_A_SECOND), output=round(seconds * WORDS_A_SECOND))
    if usage is not None and transcriber.card.prices is not None and settings.usd_per_minute is None:
        cost = cost_of(usage, transcriber.card.prices)
    else:
        cost = None if per_second is None else seconds * per_second
    found = usage or Usage()
    return _Took(prompt=found.prompt, output=found.output, seconds=round(seconds, 3), cost_usd=cost)


def _heading(file: FilePart) -> str:
    return f"[transcript of {file.name}]"
