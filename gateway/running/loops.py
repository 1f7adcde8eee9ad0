"""Keeps the gateway's background loops going: one that breaks is told, waits, and runs again. None ends the process."""

import logging
from collections.abc import Awaitable, Callable

import anyio

from agent.core.clock import Clock
from agent.core.groups import first_error
from agent.storage.errors import DatabaseDamaged, StorageTrouble
from gateway.telemetry.trouble import Troubles

FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 60.0
WELL_AFTER_S = 300.0  # who has run for so long runs

_log_loop = logging.getLogger("tieline.gateway")


class Loops:
    """For work without which chats go on. What the gateway cannot be without (delivery, dispatch) is not kept here."""

    def __init__(self, clock: Clock, troubles: Troubles, tell: Callable[[str, dict[str, object]], None]) -> None:
        """`tell` says a sentence of the catalogue to the owners; the same one once an hour."""
        self._clock = clock
        self._troubles = troubles
        self._tell = tell

    async def keep(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        """Run it until it returns or is cancelled, however often it breaks. `name` is what operators read."""
        wait_s, broken = FIRST_WAIT_S, False
        while True:
            began = self._clock.monotonic()
            try:
                await self._watched(name, run, broken=broken)
            except StorageTrouble as error:  # told as the database's own, as damage is, and blocks readiness as that
                _log_loop.warning("%s: waits for the storage: %s", name, error)
            except DatabaseDamaged as error:
                _log_loop.error("%s: %s", name, error)
            except Exception as error:  # noqa: BLE001 - the channel seam of STYLE §6, for loops that nobody waits for
                _log_loop.exception("%s: broke, and is started again", name)
                broken = True
                self._report(name, type(error).__name__)
            else:
                self._troubles.over("loop", name)
                return
            if self._clock.monotonic() - began >= WELL_AFTER_S:
                wait_s = FIRST_WAIT_S
            await self._clock.sleep(wait_s)
            wait_s = min(wait_s * 2, LONGEST_WAIT_S)

    async def _watched(self, name: str, run: Callable[[], Awaitable[None]], *, broken: bool) -> None:
        """Run it; one that was `broken` is well again after a while."""
        with first_error():
            if not broken:
                await run()
                return
            async with anyio.create_task_group() as group:
                group.start_soon(self._well_later, name)
                await run()
                group.cancel_scope.cancel()

    async def _well_later(self, name: str) -> None:
        await self._clock.sleep(WELL_AFTER_S)
        self._troubles.over("loop", name)

    def _report(self, name: str, defect: str) -> None:
        # The class alone: the words of an error may be somebody's.
        self._troubles.report("loop", name, f"broke: {defect}", fix="it is started again by itself; the log has more")
        self._tell("owner_loop", {"part": name, "defect": defect})
