"""One Slack conversation: a direct message, a channel, or a thread. Holds no connection."""

from dataclasses import replace

import aiohttp

from adapters.slack.account import Address
from adapters.slack.api import SlackApi
from adapters.slack.files import SlackFiles
from adapters.slack.history import SlackHistory
from adapters.slack.markdown import mrkdwn
from adapters.slack.parse import person_of, response_url_of, unescaped
from adapters.slack.posting import FILE, RESPONSE, Posting
from adapters.slack.presence import TYPING_EVERY_S, SlackPresence
from adapters.slack.render import Body, measure, poor, rich
from adapters.slack.settings import SlackSettings
from adapters.slack.streams import SlackStreams
from agent.core.bounded_body import beginning_of
from gateway.channels.adapter import wait_asked_s
from gateway.channels.channel import Capabilities, Presence
from gateway.channels.document import Plain
from gateway.channels.errors import ChannelBusy, ChannelGone, ChannelRejected
from gateway.channels.keys import ConversationKey, UserId
from gateway.channels.kit.http import AFTER_S, one_attempt
from gateway.channels.outbound import Outbound, SentRef


def capabilities(address: Address, settings: SlackSettings) -> Capabilities:
    """The abilities of this conversation."""
    return Capabilities(
        measure=measure,
        text_limit=settings.text_limit,
        ephemeral=True,
        reactions=settings.reactions,
        typing=address.thread_ts is not None,
        typing_every_s=TYPING_EVERY_S,
        stream_every_s=settings.stream_every_s,
        upload_limit=settings.upload_limit_mib * 1024 * 1024,
        stop_button=True,
        idempotent_send="lookup",
        command_prefix=f"{settings.slash_command} ",
    )


LONGEST_ANSWER = 4_096  # bytes that are looked at of what a response address says
STATUS = "status"  # of `SentRef`: a thread's status line


class SlackInteractions:
    """Answers to slash commands and buttons by their response address (five times in 30 minutes)."""

    def __init__(self, api: SlackApi) -> None:
        self._api = api

    async def acknowledge(self, interaction: str, text: str = "", *, visible: bool = False) -> None:
        """Slack's waiting sign went with the envelope's acknowledgement; so only words are sent."""
        if text:
            await self.respond(interaction, Outbound(document=(Plain(text),)), visible=visible)

    async def respond(self, interaction: str, message: Outbound, *, visible: bool = False) -> None:
        """Raises ChannelRejected when the address has been used up, ChannelBusy and ChannelUnsure as usual."""
        url = response_url_of(interaction)
        if not url.startswith(("https://", "http://")):
            raise ChannelRejected("not a Slack interaction that can be answered")
        unkeyed = replace(message, key="")
        status, answer, wait_s = await self._post(url, rich(unkeyed), visible=visible)
        if "invalid_blocks" in answer:
            status, answer, wait_s = await self._post(url, poor(unkeyed), visible=visible)
        if status == 429 or status >= 500:
            raise ChannelBusy(f"Slack's response address answered HTTP {status}", after_s=wait_s)
        if status != 200 or '"ok":false' in answer.replace(" ", ""):
            raise ChannelRejected(f"Slack's response address is used up or too old (HTTP {status})")

    async def _post(self, url: str, content: Body, *, visible: bool) -> tuple[int, str, float]:
        """The status, the beginning of the answer, and how long to wait if it is a refusal."""
        body = {"response_type": "in_channel" if visible else "ephemeral", "replace_original": False, **content}
        with one_attempt("Slack", "the response address", creates=True):
            async with self._api.session.post(url, json=body, proxy=self._api.proxy) as answer:
                return answer.status, await _said(answer), wait_asked_s(answer.headers, AFTER_S)


async def _said(answer: aiohttp.ClientResponse) -> str:
    return (await beginning_of(answer.content.iter_any(), LONGEST_ANSWER)).decode("utf-8", "replace")


class SlackChannel:
    """See `gateway.channels.channel.Channel`."""

    def __init__(
        self,
        key: ConversationKey,
        address: Address,
        *,
        settings: SlackSettings,
        posting: Posting,
        files: SlackFiles,
        history: SlackHistory,
        presence: SlackPresence,
        interactions: SlackInteractions,
        streams: SlackStreams | None,
    ) -> None:
        self.key = key
        self.capabilities = capabilities(address, settings)
        self.streams = streams
        self.presence: Presence = presence
        self._presence = presence
        self.files = files
        self.history = history
        self.interactions = interactions
        self._address = address
        self._posting = posting

    async def send(self, message: Outbound) -> SentRef:
        """Post it. Files follow their text; with nothing to say, their names are the text that carries the key."""
        if message.files:
            return await self._send_files(message)
        try:
            return await self._posting.post(message)
        except ChannelGone:
            # A slash command works where the bot is no member; its answer goes the way the question came. A frame of a
            # preview does not: nothing that went that way can be changed or taken back.
            if message.interaction is None or (message.is_frame and not message.buttons):
                raise
            await self.interactions.respond(message.interaction, message)
            return SentRef(message.key or "response", RESPONSE)

    async def edit(self, sent: SentRef, message: Outbound) -> None:
        if sent.kind == STATUS:
            await self._presence.tell(_words(message))
            return
        await self._posting.update(sent, message, frame=message.is_frame)  # final texts go before it

    async def delete(self, sent: SentRef) -> None:
        if sent.kind == STATUS:
            await self._presence.over()
        else:
            await self._posting.delete(sent)

    async def send_ephemeral(self, message: Outbound, to: UserId | None) -> SentRef | None:
        """Shown to one person where it is known to whom; else sent for the caller to delete.

        What is silent tells of something that goes on. Slack never takes back what it showed to one person, so that is
        the status line of a thread, and in a direct message a message that can be deleted. It never uses up an
        interaction, which answers five times: the answer itself may have no other way.
        """
        failpoint = message.silent and not message.buttons
        if failpoint:
            if await self._presence.tell(_words(message)):
                return SentRef(str(self._address.thread_ts), STATUS)
            if self._address.is_direct:
                return await self._posting.post(message)
        if not failpoint and message.interaction is not None and to in (None, person_of(message.interaction)):
            try:
                await self.interactions.respond(message.interaction, message)
            except ChannelRejected:
                if not to:
                    raise
            else:
                return None
        if not to:
            return await self._posting.post(message)
        await self._posting.post_to_one(message, to)
        return None

    async def _send_files(self, message: Outbound) -> SentRef:
        # Text and files are two steps for Slack: a repeat goes on where the one before it broke off.
        trace = await self.history.trace(message.key) if message.key else None
        if trace is not None and trace.is_whole:
            return trace.sent
        sent = trace.sent if trace is not None else None
        uploads = {await self.files.place(file): file.name for file in message.files}
        if sent is None and (message.document or message.buttons or message.key):
            names = ", ".join(file.name for file in message.files)
            anchor = message if message.document else replace(message, document=(Plain(names),))
            sent = await self._posting.post(anchor)
        await self.files.show(self._address, uploads)
        return sent or SentRef(next(iter(uploads)), FILE)


def _words(message: Outbound) -> str:
    """A status as the line of text that it is."""
    return " ".join(unescaped(mrkdwn(message.document)).split())
