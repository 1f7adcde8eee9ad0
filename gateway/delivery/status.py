"""The one line that tells what goes on and does not stay (SPEC §1.4). Never in the transcript, never fails a turn."""

import logging
import secrets
from dataclasses import replace

import anyio

from agent.core.clock import Clock
from agent.core.crash_points import passing
from gateway.channels.channel import Channel
from gateway.channels.document import Plain
from gateway.channels.errors import ChannelBusy, ChannelError, ChannelRejected, ChannelUnsure
from gateway.channels.keys import UserId
from gateway.channels.outbound import Button, Outbound, SentRef
from gateway.delivery.budget import Budget
from gateway.delivery.draft import CALL_DEADLINE_S
from gateway.delivery.ephemera import Ephemera
from gateway.delivery.leftovers import persistently, take_away
from gateway.delivery.refs import Shown, has_keys, unnamed
from gateway.delivery.rest import Rest

log = logging.getLogger("tieline.delivery")

THROTTLE_S = 1.0
EXPIRES_S = 30.0
# A whisper that cannot be reached again stays until the person's client forgets it: say little that way.
UNREACHABLE_THROTTLE_S = 10.0

Buttons = tuple[tuple[Button, ...], ...]


class StatusLine:
    """The life of one status message: created, edited, deleted. `run` ends when it is gone; another needs another.

    It goes `stays_s` after its last change. With `openly` it is sent to everybody there, silently, so that it can be
    changed in place where whispers cannot be reached again.
    """

    def __init__(
        self,
        channel: Channel,
        to: UserId | None,
        interaction: str | None,
        ephemera: Ephemera,
        budget: Budget,
        clock: Clock,
        *,
        stays_s: float = EXPIRES_S,
        openly: bool = False,
        buttons: Buttons = (),
    ) -> None:
        self.over = False
        self._stays_s = stays_s
        self._openly = openly
        self._buttons = buttons
        self._channel = channel
        self._to = to
        self._interaction = interaction
        self._ephemera = ephemera
        self._budget = budget
        self._clock = clock
        self._wanted = ""
        self._visible = ""
        self._updated_at = clock.monotonic()
        self._not_before = 0.0
        self._shown: Shown | None = None
        self._rest = Rest(clock)

    def show(self, text: str) -> None:
        """The last text wins; "" ends it."""
        self._wanted = text
        self._updated_at = self._clock.monotonic()
        self._rest.end()

    async def run(self) -> None:
        try:
            while self._wanted:
                now = self._clock.monotonic()
                if self._wanted == self._visible:
                    if (left := self._updated_at + self._stays_s - now) <= 0:
                        break
                    await self._rest.sleep(left)
                elif wait := max(self._not_before - now, self._budget.wait(now), 0.0):
                    await self._rest.sleep(wait)
                else:
                    self._budget.spend(now)
                    await self._put(self._wanted)
        finally:
            self.over = True
            with anyio.CancelScope(shield=True), anyio.move_on_after(CALL_DEADLINE_S):
                await self._remove()
        await persistently(self._remove, self._clock)

    async def _put(self, text: str) -> None:
        message = Outbound(document=(Plain(text),), silent=True, interaction=self._interaction, buttons=self._buttons)
        self._visible = text  # also when it fails: this text is not tried again
        throttle = THROTTLE_S
        try:
            with anyio.fail_after(CALL_DEADLINE_S):
                if self._shown is not None and self._shown.by != "key" and self._channel.capabilities.edits:
                    await self._channel.edit(self._shown.sent, message)
                else:
                    throttle = await self._create(message)
        except ChannelBusy as error:
            throttle = max(throttle, error.after_s)
        except ChannelRejected as error:
            log.info("status not shown: %s", error, extra={"conversation": str(self._channel.key)})
            await self._strike()  # the next text makes a new message
        except (ChannelError, TimeoutError) as error:
            log.info("status not shown: %s", error, extra={"conversation": str(self._channel.key)})
        self._not_before = self._clock.monotonic() + throttle

    async def _create(self, message: Outbound) -> float:
        """Show a new one and give the least time until the next."""
        if self._shown is not None:
            await self._remove()  # nothing is edited here: there is at most one
        if has_keys(self._channel, message):  # noted beforehand: no crash leaves it without a note (DESIGN §13.5)
            hidden = unnamed(f"s{secrets.token_hex(8)}")
            await self._ephemera.note(self._channel.key, "status", hidden)
            sent = await self._say_hidden(replace(message, key=hidden.key), hidden)
            passing("status.shown")
            shown = None if sent is None else replace(hidden, sent=sent, by="message")
            if sent is not None and sent.kind != SentRef("").kind:  # no message after all, so none is found by its key
                await self._ephemera.forget(self._channel.key, "status", hidden)
                shown = await self._noted(sent)
        else:
            sent = await self._say(message)
            passing("status.shown")
            shown = None if sent is None else await self._noted(sent)
        self._shown = shown
        return UNREACHABLE_THROTTLE_S if shown is None else THROTTLE_S

    async def _noted(self, sent: SentRef) -> Shown:
        shown = Shown(sent)
        await self._ephemera.note(self._channel.key, "status", shown)
        return shown

    async def _say(self, message: Outbound) -> SentRef | None:
        return await (self._channel.send(message) if self._openly else self._channel.whisper(message, self._to))

    async def _say_hidden(self, message: Outbound, hidden: Shown) -> SentRef | None:
        """Its note goes if it surely did not arrive, or not as a message that could be found."""
        try:
            sent = await self._say(message)
        except (ChannelUnsure, TimeoutError):
            self._shown = hidden
            raise
        except ChannelError:
            await self._ephemera.forget(self._channel.key, "status", hidden)
            raise
        if sent is None:
            await self._ephemera.forget(self._channel.key, "status", hidden)
        return sent

    async def _remove(self) -> bool:
        """False when it is still there."""
        if self._shown is None:
            return True
        try:
            with anyio.fail_after(CALL_DEADLINE_S):
                await take_away(self._channel, self._shown)
        except ChannelRejected:
            pass  # gone already
        except (ChannelError, TimeoutError) as error:
            log.info("status not deleted: %s", error, extra={"conversation": str(self._channel.key)})
            return False  # its note stays, for the next start at the latest
        await self._strike()
        return True

    async def _strike(self) -> None:
        if self._shown is not None:
            await self._ephemera.forget(self._channel.key, "status", self._shown)
            self._shown = None
