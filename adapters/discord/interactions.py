"""Answers to slash commands and buttons. Discord waits 3 s for the first one and takes others for 15 minutes.

A command's first answer may be public (it then stands under the command). If none came within two seconds, the bot
"thinks", visible to the person alone: what it then says publicly is an ordinary message, which has a nonce, can be
streamed and outlives the fifteen minutes; the sign goes when it has come. A press is answered silently at once.
"""

import logging
from collections import OrderedDict
from collections.abc import Awaitable
from dataclasses import dataclass, field
from enum import Enum

import anyio

from adapters.discord.limits import ANSWER_WITHIN_S, EPHEMERAL, LOADING, TOKEN_LIFETIME_S, moment_of
from adapters.discord.parse import Handle
from adapters.discord.rest import Json, RestClient
from agent.core.clock import Clock
from gateway.channels.errors import ChannelError, ChannelRejected

log = logging.getLogger("tieline.discord")

REMEMBERED = 2048  # interactions kept in mind; each is forgotten when its token has died
SPARE_S = 30.0  # before the token dies, to take a waiting sign away with it
MESSAGE, THINKING, SILENTLY, CHOICES = 4, 5, 6, 8  # kinds of a first answer


class Stage(Enum):
    NEW = "new"  # Discord waits for the first answer
    THINKING = "thinking"  # a sign of waiting is shown to the person alone
    ANSWERED = "answered"
    UNKNOWN = "unknown"  # from before a restart, or heard by another process


@dataclass(slots=True)
class Live:
    """The state of one interaction."""

    handle: Handle
    channel_id: str
    user_id: str
    since: float  # monotonic
    stage: Stage
    turn: anyio.Lock = field(default_factory=anyio.Lock)


