"""Hands updates over: many places at once, one place in order, and says which may be acknowledged."""

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import anyio

from adapters.telegram.parse import Context, parse, place_of
from adapters.telegram.wording import Json
from gateway.channels.adapter import Admit
from gateway.channels.errors import HouseTrouble

log = logging.getLogger("tieline.telegram")


class Intake:
    def __init__(self, admit: Admit, context: Callable[[], Context]) -> None:
        self._admit = admit
        self._context = context
        self._places: dict[str, _Line] = {}

    async def take_all(self, updates: Sequence[Json]) -> set[int]:
        """The ids of the updates that are dealt with. Behind one that is not, its place waits."""
        done: set[int] = set()
        by_place: dict[str, list[Json]] = {}
        for update in updates:
            by_place.setdefault(place_of(update), []).append(update)

        async def take_in_order(line: list[Json]) -> None:
            for update in line:
                if not await self._take(update):
                    return
                done.add(update["update_id"])

        if len(by_place) == 1:
            await take_in_order(*by_place.values())
        else:
            async with anyio.create_task_group() as tasks:
                for line in by_place.values():
                    tasks.start_soon(take_in_order, line)
        return done

    async def take(self, update: Json) -> bool:
        """One update that came by itself, behind those of its place that came before."""
        async with self._turn(place_of(update)):
            return await self._take(update)

    async def _take(self, update: Json) -> bool:
        try:
            inbound = parse(update, self._context())
        except Exception:  # the channel loop
            # An update we cannot read would come again for ever and hold up all others.
            log.exception("unreadable update skipped", extra={"update_id": update.get("update_id")})
            return True
        if inbound is None:
            return True
        try:
            await self._admit(inbound)
        except HouseTrouble as error:
            log.warning("an update will come again: %s", error, extra={"update_id": update.get("update_id")})
            return False
        return True

    @asynccontextmanager
    async def _turn(self, place: str) -> AsyncIterator[None]:
        line = self._places.setdefault(place, _Line())
        line.waiting += 1
        try:
            async with line.lock:
                yield
        finally:
            line.waiting -= 1
            if not line.waiting:
                del self._places[place]


class _Line:
    def __init__(self) -> None:
        self.lock = anyio.Lock()
        self.waiting = 0
