"""The Bot API as this adapter uses it: methods by name, parameters and results as the JSON that they are."""

from typing import Any

from adapters.telegram.request import READ_S, Connections
from adapters.telegram.settings import TelegramSettings

POLL_SLACK_S = 15.0  # how much longer than the long poll its answer may take


class Api:
    """One account. Polling and sending have connections of their own, so that neither can starve the other."""

    def __init__(self, settings: TelegramSettings, proxy: str | None) -> None:
        token = settings.token.get_secret_value()
        self.sending = Connections(most=100, proxy=proxy)
        self._polling = Connections(most=2, proxy=proxy)
        self._methods_url = f"{settings.api_base_url}/bot{token}"
        self._files_url = f"{settings.api_base_url}/file/bot{token}"

    def file_url(self, path: str) -> str:
        """Holds the token: for no log and no error."""
        return f"{self._files_url}/{path}"

    async def call(self, method: str, *, read_s: float = READ_S, **parameters: Any) -> Any:
        """Call a method and give its result as JSON; parameters that are None are left out. Raises TelegramError."""
        connections = self._polling if method == "getUpdates" else self.sending
        return await connections.post(f"{self._methods_url}/{method}", parameters, read_s=read_s)

    async def aclose(self) -> None:
        """Cut all connections."""
        await self._polling.aclose()
        await self.sending.aclose()
