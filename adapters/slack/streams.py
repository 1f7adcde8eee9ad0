"""A growing answer in a thread: Slack's own stream while the text only grows, edits of the same message otherwise."""

import logging
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from adapters.slack.account import Address
from adapters.slack.api import MessageGone, SlackApi
from adapters.slack.markdown import markdown
from adapters.slack.posting import Posting
from adapters.slack.render import action_blocks, keyed
from adapters.slack.settings import SlackSettings
from agent.core.bounded_map import BoundedMap
from agent.core.clock import Clock
from gateway.channels.document import CodeBlock, Document, Plain, Table
from gateway.channels.errors import ChannelBusy, ChannelError, ChannelFatal, ChannelGone, ChannelRejected, ChannelUnsure
from gateway.channels.keys import UserId
from gateway.channels.outbound import Outbound, SentRef

# The part of a growing answer that can be streamed already. Pure.

# Markup that is not closed yet shows as an escape, or as a construct that touches the very end.
_UNSETTLED = re.compile(r"\\|&lt;|&amp;|<(?=[^<>]*+>?$)|[|!]$")
_BEGINNING = re.compile(r"\s*+(?:(?:[-+*>#=|~`_:]++|\d{1,9}[.)]?|\[[ xX]?\]?)\s*+)?")
_CLOSING = "*_~`"


def settled(document: Document) -> str:
    """A beginning of the document's Markdown that the finished text will most likely share."""
    if not document:
        return ""
    last = document[-1]
    if isinstance(last, Table):
        return markdown(document[:-1])  # its rows grow in width and number
    whole = markdown(document)
    if isinstance(last, CodeBlock):
        if not last.code:
            return markdown(document[:-1])  # its language may still be half a word
        opened = whole.rstrip("`").rstrip("\n")
        head, newline, line = opened.rpartition("\n")
        return head + newline if not line.strip("`~") else opened
    # The characters behind the last words tell nothing: "```" and a line ending may yet become a block of code.
    head, newline, line = whole.rstrip().rpartition("\n")
    return (head + newline + _settled_line(line)).rstrip("\n")


def _settled_line(line: str) -> str:
    if _BEGINNING.fullmatch(line):
        return ""
    found = _UNSETTLED.search(line)
    end = min(found.start() if found else len(line), _open_link(line))
    return line[:end].rstrip(_CLOSING)


def _open_link(line: str) -> int:
    """Where a bracket opens whose label, or whose address behind it, reaches the end; the length where none does.

    The first bracket after another one's end speaks for those behind it: they have the same end.
    """
    closed = line.rfind("]")
    found = [line.find("[", closed + 1)]
    at = line.find("](", max(0, line.rfind(")", 0, max(0, len(line) - 1))))
    while at >= 0:
        found.append(line.find("[", line.rfind("]", 0, at) + 1, at))
        at = line.find("](", at + 1) if found[-1] < 0 else -1
    return min((start for start in found if start >= 0), default=len(line))


log = logging.getLogger("tieline.slack")

STREAM = "stream"
MOST = 2048
REFUSALS = 3  # in a row: one may be the fault of its thread
REFUSED_FOR_S = 3600.0  # a plan, a scope or Slack itself may change while we run


@dataclass(slots=True)
class _Grown:
    """The shown text of a stream. `text` is None once that is not known or not a beginning of the answer any more."""

    text: str | None
    open: bool = True


