"""The preview of a growing reply. Best effort: the final text comes from the outbox and never waits for a frame."""

import logging
import secrets
from collections.abc import Callable
from dataclasses import replace

import anyio
from anyio import to_thread

from agent.core.clock import Clock
from agent.core.crash_points import passing
from agent.core.outbox import Audience
from gateway.channels.channel import Channel
from gateway.channels.document import Document, Paragraph, Plain, Text, is_blank
from gateway.channels.errors import ChannelBusy, ChannelError, ChannelUnsure
from gateway.channels.keys import UserId
from gateway.channels.outbound import Outbound, SentRef
from gateway.delivery import pacing
from gateway.delivery.budget import Budget
from gateway.delivery.egress import Guard
from gateway.delivery.ephemera import Ephemera
from gateway.delivery.markdown import parse
from gateway.delivery.refs import Shown, has_keys, unnamed
from gateway.delivery.rest import Rest
from gateway.delivery.splitting import Measure, split

log = logging.getLogger("tieline.delivery")

CALL_DEADLINE_S = 10.0
LONG_TEXT = 8_000  # characters; parsing more takes milliseconds and goes to a thread
ROOM = 8  # units kept for the "…" before a tail
EARLIER_PAUSE_S = 0.1


def frame_of(text: str, limit: int, measure: Measure, guard: Guard = Guard()) -> Document:  # noqa: B008 - frozen
    """What one message shows of the text so far: all of it, or its end when it has outgrown one message.

    What may be the beginning of a secret waits for the rest.
    """
    document = guard.document(parse(guard.growing(text)))
    if is_blank(document):
        return (Plain("…"),)
    parts = split(document, limit, measure)
    if len(parts) == 1:
        return parts[0]
    last = split(document, limit - ROOM, measure)[-1]
    if isinstance(first := last[0], Plain):
        return (Plain("…" + first.text), *last[1:])
    return (Paragraph((Text("…"),)), *last)


