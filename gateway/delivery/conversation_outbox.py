"""The port through which a conversation's agent speaks. Everything here is best effort and never waits."""

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from typing import Protocol

from agent.core.clock import Clock
from agent.core.events import (
    ContextDegraded,
    DecisionCompleted,
    Event,
    OutputSlotEscalated,
    ProviderFailedOver,
    ProviderReturned,
    ProviderSwitched,
    RetryScheduled,
    TokensUsed,
    ToolEnded,
    ToolOutputCompressed,
    ToolStarted,
)
from agent.core.outbox import Audience, Tone
from agent.core.outbox import Button as AgentButton
from agent.core.phrases import Phrases
from gateway.channels.channel import Channel
from gateway.channels.keys import ConversationKey, UserId
from gateway.channels.outbound import Button
from gateway.delivery.egress import Guard
from gateway.delivery.ephemeral.drafts import Draft, Drafts
from gateway.delivery.ephemeral.messages import Showing
from gateway.delivery.ephemeral.presence import Presence
from gateway.delivery.ephemeral.status import Buttons, StatusLine
from gateway.delivery.outbox.rows import Settle
from gateway.delivery.pacing import Budget
from gateway.delivery.rendering.compose import buttons_of
from gateway.delivery.settings import Settings, Verbosity
from gateway.delivery.sleep import Later

log = logging.getLogger("tieline.delivery")

STOP_BUTTON_AFTER_S = 5.0  # of work; most answers are there by then
STOP_ACTION = "c:/stop pressed"  # the command of the running turn's end, given by a button
# The words on a waiting message, by whether a question is open.
_WAITING: Mapping[bool, tuple[str, Tone]] = {False: ("queued", ""), True: ("queued_behind", "behind")}
STAYS_S = 86_400.0  # longer than any turn: it goes with it


class Stage(Protocol):
    """The port's needs of the delivery it belongs to."""

    settings: Settings
    verbosity: Callable[[ConversationKey], Verbosity]
    clock: Clock
    phrase: Phrases
    showing: Showing
    drafts: Drafts
    signs_of_life: Later
    stop_buttons: Later
    guard: Guard
    is_busy: Callable[[], bool]

    def channel_for(self, key: ConversationKey) -> Channel | None: ...
    def committing(self, key: ConversationKey) -> AbstractContextManager[Settle]: ...
    def spawn(self, job: Callable[[], Awaitable[None]]) -> bool: ...
    def is_delivering(self, key: ConversationKey) -> bool: ...
    def show_live(self, key: ConversationKey, text: str, buttons: Buttons) -> None: ...


