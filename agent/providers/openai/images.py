"""Pictures made by any endpoint that speaks OpenAI's `/images/generations`. Loaded by name."""

import binascii
import json
from base64 import b64decode
from typing import Any

from agent.providers.images import ImageSettings, MadePicture
from agent.providers.keys import KeyRing
from agent.providers.models import Card
from agent.providers.openai.endpoint import Endpoint
from agent.providers.settings import ProviderSettings

MEBIBYTE = 1024 * 1024
ENVELOPE = 64 * 1024  # bytes of an answer beside the picture
# These give the picture itself, and refuse to be asked in what form (OpenAI's reference of the call).
SAYS_NO_FORM = ("gpt-image", "chatgpt-image")


class OpenAIPictureMaker:
    """One model behind one endpoint."""

    def __init__(
        self, settings: ImageSettings, account: ProviderSettings, card: Card, keys: KeyRing | None = None
    ) -> None:
        self.name = account.name
        self.model = settings.model
        self.card = card
        self._settings = settings
        most = int(settings.max_mb * MEBIBYTE) * 4 // 3 + ENVELOPE  # base64 takes four letters for three bytes
        self._endpoint = Endpoint(account, "images/generations", keys=keys, timeout_s=settings.timeout_s, most=most)

    async def picture(self, prompt: str) -> MadePicture:
        settings = self._settings
        content: dict[str, Any] = {"model": settings.model, "prompt": prompt, "n": 1}
        content |= {key: value for key, value in (("size", settings.size), ("quality", settings.quality)) if value}
        if not settings.model.rpartition("/")[2].startswith(SAYS_NO_FORM):
            content["response_format"] = "b64_json"
        received = await self._endpoint.post(lambda: {"json": content})
        return self._made(received.body)

    def _made(self, body: bytes) -> MadePicture:
        try:
            answer = json.loads(body)["data"][0]
            encoded, url = answer.get("b64_json"), answer.get("url")
            if isinstance(encoded, str) and encoded:
                return MadePicture(data=b64decode(encoded, validate=True))
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, binascii.Error):
            raise self._endpoint.nonsense("malformed data") from None
        if isinstance(url, str) and url:
            return MadePicture(url=url)
        raise self._endpoint.nonsense("no picture in the answer")
