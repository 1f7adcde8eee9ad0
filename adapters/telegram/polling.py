"""Long polling by a loop of our own: an update is acknowledged only when it is stored.

(The library's Updater acknowledges what it has merely queued. Telegram takes the next call's offset as the receipt.)
"""

import logging
from collections.abc import Iterable

from telegram.error import Conflict, InvalidToken, TelegramError

from adapters.telegram.api import POLL_SLACK_S, Api, Unknown
from adapters.telegram.errors import mapped, speaks_of
from adapters.telegram.intake import Intake
from adapters.telegram.parse import UPDATES
from adapters.telegram.pulse import Pulse
from adapters.telegram.request import Flooded
from agent.core.clock import Clock

log = logging.getLogger("tieline.telegram")

IDLE_S = 0.5  # between polls that come back empty at once, as behind some proxies (SPEC §1.3)
CAP_S = 30.0
CONFLICT_S, CONFLICT_CAP_S = 35.0, 120.0  # the other poller's call lasts up to 30 s


def pause_s(failures: int, *, conflict: bool = False) -> float:
    """Before the next try, after so many failures in a row (1, 2, …)."""
    if conflict:
        return float(min(CONFLICT_CAP_S, CONFLICT_S * 1.5 ** (failures - 1)))
    return float(min(CAP_S, 0.5 * 2 ** min(failures - 1, 10)))


def pause_after(error: TelegramError, failures: int) -> float:
    """The same, and never less than the server asked for."""
    return max(pause_s(failures), error.after_s if isinstance(error, Flooded) else 0.0)


class Offset:
    """Which update to ask for next, and which behind it are dealt with already. Pure."""

    def __init__(self) -> None:
        self.next: int | None = None
        self._done: set[int] = set()

    def is_done(self, update_id: int) -> bool:
        return update_id in self._done

    def after(self, batch: Iterable[int], done: set[int]) -> None:
        """Move behind everything dealt with, up to the first update that is not."""
        ids = sorted(batch)
        if not ids:
            # All acknowledged. After a quiet week Telegram numbers from a random point, so no number is kept.
            self.next = None
            self._done.clear()
            return
        self._done |= done
        open_ids = [update_id for update_id in ids if update_id not in self._done]
        self.next = open_ids[0] if open_ids else ids[-1] + 1
        self._done = {update_id for update_id in self._done if update_id >= self.next}


class Polling:
    def __init__(self, api: Api, intake: Intake, pulse: Pulse, clock: Clock, timeout_s: int) -> None:
        self._api = api
        self._intake = intake
        self._pulse = pulse
        self._clock = clock
        self._timeout_s = timeout_s
        self._offset = Offset()

    async def run(self) -> None:
        """Until cancelled. Raises ChannelFatal when the token is refused."""
        failures, proven = 0, False
        while True:
            asked_at = self._clock.monotonic()
            timeout_s = self._timeout_s if proven else 0  # the first answer shows at once whether we hear
            try:
                updates = await self._api.call(
                    "getUpdates",
                    read_s=timeout_s + POLL_SLACK_S,
                    timeout=timeout_s,
                    offset=self._offset.next,
                    allowed_updates=list(UPDATES),
                )
            except TelegramError as error:
                failures += 1
                await self._recover(error, failures)
                proven = False
                continue
            self._pulse.beat()
            fresh = [update for update in updates if not self._offset.is_done(update["update_id"])]
            done = await self._intake.take_all(fresh) if fresh else set()
            self._offset.after([update["update_id"] for update in updates], done)
            if len(done) < len(fresh):
                failures += 1
                self._pulse.trouble("what was received could not be stored; it is asked for again")
                await self._clock.sleep(pause_s(failures))
                continue
            failures = 0
            if proven and not updates and self._clock.monotonic() - asked_at < IDLE_S:
                await self._clock.sleep(IDLE_S)
            proven = True

    async def _recover(self, error: TelegramError, failures: int) -> None:
        match error:
            case InvalidToken() | Unknown():
                raise mapped(InvalidToken()) from error
            case Conflict() if speaks_of(error, "webhook"):
                self._pulse.trouble("a webhook is set for this bot (409); it is removed, polling goes on")
                wait_s = await self._remove_webhook(failures)
            case Conflict():
                wait_s = pause_s(failures, conflict=True)
                self._pulse.trouble("another process polls with the same bot token (409); stop one of the two")
            case _:
                wait_s = pause_after(error, failures)
                self._pulse.trouble(error.message)
        log.warning("polling interrupted", extra={"reason": error.message, "again_in_s": wait_s})
        await self._clock.sleep(wait_s)

    async def _remove_webhook(self, failures: int) -> float:
        """Gives how long to wait before the next poll."""
        try:
            await self._api.call("deleteWebhook", drop_pending_updates=False)
        except TelegramError as error:
            log.warning("webhook not removed", extra={"reason": error.message})
            return pause_after(error, failures)
        return pause_s(failures)
