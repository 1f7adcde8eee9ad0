"""The REST calls this adapter makes, over discord.py's HTTP client, with the gateway's errors.

Bodies and answers are Discord's own JSON: building the library's objects for each message costs more than it gives.
"""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from json import JSONDecodeError
from typing import Any, cast

import anyio
import discord
from discord.http import Route

from adapters.discord.endpoint import AccountHTTP
from adapters.discord.errors import Trouble, channel_error
from adapters.discord.settings import DiscordSettings
from gateway.channels.errors import ChannelBusy
from gateway.channels.outbound import File

Json = dict[str, Any]


class RestClient:
    """The signed-in account's half of HTTP; the gateway connection has its own. Unusable before `sign_in`."""

    def __init__(self, settings: DiscordSettings, proxy: str | None) -> None:
        self._settings = settings
        self._proxy = proxy
        self._http: AccountHTTP | None = None
        self.user_id = ""
        self.application_id = ""
        self.signed_in = anyio.Event()

    async def sign_in(self) -> None:
        """Learn who the bot is. Raises what `discord.py` and aiohttp raise; nothing stays open then."""
        http = open_http(self._settings, self._proxy)
        try:
            user = await http.static_login(self._settings.token.get_secret_value())
            application = await http.application_info()
        except BaseException:
            with anyio.CancelScope(shield=True):
                await http.close()
            raise
        self._http, self.user_id, self.application_id = http, str(user["id"]), str(application["id"])
        self.signed_in.set()

    async def aclose(self) -> None:
        http, self._http = self._http, None
        if http is not None:
            await http.close()

    async def call(
        self,
        method: str,
        path: str,
        names: Mapping[str, str],
        body: Json | Sequence[Json] | None = None,
        *,
        files: Sequence[File] = (),
        creates: bool = False,
        closes: bool = True,
        query: dict[str, str] | None = None,
    ) -> Any:
        """One request; `names` fill the path. See `errors.channel_error` for `creates` and `closes`."""
        if self._http is None:
            raise ChannelBusy("not signed in to Discord yet", after_s=1.0)
        route = Route(method, path, metadata=None, **names)
        options: dict[str, Any] = {"params": query} if query else {}
        try:
            async with AsyncExitStack() as stack:
                if files:
                    opened = [await stack.enter_async_context(_opened(file)) for file in files]
                    options |= {"files": opened, "form": _form(cast(Json, body or {}), files, opened)}
                elif body is not None:
                    options["json"] = body
                answer = await self._http.request(route, **options)
            if isinstance(answer, str) and answer:  # so the library gives a page; Discord gives JSON or nothing
                raise JSONDecodeError("no JSON", answer, 0)
        except RuntimeError as error:
            if self._http is None:
                raise ChannelBusy("the connection to Discord is being closed", after_s=1.0) from None
            raise error
        except Trouble as error:
            raise channel_error(cast(Exception, error), creates=creates, closes=closes) from None
        return answer

    # -- messages

    async def create_message(self, channel_id: str, body: Json, files: Sequence[File] = ()) -> Json:
        path = "/channels/{channel_id}/messages"
        # A missing right to attach files says nothing about the place.
        names = {"channel_id": channel_id}
        return cast(Json, await self.call("POST", path, names, body, files=files, creates=True, closes=not files))

    async def edit_message(self, channel_id: str, message_id: str, body: Json) -> None:
        path = "/channels/{channel_id}/messages/{message_id}"
        await self.call("PATCH", path, {"channel_id": channel_id, "message_id": message_id}, body)

    async def delete_message(self, channel_id: str, message_id: str) -> None:
        path = "/channels/{channel_id}/messages/{message_id}"
        await self.call("DELETE", path, {"channel_id": channel_id, "message_id": message_id})

    async def messages(self, channel_id: str, *, limit: int, after: str | None = None) -> list[Json]:
        """A page of the history, newest first."""
        query = {"limit": str(limit), **({"after": after} if after is not None else {})}
        names = {"channel_id": channel_id}
        return cast(list[Json], await self.call("GET", "/channels/{channel_id}/messages", names, query=query))

    async def message(self, channel_id: str, message_id: str) -> Json:
        path = "/channels/{channel_id}/messages/{message_id}"
        return cast(Json, await self.call("GET", path, {"channel_id": channel_id, "message_id": message_id}))

    async def channel(self, channel_id: str) -> Json:
        return cast(Json, await self.call("GET", "/channels/{channel_id}", {"channel_id": channel_id}))

    # -- interactions

    async def answer(self, interaction_id: str, token: str, body: Json) -> Json | None:
        """The first answer to an interaction, within 3 s. Gives the message it made, if it made one."""
        path = "/interactions/{webhook_id}/{webhook_token}/callback"
        names = {"webhook_id": interaction_id, "webhook_token": token}
        made = await self.call("POST", path, names, body, creates=True, closes=False, query={"with_response": "true"})
        message = ((made or {}).get("resource") or {}).get("message")
        return cast(Json | None, message)

    async def follow_up(self, token: str, body: Json) -> Json:
        path = "/webhooks/{webhook_id}/{webhook_token}"
        names = {"webhook_id": self.application_id, "webhook_token": token}
        made = await self.call("POST", path, names, body, creates=True, closes=False, query={"wait": "true"})
        return cast(Json, made)

    async def followed(self, method: str, token: str, message_id: str = "@original", body: Json | None = None) -> Any:
        """Read, change or delete an answer to an interaction; `@original` is the first one."""
        last = "@original" if message_id == "@original" else "{message_id}"
        path = "/webhooks/{webhook_id}/{webhook_token}/messages/" + last
        names = {"webhook_id": self.application_id, "webhook_token": token, "message_id": message_id}
        return await self.call(method, path, names, body, closes=False)


def open_http(settings: DiscordSettings, proxy: str | None) -> AccountHTTP:
    return AccountHTTP(
        api_base_url=settings.api_base_url,
        gateway_url=settings.gateway_url,
        proxy=settings.proxy or proxy,
        timeout_s=settings.request_timeout_s,
    )


@asynccontextmanager
async def _opened(file: File) -> AsyncIterator[discord.File]:
    """The file for the library, opened and closed in a thread."""
    opened = await anyio.to_thread.run_sync(lambda: discord.File(file.path, filename=file.name))
    try:
        yield opened
    finally:
        await anyio.to_thread.run_sync(opened.close)


def _form(body: Json, files: Sequence[File], opened: Sequence[discord.File]) -> list[Json]:
    names = [{"id": number, "filename": file.name} for number, file in enumerate(files)]
    parts: list[Json] = [{"name": "payload_json", "value": json.dumps(body | {"attachments": names})}]
    for number, (file, data) in enumerate(zip(files, opened, strict=True)):
        parts.append(
            {"name": f"files[{number}]", "value": data.fp, "filename": file.name, "content_type": file.mime_type}
        )
    return parts
