"""The preview of a growing reply. Best effort: the final text comes from the outbox and never waits for a frame."""

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import anyio

from agent.core.clock import Clock
from agent.core.outbox import Audience
from agent.core.untrusted_text import worked_on
from gateway.channels.channel import Channel
from gateway.channels.document import Document, Plain
from gateway.channels.errors import ChannelBusy, ChannelError, ChannelUnsure
from gateway.channels.keys import ConversationKey, UserId
from gateway.channels.outbound import Outbound, SentRef
from gateway.delivery import pacing
from gateway.delivery.egress import Guard
from gateway.delivery.ephemeral.messages import CALL_DEADLINE_S, Discard, Showing, Shown, Spawn
from gateway.delivery.pacing import Budget
from gateway.delivery.rendering.growing import Growing
from gateway.delivery.rendering.markdown import LONG_TEXT
from gateway.delivery.sleep import InterruptibleSleep, Later

log = logging.getLogger("tieline.delivery")

EARLIER_PAUSE_S = 0.1


class Draft:
    """Shows the text as it grows, by the platform's own stream or by editing a message; nothing where neither exists.

    One task runs `run`, from when the first frame is due; frames never queue up behind each other: each shows the
    newest text.
    """

    def __init__(
        self,
        channel: Channel,
        audience: Audience,
        showing: Showing,
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
        self._showing = showing
        self._budget = budget
        self._clock = clock
        self._pieces: list[str] = []
        self._version = 0
        self._shown_version = 0
        self._shown: Shown | None = None
        self._is_opening = False
        self.is_over = False  # nothing more is shown
        self.taken = False
        self._done: anyio.Event | None = None  # None: it was not begun, as in most turns
        self._changed: anyio.Event | None = None  # there while the next change is waited for
        self._rest = InterruptibleSleep(clock)
        self._pace = pacing.first_frame(channel.capabilities.stream_every_s, clock.monotonic())
        self._growing: Growing | None = None  # made for the first frame

    @staticmethod
    def possible(channel: Channel) -> bool:
        return channel.streams is not None or channel.capabilities.edits

    @property
    def is_shown(self) -> bool:
        """It is on the screen, or just on its way there."""
        return self._shown is not None or self._is_opening

    @property
    def words(self) -> str:
        return "".join(self._pieces)

    def grow(self, delta: str) -> None:
        self._pieces.append(delta)
        self._touch()

    def void(self) -> None:
        """The text so far is wrong (G-24): the next frame shows what comes instead, in the same message."""
        self._pieces.clear()
        self._growing = None
        self._touch()

    def _touch(self) -> None:
        self._version += 1
        if self._changed is not None:
            self._changed.set()

    async def run(self) -> None:
        """Send frames until taken."""
        self._done = anyio.Event()
        pace = self._pace
        try:
            while not self.is_over:
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
            self.is_over = True
            self._done.set()

    def _has_words(self) -> bool:
        return any(not piece.isspace() for piece in self._pieces)

    async def _frame(self, pace: pacing.Pace) -> pacing.Pace:
        version, text = self._version, self.words
        self._pieces = [text]
        if self._growing is None:
            capabilities = self._channel.capabilities
            self._growing = Growing(capabilities.text_limit, capabilities.measure, self._guard)
        document = await worked_on(text, self._growing.frame, long=LONG_TEXT)
        if not document:
            if self._shown is None:  # a stream that begins with "…" could not take it back
                self._shown_version = version
                return pace
            document = (Plain("…"),)
        try:
            await self._show(document)
        except ChannelBusy as error:
            return pacing.after_refusal(pace, self._clock.monotonic(), error.after_s)
        except (ChannelUnsure, TimeoutError):
            if self._shown is None:
                self._give_up("its first frame may or may not have arrived")
        except ChannelError as error:  # somebody deleted it, or the place is closed: the final will find out
            self._give_up(str(error))
        self._shown_version = version
        return pacing.after_frame(pace, self._clock.monotonic())

    def _give_up(self, why: str) -> None:
        log.info("a preview goes no further: %s", why, extra={"conversation": str(self._channel.key)})
        self.is_over = True

    async def _show(self, document: Document) -> None:
        if self._shown is None:
            self._is_opening = True
            try:
                self._shown = await self._open(document)
            finally:
                self._is_opening = False
            if self._shown is None or self._shown.by == "key":
                self._give_up("its first frame may or may not have arrived")
            return
        with anyio.fail_after(CALL_DEADLINE_S):
            if self._channel.streams is not None:
                await self._channel.streams.update(self._shown.sent, document)
            else:
                await self._channel.edit(self._shown.sent, Outbound(document=document))

    async def _open(self, document: Document) -> Shown | None:
        """The first frame: by the platform's own stream, or as a message."""
        to, streams, inbox_id = self.audience, self._channel.streams, self.audience.inbox_id
        message = Outbound(document=document, reply_to=to.reply_to, interaction=to.interaction)
        if streams is None:
            return await self._showing.show(self._channel, "preview", message, self._send_first, of=inbox_id)
        person = UserId(to.person.partition(":")[2]) if to.person else None
        open_stream = partial(streams.open, document, reply_to=to.reply_to, to=person)
        message = replace(message, interaction=None)
        return await self._showing.show(
            self._channel, "preview", message, lambda _: open_stream(), by="stream", of=inbox_id
        )

    async def _send_first(self, message: Outbound) -> SentRef:
        try:
            return await self._channel.send(message)
        except ChannelUnsure:
            if not message.key:
                raise
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
        self.taken = self.is_over = True
        self._rest.end()
        if self._changed is not None:
            self._changed.set()
        if self._done is not None:
            await self._done.wait()
        shown, self._shown = self._shown, None
        return shown


# Previews under way, by place: the reply takes one over, or it is removed.


class Drafts:
    """`has_more` says whether a row of the place may still come and take a draft; `later` begins them."""

    def __init__(
        self, spawn: Spawn, later: Later, discard: Discard, has_more: Callable[[ConversationKey], bool]
    ) -> None:
        self._spawn = spawn
        self._later = later
        self._discard = discard
        self._has_more = has_more
        self._drafts: dict[ConversationKey, list[Draft]] = {}

    def open(self, key: ConversationKey, draft: Draft) -> None:
        """Show it as it grows."""
        self._drafts.setdefault(key, []).append(draft)
        self._later.start(draft)

    def end(self, key: ConversationKey, draft: Draft) -> None:
        """Its turn is over. If a row is still on its way it may take the draft, else the draft goes."""
        draft.ended = True
        if not self._has_more(key):
            self.drop_ended(key)

    def drop(self, key: ConversationKey, draft: Draft) -> None:
        """Take it from the screen; no row may have it any more."""
        self._remove(key, draft)
        self._spawn(partial(self._drop, key, draft))

    def drop_ended(self, key: ConversationKey) -> None:
        """Nothing is on its way any more: those whose turn is over go."""
        for draft in [draft for draft in self._drafts.get(key, ()) if draft.ended]:
            self.drop(key, draft)

    async def take(self, key: ConversationKey, work: int) -> Shown | None:
        """The shown draft of that work, for the reply to take its place; it is the reply's now."""
        for draft in [draft for draft in self._drafts.get(key, ()) if draft.audience.inbox_id == work]:
            self._remove(key, draft)
            return await draft.take()
        return None

    def _remove(self, key: ConversationKey, draft: Draft) -> None:
        drafts = self._drafts[key]
        drafts.remove(draft)
        if not drafts:
            del self._drafts[key]

    async def _drop(self, key: ConversationKey, draft: Draft) -> None:
        shown = await draft.take()
        if shown is not None:
            self._discard(key, "preview", shown)