class Draft:
    """Shows the text as it grows, by the platform's own stream or by editing a message; nothing where neither exists.

    One task runs `run`; frames never queue up behind each other: each shows the newest text.
    """

    def __init__(
        self,
        channel: Channel,
        audience: Audience,
        ephemera: Ephemera,
        budget: Budget,
        clock: Clock,
        waits: Callable[[], bool] = lambda: False,
        guard: Guard = Guard(),  # noqa: B008 - frozen
    ) -> None:
        """While it `waits`, nothing is shown yet: what was said before comes first."""
        self._waits = waits
        self._guard = guard
        self.audience = audience
        self.ended = False  # its turn is over; whoever does not take it now drops it
        self._channel = channel
        self._ephemera = ephemera
        self._budget = budget
        self._clock = clock
        self._pieces: list[str] = []
        self._version = 0
        self._shown_version = 0
        self._shown: Shown | None = None
        self._started = False
        self._closed = False
        self._taken = False
        self._done = anyio.Event()
        self._changed = anyio.Event()
        self._rest = Rest(clock)
        self._key = f"p{secrets.token_hex(8)}"

    @staticmethod
    def possible(channel: Channel) -> bool:
        return channel.streams is not None or channel.capabilities.edits

    @property
    def taken(self) -> bool:
        return self._taken

    def grow(self, delta: str) -> None:
        self._pieces.append(delta)
        self._touch()

    def void(self) -> None:
        """The text so far is wrong (G-24): the next frame shows what comes instead, in the same message."""
        self._pieces.clear()
        self._touch()

    def _touch(self) -> None:
        self._version += 1
        if not self._changed.is_set():
            self._changed.set()

    async def run(self) -> None:
        """Send frames until taken."""
        self._started = True
        pace = pacing.first_frame(self._channel.capabilities.stream_every_s, self._clock.monotonic())
        try:
            while not self._closed:
                if self._shown_version == self._version or not (self._shown or self._has_words()):
                    self._shown_version = self._version
                    self._changed = anyio.Event()
                    await self._changed.wait()
                    continue
                if self._shown is None and self._waits():
                    await self._rest.sleep(EARLIER_PAUSE_S)
                    continue
                now = self._clock.monotonic()
                if wait := max(pacing.wait_for(pace, now), self._budget.wait(now)):
                    await self._rest.sleep(wait)
                    continue
                self._budget.spend(now)
                pace = await self._frame(pace)
        finally:
            self._closed = True
            self._done.set()

    def _has_words(self) -> bool:
        return any(not piece.isspace() for piece in self._pieces)

    async def _frame(self, pace: pacing.Pace) -> pacing.Pace:
        version, text = self._version, "".join(self._pieces)
        self._pieces = [text]
        capabilities = self._channel.capabilities
        if len(text) > LONG_TEXT:
            document = await to_thread.run_sync(
                frame_of, text, capabilities.text_limit, capabilities.measure, self._guard
            )
        else:
            document = frame_of(text, capabilities.text_limit, capabilities.measure, self._guard)
        try:
            with anyio.fail_after(CALL_DEADLINE_S):
                await self._show(document)
        except ChannelBusy as error:
            return pacing.after_refusal(pace, self._clock.monotonic(), error.after_s)
        except (ChannelUnsure, TimeoutError):
            if self._shown is None or self._shown.by == "key":
                self._give_up("its first frame may or may not have arrived")
        except ChannelError as error:  # somebody deleted it, or the place is closed: the final will find out
            self._give_up(str(error))
        self._shown_version = version
        return pacing.after_frame(pace, self._clock.monotonic())

    def _give_up(self, why: str) -> None:
        log.info("a preview goes no further: %s", why, extra={"conversation": str(self._channel.key)})
        self._closed = True

    async def _show(self, document: Document) -> None:
        streams = self._channel.streams
        if self._shown is not None:
            if streams is not None:
                await streams.update(self._shown.sent, document)
            else:
                await self._channel.edit(self._shown.sent, Outbound(document=document))
            return
        if streams is not None:
            to = UserId(self.audience.person.partition(":")[2]) if self.audience.person else None
            sent = await streams.open(document, reply_to=self.audience.reply_to, to=to)
            self._shown = Shown(sent, "stream", self.audience.inbox_id)
            passing("preview.shown")
            await self._ephemera.note(self._channel.key, "preview", self._shown)
        else:
            await self._show_first(document)

    async def _show_first(self, document: Document) -> None:
        """As a message; noted beforehand where it can be found again by its key (DESIGN §13.5)."""
        message = Outbound(
            document=document, key=self._key, reply_to=self.audience.reply_to, interaction=self.audience.interaction
        )
        place, hidden = self._channel.key, unnamed(self._key, self.audience.inbox_id)
        if not has_keys(self._channel, message):
            self._shown = Shown(await self._send_first(message), of=self.audience.inbox_id)
            passing("preview.shown")
            await self._ephemera.note(place, "preview", self._shown)
            return
        await self._ephemera.note(place, "preview", hidden)
        try:
            sent = await self._send_first(message)
        except (ChannelUnsure, TimeoutError):
            self._shown = hidden
            raise
        except ChannelError:
            await self._ephemera.forget(place, "preview", hidden)
            raise
        passing("preview.shown")
        self._shown = replace(hidden, sent=sent, by="message")

    async def _send_first(self, message: Outbound) -> SentRef:
        try:
            return await self._channel.send(message)
        except ChannelUnsure:
            how = self._channel.capabilities.idempotent_send
            if how == "nonce":
                return await self._channel.send(message)
            if how == "lookup" and self._channel.history is not None:
                found = await self._channel.history.find(message.key)
                if found is not None:
                    return found
            raise

    async def take(self) -> Shown | None:
        """Stop, wait for the frame under way, and hand over what is on the screen, for the final text to replace it.

        Its note in `ephemeral` stays until the caller strikes it.
        """
        self._taken = self._closed = True
        self._rest.end()
        self._changed.set()
        if self._started:
            await self._done.wait()
        shown, self._shown = self._shown, None
        return shown
