"""Long polling by a loop of our own: an update is acknowledged only when it and all before it are stored.

Telegram takes the next call's offset as the receipt. While an update takes its time, others are asked for: a slow file
in one chat keeps nobody else waiting.
"""

import logging
from collections.abc import Iterable, Sequence

import anyio
from anyio.abc import TaskGroup

from adapters.telegram.api import POLL_SLACK_S, Api
from adapters.telegram.errors import (
    Conflict,
    Flooded,
    InvalidToken,
    TelegramError,
    Unknown,
    speaks_of,
    token_refused,
)
from adapters.telegram.health_monitor import HealthMonitor
from adapters.telegram.intake import Intake
from adapters.telegram.parse import UPDATES
from adapters.telegram.wording import Json
from agent.core.clock import Clock

log = logging.getLogger("tieline.telegram")

IDLE_S = 0.5  # between polls that bring nothing new and end at once, as behind some proxies (SPEC §1.3)
CAP_S = 30.0
CONFLICT_S, CONFLICT_CAP_S = 35.0, 120.0  # the other poller's call lasts up to 30 s
LOOK_AGAIN_S, LOOK_AGAIN_CAP_S = 0.5, 10.0
UNSTORED = "what was received could not be stored; it is tried again"


def pause_s(failures: int, *, conflict: bool = False) -> float:
    """Before the next try, after so many failures in a row (1, 2, …)."""
    if conflict:
        return float(min(CONFLICT_CAP_S, CONFLICT_S * 1.5 ** (failures - 1)))
    return float(min(CAP_S, 0.5 * 2 ** min(failures - 1, 10)))


def pause_after(error: TelegramError, failures: int) -> float:
    """The same, and never less than the server asked for."""
    return max(pause_s(failures), error.after_s if isinstance(error, Flooded) else 0.0)


def look_again_s(looks: int) -> float:
    """Between two polls while one chat's update is not stored yet: people in other chats wait no longer than this.

    Longer the more looks in a row (0, 1, …) found it so: what takes minutes may take hours, as a full disk does.
    """
    return min(LOOK_AGAIN_CAP_S, LOOK_AGAIN_S + looks / 40)


class Offset:
    """Which update to ask for: the first that is not stored, for asking acknowledges all before it. Pure.

    Each answer shows again what lies behind that one, a hundred at most: so many are under way at once.
    """

    def __init__(self) -> None:
        self._open: set[int] = set()
        self._shown: set[int] = set()  # by the newest answer

    @property
    def next(self) -> int | None:
        if self._open:
            return min(self._open)
        # After a quiet week Telegram numbers from a random point, so no number outlives an answer without updates.
        return max(self._shown) + 1 if self._shown else None

    @property
    def all_stored(self) -> bool:
        return not self._open

    def new_in(self, answer: Iterable[int]) -> set[int]:
        """Those to be begun now; they are open until `stored`."""
        before, self._shown = self._shown, set(answer)
        new = self._shown - before - self._open
        self._open |= new
        return new

    def stored(self, update_id: int) -> None:
        self._open.discard(update_id)


class Polling:
    """`tasks` is where updates are stored while the next ones are asked for."""

    def __init__(
        self, api: Api, intake: Intake, health_monitor: HealthMonitor, clock: Clock, timeout_s: int, *, tasks: TaskGroup
    ) -> None:
        self._api = api
        self._intake = intake
        self._health_monitor = health_monitor
        self._clock = clock
        self._timeout_s = timeout_s
        self._tasks = tasks
        self._offset = Offset()
        self._all_stored = anyio.Event()
        self._failing: set[int] = set()

    async def run(self) -> None:
        """Until cancelled. Raises ChannelFatal when the token is refused."""
        failures, looks, proven = 0, 0, False
        while True:
            asked_at, asked_for = self._clock.monotonic(), self._offset.next
            waits = proven and self._offset.all_stored  # the first answer shows at once whether we hear
            timeout_s = self._timeout_s if waits else 0
            try:
                updates = await self._api.call(
                    "getUpdates",
                    read_s=timeout_s + POLL_SLACK_S,
                    timeout=timeout_s,
                    offset=asked_for,
                    allowed_updates=list(UPDATES),
                )
            except TelegramError as error:
                failures += 1
                await self._recover(error, failures)
                proven = False
                continue
            failures, proven = 0, not self._failing
            if proven:
                self._health_monitor.beat()
            else:
                self._health_monitor.trouble(UNSTORED)
            self._begin(updates)
            if self._offset.all_stored:
                looks = 0
                if waits and self._clock.monotonic() - asked_at < IDLE_S:
                    await self._clock.sleep(IDLE_S)
                continue
            looks = looks + 1 if self._offset.next == asked_for else 0
            with anyio.move_on_after(look_again_s(looks)):
                await self._all_stored.wait()

    def _begin(self, updates: Sequence[Json]) -> None:
        """Store what is new. Tasks start in their order here, which is how they come to their place's turn."""
        new = self._offset.new_in(update["update_id"] for update in updates)
        if new:
            self._all_stored = anyio.Event()
        for update in updates:
            if update["update_id"] in new:
                self._tasks.start_soon(self._store, update)

    async def _store(self, update: Json) -> None:
        """Try until it is stored; its place waits behind it."""
        update_id, failures = update["update_id"], 0
        async with self._intake.turn(update) as context:
            while not await self._intake.take(update, context):
                failures += 1
                self._failing.add(update_id)
                await self._clock.sleep(pause_s(failures))
        self._failing.discard(update_id)
        self._offset.stored(update_id)
        if self._offset.all_stored:
            self._all_stored.set()

    async def _recover(self, error: TelegramError, failures: int) -> None:
        match error:
            case InvalidToken() | Unknown():
                raise token_refused() from error
            case Conflict() if speaks_of(error, "webhook"):
                self._health_monitor.trouble("a webhook is set for this bot (409); it is removed, polling goes on")
                wait_s = await self._remove_webhook(failures)
            case Conflict():
                wait_s = pause_s(failures, conflict=True)
                self._health_monitor.trouble("another process polls with the same bot token (409); stop one of the two")
            case _:
                wait_s = pause_after(error, failures)
                self._health_monitor.trouble(error.message)
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
