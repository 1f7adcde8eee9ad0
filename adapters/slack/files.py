"""Bytes from and to Slack: private downloads with the token, uploads by the external way (files v2)."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import anyio

from adapters.slack.account import Address
from adapters.slack.api import SlackApi
from adapters.slack.parse import UNTOLD, attachment_of
from adapters.slack.settings import SlackSettings
from gateway.channels.adapter import wait_asked_s
from gateway.channels.errors import ChannelBusy, ChannelRejected
from gateway.channels.inbound import Attachment
from gateway.channels.kit.http import AFTER_S, one_attempt, refusal, save
from gateway.channels.outbound import File

TRANSFER_S = 300.0
_SLACK_HOSTS = ("slack.com", "slack-files.com", "slack-edge.com")


class SlackFiles:
    """The `Files` of a channel, and the uploads that `Channel.send` makes."""

    def __init__(self, api: SlackApi, settings: SlackSettings) -> None:
        self._api = api
        self._api_host = urlsplit(settings.api_base_url).netloc

    async def fetch(self, attachment: Attachment, to: Path, *, limit: int) -> int:
        """Write it to `to` and return its size. Raises ChannelRejected above `limit` bytes, ChannelBusy on trouble."""
        if attachment.size is not None and attachment.size > limit:
            raise ChannelRejected(_too_large(attachment, limit))
        url = await self._address_of(attachment)
        headers = {"Authorization": f"Bearer {self._api.bot_token}"}
        timeout = aiohttp.ClientTimeout(total=TRANSFER_S, sock_connect=10)
        with one_attempt("Slack", f"the file {attachment.name!r}"):
            async with self._api.session.get(url, headers=headers, timeout=timeout, proxy=self._api.proxy) as answer:
                self._check(answer, attachment)
                return await save(answer, to, limit=limit, too_large=_too_large(attachment, limit))

    async def place(self, file: File) -> str:
        """Bring a file's bytes to Slack, still invisible; returns its id."""
        size = (await anyio.Path(file.path).stat()).st_size
        if not size:
            raise ChannelRejected(f"Slack takes no empty files, and {file.name!r} is empty")
        ticket = await self._api.call("files.getUploadURLExternal", {"filename": file.name, "length": str(size)})
        handle = await anyio.to_thread.run_sync(file.path.open, "rb")
        timeout = aiohttp.ClientTimeout(total=TRANSFER_S, sock_connect=10)
        headers = {"Content-Type": "application/octet-stream"}
        with handle, one_attempt("Slack", f"the upload of {file.name!r}"):
            async with self._api.session.post(
                str(ticket["upload_url"]), data=handle, headers=headers, timeout=timeout, proxy=self._api.proxy
            ) as answer:
                if answer.status != 200:
                    wait_s = wait_asked_s(answer.headers, AFTER_S)
                    says = f"Slack did not take the bytes of {file.name!r}: HTTP {answer.status}"
                    raise ChannelBusy(says, after_s=wait_s)
        return str(ticket["file_id"])

    async def show(self, address: Address, uploads: Mapping[str, str]) -> None:
        """Make uploaded files (id → title) appear in the conversation. Raises ChannelUnsure when cut."""
        body: dict[str, Any] = {
            "files": json.dumps([{"id": file_id, "title": title} for file_id, title in uploads.items()]),
            "channel_id": address.channel,
            "thread_ts": address.thread_ts,
        }
        await self._api.call("files.completeUploadExternal", body, repeatable=False)

    async def described(self, attachment: Attachment) -> Attachment:
        """The same with name, kind, size and address, where Slack told no more than that there is a file.

        So it tells of files that another organisation keeps (docs.slack.dev, "Slack Connect").
        """
        if not (attachment.handle.startswith(UNTOLD) and attachment.name == attachment.handle.removeprefix(UNTOLD)):
            return attachment
        answer = await self._api.call("files.info", {"file": attachment.handle.removeprefix(UNTOLD)})
        return attachment_of({"id": attachment.name, **(answer.get("file") or {})})

    async def _address_of(self, attachment: Attachment) -> str:
        url = attachment.handle
        if url.startswith(UNTOLD):
            answer = await self._api.call("files.info", {"file": url.removeprefix(UNTOLD)})
            found = answer.get("file") or {}
            url = str(found.get("url_private_download") or found.get("url_private") or "")
        if not self._is_slacks(url):  # a link to another service: the token is none of its business
            raise ChannelRejected(f"the file {attachment.name!r} is not kept by Slack and cannot be fetched")
        return url

    def _is_slacks(self, url: str) -> bool:
        parts = urlsplit(url)
        if parts.netloc == self._api_host:
            return True
        host = parts.hostname or ""
        return parts.scheme == "https" and any(host == one or host.endswith("." + one) for one in _SLACK_HOSTS)

    def _check(self, answer: aiohttp.ClientResponse, attachment: Attachment) -> None:
        error = refusal(answer, "Slack", "the download")
        if isinstance(error, ChannelBusy):
            raise error
        if answer.status != 200:
            raise ChannelRejected(f"the file {attachment.name!r} is not there any more (HTTP {answer.status})")
        if answer.content_type == "text/html" and attachment.mime_type != "text/html":
            # Slack answers a token without files:read with its sign-in page.
            raise ChannelRejected(
                f"Slack showed its sign-in page instead of {attachment.name!r}; add the scope files:read and reinstall"
            )


def _too_large(attachment: Attachment, limit: int) -> str:
    return f"the file {attachment.name!r} is larger than {limit / 1048576:.0f} MiB"
