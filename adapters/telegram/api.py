"""The Bot API as this adapter uses it: python-telegram-bot's `Bot`, with raw answers where objects would only cost.

The library is at Bot API 10.0; `call` also reaches what came later (rich messages, 10.1).
"""

import logging
from typing import Any

from telegram import Bot
from telegram.error import InvalidToken, TelegramError

from adapters.telegram.request import AiohttpRequest
from adapters.telegram.settings import TelegramSettings

POLL_SLACK_S = 15.0  # how much longer than the long poll its answer may take


class Unknown(TelegramError):
    """This server has no such method: it is older, or somebody's own."""


class Api(Bot):
    """One account. Polling and sending have connections of their own, so that neither can starve the other."""

    # Its debug lines hold the token and what people write; the class attribute is there to be replaced (`ExtBot` does).
    _LOGGER = logging.getLogger("tieline.telegram.library")
    _LOGGER.setLevel(logging.WARNING)

    def __init__(self, settings: TelegramSettings, proxy: str | None) -> None:
        # The library's objects are frozen, names with an underscore excepted.
        self._polling = AiohttpRequest(connections=2, proxy=proxy)
        self._sending = AiohttpRequest(connections=100, proxy=proxy)
        super().__init__(
            settings.token.get_secret_value(),
            base_url=f"{settings.api_base_url}/bot",
            base_file_url=f"{settings.api_base_url}/file/bot",
            request=self._sending,
            get_updates_request=self._polling,
        )

    def __repr__(self) -> str:
        return "Api()"  # the library's holds the token

    @property
    def sending(self) -> AiohttpRequest:
        """The connections for everything but polling."""
        return self._sending

    def file_url(self, path: str) -> str:
        """Holds the token: for no log and no error."""
        return f"{self.base_file_url}/{path}"

    async def call(self, method: str, *, read_s: float | None = None, **parameters: Any) -> Any:
        """Call a method and give its result as JSON. Raises what the library raises, and Unknown.

        `_post` is what every method of `Bot` goes through and what the library's own `ExtBot` builds on; the public
        `do_api_request` warns about each method the library knows.
        """
        try:
            if read_s is None:
                return await self._post(method, parameters)
            return await self._post(method, parameters, read_timeout=read_s)
        except InvalidToken as error:
            # 404 is a malformed token or an unknown method; a malformed token does not get past its own check.
            if "not found" in error.message.lower():
                raise Unknown(f"the server knows no {method}") from None
            raise

    async def aclose(self) -> None:
        await self._polling.shutdown()
        await self._sending.shutdown()
