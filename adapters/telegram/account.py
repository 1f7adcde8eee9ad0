"""State that all channels of one bot share: the connection, the allowances, and the features learnt on the way."""

import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import anyio

from adapters.telegram.limits import Limiter, Rates
from adapters.telegram.request import Api, ChatMigrated, Flooded, TelegramError, Unknown, Upload
from adapters.telegram.settings import TelegramSettings
from agent.core.bounded_map import BoundedMap
from agent.core.clock import Clock
from gateway.channels.adapter import AdapterStore
from gateway.channels.errors import ChannelBusy, GatewayUnavailable
from gateway.channels.kit.rate_limits import SharedRates
from gateway.channels.outbound import SentRef

# Features of an account's server, learnt once, so that no message pays for a failed call. Pure.

RETRY_AFTER_S = 3600.0  # what was never taken may be taken later
UNKNOWN_FOR_S = 24 * 3600.0  # a server may be updated


class Feature:
    """Something newer than the oldest server, by `name`: used until it is refused."""

    def __init__(self, name: str, *, wanted: bool) -> None:
        self.name = name
        self._wanted = wanted
        self._worked = False
        self._refused_until = 0.0

    def usable(self, now: float) -> bool:
        return self._wanted and now >= self._refused_until

    def worked(self) -> None:
        self._worked = True

    def refused(self, now: float) -> None:
        """Refused as a whole if the server never once took it; else only that content was wrong."""
        if not self._worked:
            self._refused_until = now + RETRY_AFTER_S

    def unknown(self, now: float, for_s: float = UNKNOWN_FOR_S) -> None:
        """The server does not know it."""
        self._refused_until = now + for_s


log = logging.getLogger("tieline.telegram")

REMEMBERED = 1000


class Account:
    """Shared state of one bot. `announce_move` tells the gateway of a group that got a new id.

    `store` is that of all bots: what a server does not know is kept there by its address.
    """

    def __init__(
        self,
        settings: TelegramSettings,
        api: Api,
        clock: Clock,
        store: AdapterStore,
        announce_move: Callable[[int, int], bool],
        shared_rates: SharedRates | None = None,
    ) -> None:
        self.settings = settings
        self.api = api
        self.clock = clock
        self.limiter = Limiter(
            Rates(
                overall_per_s=settings.messages_per_second,
                private_per_s=settings.private_messages_per_second,
                group_per_minute=settings.group_messages_per_minute,
            ),
            clock,
            shared_rates,
        )
        self.rich = Feature("rich messages", wanted=settings.rich == "auto")
        self.drafts = Feature("drafts", wanted=settings.drafts)
        self.signed_in = False  # until then "no such method" may as well mean "no such bot"
        self._store = store
        self._recalled = False
        self._recalling = anyio.Lock()
        self._announce_move = announce_move
        self._moved: BoundedMap[int, int] = BoundedMap(REMEMBERED)
        self._delivered: BoundedMap[str, list[SentRef]] = BoundedMap(REMEMBERED)
        # Draft ids need only differ within a chat while one is shown (30 s); seconds keep them apart over a restart.
        self._last_draft = int(clock.now().timestamp()) % 1_000_000 * 1000
        self._cleared: BoundedMap[int, int] = BoundedMap(REMEMBERED)  # by chat: the drafts up to this one

    async def ask(self, method: str, chat: int, **parameters: Any) -> Any:
        """Call a method on a chat, on its new id if it moved. Raises TelegramError.

        ChannelBusy at once while the server wants the chat to be left alone.
        """
        self.limiter.check(chat)
        try:
            return await self.api.call(method, chat_id=self._moved.get(chat, chat), **parameters)
        except Flooded as error:
            await self.limiter.refused(chat, error.after_s)
            raise
        except ChatMigrated as error:
            log.info("group moved to a new id", extra={"chat": chat, "new_chat": error.new_chat_id})
            if self._announce_move(chat, error.new_chat_id):
                self._moved[chat] = error.new_chat_id
            if any(isinstance(value, Upload) for value in parameters.values()):
                raise ChannelBusy("the group moved; its file must be read anew", after_s=0.1) from None
            return await self.api.call(method, chat_id=error.new_chat_id, **parameters)

    async def takes(self, feature: Feature) -> bool:
        """Whether to use it on this server. What earlier processes learnt is read with the first look."""
        if not self._recalled:
            async with self._recalling:
                if not self._recalled:
                    await self._recall()
                    self._recalled = True
        return feature.usable(self.clock.monotonic())

    async def refused(self, feature: Feature, error: TelegramError) -> None:
        """Keep it in mind; that the server does not know it, for other processes too."""
        if not isinstance(error, Unknown):
            feature.refused(self.clock.monotonic())
            return
        feature.unknown(self.clock.monotonic())
        if self.signed_in:
            until = self.clock.now() + timedelta(seconds=UNKNOWN_FOR_S)
            try:
                await self._store.put(self._name_of(feature), until.isoformat(), until=until)
            except GatewayUnavailable as trouble:
                log.info("that the server knows no %s is not kept: %s", feature.name, trouble)

    async def _recall(self) -> None:
        for feature in (self.rich, self.drafts):
            try:
                until = await self._store.get(self._name_of(feature))
            except GatewayUnavailable as trouble:
                log.info("whether the server knows %s is to be learnt anew: %s", feature.name, trouble)
                return
            if until is not None:
                for_s = (datetime.fromisoformat(until) - self.clock.now()).total_seconds()
                feature.unknown(self.clock.monotonic(), for_s)

    def _name_of(self, feature: Feature) -> str:
        parts = urlsplit(self.settings.api_base_url)  # which may hold a password
        return f"no {feature.name} at {parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    def next_draft(self) -> int:
        self._last_draft = self._last_draft % 2_000_000_000 + 1
        return self._last_draft

    def clears_drafts(self, chat: int) -> None:
        """A message was sent there, which takes the place of every draft of before."""
        self._cleared[chat] = self._last_draft

    def is_cleared(self, chat: int, draft: int) -> bool:
        return draft <= self._cleared.get(chat, 0)

    def delivered(self, key: str) -> list[SentRef]:
        """The pieces of a message of several that already arrived, so that a repeat goes on behind them."""
        if not key:
            return []
        return self._delivered.setdefault(key, [])

    def complete(self, key: str) -> None:
        self._delivered.pop(key, None)
