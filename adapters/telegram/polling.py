"""Long polling by a loop of our own: an update is acknowledged only when it and all before it are stored.

Telegram takes the next call's offset as the receipt. While an update takes its time, others are asked for: a slow file
in one chat keeps nobody else waiting.
"""

import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import Any

import anyio

from adapters.telegram.parse import (
    UPDATES,
    Context,
    Json,
    Roles,
    changed_roles_in,
    has_roles,
    parse,
    place_of,
    with_roles,
)
from adapters.telegram.request import (
    POLL_SLACK_S,
    Api,
    Conflict,
    Flooded,
    InvalidToken,
    TelegramError,
    Unknown,
    speaks_of,
    token_refused,
)
from agent.core.backoff import Backoff, Retries
from agent.core.clock import Clock
from gateway.channels.adapter import Admit
from gateway.channels.errors import GatewayUnavailable
from gateway.channels.inbound import Membership
from gateway.channels.kit.health import HealthMonitor
from gateway.channels.kit.keyed_queue import KeyedQueue
from gateway.channels.kit.lookups import Lookups

# Intake: hands updates over, in order within a place, and says whether they may be acknowledged.

log = logging.getLogger("tieline.telegram")

TAKE_WITHIN_S = 120.0  # its files and a press's answer have deadlines of their own, well below


class Intake:
    """`queue` has to run while updates are put. `administrators` gives the roles of a group's administrators."""

    def __init__(
        self,
        admit: Admit,
        context: Callable[[], Context],
        clock: Clock,
        *,
        administrators: Callable[[str], Awaitable[Roles]],
        look_around: Callable[[], Coroutine[Any, Any, None]],
        within_s: float = TAKE_WITHIN_S,
    ) -> None:
        """`look_around` asks again what Telegram keeps from the bot: it was brought to a group, or taken from one."""
        self._admit = admit
        self._context = context
        self._within_s = within_s
        self.queue = KeyedQueue(clock, log)
        self._administrators = Lookups(administrators, clock, log, beside=self.queue.beside)
        self._look_around = look_around

    async def put(self, update: Json, told: Callable[[bool], None], *, holds: bool) -> None:
        """Take it in when its place's turn has come; `told` hears after a try whether it is dealt with.

        One that `holds` its place is tried until it is. Read with the context of now: a stop that waits for its turn
        must not seem said later.
        """
        context = self._context()

        async def job() -> None:
            try:
                await self.take(update, context)
            except GatewayUnavailable:
                told(False)
                raise
            told(True)

        await self.queue.put(place_of(update), job, holds=holds)

    async def take(self, update: Json, context: Context) -> None:
        """One try. Raises GatewayUnavailable when the update must come again."""
        where = {"update_id": update.get("update_id")}
        try:
            if (chat := changed_roles_in(update)) is not None:
                self._administrators.forget(chat)
            inbound = parse(update, context)
        except Exception:  # the channel loop
            # An update we cannot read would come again for ever and hold up all others.
            log.exception("unreadable update skipped", extra=where)
            return
        if inbound is None:
            return
        if isinstance(inbound, Membership):
            self.queue.beside(self._look_around)
        if has_roles(inbound):
            inbound = with_roles(inbound, await self._administrators.get(inbound.place) or {})
        try:
            with anyio.fail_after(self._within_s):
                await self._admit(inbound)
        except GatewayUnavailable:
            raise
        except TimeoutError:
            raise GatewayUnavailable(f"not stored within {self._within_s:.0f} s") from None
        except Exception as error:  # the channel seam: a defect beyond the adapter loses no update
            log.exception("an update could not be handled", extra=where)
            raise GatewayUnavailable(f"it could not be handled ({type(error).__name__})") from error


IDLE_S = 0.5  # between polls that bring nothing new and end at once, as behind some proxies
RETRYING = Backoff(first_s=0.5, longest_s=30.0, jitter=0.5)
CONFLICT = Backoff(first_s=35.0, longest_s=120.0, factor=1.5)  # the other poller's call lasts up to 30 s
LOOK_AGAIN_S, LOOK_AGAIN_CAP_S = 0.5, 10.0
UNSTORED = "what was received could not be stored; it is tried again"