class Answers:
    """All interactions of an account."""

    def __init__(self, rest: RestClient, clock: Clock) -> None:
        self._rest = rest
        self._clock = clock
        self._live: OrderedDict[str, Live] = OrderedDict()
        self._thinking: dict[str, Live] = {}  # those of `_live` that show a waiting sign

    def open(self, handle: Handle, channel_id: str, user_id: str) -> bool:
        """Note one that has just come; False for a repeat."""
        if handle.id in self._live:
            return False
        self._note(Live(handle, channel_id, user_id, self._clock.monotonic(), Stage.NEW))
        return True

    def knows(self, interaction_id: str) -> bool:
        return interaction_id in self._live

    async def keep_waiting(self, handle: Handle) -> None:
        """Two seconds after it came, whatever the rest of the gateway is doing, Discord gets a sign.

        If nothing was said by the end of the token's life, the sign goes: Discord would turn it into an error.
        """
        await self._clock.sleep(ANSWER_WITHIN_S)
        await self._quietly(self._defer(handle))
        if self._waits(handle):
            await self._clock.sleep(TOKEN_LIFETIME_S - SPARE_S)
            if self._waits(handle):
                await self.close(handle)

    async def accepted(self, handle: Handle) -> None:
        """It is stored. A press needs no more; a command still has time for a real answer."""
        if handle.kind == "button":
            await self._quietly(self._defer(handle))

    async def close(self, handle: Handle) -> None:
        """Nothing will be said about it: take the waiting sign away."""
        await self._quietly(self._close(handle))

    async def offer(self, handle: Handle, choices: list[Json]) -> None:
        """Offer completions of half written words; where that is refused, people type on without."""
        await self._quietly(self._rest.answer(handle.id, handle.token, {"type": CHOICES, "data": {"choices": choices}}))

    async def regret(self, handle: Handle, text: str) -> None:
        """It is lost: say so to the person alone."""
        await self._quietly(self.acknowledge(str(handle), text, visible=False))

    async def settle(self, channel_id: str) -> None:
        """Something was said in the channel: nobody there has to look at a waiting sign any longer."""
        for live in [*self._thinking.values()]:
            if live.channel_id == channel_id:
                await self.close(live.handle)

    async def acknowledge(self, interaction: str, text: str, *, visible: bool) -> bool:
        """Stop the waiting sign, with words if there are any. False: they have to be said another way."""
        live = self._find(interaction)
        if live is None:
            return not text
        if not text:
            await self._close(live.handle)
            return True
        body: Json = {"content": text, "allowed_mentions": {"parse": []}}
        if visible:
            return await self.answer(interaction, body) is not None
        return await self.send_ephemeral(interaction, body) is not None

    async def answer(self, interaction: str, body: Json) -> str | None:
        """Say it publicly as the command's own answer; None when it has to be an ordinary message."""
        live = self._find(interaction)
        if live is None or live.handle.kind != "slash":
            return None
        async with live.turn:
            message: Json | None = None
            if live.stage is Stage.UNKNOWN:
                message = await self._given_before(live, body)
            elif live.stage is Stage.NEW:
                message = await self._first(live, {"type": MESSAGE, "data": body})
            return str(message["id"]) if message else None

    async def send_ephemeral(self, interaction: str, body: Json) -> str | None:
        """Say it to the person alone and give the message's id; None when the interaction is over."""
        live = self._find(interaction)
        if live is None:
            return None
        private = body | {"flags": int(body.get("flags", 0)) | EPHEMERAL}
        async with live.turn:
            if live.stage is Stage.NEW:
                message = await self._first(live, {"type": MESSAGE, "data": private})
                if message is not None:
                    return str(message["id"])
            try:
                if live.stage is Stage.THINKING:
                    changed: Json = await self._rest.followed("PATCH", live.handle.token, body=body)
                    self._set(live, Stage.ANSWERED)
                    return str(changed["id"])
                return str((await self._rest.follow_up(live.handle.token, private))["id"])
            except ChannelRejected:
                self._forget(live.handle.id)
                return None

    def latest(self, channel_id: str, user_id: str) -> str | None:
        """A handle by which that person can still be told something in private there."""
        for live in reversed(self._live.values()):
            if live.channel_id == channel_id and live.user_id == user_id and not self._is_over(live):
                return str(live.handle)
        return None

    # -- one interaction

    async def _first(self, live: Live, body: Json) -> Json | None:
        """The first answer; None when it has to be said another way."""
        try:
            message = await self._rest.answer(live.handle.id, live.handle.token, body)
        except ChannelRejected:
            # 40060: an earlier attempt had come through after all; 10062: more than 3 s went by.
            return await self._given_before(live, body["data"])
        self._set(live, Stage.ANSWERED)
        return message

    async def _given_before(self, live: Live, data: Json) -> Json | None:
        """After a cut or a restart: this very answer, if it was given already. Then it is not given twice.

        Anything else that stands there (a sign of waiting, a status line) must not be taken for it: it would be lost.
        """
        left = await self._look(live)
        return left if left is not None and _says(left, data) else None

    async def _look(self, live: Live) -> Json | None:
        """Look for the first answer that an unheard attempt left, the waiting sign aside; it sets the stage."""
        original = await self._original(live)
        thinks = original is not None and bool(int(original.get("flags", 0)) & LOADING)
        self._set(live, Stage.THINKING if thinks else Stage.ANSWERED)
        return None if thinks else original

    async def _original(self, live: Live) -> Json | None:
        try:
            message: Json = await self._rest.followed("GET", live.handle.token)
        except ChannelRejected:
            return None
        return message

    async def _defer(self, handle: Handle) -> None:
        live = self._live.get(handle.id)
        if live is None or live.stage is not Stage.NEW:
            return
        async with live.turn:
            if live.stage is not Stage.NEW:
                return
            slash = handle.kind == "slash"
            body: Json = {"type": THINKING, "data": {"flags": EPHEMERAL}} if slash else {"type": SILENTLY}
            try:
                await self._rest.answer(handle.id, handle.token, body)
            except ChannelRejected:
                await self._look(live)
            else:
                self._set(live, Stage.THINKING if slash else Stage.ANSWERED)

    async def _close(self, handle: Handle) -> None:
        await self._defer(handle)
        live = self._find(str(handle))
        if live is None or handle.kind != "slash":
            return
        async with live.turn:
            if live.stage is Stage.UNKNOWN:
                await self._look(live)
            if live.stage is Stage.THINKING:
                self._set(live, Stage.ANSWERED)
                await self._rest.followed("DELETE", handle.token)

    async def _quietly(self, doing: Awaitable[object]) -> None:
        """A waiting sign is never worth a failure."""
        try:
            await doing
        except ChannelError as error:
            log.info("a waiting sign could not be changed: %s", error)

    def _waits(self, handle: Handle) -> bool:
        """A sign may be shown: also where nobody heard whether it came through."""
        live = self._live.get(handle.id)
        return live is not None and live.stage in (Stage.NEW, Stage.THINKING)

    # -- the register

    def _find(self, interaction: str) -> Live | None:
        handle = Handle.read(interaction)
        if handle is None:
            return None
        live = self._live.get(handle.id)
        if live is None:
            age = (self._clock.now() - moment_of(handle.id)).total_seconds()
            # Another process may have heard it a moment ago: Discord refuses a second first answer.
            stage = Stage.NEW if age < ANSWER_WITHIN_S else Stage.UNKNOWN
            live = Live(handle, "", "", self._clock.monotonic() - max(age, 0.0), stage)
            if self._is_over(live):
                return None
            self._note(live)
        return None if self._is_over(live) else live

    def _is_over(self, live: Live) -> bool:
        return self._clock.monotonic() - live.since > TOKEN_LIFETIME_S

    def _note(self, live: Live) -> None:
        self._live[live.handle.id] = live
        while len(self._live) > REMEMBERED or self._is_over(next(iter(self._live.values()))):
            self._forget(next(iter(self._live)))

    def _forget(self, interaction_id: str) -> None:
        self._live.pop(interaction_id, None)
        self._thinking.pop(interaction_id, None)

    def _set(self, live: Live, stage: Stage) -> None:
        live.stage = stage
        if stage is Stage.THINKING:
            self._thinking[live.handle.id] = live
        else:
            self._thinking.pop(live.handle.id, None)


def _says(message: Json, data: Json) -> bool:
    """Is that message what `data` asked for? Discord takes blanks off a text's ends."""
    private = int(message.get("flags", 0)) & EPHEMERAL == int(data.get("flags", 0)) & EPHEMERAL
    return private and str(message.get("content", "")).strip() == str(data.get("content", "")).strip()