class ConversationOutbox:
    """Implements `agent.core.outbox.Outbox` for one conversation."""

    def __init__(self, key: ConversationKey, stage: Stage) -> None:
        self._key = key
        self._stage = stage
        self._audience = Audience(language=stage.settings.language)
        self._channel: Channel | None = None
        self._budget: Budget | None = None
        self._draft: Draft | None = None
        self._presence: Presence | None = None
        self._status: StatusLine | None = None
        self._stop: StatusLine | None = None  # what bears the Stop button, once it is due
        self._asks = 0  # how much of it waits for a person's word

    @property
    def language(self) -> str:
        """The language of the person last served here."""
        return self._audience.language

    def begin(self, audience: Audience) -> None:
        self._finish()
        self._audience = audience
        channel = self._open()
        if audience.silent:
            return
        self._appear(channel)

    @property
    def suspends(self) -> bool:
        channel = self._channel or self._stage.channel_for(self._key)
        return channel is None or channel.capabilities.hitl_suspend

    @contextmanager
    def awaiting(self) -> Iterator[None]:
        """Hold back what is not on the screen yet: it would stand below the question that it leads up to.

        Afterwards all of it goes on as a message of its own: an edit above the question tells nobody.
        """
        self._vanish()
        self.status("")
        self._asks += 1
        words = self._taken_back() if self._draft is not None and not self._draft.is_shown else ""
        try:
            yield
        finally:
            self._asks -= 1
            if not self._audience.silent:
                self._appear(self._open())
            if words := words + self._taken_back():
                self.preview(words)

    def _taken_back(self) -> str:
        """The preview's words; it goes."""
        draft, self._draft = self._draft, None
        if draft is None or draft.taken:
            return ""
        self._stage.drafts.drop(self._key, draft)
        return draft.words

    def _appear(self, channel: Channel | None) -> None:
        if channel is not None and channel.presence is not None and self._presence is None:
            emoji, audience = self._stage.settings.acknowledge, self._audience
            self._presence = Presence(channel, audience.message, emoji, self._stage.clock, self._stage.is_busy)
            self._stage.signs_of_life.start(self._presence)
        if channel is not None and self._stop is None and self._has_stop_button(channel):
            self._stop = StatusLine(
                channel,
                None,
                None,
                self._stage.showing,
                self._budget_of(channel),
                self._stage.clock,
                stays_s=STAYS_S,
                openly=True,
                buttons=((Button(label=self._phrase("button_stop"), action=STOP_ACTION),),),
            )
            self._stop.show(self._phrase("working"))
            self._stage.stop_buttons.start(self._stop)

    def _has_stop_button(self, channel: Channel) -> bool:
        """Where all that is shown is the answer, no message of ours stands beside it."""
        can = channel.capabilities
        can_stop = can.stop_button and can.buttons and self._stage.settings.stop_button
        return can_stop and self._stage.verbosity(self._key) != "quiet"

    def _phrase(self, key: str) -> str:
        return self._stage.phrase(key, self._audience.language)

    def _vanish(self) -> None:
        if self._stop is not None:
            self._stop.show("")
            self._stop = None
        if self._presence is not None:
            self._presence.end()
            self._presence = None

    def preview(self, delta: str) -> None:
        if self._audience.silent:
            return
        if self._draft is None or self._draft.taken:
            channel = self._channel or self._open()
            if channel is None or not self._stage.settings.stream or not Draft.possible(channel):
                return
            self._draft = Draft(
                channel,
                self._audience,
                self._stage.showing,
                self._budget_of(channel),
                self._stage.clock,
                partial(self._stage.is_delivering, self._key),
                self._stage.guard,
            )
            self._stage.drafts.open(self._key, self._draft)
        self._draft.grow(delta)

    def reset_preview(self) -> None:
        if self._draft is not None:
            self._draft.void()

    def end_preview(self) -> None:
        if self._draft is not None:
            self._stage.drafts.end(self._key, self._draft)
            self._draft = None

    def status(self, text: str, tone: Tone = "") -> None:
        if self._stop is not None and self._stop.is_shown and self._status is None:
            self._stop.show(text or self._phrase("working"), tone)  # one message that does not stay is enough
        elif self._status is None or self._status.over:
            channel = self._open()
            if channel is None or not text:
                return
            person = self._audience.person
            self._status = StatusLine(
                channel,
                UserId(person.partition(":")[2]) if person else None,
                self._audience.interaction,
                self._stage.showing,
                self._budget_of(channel),
                self._stage.clock,
            )
            self._status.show(text, tone)
            self._stage.spawn(self._status.run)
        else:
            self._status.show(text, tone)

    def live(self, text: str, buttons: tuple[tuple[AgentButton, ...], ...] = ()) -> None:
        self._stage.show_live(self._key, text, buttons_of(buttons))

    def show(self, event: Event) -> None:
        if self._audience.silent:
            return
        line = line_for(event, self._stage.verbosity(self._key), self._stage.phrase, self._audience.language)
        if line is not None:
            self.status(line)

    def queued(self, count: int) -> None:
        """How many messages wait behind the running turn; 0 says nothing.

        Behind a question even a quiet channel is told: without an answer nothing goes on.
        """
        if count and (self._asks or self._stage.verbosity(self._key) != "quiet"):
            key, tone = _WAITING[bool(self._asks)]
            self.status(self._stage.phrase(key, self._audience.language, count=count), tone)

    def committing(self) -> AbstractContextManager[Settle]:
        return self._stage.committing(self._key)

    async def end(self) -> None:
        self._finish()
        self._audience = replace(self._audience, silent=False)  # what others show here is not its business

    def _open(self) -> Channel | None:
        """The channel, looked up for each turn: accounts come and go."""
        self._channel = self._stage.channel_for(self._key)
        return self._channel

    def _budget_of(self, channel: Channel) -> Budget:
        if self._budget is None:
            per_s = 1.0 / max(channel.capabilities.stream_every_s, 0.05)
            self._budget = Budget(max(per_s, 1.0), self._stage.clock.monotonic(), self._stage.is_busy)
        return self._budget

    def _finish(self) -> None:
        self._vanish()
        if self._status is not None:
            self._status.show("")
            self._status = None
        self.end_preview()


# Events that people see, and their words: a pure table from event to status line.


def line_for(event: Event, verbosity: Verbosity, phrase: Phrases, language: str) -> str | None:
    """The status line that shows this event; None for what this verbosity leaves out.

    Compaction and goals set their status themselves and are shown even by a quiet channel.
    """
    if verbosity == "quiet":
        return None
    match event:
        case ToolStarted(runs=True):
            return phrase("tool_running", language, tool=event.tool_name)
        case RetryScheduled():
            return phrase("show_retry", language, attempt=event.attempt)
        case ProviderFailedOver():
            key = "show_stood_in_budget" if event.over_budget else "show_stood_in"
            return phrase(key, language, name=event.instead_of, provider=event.provider)
        case ProviderReturned():
            return phrase("show_returned", language, provider=event.provider)
        case OutputSlotEscalated():
            return phrase("show_escalated", language)
        case ContextDegraded():
            return phrase("show_degraded", language)
        case ToolOutputCompressed():
            sizes = {"before": f"{event.original_tokens:,}", "after": f"{event.compressed_tokens:,}"}
            return phrase("show_shortened", language, tool=event.tool_name, **sizes)
        case ToolEnded(is_error=True) if verbosity == "verbose":
            return phrase("show_tool_failed", language, tool=event.tool_name)
        case ProviderSwitched() if verbosity == "verbose":
            return phrase("show_switched", language, provider=event.provider, model=event.model)
        case DecisionCompleted() if verbosity == "verbose":
            seconds = f"{event.elapsed_ms / 1000:.1f}"
            return phrase("show_decided", language, provider=event.provider, model=event.model, seconds=seconds)
        case TokensUsed() if verbosity == "verbose":
            return phrase("show_usage", language, prompt=event.prompt, output=event.output)
        case _:
            return None