def asked_s(error: TelegramError) -> float:
    """Seconds for which the server wants to be left alone."""
    return error.after_s if isinstance(error, Flooded) else 0.0


def look_again_s(looks: int) -> float:
    """Between two polls while one chat's update is not stored yet: people in other chats wait no longer than this.

    Longer the more looks in a row (0, 1, …) found it so: what takes minutes may take hours, as a full disk does.
    """
    return min(LOOK_AGAIN_CAP_S, LOOK_AGAIN_S + looks / 40)


class Offset:
    """The update to ask for: the first that is not stored, since asking acknowledges all before it. Pure.

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
        """The updates of an answer to be begun now; they are open until `stored`."""
        before, self._shown = self._shown, set(answer)
        new = self._shown - before - self._open
        self._open |= new
        return new

    def stored(self, update_id: int) -> None:
        self._open.discard(update_id)


class Polling:
    """Asks for the next updates while those before them are being stored."""

    def __init__(self, api: Api, intake: Intake, health_monitor: HealthMonitor, clock: Clock, timeout_s: int) -> None:
        self._api = api
        self._intake = intake
        self._health_monitor = health_monitor
        self._clock = clock
        self._timeout_s = timeout_s
        self._offset = Offset()
        self._all_stored = anyio.Event()
        self._failing: set[int] = set()

    async def run(self) -> None:
        """Until cancelled. Raises ChannelFatal when the token is refused."""
        retries, conflicts, looks, proven = Retries(RETRYING), Retries(CONFLICT), 0, False
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
                await self._recover(error, retries, conflicts)
                proven = False
                continue
            retries.failures = conflicts.failures = 0
            proven = not self._failing
            if proven:
                self._health_monitor.connected()
            else:
                self._health_monitor.trouble(UNSTORED)
            await self._begin(updates)
            if self._offset.all_stored:
                looks = 0
                if waits and self._clock.monotonic() - asked_at < IDLE_S:
                    await self._clock.sleep(IDLE_S)
                continue
            looks = looks + 1 if self._offset.next == asked_for else 0
            with anyio.move_on_after(look_again_s(looks)):
                await self._all_stored.wait()

    async def _begin(self, updates: Sequence[Json]) -> None:
        """Have stored what is new; its place waits until it is."""
        new = self._offset.new_in(update["update_id"] for update in updates)
        if new:
            self._all_stored = anyio.Event()
        for update in updates:
            if update["update_id"] in new:
                await self._intake.put(update, partial(self._told, update["update_id"]), holds=True)

    def _told(self, update_id: int, is_stored: bool) -> None:
        if not is_stored:
            self._failing.add(update_id)
            return
        self._failing.discard(update_id)
        self._offset.stored(update_id)
        if self._offset.all_stored:
            self._all_stored.set()

    async def _recover(self, error: TelegramError, retries: Retries, conflicts: Retries) -> None:
        match error:
            case InvalidToken() | Unknown():
                raise token_refused() from error
            case Conflict() if speaks_of(error, "webhook"):
                self._health_monitor.trouble("a webhook is set for this bot (409); it is removed, polling goes on")
                wait_s = await self._remove_webhook(retries)
            case Conflict():
                wait_s = conflicts.failed()
                self._health_monitor.trouble("another process polls with the same bot token (409); stop one of the two")
            case _:
                wait_s = retries.failed(asked_s(error))
                self._health_monitor.trouble(error.message)
        log.warning("polling interrupted", extra={"reason": error.message, "again_in_s": wait_s})
        await self._clock.sleep(wait_s)

    async def _remove_webhook(self, retries: Retries) -> float:
        """Gives how long to wait before the next poll."""
        try:
            await self._api.call("deleteWebhook", drop_pending_updates=False)
        except TelegramError as error:
            log.warning("webhook not removed", extra={"reason": error.message})
            return retries.failed(asked_s(error))
        return retries.failed()
