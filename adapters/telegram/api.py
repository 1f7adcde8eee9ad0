"""The Bot API as this adapter uses it: python-telegram-bot's `Bot`, with raw answers where objects would only cost.

The library is at Bot API 10.0; `call` also reaches what came later (rich messages, 10.1).
"""

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

    def __init__(self, settings: TelegramSettings, proxy: str | None) -> None:
        self.polling = AiohttpRequest(connections=2, proxy=proxy)
        self.sending = AiohttpRequest(connections=100, proxy=proxy)
        self.file_base = f"{settings.api_base_url}/file/bot{settings.token.get_secret_value()}/"
        super().__init__(
            settings.token.get_secret_value(),
            base_url=f"{settings.api_base_url}/bot",
            base_file_url=f"{settings.api_base_url}/file/bot",
            request=self.sending,
            get_updates_request=self.polling,
        )

    def __repr__(self) -> str:
        return "Api()"  # the library's holds the token

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
        await self.polling.shutdown()
        await self.sending.shutdown()
