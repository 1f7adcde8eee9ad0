"""Adapter for Parley, a chat platform that does not exist: HTTP with JSON, one long poll for events, and a history.

Parley keeps no queue. Events begin when somebody asks for them, so after each start and each break of the connection
the history is read first. A message may carry a `client_key`, by which it is found when an answer was lost.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any
from urllib.parse import quote

import aiohttp
import anyio
from starlette.routing import BaseRoute

from agent.core.backoff import Backoff, Retries
from agent.core.cancellation import first_error
from gateway.channels.adapter import AdapterContext, Admit, Diagnosis, Health
from gateway.channels.channel import (
    Attempt,
    Capabilities,
    Files,
    History,
    HistoryPage,
    Interactions,
    Position,
    Presence,
    Streams,
)
from gateway.channels.errors import ChannelBusy, ChannelError, ChannelFatal, ChannelGone, ChannelRejected
from gateway.channels.inbound import (
    ChatType,
    Deleted,
    Edited,
    Inbound,
    Membership,
    Mention,
    MessageReceived,
    Receipt,
    Sender,
)
from gateway.channels.keys import ConversationKey, UserId, parts_of, place_id
from gateway.channels.kit.catch_up import CatchUp
from gateway.channels.kit.health import HealthMonitor
from gateway.channels.kit.http import json_body, one_attempt, refusal
from gateway.channels.kit.keyed_queue import KeyedQueue
from gateway.channels.kit.rate_limits import Rate, RateLimits
from gateway.channels.outbound import CommandSpec, Outbound, SentRef
from gateway.channels.plain_text import as_text
from tests.examples.parley.settings import ParleySettings

log = logging.getLogger("tieline.parley")

Json = Mapping[str, Any]

PAGE = 50  # messages that a request of history gives at most
PER_ROOM = Rate(per_s=2.0, burst=8.0, reserve=3.0)  # what Parley allows a room; frames leave the reserve to answers
RECONNECTING = Backoff(first_s=0.5, longest_s=60.0, jitter=0.5)
ANSWER_WITHIN_S = 20.0
CAPABILITIES = Capabilities(
    measure=lambda document: len(as_text(document)),
    text_limit=4000,
    buttons=False,  # questions are then answered by writing "yes" or "no"
    stream_every_s=1.0,
    idempotent_send="lookup",
)


class ParleyApi:
    """Parley's HTTP interface: exactly one attempt a call, its failure in the gateway's words."""

    def __init__(self, settings: ParleySettings, context: AdapterContext) -> None:
        self.me = ""  # the bot's own id, once it has signed in
        self._settings = settings
        self._clock = context.clock
        self._proxy = context.proxy
        self._limits: RateLimits[str] = RateLimits(lambda room: PER_ROOM)
        self._session: aiohttp.ClientSession | None = None

    async def call(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        *,
        query: Mapping[str, str] | None = None,
        within_s: float = ANSWER_WITHIN_S,
    ) -> Any:
        """The answer. Raises the errors of a channel; only a POST makes something that a repeat would show twice."""
        creates = method == "POST"
        if self._session is None:  # not in the constructor, where there is no event loop
            self._session = aiohttp.ClientSession(trust_env=False)
        with one_attempt("Parley", path, creates=creates):
            async with self._session.request(
                method,
                f"{self._settings.url}{path}",
                json=body,
                params=query,
                headers={"Authorization": f"Bearer {self._settings.token.get_secret_value()}"},
                proxy=self._proxy,
                timeout=aiohttp.ClientTimeout(total=within_s),
            ) as response:
                if response.status == 401:
                    raise ChannelFatal("Parley refuses the token; make a new one under Settings, Bots")
                if response.status == 403:
                    raise ChannelGone("the bot was removed from the room")
                if error := refusal(response, "Parley", path, creates=creates):
                    raise error
                return await json_body(response, "Parley", path, creates=creates)

    async def in_room(self, method: str, room: str, rest: str, body: Json, *, is_frame: bool) -> Any:
        """A call that counts against the room's limit. Never waits: delivery knows what is worth waiting for."""
        if wait_s := self._limits.ask(room, self._clock.monotonic(), frame=is_frame):
            raise ChannelBusy("the room's limit is used up", after_s=wait_s)
        try:
            return await self.call(method, f"/rooms/{room}{rest}", body)
        except ChannelBusy as busy:
            self._limits.close(room, self._clock.monotonic(), busy.after_s)
            raise

    async def sign_in(self) -> None:
        self.me = str((await self.call("GET", "/me"))["id"])

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None


