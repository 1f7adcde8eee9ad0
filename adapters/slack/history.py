"""Slack's history of a conversation: people's words since a message, and our own messages by their key."""

import logging
from collections.abc import AsyncIterator, Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from adapters.slack.account import Account, Address, is_ts, moment
from adapters.slack.api import SlackApi
from adapters.slack.parse import UNREADABLE, parse_message
from adapters.slack.render import files_promised, key_of
from gateway.channels.adapter import AdapterContext
from gateway.channels.channel import Attempt, HistoryPage, Position
from gateway.channels.errors import ChannelGone
from gateway.channels.inbound import MessageReceived
from gateway.channels.keys import ConversationKey
from gateway.channels.kit.catch_up import Facts
from gateway.channels.outbound import SentRef

log = logging.getLogger("tieline.slack")

PAGE = 200
MOST_PAGES = 5
MOMENT_S = 1e-6  # Slack gives what is later than `oldest`
OWN_WINDOW_S = 24 * 3600.0  # how far back one of our own messages is looked for


@dataclass(frozen=True, slots=True)
class Trace:
    """The trace of a message of ours. It `is_whole` once the files that belong to it stand below its text."""

    sent: SentRef
    is_whole: bool


def _address(channel_id: str) -> Address | None:
    """None for a workspace as a whole."""
    try:
        return Address.parse(channel_id)
    except ValueError:
        return None


def _queue_of(channel_id: str) -> str:
    address = _address(channel_id)
    return address.channel if address is not None else channel_id


def _line_of(key: ConversationKey) -> str | None:
    """The channel, where a mention opens a conversation."""
    address = _address(key.channel_id)
    return address.place if address is not None and not address.is_direct else None


FACTS = Facts(
    moment_of=lambda message_id: moment(message_id) if is_ts(message_id) else None,
    queue_of=_queue_of,
    line_of=_line_of,
)


class SlackHistory:
    """The `History` of one conversation."""

    def __init__(
        self,
        address: Address,
        api: SlackApi,
        adapter_context: AdapterContext,
        account: Callable[[], Account],
        joined: Container[str] = (),
    ) -> None:
        self._address = address
        self._api = api
        self._clock = adapter_context.clock
        self._account = account
        self._joined = joined

    async def since(self, after: Position) -> HistoryPage:
        """All at once, for Slack gives a channel's pages newest first. See `History.since`."""
        oldest = after.message_id or f"{after.at.timestamp() - MOMENT_S:.6f}"
        raw = [message async for message in self.read(oldest, in_passing=True)]
        begun = [str(message["ts"]) for message in raw if message.get("reply_count")]
        team, channel = self._address.team, self._address.channel
        threads = () if self._address.thread_ts else tuple(str(Address(team, channel, ts)) for ts in begun)
        return HistoryPage(messages=self._parsed(raw), threads=threads)

    async def find(self, key: str, attempt: Attempt | None = None) -> SentRef | None:
        """A message of ours of the last day that carries this key, with its files if it has any."""
        trace = await self.trace(key)
        return trace.sent if trace is not None and trace.is_whole else None

    async def trace(self, key: str) -> Trace | None:
        """The same, also when its files are missing: Slack takes text and files in two steps, so one may be cut off.

        Files carry no key: they are known by their place, since nothing else of ours is sent before they are.
        """
        oldest = f"{self._clock.now().timestamp() - OWN_WINDOW_S:.6f}"
        found: Mapping[str, Any] | None = None
        files: list[tuple[float, int]] = []
        try:
            async for message in self.read(oldest, metadata=True):
                if key_of(message) == key:
                    found = message
                elif message.get("files") and self._account().wrote(message):
                    files.append((float(message["ts"]), len(message["files"])))
                if found is not None and _has_its_files(found, files):
                    return Trace(SentRef(str(found["ts"])), is_whole=True)
        except ChannelGone:
            return None  # no such thread: then there is no message in it either
        return Trace(SentRef(str(found["ts"])), is_whole=False) if found is not None else None

    async def message(self, ts: str) -> Mapping[str, Any] | None:
        """One message as Slack keeps it; None when it is not there. Raises ChannelBusy rather than wait for a place."""
        body: dict[str, Any] = {
            "channel": self._address.channel,
            "oldest": ts,
            "latest": ts,
            "inclusive": True,
            "limit": 1,
        }
        method = "conversations.history"
        if self._address.thread_ts is not None:
            method, body["ts"] = "conversations.replies", self._address.thread_ts
        answer = await self._api.call(method, body, frame=True, patient=False)
        return next((one for one in answer.get("messages") or () if one.get("ts") == ts), None)

    async def read(
        self, oldest: str | None, *, metadata: bool = False, in_passing: bool = False
    ) -> AsyncIterator[Mapping[str, Any]]:
        """Raw messages after `oldest`, page by page; a thread's come oldest first, a channel's newest first.

        `in_passing` raises ChannelBusy at once rather than wait for a place in the rate limit.
        """
        body: dict[str, Any] = {"channel": self._address.channel, "limit": PAGE, "oldest": oldest}
        body["include_all_metadata"] = True if metadata else None
        method = "conversations.history"
        if self._address.thread_ts is not None:
            method, body["ts"] = "conversations.replies", self._address.thread_ts
        for _ in range(MOST_PAGES):
            answer = await self._api.call(method, body, frame=in_passing, patient=not in_passing)
            for message in answer.get("messages") or ():
                # A thread's first message comes with every page of it, however old it is.
                if _stands_after(message, oldest):
                    yield message
            cursor = (answer.get("response_metadata") or {}).get("next_cursor")
            if not cursor:
                return
            body["cursor"] = cursor

    def _parsed(self, messages: Sequence[Mapping[str, Any]]) -> list[MessageReceived]:
        """The people's messages that belong to this conversation, oldest first.

        One that cannot be read is left out: it would be so each time, and keep all beside it from being read.
        """
        account, now = self._account(), self._clock.now()
        found = [self._said(message, account, now) for message in messages]
        said = [one for one in found if one is not None and not one.sender.is_bot]
        return sorted(said, key=lambda one: float(one.message_id))

    def _said(self, message: Mapping[str, Any], account: Account, now: datetime) -> MessageReceived | None:
        try:
            return parse_message(
                {**message, "channel_type": "im" if self._address.is_direct else "channel"},
                account,
                received_at=now,
                joined=self._joined,
                channel=self._address.channel,
                from_history=True,
            )
        except UNREADABLE:
            where = {"place": str(self._address), "message_id": str(message.get("ts"))}
            log.exception("a message of the history cannot be read and is left out", extra=where)
            return None


def _stands_after(row: object, oldest: str | None) -> bool:
    """Whether it is a message at all, and a later one."""
    if not isinstance(row, Mapping) or not is_ts(str(row.get("ts"))):
        return False
    return oldest is None or float(row["ts"]) > float(oldest)


def _has_its_files(text: Mapping[str, Any], files: Sequence[tuple[float, int]]) -> bool:
    """`files` are the messages of ours with files: when, and how many."""
    return sum(count for at, count in files if at > float(text["ts"])) >= files_promised(text)