class StreamLedger:
    """The streams of one account that are under way, by channel and timestamp; lost at a restart, which is fine."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._grown: BoundedMap[tuple[str, str], _Grown] = BoundedMap(MOST)
        self._refusals = 0
        self._refused_until = 0.0

    def note(self, channel: str, ts: str, grown: _Grown) -> None:
        self._refusals = 0
        self._grown[channel, ts] = grown

    def get(self, channel: str, ts: str) -> _Grown:
        return self._grown.get((channel, ts)) or _Grown(None)

    @property
    def refused(self) -> bool:
        """This workspace, plan or app has no native streams: do not ask every time."""
        return self._clock.monotonic() < self._refused_until

    def refusal(self) -> None:
        self._refusals += 1
        if self._refusals >= REFUSALS:
            self._refused_until = self._clock.monotonic() + REFUSED_FOR_S

    def forget(self, channel: str, ts: str) -> None:
        self._grown.pop((channel, ts), None)


class SlackStreams:
    """The `Streams` of one thread."""

    def __init__(
        self,
        address: Address,
        api: SlackApi,
        settings: SlackSettings,
        posting: Posting,
        ledger: StreamLedger,
        over: Callable[[Address], Awaitable[None]],
    ) -> None:
        """`over` is told when an answer is complete; it raises nothing."""
        self._address = address
        self._api = api
        self._posting = posting
        self._ledger = ledger
        self._over = over
        self._native = settings.native_streams

    async def open(self, document: Document, *, reply_to: str | None, to: UserId | None) -> SentRef:
        """Natively where Slack allows it here (in channels it wants to know for whom), else as a message."""
        known_person = bool(to) or self._address.is_direct
        if not self._native or self._ledger.refused or not known_person:
            return await self._posting.post(Outbound(document=document), frame=True)
        text = settled(document)
        body: dict[str, Any] = {
            "channel": self._address.channel,
            "thread_ts": self._address.thread_ts,
            "recipient_team_id": self._address.team if to else None,
            "recipient_user_id": to,
            "markdown_text": text or None,
        }
        try:
            answer = await self._api.call("chat.startStream", body, repeatable=False, frame=True, patient=False)
        except (ChannelGone, ChannelFatal):
            raise
        except ChannelRejected as error:
            log.warning("a native stream was refused; the answer grows by edits", extra={"why": str(error)})
            self._ledger.refusal()
            return await self._posting.post(Outbound(document=document), frame=True)
        ts = str(answer["ts"])
        self._posting.wrote()
        self._ledger.note(self._address.channel, ts, _Grown(text))
        return SentRef(ts, STREAM)

    async def update(self, sent: SentRef, document: Document) -> None:
        """Append what is new; text that starts over turns the stream into a message that is edited."""
        if sent.kind != STREAM:
            await self._posting.update(sent, Outbound(document=document), frame=True, patient=False)
            return
        grown = self._ledger.get(self._address.channel, sent.id)
        text = settled(document)
        if grown.open and grown.text is not None and text.startswith(grown.text):
            await self._append(sent, grown, text)
            return
        if grown.open and grown.text is not None and grown.text.startswith(text):
            return  # held back a little more than last time
        grown.text = None
        if grown.open:
            await self._stop(sent, grown)
        await self._posting.update(sent, Outbound(document=document), frame=True, patient=False)

    async def finish(self, sent: SentRef, message: Outbound) -> SentRef:
        """Raises as `Channel.send`; after ChannelUnsure the message is found by its key if it was carried out."""
        final = await self._finish(sent, message)
        await self._over(self._address)
        return final

    async def _finish(self, sent: SentRef, message: Outbound) -> SentRef:
        final = SentRef(sent.id)
        if sent.kind != STREAM:
            await self._posting.update(sent, message)
            return final
        grown = self._ledger.get(self._address.channel, sent.id)
        whole = markdown(message.document)
        exact = grown.open and grown.text is not None and whole.startswith(grown.text) and not _needs_blocks(message)
        if exact and grown.text is not None:
            await self._stop(sent, grown, rest=whole[len(grown.text) :], message=message)
            if grown.text is not None:
                self._ledger.forget(self._address.channel, sent.id)
                return final
        elif grown.open:
            await self._stop(sent, grown)
        await self._posting.update(sent, message)
        self._ledger.forget(self._address.channel, sent.id)
        return final

    async def drop(self, sent: SentRef) -> None:
        """Take it away, half-streamed or not."""
        try:
            await self._posting.delete(sent)
        except (ChannelGone, ChannelFatal, ChannelBusy):
            raise
        except ChannelRejected:  # a message may not be deleted while it streams
            await self._stop(sent, self._ledger.get(self._address.channel, sent.id))
            await self._posting.delete(sent)
        self._ledger.forget(self._address.channel, sent.id)
        await self._over(self._address)

    async def _append(self, sent: SentRef, grown: _Grown, text: str) -> None:
        new = text[len(grown.text or "") :]
        if not new:
            return
        body = {"channel": self._address.channel, "ts": sent.id, "markdown_text": new}
        try:
            await self._api.call("chat.appendStream", body, repeatable=False, frame=True, patient=False)
        except ChannelUnsure:
            grown.text = None  # perhaps it stands there, perhaps not: the final edit puts it right
            raise
        except ChannelRejected:
            # Slack ends a stream by itself after a while without words.
            grown.text, grown.open = None, False
            raise
        grown.text = text

    async def _stop(self, sent: SentRef, grown: _Grown, *, rest: str = "", message: Outbound | None = None) -> None:
        """End the stream. `grown.text` is None afterwards if the message still has to be edited into its final form."""
        body: dict[str, Any] = {"channel": self._address.channel, "ts": sent.id, "markdown_text": rest or None}
        if message is not None:
            body |= keyed(message.key)
            body["blocks"] = action_blocks(message) or None
        try:
            await self._api.call("chat.stopStream", body, repeatable=False)
        except (ChannelGone, ChannelFatal, MessageGone):
            raise
        except ChannelRejected:
            grown.text = None  # ended before, perhaps by an earlier try of ours
        except ChannelError:
            grown.text = None
            raise
        grown.open = False


def _needs_blocks(message: Outbound) -> bool:
    """Whether the streamed form would not do: streams show tables as bars, and read marks into plain text."""
    for block in message.document:
        if isinstance(block, Table):
            return True
        if isinstance(block, Plain) and (markdown((block,)) != block.text or "\n" in block.text or "  " in block.text):
            return True
    return False
