"""The status line: tells what goes on and does not stay. Never in the transcript, never fails a turn."""

import logging
from collections.abc import Callable

import anyio

from agent.core.clock import Clock
from agent.core.outbox import Tone
from gateway.channels.channel import Channel
from gateway.channels.document import Plain
from gateway.channels.errors import ChannelBusy, ChannelError, ChannelRejected
from gateway.channels.keys import ConversationKey, UserId
from gateway.channels.outbound import Button, Outbound, SentRef
from gateway.delivery.ephemeral.messages import CALL_DEADLINE_S, Showing, Shown, Spawn, take_away
from gateway.delivery.pacing import Budget
from gateway.delivery.sleep import InterruptibleSleep

log = logging.getLogger("tieline.delivery")

THROTTLE_S = 1.0
EXPIRES_S = 30.0
# An ephemeral message that cannot be reached again stays until the person's client forgets it: say little that way.
UNREACHABLE_THROTTLE_S = 10.0

Buttons = tuple[tuple[Button, ...], ...]


class StatusLine:
    """The life of one status message: created, edited, deleted. `run` ends when it is gone; another needs another.

    It goes `stays_s` after its last change. With `openly` it is sent to everybody there, silently, so that it can be
    changed in place where ephemeral messages cannot be reached again.
    """

    def __init__(
        self,
        channel: Channel,
        to: UserId | None,
        interaction: str | None,
        showing: Showing,
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
        self._showing = showing
        self._budget = budget
        self._clock = clock
        self._wanted = ""
        self._tone: Tone = ""
        self._visible = ""
        self._updated_at = clock.monotonic()
        self._not_before = 0.0
        self._shown: Shown | None = None
        self._rest = InterruptibleSleep(clock)

    def show(self, text: str, tone: Tone = "") -> None:
        """The last text wins; "" ends it."""
        self._wanted = text
        self._tone = tone
        self._updated_at = self._clock.monotonic()
        self._rest.end()

    @property
    def is_over(self) -> bool:
        """Nothing is to be shown any more."""
        return self.over or not self._wanted

    @property
    def is_shown(self) -> bool:
        return self._shown is not None and not self.is_over

    async def run(self) -> None:
        try:
            while self._wanted:
                now = self._clock.monotonic()
                if (left := self._updated_at + self._stays_s - now) <= 0:
                    break
                if self._wanted == self._visible:
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

    async def _put(self, text: str) -> None:
        message = Outbound(
            document=(Plain(text),),
            silent=True,
            interaction=self._interaction,
            buttons=self._buttons,
            tone=self._tone,
        )
        before, self._visible = self._visible, text  # also when it fails: this text is not tried again
        throttle = THROTTLE_S
        try:
            if self._shown is not None and self._channel.capabilities.edits:
                with anyio.fail_after(CALL_DEADLINE_S):
                    await self._channel.edit(self._shown.sent, message)
            else:
                throttle = await self._create(message)
        except ChannelBusy as error:
            throttle = max(throttle, error.after_s)
            self._visible = before  # but when there is no room for it just now
        except ChannelRejected as error:
            log.info("status not shown: %s", error, extra={"conversation": str(self._channel.key)})
            await self._strike()  # the next text makes a new message
        except (ChannelError, TimeoutError) as error:
            log.info("status not shown: %s", error, extra={"conversation": str(self._channel.key)})
        self._not_before = self._clock.monotonic() + throttle

    async def _create(self, message: Outbound) -> float:
        """Show a new one and give the least time until the next."""
        await self._remove()  # nothing is edited here: there is at most one
        shown = await self._showing.show(self._channel, "status", message, self._say)
        if shown is not None and shown.by == "key":  # it may come yet; the next text does not wait for it
            self._showing.discard(self._channel.key, "status", shown)
            return THROTTLE_S
        self._shown = shown
        return UNREACHABLE_THROTTLE_S if shown is None else THROTTLE_S

    async def _say(self, message: Outbound) -> SentRef | None:
        return await (self._channel.send(message) if self._openly else self._channel.send_ephemeral(message, self._to))

    async def _remove(self) -> None:
        """Remove it, or as soon as that is possible."""
        shown = self._shown
        if shown is None:
            return
        try:
            with anyio.fail_after(CALL_DEADLINE_S):
                await take_away(self._channel, shown)
        except ChannelRejected:
            pass  # gone already
        except (ChannelError, TimeoutError) as error:
            log.info("status not deleted: %s", error, extra={"conversation": str(self._channel.key)})
            self._shown = None  # its note stays, for the next start at the latest
            self._showing.discard(self._channel.key, "status", shown)
            return
        await self._strike()

    async def _strike(self) -> None:
        if self._shown is not None:
            await self._showing.forget(self._channel.key, "status", self._shown)
            self._shown = None


# Live lines: one message in a place that follows longer work, changed as it goes on, removed at its end.

STAYS_S = 3600.0  # a change comes with each of the work's turns


class LiveLines:
    """The live lines of all places; they outlive agents' sleep. A place whose messages cannot be changed gets none."""

    def __init__(
        self,
        channel_for: Callable[[ConversationKey], Channel | None],
        showing: Showing,
        clock: Clock,
        spawn: Spawn,
        is_busy: Callable[[], bool],
    ) -> None:
        self._channel_for = channel_for
        self._showing = showing
        self._clock = clock
        self._spawn = spawn
        self._is_busy = is_busy
        self._lines: dict[ConversationKey, StatusLine] = {}

    def show(self, key: ConversationKey, text: str, buttons: Buttons) -> None:
        """The last text wins; "" takes the message away. `buttons` are those of its first text."""
        line = self._lines.get(key)
        if line is not None and not line.over:
            line.show(text)
            if not text:
                del self._lines[key]
            return
        self._lines.pop(key, None)
        channel = self._channel_for(key)
        if not text or channel is None or not channel.capabilities.edits:
            return
        budget = Budget(1.0, self._clock.monotonic(), self._is_busy)
        line = StatusLine(
            channel, None, None, self._showing, budget, self._clock, stays_s=STAYS_S, openly=True, buttons=buttons
        )
        self._lines[key] = line
        line.show(text)
        self._spawn(line.run)
