"""Puts on the screen what must not stay there, so that it can be taken away whatever becomes of the request.

Where the platform remembers keys it is noted by its key before it is sent, so no crash and no lost answer leaves it
without a note (DESIGN §13.5). Elsewhere its name is all there is: nobody waits long for it, but a late answer is heard.
"""

import logging
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import replace

import anyio

from agent.core.clock import Clock
from agent.core.failpoints import failpoint
from agent.storage.ephemeral_rows import EphemeralKind
from agent.storage.errors import StorageTrouble
from gateway.channels.channel import Channel
from gateway.channels.errors import ChannelError, ChannelUnsure
from gateway.channels.keys import ConversationKey
from gateway.channels.outbound import Outbound, SentRef
from gateway.delivery.ephemera import Ephemera
from gateway.delivery.leftovers import CALL_DEADLINE_S, LATE_S
from gateway.delivery.refs import By, Shown, has_keys, unnamed
from gateway.delivery.sleep import InterruptibleSleep

log = logging.getLogger("tieline.delivery")

Send = Callable[[Outbound], Awaitable[SentRef | None]]
Spawn = Callable[[Callable[[], Awaitable[None]]], bool]
Discard = Callable[[ConversationKey, EphemeralKind, Shown], None]


class Showing:
    """`discard` sees to it that something noted is taken away, as often as it takes. `spawn` runs something beside the
    rest, or says that it cannot.
    """

    def __init__(self, ephemera: Ephemera, clock: Clock, spawn: Spawn, discard: Discard) -> None:
        self._ephemera = ephemera
        self._clock = clock
        self._spawn = spawn
        self.discard = discard
        self.forget = ephemera.forget

    async def show(
        self,
        channel: Channel,
        kind: EphemeralKind,
        message: Outbound,
        send: Send,
        *,
        by: By = "message",
        of: int | None = None,
    ) -> Shown | None:
        """What is shown and noted now; None when it cannot be reached again and goes by itself.

        By "key": nobody knows whether it arrived, and it may arrive yet. Raises ChannelError and TimeoutError when it
        did not arrive, or when nothing more can be found out by us; the answer may still come, and then it goes.
        """
        if by == "message" and has_keys(channel, message):
            return await self._by_key(channel, kind, message, send, of)
        if message.interaction is not None:  # its answer is the one that the final takes the place of
            with anyio.fail_after(CALL_DEADLINE_S):
                sent = await send(message)
        else:
            sent = await self._in_time(channel, kind, message, send, by, of)
        self._pass(kind)
        if sent is None:
            return None
        shown = Shown(sent, by, of)
        try:
            await self._ephemera.note(channel.key, kind, shown)
        except StorageTrouble as error:  # this process knows of it; the next one will not
            log.warning("a %s is not noted: %s", kind, error, extra={"conversation": str(channel.key)})
        return shown

    async def _by_key(
        self, channel: Channel, kind: EphemeralKind, message: Outbound, send: Send, of: int | None
    ) -> Shown | None:
        place, hidden = channel.key, unnamed(f"{kind[0]}{secrets.token_hex(8)}", of)
        await self._ephemera.note(place, kind, hidden)
        try:
            with anyio.fail_after(CALL_DEADLINE_S):
                sent = await send(replace(message, key=hidden.key))
        except (ChannelUnsure, TimeoutError) as error:
            log.info("a %s may or may not have arrived: %s", kind, error, extra={"conversation": str(place)})
            return hidden
        except ChannelError:
            await self._ephemera.forget(place, kind, hidden)
            raise
        self._pass(kind)
        if sent is None:
            await self._ephemera.forget(place, kind, hidden)
            return None
        shown = replace(hidden, sent=sent, by="message")
        try:
            await self._ephemera.name(place, kind, shown)
        except StorageTrouble as error:
            log.info("a %s keeps its key for a name: %s", kind, error, extra={"conversation": str(place)})
        return shown

    async def _in_time(
        self, channel: Channel, kind: EphemeralKind, message: Outbound, send: Send, by: By, of: int | None
    ) -> SentRef | None:
        rest = InterruptibleSleep(self._clock)
        outcome: SentRef | Exception | None = TimeoutError("no answer in time")
        waits = True

        async def request() -> None:
            nonlocal outcome
            try:
                with anyio.fail_after(LATE_S):
                    outcome = await send(message)
            except (ChannelError, TimeoutError) as error:
                outcome = error
            except BaseException:
                outcome = ChannelUnsure("the adapter failed")
                raise
            finally:
                rest.end()
            if not waits and isinstance(outcome, SentRef):
                log.info("a %s arrived late and goes", kind, extra={"conversation": str(channel.key)})
                late = Shown(outcome, by, of)
                await self._ephemera.note(channel.key, kind, late)
                self.discard(channel.key, kind, late)

        if not self._spawn(request):  # nothing runs beside us, so nobody would hear a late answer
            with anyio.fail_after(CALL_DEADLINE_S):
                return await send(message)
        try:
            await rest.sleep(CALL_DEADLINE_S)
        finally:
            waits = False
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def _pass(self, kind: EphemeralKind) -> None:
        match kind:
            case "preview":
                failpoint("preview.shown")
            case "status":
                failpoint("status.shown")
