"""Speech written down by any endpoint that speaks OpenAI's `/audio/transcriptions`. Loaded by name."""

import json
from pathlib import Path
from typing import Any

import aiohttp
import anyio

from agent.core.untrusted_text import whole
from agent.providers.failures import refused
from agent.providers.keys import KeyRing
from agent.providers.models import Card
from agent.providers.openai.endpoint import Endpoint
from agent.providers.provider import Usage
from agent.providers.settings import ProviderSettings
from agent.providers.transcription import Transcript, TranscriptionSettings

LARGEST_ANSWER = 1024 * 1024  # bytes
# The endpoint tells the format by the name's ending; platforms call theirs as they like.
ENDINGS = {
    "audio/ogg": "ogg", "audio/opus": "ogg", "audio/mpeg": "mp3", "audio/mp3": "mp3", "audio/mp4": "m4a",
    "audio/x-m4a": "m4a", "audio/m4a": "m4a", "audio/aac": "m4a", "audio/wav": "wav", "audio/x-wav": "wav",
    "audio/webm": "webm", "audio/flac": "flac", "audio/x-flac": "flac",
}  # fmt: skip


class OpenAITranscriber:
    """One model behind one endpoint."""

    def __init__(
        self,
        settings: TranscriptionSettings,
        account: ProviderSettings,
        card: Card,
        keys: KeyRing | None = None,
    ) -> None:
        self.name = account.name
        self.model = settings.model
        self.card = card
        self._settings = settings
        self._endpoint = Endpoint(
            account, "audio/transcriptions", keys=keys, timeout_s=settings.timeout_s, most=LARGEST_ANSWER
        )

    async def transcribe(self, path: Path, mime_type: str) -> Transcript:
        try:
            sound = await anyio.Path(path).read_bytes()
        except OSError as error:
            raise refused(self.name, f"the sound file cannot be read ({error.strerror})") from None
        received = await self._endpoint.post(lambda: {"data": self._form(sound, mime_type)})
        return self._transcript(received.body)

    def _form(self, sound: bytes, mime_type: str) -> aiohttp.FormData:
        form = aiohttp.FormData()
        form.add_field("model", self.model)
        form.add_field("response_format", "json")
        if self._settings.language:
            form.add_field("language", self._settings.language)
        name = f"speech.{ENDINGS.get(mime_type, 'ogg')}"
        form.add_field("file", sound, filename=name, content_type=mime_type)
        return form

    def _transcript(self, body: bytes) -> Transcript:
        try:
            answer = json.loads(body)
        except ValueError:
            raise self._endpoint.nonsense("malformed data") from None
        if not isinstance(answer, dict) or not isinstance(answer.get("text"), str):
            raise self._endpoint.nonsense("no text in the answer")
        usage = answer.get("usage")
        usage = usage if isinstance(usage, dict) else {}
        seconds = _number(usage.get("seconds")) or _number(answer.get("duration"))
        tokens = Usage(prompt=int(_number(usage.get("input_tokens"))), output=int(_number(usage.get("output_tokens"))))
        return Transcript(
            text=whole(answer["text"]).strip(), usage=tokens if tokens != Usage() else None, seconds=seconds or None
        )


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else 0.0
