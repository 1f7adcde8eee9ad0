"""Ordinary messages of one conversation: post, update, delete; plain where Slack refuses the rendering."""

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from adapters.slack.account import Address
from adapters.slack.api import BlocksRefused, MessageGone, SlackApi
from adapters.slack.render import Body, poor, rich
from adapters.slack.settings import SlackSettings
from gateway.channels.errors import ChannelRejected
from gateway.channels.outbound import Outbound, SentRef

log = logging.getLogger("tieline.slack")

MESSAGE, FILE, RESPONSE = "message", "file", "response"


class Posting:
    """Calls that end in one message; no repeats inside."""

    def __init__(
        self, address: Address, api: SlackApi, settings: SlackSettings, posted: Callable[[Address], None]
    ) -> None:
        self._address = address
        self._api = api
        self._previews = settings.link_previews
        self._posted = posted

    async def post(self, message: Outbound, *, frame: bool = False) -> SentRef:
        """A new message. Raises as `Channel.send`."""
        where: Body = {"channel": self._address.channel, "thread_ts": self._address.thread_ts}
        where |= {"unfurl_links": self._previews, "unfurl_media": self._previews}
        answer = await self._either("chat.postMessage", where, message, repeatable=False, frame=frame)
        self.wrote()
        return SentRef(str(answer["ts"]), MESSAGE)

    def wrote(self) -> None:
        """The bot has written here."""
        self._posted(self._address)

    async def update(self, sent: SentRef, message: Outbound, *, frame: bool = False, patient: bool = True) -> None:
        """Replace a message of ours. Raises ChannelRejected when it is gone."""
        if sent.kind in (FILE, RESPONSE):
            raise ChannelRejected(f"Slack cannot change a {sent.kind} once it is sent")
        where = {"channel": self._address.channel, "ts": sent.id}
        await self._either("chat.update", where, message, repeatable=True, frame=frame, patient=patient)

    async def post_to_one(self, message: Outbound, user: str) -> None:
        """An ephemeral message; nobody can reach it again, and it goes by itself."""
        where = {"channel": self._address.channel, "thread_ts": self._address.thread_ts, "user": user}
        await self._either("chat.postEphemeral", where, replace(message, key=""), repeatable=False)

    async def delete(self, sent: SentRef) -> None:
        """Fine when it is gone already."""
        if sent.kind == RESPONSE:
            return
        method, body = "chat.delete", {"channel": self._address.channel, "ts": sent.id}
        if sent.kind == FILE:
            method, body = "files.delete", {"file": sent.id}
        with suppress(MessageGone):
            await self._api.call(method, body)

    async def _either(
        self,
        method: str,
        where: Body,
        message: Outbound,
        *,
        repeatable: bool,
        frame: bool = False,
        patient: bool = True,
    ) -> Any:
        try:
            return await self._api.call(
                method, where | rich(message), repeatable=repeatable, frame=frame, patient=patient
            )
        except BlocksRefused as error:
            log.warning("slack refused a rendering; sending it plain", extra={"why": str(error)})
            return await self._api.call(method, where | poor(message), repeatable=repeatable)
