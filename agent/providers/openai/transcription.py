"""Speech written down by any endpoint that speaks OpenAI's `/audio/transcriptions`. Loaded by name."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import anyio

from agent.core.bounded_body import BodyTooLarge, whole_body
from agent.core.errors import AgentError
from agent.core.untrusted_text import whole
from agent.providers.endpoints import host_of, is_local, joined
from agent.providers.failures import Answer, busy, classify, read_error, refused, retry_after
from agent.providers.keys import KeyRing, KeyRings
from agent.providers.models import Card
from agent.providers.provider import Usage
from agent.providers.settings import ProviderSettings
from agent.providers.transcription import Transcript, TranscriptionSettings

OPENAI = "https://api.openai.com/v1"
CONNECT_S = 15.0
LARGEST_ANSWER = 1024 * 1024  # bytes
# The endpoint tells the format by the name's ending; platforms call theirs as they like.
ENDINGS = {
    "audio/ogg": "ogg", "audio/opus": "ogg", "audio/mpeg": "mp3", "audio/mp3": "mp3", "audio/mp4": "m4a",
    "audio/x-m4a": "m4a", "audio/m4a": "m4a", "audio/aac": "m4a", "audio/wav": "wav", "audio/x-wav": "wav",
    "audio/webm": "webm", "audio/flac": "flac", "audio/x-flac": "flac",
}  # fmt: skip


class OpenAITranscriber:
    """One model behind one endpoint. Speech is rare: each call has its own connection."""

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
        self._account = account
        self._keys = keys or KeyRings().of(account)
        self._url = joined(account.base_url or OPENAI, "audio/transcriptions")

    async def transcribe(self, path: Path, mime_type: str) -> Transcript:
        try:
            sound = await anyio.Path(path).read_bytes()
        except OSError as error:
            raise refused(self.name, f"the sound file cannot be read ({error.strerror})") from None
        try:
            return await self._keys.ask(partial(self._post, sound, mime_type))
        except BodyTooLarge as error:
            words = f"{host_of(self._url)} answered with more than {error.most} bytes"
            raise busy(self.name, words, self._secrets) from None
        except TimeoutError as error:
            sent = not isinstance(error, aiohttp.ConnectionTimeoutError)
            raise busy(self.name, f"no answer from {host_of(self._url)} in time", self._secrets, sent=sent) from None
        except (aiohttp.ClientError, OSError) as error:
            sent = not isinstance(error, aiohttp.ClientConnectorError)
            words = f"the connection to {host_of(self._url)} failed ({type(error).__name__})"
            raise busy(self.name, words, self._secrets, sent=sent) from None

    @property
    def _secrets(self) -> tuple[str, ...]:
        return self._account.secrets

    async def _post(self, sound: bytes, mime_type: str, key: str) -> Transcript:
        account, settings = self._account, self._settings
        form = aiohttp.FormData()
        form.add_field("model", self.model)
        form.add_field("response_format", "json")
        if settings.language:
            form.add_field("language", settings.language)
        name = f"speech.{ENDINGS.get(mime_type, 'ogg')}"
        form.add_field("file", sound, filename=name, content_type=mime_type)
        headers = {name: value.get_secret_value() for name, value in account.extra_headers.items()}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        timeout = aiohttp.ClientTimeout(total=settings.timeout_s, sock_connect=CONNECT_S)
        async with (
            aiohttp.ClientSession(timeout=timeout, trust_env=not is_local(self._url)) as session,
            session.post(
                self._url,
                data=form,
                headers=headers,
                proxy=account.proxy.get_secret_value() or None,
                allow_redirects=False,
            ) as response,
        ):
            body = await whole_body(response.content.iter_any(), LARGEST_ANSWER)
            if response.status != 200:
                raise self._failure(response, body)
        return self._transcript(body)

    def _failure(self, response: aiohttp.ClientResponse, body: bytes) -> AgentError:
        after_s = retry_after(response.headers)
        try:
            answer = read_error(json.loads(body), response.status, after_s)
        except ValueError:
            text = body[:1000].decode("utf-8", "replace")
            answer = Answer(status=response.status, message=text, after_s=after_s)
        return classify(self.name, answer, self._secrets)

    def _transcript(self, body: bytes) -> Transcript:
        try:
            answer = json.loads(body)
        except ValueError:
            raise busy(self.name, f"malformed data from {host_of(self._url)}", self._secrets) from None
        if not isinstance(answer, dict) or not isinstance(answer.get("text"), str):
            raise busy(self.name, f"no text in the answer of {host_of(self._url)}", self._secrets)
        usage = answer.get("usage")
        usage = usage if isinstance(usage, dict) else {}
        seconds = _number(usage.get("seconds")) or _number(answer.get("duration"))
        tokens = Usage(prompt=int(_number(usage.get("input_tokens"))), output=int(_number(usage.get("output_tokens"))))
        return Transcript(
            text=whole(answer["text"]).strip(), usage=tokens if tokens != Usage() else None, seconds=seconds or None
        )


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else 0.0
