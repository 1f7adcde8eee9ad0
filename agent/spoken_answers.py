"""Answers read out: sound files made by the configured speaker, entered in the ledger like any call.

A file is made once and found again, so that what was paid for is not made anew after a crash.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio

from agent.core.clock import Clock
from agent.core.errors import ProviderBusy, ProviderRefused
from agent.core.files.safe import put_whole
from agent.core.files.store import FileStore, LocalFiles
from agent.core.ids import CostAttribution
from agent.core.messages import FilePart
from agent.core.outbox import FileRef, SpokenText
from agent.ledger.ledger import Ledger
from agent.ledger.spending import Entry, Unpriced
from agent.providers.repetition import repeated
from agent.providers.retry_policy import RetryPolicy
from agent.providers.speech import SOUNDS, Sound, Speakers, SpeechSettings, VoiceRule

PURPOSE = "speech"
STEM = "spoken"  # of each file's name on the disk

log = logging.getLogger("tieline.speech")


def is_spoken(rule: VoiceRule | None, settings: SpeechSettings, files: Sequence[FilePart]) -> bool:
    """Whether the answer to a message with these files is read out, by the rule of its place (None: as configured)."""
    if not settings.provider or rule == "off":
        return False
    return rule == "always" or any(file.mime_type.startswith("audio/") for file in files)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpokenAnswers:
    """One for the process. Off where `[speech]` names no provider."""

    home: Path
    clock: Clock
    ledger: Ledger
    speakers: Speakers
    policy: Callable[[], RetryPolicy] = RetryPolicy
    files: FileStore = field(default_factory=LocalFiles)

    @property
    def settings(self) -> SpeechSettings:
        return self.speakers.settings

    async def find(self, spoken: SpokenText) -> FileRef | None:
        """The file that was made of it; None where there is none."""
        for mime_type, ending in SOUNDS.values():
            path = Path(spoken.folder, f"{STEM}.{ending}")
            if await anyio.Path(self.home / path).is_file():
                await self.files.put(str(path))  # it was paid for: perhaps we were killed before it was stored
            else:
                await self.files.need(str(path))
            if await anyio.Path(self.home / path).is_file():
                return FileRef(path=str(path), name=path.name, mime_type=mime_type, voice=True)
        return None

    async def make(self, words: str, spoken: SpokenText) -> FileRef:
        """Have these words of it read out into its file. Raises AgentError or OSError, and then there is none."""
        settings = self.settings

        async def attempt() -> Sound:
            return await self._attempt(words, spoken.payer, settings)

        try:
            with anyio.fail_after(settings.timeout_s):
                sound = await repeated(attempt, self.clock, self.policy())
        except TimeoutError:
            raise ProviderBusy(f"{settings.provider}: no speech within {settings.timeout_s:g} s", sent=True) from None
        mime_type, ending = SOUNDS[settings.format]
        path = Path(spoken.folder, f"{STEM}.{ending}")
        await anyio.to_thread.run_sync(put_whole, self.home / path, sound.data)
        await self.files.put(str(path))
        return FileRef(path=str(path), name=path.name, mime_type=mime_type, voice=True)

    async def _attempt(self, text: str, payer: CostAttribution, settings: SpeechSettings) -> Sound:
        speaker = await self.speakers.current()
        price = settings.usd_per_million_chars
        cost = None if price is None else len(text) * price / 1_000_000
        try:
            reserved = await self.ledger.hold_for(
                payer, speaker.name, speaker.model, tokens=0, prompt=0, usd=cost, least_usd=cost
            )
        except Unpriced as error:  # whose words name the prices of tokens
            raise ProviderRefused("a limit in USD holds, and [speech] usd_per_million_chars is not set") from error
        entry: Entry = replace(reserved.entry, cost_usd=cost, estimated=True)
        with reserved.at_most(entry):
            sound = await speaker.speak(text)
        reserved.enter(replace(entry, audio_s=round(sound.seconds, 3), estimated=cost is None))
        return sound