# Parley's events to the gateway's values. Pure.


def key_of(channel_type: str, room: str) -> ConversationKey:
    return ConversationKey(channel_type, place_id(room))


def room_of(channel_id: str) -> str:
    """As it stands in a path: whatever an id holds, it names nothing but a room."""
    return "".join(quote(part, safe="") for part in parts_of(channel_id))


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
    match event.get("kind"):
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


class ParleyHistory:
    """What Parley keeps of one room, oldest first, however long ago."""

    def __init__(self, api: ParleyApi, context: AdapterContext, channel_type: str, room: str) -> None:
        self._api = api
        self._clock = context.clock
        self._channel_type = channel_type
        self._room = room

    async def since(self, after: Position) -> HistoryPage:
        rows = await self._rows(after)
        following = Position(at=moment_of(rows[-1]), message_id=str(rows[-1]["id"])) if len(rows) == PAGE else None
        return HistoryPage(messages=[one for one in map(self._said, rows) if one is not None], following=following)

    async def find(self, key: str, attempt: Attempt | None = None) -> SentRef | None:
        rows = await self._api.call("GET", f"/rooms/{self._room}/messages", query={"client_key": key})
        return SentRef(str(rows[0]["id"])) if rows else None

    async def _rows(self, after: Position) -> Sequence[Json]:
        start = {"after": after.message_id} if after.message_id is not None else {"from": str(after.at.timestamp())}
        path, query = f"/rooms/{self._room}/messages", {"limit": str(PAGE)} | start
        rows: Sequence[Json] = await self._api.call("GET", path, query=query)
        return rows

    def _said(self, row: Json) -> MessageReceived | None:
        try:
            inbound = parsed({**row, "kind": "message"}, self._channel_type, self._api.me, self._clock.now())
        except (KeyError, ValueError):
            log.exception("a message of the history cannot be read and is left out", extra={"room": self._room})
            return None
        return replace(inbound, from_history=True) if isinstance(inbound, MessageReceived) else None


class ParleyChannel:
    """One room. What Parley lacks is None: delivery asks, and does without."""

    streams: Streams | None = None  # answers grow by edits
    presence: Presence | None = None
    files: Files | None = None
    interactions: Interactions | None = None

    def __init__(self, key: ConversationKey, api: ParleyApi, history: History) -> None:
        self.key = key
        self.capabilities = CAPABILITIES
        self.history: History | None = history
        self._api = api
        self._room = room_of(key.channel_id)

    async def send(self, message: Outbound) -> SentRef:
        made = await self._api.in_room("POST", self._room, "/messages", body_of(message), is_frame=message.is_frame)
        return SentRef(str(made["id"]))

    async def edit(self, sent: SentRef, message: Outbound) -> None:
        path = f"/messages/{sent.id}"
        await self._api.in_room("PATCH", self._room, path, body_of(message), is_frame=message.is_frame)

    async def delete(self, sent: SentRef) -> None:
        try:
            await self._api.in_room("DELETE", self._room, f"/messages/{sent.id}", {}, is_frame=False)
        except ChannelGone:
            raise
        except ChannelRejected as error:
            log.debug("nothing to delete: %s", error)

    async def send_ephemeral(self, message: Outbound, to: UserId | None) -> SentRef | None:
        return await self.send(message)  # the caller takes it away again


def body_of(message: Outbound) -> Json:
    return {"text": as_text(message.document), "client_key": message.key, "reply_to": message.reply_to}


