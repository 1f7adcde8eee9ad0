"""Text read out by any endpoint that speaks OpenAI's `/audio/speech`. Loaded by name."""

from agent.core.ogg_opus import NotOpus, read_opus
from agent.providers.keys import KeyRing
from agent.providers.models import Card
from agent.providers.openai.endpoint import Endpoint, Received
from agent.providers.settings import ProviderSettings
from agent.providers.speech import Sound, SoundFormat, SpeechSettings

MEBIBYTE = 1024 * 1024
OPAQUE = frozenset({"application/octet-stream", "binary/octet-stream"})
# The first bytes of each format but Ogg Opus, which is read to its end.
SIGNS: dict[SoundFormat, tuple[bytes, ...]] = {
    "mp3": (b"ID3", b"\xff\xfb", b"\xff\xfa", b"\xff\xf3", b"\xff\xf2", b"\xff\xe3"),
    "aac": (b"\xff\xf1", b"\xff\xf9"),
    "flac": (b"fLaC",),
    "wav": (b"RIFF",),
}


class OpenAISpeaker:
    """One voice of one model behind one endpoint."""

    def __init__(
        self, settings: SpeechSettings, account: ProviderSettings, card: Card, keys: KeyRing | None = None
    ) -> None:
        self.name = account.name
        self.model = settings.model
        self.card = card
        self._settings = settings
        most = int(settings.max_mb * MEBIBYTE)
        self._endpoint = Endpoint(account, "audio/speech", keys=keys, timeout_s=settings.timeout_s, most=most)

    async def speak(self, text: str) -> Sound:
        settings = self._settings
        content = {
            "model": settings.model, "voice": settings.voice, "input": text, "response_format": settings.format
        }  # fmt: skip
        if settings.instructions:
            content["instructions"] = settings.instructions
        return self._sound(await self._endpoint.post(lambda: {"json": content}))

    def _sound(self, received: Received) -> Sound:
        """The sound, once it is known to be some and all of it: a broken file would be sent as an answer."""
        wanted = self._settings.format
        if not received.kind.startswith("audio/") and received.kind not in OPAQUE:
            raise self._endpoint.nonsense(f"{received.kind or 'nothing'} instead of sound")
        if wanted != "opus":
            if not received.body.startswith(SIGNS[wanted]):
                raise self._endpoint.nonsense(f"no {wanted}")
            return Sound(data=received.body)
        try:
            return Sound(data=received.body, seconds=read_opus(received.body).seconds)
        except NotOpus as error:
            raise self._endpoint.nonsense(f"no whole Ogg Opus ({error})") from None
