"""Hands updates over, one place in order, and says whether they may be acknowledged."""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio

from adapters.telegram.parse import Context, parse, place_of
from adapters.telegram.wording import Json
from gateway.channels.adapter import Admit
from gateway.channels.errors import GatewayUnavailable

log = logging.getLogger("tieline.telegram")

TAKE_WITHIN_S = 120.0  # its files and a press's answer have deadlines of their own, well below


class Intake:
    def __init__(self, admit: Admit, context: Callable[[], Context], *, within_s: float = TAKE_WITHIN_S) -> None:
        self._admit = admit
        self._context = context
        self._within_s = within_s
        self._places: dict[str, _Line] = {}

    @asynccontextmanager
    async def turn(self, update: Json) -> AsyncIterator[Context]:
        """Its place is the caller's meanwhile; who asked for it first has it first.

        Gives the context as it is when the update comes: a stop that waits for its turn must not seem said later.
        """
        place = place_of(update)
        line = self._places.setdefault(place, _Line())
        line.waiting += 1
        context = self._context()
        try:
            async with line.lock:
                yield context
        finally:
            line.waiting -= 1
            if not line.waiting:
                del self._places[place]

    async def take(self, update: Json, context: Context) -> bool:
        """One try, in its place's turn, with what that gave; True when it is dealt with, else it must come again."""
        where = {"update_id": update.get("update_id")}
        try:
            inbound = parse(update, context)
        except Exception:  # the channel loop
            # An update we cannot read would come again for ever and hold up all others.
            log.exception("unreadable update skipped", extra=where)
            return True
        if inbound is None:
            return True
        try:
            with anyio.fail_after(self._within_s):
                await self._admit(inbound)
        except GatewayUnavailable as error:
            log.warning("an update will come again: %s", error, extra=where)
            return False
        except TimeoutError:
            log.warning("an update will come again: not stored within %.0f s", self._within_s, extra=where)
            return False
        return True


class _Line:
    def __init__(self) -> None:
        self.lock = anyio.Lock(fast_acquire=True)
        self.waiting = 0
