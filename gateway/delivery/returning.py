"""When a place that could not be served is tried again: its worker failed, its login was refused, or its account is not
there (yet). What it has to say is kept meanwhile.
"""

import logging
from collections.abc import Callable, Sequence

from agent.core.clock import Clock
from agent.storage.ephemeral_rows import EphemeralRow
from gateway.channels.channel import Channel
from gateway.channels.keys import ConversationKey
from gateway.delivery.showing import Spawn
from gateway.delivery.sleep import InterruptibleSleep
from gateway.delivery.worker import Reports

log = logging.getLogger("tieline.delivery")

FAILED_PAUSE_S = 30.0  # before a worker that failed comes again
REFUSED_PAUSE_S = 60.0  # before one whose login was refused does
REFUSED_LASTS_S = 2 * REFUSED_PAUSE_S
FIRST_LOOK_S, LAST_LOOK_S = 0.25, 30.0  # how soon and how seldom accounts that are not there are looked for


class Returning:
    """`wake` serves a place."""

    def __init__(
        self,
        channel_for: Callable[[ConversationKey], Channel | None],
        clock: Clock,
        reports: Reports,
        spawn: Spawn,
        wake: Callable[[ConversationKey], None],
    ) -> None:
        self._channel_for = channel_for
        self._clock = clock
        self._reports = reports
        self._spawn = spawn
        self._wake = wake
        self._returning: set[ConversationKey] = set()  # whose worker comes again after a pause
        self._refused: dict[str, float] = {}  # accounts with which nothing can be sent, and when that was last tried
        self._homeless: dict[ConversationKey, Sequence[EphemeralRow]] = {}  # their account is not there (yet)
        self._awaiting = False
        self._opening = InterruptibleSleep(clock)

    def note_call(self, key: ConversationKey, accepted: bool) -> None:
        """A login that is refused may be taken again, also where the adapter never noticed and goes on hearing."""
        if not accepted:
            self._refused[key.channel_type] = self._clock.monotonic()
        elif self._refused.pop(key.channel_type, None) is not None:
            self._reports.login_accepted(key.channel_type)

    def is_refused(self, channel_type: str) -> bool:
        """Whether a call of that account has just met a refused login.

        What waits to be sent is tried each minute. Where nothing waits, nobody knows after two, and it is tried anew.
        """
        at = self._refused.get(channel_type)
        return at is not None and self._clock.monotonic() - at < REFUSED_LASTS_S

    def come_again(self, key: ConversationKey, after_s: float) -> None:
        """Once, however often it was asked for meanwhile."""
        if key in self._returning:
            return
        self._returning.add(key)

        async def later() -> None:
            await self._clock.sleep(after_s)
            self._returning.discard(key)
            self._wake(key)

        self._spawn(later)

    def shelve(self, key: ConversationKey, left_over: Sequence[EphemeralRow]) -> None:
        """Keep what a conversation has to say until its account is there: accounts open after the start."""
        log.info("no account serves it now; what it has to say is kept", extra={"conversation": str(key)})
        self._homeless[key] = left_over
        if not self._awaiting:
            self._awaiting = True
            self._spawn(self._await_accounts)

    def is_shelved(self, key: ConversationKey) -> bool:
        return key in self._homeless

    def unshelved(self, key: ConversationKey) -> Sequence[EphemeralRow]:
        """What was kept with it, as it is served now."""
        return self._homeless.pop(key, ())

    def look_again(self) -> None:
        """An account was opened."""
        self._opening.end()

    async def _await_accounts(self) -> None:
        pause_s = FIRST_LOOK_S
        while self._homeless:
            await self._opening.sleep(pause_s)
            pause_s = min(pause_s * 2, LAST_LOOK_S)
            for key in [key for key in self._homeless if self._channel_for(key) is not None]:
                self._wake(key)
        self._awaiting = False
