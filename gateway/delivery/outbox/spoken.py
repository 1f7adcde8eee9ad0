"""Rows that are read out: the sound is made before the platform is called, once, and never keeps the text back.

The row itself is the stored intention. Its text was a row before it, and has arrived.
"""

import logging
from dataclasses import replace
from typing import Protocol

from agent.core.errors import AgentError
from agent.core.failpoints import failpoint
from agent.core.outbox import FileRef, OutgoingMessage, SpokenText
from agent.core.phrases import Phrases
from agent.core.untrusted_text import worked_on
from agent.ledger.spending import OverBudget
from agent.providers.speech import SpeechSettings
from gateway.channels.channel import Capabilities
from gateway.delivery.egress import Guard
from gateway.delivery.outbox.rows import Claimed
from gateway.delivery.rendering.markdown import LONG_TEXT, parse
from gateway.delivery.rendering.spoken import spoken_words

log = logging.getLogger("tieline.delivery")


class Speech(Protocol):
    """Makes sound files and finds them again (`agent.spoken_answers.SpokenAnswers`)."""

    @property
    def settings(self) -> SpeechSettings: ...

    async def find(self, spoken: SpokenText) -> FileRef | None: ...

    async def make(self, words: str, spoken: SpokenText) -> FileRef: ...


class SpokenRows:
    """Gives rows that are read out their sound."""

    def __init__(self, phrase: Phrases, guard: Guard) -> None:
        self._phrase = phrase
        self._guard = guard
        self._speech: Speech | None = None

    def connect(self, speech: Speech) -> None:
        """Read out by this; without it such rows are nothing to send."""
        self._speech = speech

    async def ready(self, row: Claimed, capabilities: Capabilities, language: str) -> Claimed:
        """The row as it is sent: with its sound, with a sentence that there is none, or empty where nothing is read
        out any more. A row of another kind is itself."""
        spoken, speech = row.say.spoken, self._speech
        if spoken is None:
            return row
        say = replace(row.say, spoken=None)
        if speech is not None:
            file = await speech.find(spoken)
            if file is not None:
                say = self._with(say, file, language)
            elif row.cut_off:  # no sound was made, so it was the sentence that may have arrived
                say = self._without(say, "spoken_failed", language)
            elif speech.settings.provider and capabilities.upload_limit:
                say = await self._made(row, say, spoken, speech, capabilities, language)
        return replace(row, say=say)

    async def _made(
        self,
        row: Claimed,
        say: OutgoingMessage,
        spoken: SpokenText,
        speech: Speech,
        capabilities: Capabilities,
        language: str,
    ) -> OutgoingMessage:
        rest, most = self._phrase("spoken_rest", language), speech.settings.max_chars
        guard = self._guard.on(capabilities)  # the endpoint is told no secret either
        words = await worked_on(
            spoken.text, lambda text: spoken_words(guard.document(parse(text)), most, rest), long=LONG_TEXT
        )
        if not words:
            return say
        try:
            file = await speech.make(words, spoken)
        except (AgentError, OSError) as error:
            log.warning("an answer is not read out: %s", error, extra={"conversation": row.conversation})
            over = isinstance(error, OverBudget)
            return self._without(say, "spoken_over_budget" if over else "spoken_failed", language)
        failpoint("speech.made")
        return self._with(say, file, language)

    def _with(self, say: OutgoingMessage, file: FileRef, language: str) -> OutgoingMessage:
        name = f"{self._phrase('spoken_name', language)}.{file.name.rpartition('.')[2]}"
        return replace(say, files=(replace(file, name=name),))

    def _without(self, say: OutgoingMessage, sentence: str, language: str) -> OutgoingMessage:
        return replace(say, text=self._phrase(sentence, language), kind="notice", verbatim=True)
