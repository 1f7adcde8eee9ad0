"""Adapter for Parley, a chat platform that does not exist: HTTP with JSON, a WebSocket for events, and a history.

Parley keeps no queue. Events begin when somebody connects, so after each start and each break of the connection the
history is read first. A message may carry a `client_key`, by which it is found when an answer was lost.
"""

import logging
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from gateway.channels.adapter import AdapterContext
from gateway.channels.channel import Attempt, Capabilities, HistoryPage, Position
from gateway.channels.errors import ChannelError, ChannelFatal, ChannelGone
from gateway.channels.inbound import ChatType, Deleted, Edited, Inbound, Membership, Mention, MessageReceived, Sender
from gateway.channels.keys import ConversationKey, UserId, parts_of, place_id
from gateway.channels.kit.base import AdapterBase, ChannelBase, Json
from gateway.channels.kit.dialect import MARKDOWN, measure, render
from gateway.channels.kit.http_api import HttpApi, may_be_gone
from gateway.channels.kit.rate_limits import Rate
from gateway.channels.kit.websocket import Connection, WebSocketEvents
from gateway.channels.outbound import Outbound, SentRef
from tests.examples.parley.settings import ParleySettings

log = logging.getLogger("tieline.parley")

PAGE = 50  # messages that a request of history gives at most
PER_ROOM = Rate(per_s=2.0, burst=8.0, reserve=3.0)  # what Parley allows a room; frames leave the reserve to answers
REFUSED = "Parley refuses the token; make a new one under Settings, Bots"
BAD_TOKEN = 4001  # the code with which Parley closes the socket
DIALECT = replace(MARKDOWN, calls=re.compile(r"@(?=\w)"))
CAPABILITIES = Capabilities(
    measure=lambda document: measure(document, DIALECT),
    text_limit=4000,
    buttons=False,  # questions are then answered by writing "yes" or "no"
    stream_every_s=1.0,
    idempotent_send="lookup",
)


def refused(status: int, answer: Any) -> ChannelError | None:
    """The refusals that close the login or the room; the kit knows the others by their status."""
    match status:
        case 401:
            return ChannelFatal(REFUSED)
        case 403:
            return ChannelGone("the bot was removed from the room")
    return None


# Parley's events to the gateway's values. Pure.


def key_of(channel_type: str, room: str) -> ConversationKey:
    return ConversationKey(channel_type, place_id(room))


def moment_of(row: Json) -> datetime:
    return datetime.fromtimestamp(float(row["at"]), UTC)


def parsed(event: Json, channel_type: str, me: str, received_at: datetime) -> Inbound | None:
    """None for the bot's own words and for what is of no interest."""
    room = str(event["room"])
    author = str(event.get("author", ""))
    if author == me:
        return None
    common: dict[str, Any] = {
        "key": key_of(channel_type, room),
        "place": place_id(room),
        "message_id": str(event.get("id", "")),
        "sender": Sender(id=UserId(author), display=str(event.get("name", ""))),
        "received_at": received_at,
        "chat_type": ChatType.DIRECT if event.get("direct") else ChatType.GROUP,
    }
    match event.get("kind", "message"):  # a row of the history has no kind
        case "message":
            return said(event, common, me)
        case "edited":
            return Edited(**common, text=str(event["text"]), version=str(event["version"]))
        case "deleted":
            return Deleted(**common)
        case "removed" | "added" as kind:
            return Membership(**common, present=kind == "added")
    return None


def said(row: Json, common: dict[str, Any], me: str) -> MessageReceived:
    text, name = str(row["text"]), f"@{me}"
    named = text.startswith(name)
    return MessageReceived(
        **common,
        text=text.removeprefix(name).strip() if named else text,
        mention=Mention.DIRECT if named or row.get("direct") else Mention.NONE,
        sent_at=moment_of(row),
    )


class ParleyChannel(ChannelBase):
    """One room."""

    capabilities = CAPABILITIES

    def __init__(self, adapter: "ParleyAdapter", channel_id: str) -> None:
        super().__init__(ConversationKey(adapter.channel_type, channel_id))
        # Whatever an id holds, in a path it names nothing but a room.
        self._path = f"/rooms/{''.join(quote(part, safe='') for part in parts_of(channel_id))}/messages"
        self._api = adapter.api
        self.history = ParleyHistory(adapter, self._path)

    async def send(self, message: Outbound) -> SentRef:
        made = await self._call("POST", "", body_of(message), frame=message.is_frame)
        return SentRef(str(made["id"]))

    async def edit(self, sent: SentRef, message: Outbound) -> None:
        await self._call("PATCH", f"/{sent.id}", body_of(message), frame=message.is_frame)

    async def delete(self, sent: SentRef) -> None:
        with may_be_gone():
            await self._call("DELETE", f"/{sent.id}", {}, frame=False)

    async def _call(self, method: str, rest: str, body: Json, *, frame: bool) -> Any:
        return await self._api.call(method, self._path + rest, body, key=self.key.channel_id, frame=frame)


def body_of(message: Outbound) -> Json:
    return {"text": render(message.document, DIALECT), "client_key": message.key, "reply_to": message.reply_to}


class ParleyHistory:
    """The messages that Parley keeps of one room, oldest first, of any age."""

    def __init__(self, adapter: "ParleyAdapter", path: str) -> None:
        self._adapter = adapter
        self._path = path

    async def since(self, after: Position) -> HistoryPage:
        start = {"after": after.message_id} if after.message_id is not None else {"from": str(after.at.timestamp())}
        rows = await self._rows({"limit": str(PAGE)} | start)
        following = Position(at=moment_of(rows[-1]), message_id=str(rows[-1]["id"])) if len(rows) == PAGE else None
        return HistoryPage(messages=await self._adapter.messages(rows), following=following)

    async def find(self, key: str, attempt: Attempt | None = None) -> SentRef | None:
        rows = await self._rows({"client_key": key})
        return SentRef(str(rows[0]["id"])) if rows else None

    async def _rows(self, query: Mapping[str, str]) -> list[Json]:
        rows: list[Json] = await self._adapter.api.call("GET", self._path, query=query)
        return rows


class ParleyAdapter(AdapterBase):
    """One bot account on a Parley server."""

    def __init__(self, settings: ParleySettings, context: AdapterContext) -> None:
        self._token = settings.token.get_secret_value()
        headers = {"Authorization": f"Bearer {self._token}"}
        self.api = HttpApi(context, "Parley", settings.url, headers=headers, judge=refused, rate=PER_ROOM)
        super().__init__(settings, context, self.api, log, queue_of=lambda event: str(event["room"]))
        self.me = ""  # the bot's own id, once it has signed in
        self._events = WebSocketEvents(
            context,
            self.health_monitor,
            log,
            platform="Parley",
            session=self.api.session,
            address=self.address,
            greet=self.greet,
            missed=self.catch_up.begin,
            take=self.hear,
            refusals={BAD_TOKEN: REFUSED},
        )

    def channel(self, channel_id: str) -> ParleyChannel:
        return ParleyChannel(self, channel_id)

    async def sign_in(self) -> str:
        self.me = str((await self.api.call("GET", "/me"))["id"])
        return self.me

    async def listen(self) -> None:
        await self._events.run()

    async def address(self) -> str:
        return f"{self.api.url}/events"

    async def greet(self, connection: Connection) -> bool:
        await connection.send({"token": self._token})
        self.me = str((await connection.receive())["you"])
        return False  # Parley never goes on where it ended

    def parsed(self, event: Json, received_at: datetime) -> Inbound | None:
        return parsed(event, self.channel_type, self.me, received_at)
