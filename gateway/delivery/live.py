"""Messages that follow longer work: one in a place, changed as it goes on, taken away at its end."""

from collections.abc import Callable

from agent.core.clock import Clock
from gateway.channels.channel import Channel
from gateway.channels.keys import ConversationKey
from gateway.delivery.budget import Budget
from gateway.delivery.showing import Showing, Spawn
from gateway.delivery.status import Buttons, StatusLine

STAYS_S = 3600.0  # a change comes with each of the work's turns


class LiveLines:
    """Those of all places; they outlive agents' sleep. A place whose messages cannot be changed gets none."""

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