class ParleyAdapter:
    """One bot account on a Parley server."""

    def __init__(self, settings: ParleySettings, context: AdapterContext) -> None:
        """Nothing is opened and nobody is asked here: this runs in a thread, before anything is served."""
        self.channel_type = settings.channel_type
        self.routes: Sequence[BaseRoute] = ()
        self._settings = settings
        self._context = context
        self._clock = context.clock
        self._api = ParleyApi(settings, context)
        self._health = HealthMonitor(context.clock, "Parley", deaf_after_s=settings.wait_s + 2 * ANSWER_WITHIN_S)
        self._queue = KeyedQueue(context.clock, log)
        self._catch_up = CatchUp(
            context, self._queue, log, channel_type=self.channel_type, history=self._history, deliver=self._deliver
        )
        self._admit: Admit | None = None

    async def run(self, admit: Admit) -> None:
        self._admit = admit
        try:
            with first_error():
                async with anyio.create_task_group() as group:
                    await group.start(self._queue.run)
                    group.start_soon(self._catch_up.run)
                    await self._listen()
        except ChannelFatal as error:
            self._health.failed(str(error))
            raise

    def channel(self, channel_id: str) -> ParleyChannel:
        return ParleyChannel(ConversationKey(self.channel_type, channel_id), self._api, self._history(channel_id))

    def health(self) -> Health:
        return self._health.health()

    async def publish(self, commands: Sequence[CommandSpec]) -> None:
        """Parley has no menu; commands are typed."""

    async def diagnose(self) -> Sequence[Diagnosis]:
        try:
            await self._api.sign_in()
        except ChannelFatal as error:
            finding = "Parley refuses the token"
            return [Diagnosis(subject=self.channel_type, level="error", finding=finding, fix=str(error))]
        except ChannelError as error:
            fix = "look whether the server runs, and at `url`"
            return [Diagnosis(subject=self.channel_type, level="warning", finding=str(error), fix=fix)]
        return [Diagnosis(subject=self.channel_type, level="ok", finding=f"signed in as {self._api.me}")]

    async def aclose(self) -> None:
        await self._api.aclose()

    # -- what comes in

    async def _listen(self) -> None:
        """Ask for events one request after the other; what breaks is begun anew, with the history first."""
        retries = Retries(RECONNECTING)
        cursor: str | None = None
        while True:
            try:
                if cursor is None:
                    await self._api.sign_in()
                    cursor = str((await self._api.call("GET", "/events"))["next"])  # from now on
                    self._catch_up.begin()  # and what came before it
                    self._health.connected()
                within_s = self._settings.wait_s + ANSWER_WITHIN_S
                query = {"after": cursor, "wait": str(self._settings.wait_s)}
                answer = await self._api.call("GET", "/events", query=query, within_s=within_s)
            except ChannelFatal:
                raise
            except ChannelError as error:
                self._health.trouble(str(error))
                log.info("parley: connecting anew: %s", error)
                cursor = None
                await self._clock.sleep(retries.failed(asked_s=error.after_s if isinstance(error, ChannelBusy) else 0))
                continue
            retries.succeeded()
            self._health.heard()
            for event in answer["events"]:
                job = partial(self._take, event, self._clock.now())
                await self._queue.put(str(event["room"]), job, holds=True)  # in order there, many rooms at once
            cursor = str(answer["next"])

    async def _take(self, event: Json, received_at: datetime) -> None:
        """A job of the room. While the gateway cannot store it, it is done again and nothing overtakes it."""
        inbound = parsed(event, self.channel_type, self._api.me, received_at)
        if isinstance(inbound, MessageReceived):
            await self._catch_up.take(inbound)
        elif inbound is not None:
            await self._deliver(inbound)

    async def _deliver(self, inbound: Inbound) -> Receipt:
        assert self._admit is not None
        return await self._admit(inbound)

    def _history(self, channel_id: str) -> ParleyHistory:
        return ParleyHistory(self._api, self._context, self.channel_type, room_of(channel_id))
