"""Disk and server trouble: what failed is done again, and who watches over the gateway is told (B-48, DESIGN §13.7)."""

import logging
import sqlite3
from collections.abc import Awaitable, Callable
from typing import TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt, wait_exponential

from agent.core.clock import Clock
from agent.storage.database import Database
from agent.storage.errors import DatabaseDamaged, StorageTrouble

T = TypeVar("T")

RETRIES = 3
FIRST_WAIT_S = 0.1
_CANDIDATES = (DBAPIError, PoolTimeout, TimeoutError, OSError)
_SQLITE_TROUBLE = frozenset(
    {"FULL", "IOERR", "BUSY", "LOCKED", "CANTOPEN", "READONLY", "NOMEM", "PROTOCOL", "INTERRUPT"}
)
_log = logging.getLogger("tieline.storage")


class RetryingDatabase:
    """A `Database` that repeats what failed by no fault of the work: 3 times, then it raises StorageTrouble.

    `on_trouble` is told the reason when a piece of work was given up, and None when one succeeds again. A commit whose
    answer was lost with a connection is repeated as well: work must be safe to repeat (unique keys, epochs).
    """

    def __init__(
        self,
        database: Database,
        *,
        clock: Clock,
        on_trouble: Callable[[str | None], None],
        on_damage: Callable[[str], None] | None = None,
    ) -> None:
        """`on_damage` is told of damage each time that work meets it; nothing tells that it is over."""
        self.dialect = database.dialect
        self.inner = database
        self._clock = clock
        self._on_trouble = on_trouble
        self._on_damage = on_damage
        self._troubled = False

    async def write(self, work: Callable[[Connection], T]) -> T:
        return await self._steady(self.inner.write, work)

    async def read(self, work: Callable[[Connection], T]) -> T:
        return await self._steady(self.inner.read, work)

    async def aclose(self) -> None:
        await self.inner.aclose()

    async def _steady(
        self, do: Callable[[Callable[[Connection], T]], Awaitable[T]], work: Callable[[Connection], T]
    ) -> T:
        try:
            result = await do(work)
        except DatabaseDamaged as error:
            if self._on_damage is not None:
                self._on_damage(str(error))
            raise
        except _CANDIDATES as error:
            if not is_trouble(error):
                raise
            result = await self._again(do, work, error)
        if self._troubled:
            self._troubled = False
            self._on_trouble(None)
        return result

    async def _again(
        self, do: Callable[[Callable[[Connection], T]], Awaitable[T]], work: Callable[[Connection], T], first: Exception
    ) -> T:
        _report(first, 1)
        await self._clock.sleep(FIRST_WAIT_S)
        retrying = AsyncRetrying(
            retry=retry_if_exception(is_trouble),
            stop=stop_after_attempt(RETRIES),
            wait=wait_exponential(multiplier=2 * FIRST_WAIT_S, max=1.0),
            sleep=self._clock.sleep,
            before_sleep=_before_sleep,
            reraise=True,
        )
        try:
            return await retrying(do, work)
        except _CANDIDATES as error:
            if not is_trouble(error):
                raise
            reason = _reason(error)
            self._troubled = True
            self._on_trouble(reason)
            raise StorageTrouble(f"the database failed {RETRIES + 1} times: {reason}") from error


def is_trouble(error: BaseException) -> bool:
    """Did disk, server or connection fail, rather than the work itself?"""
    if isinstance(error, DBAPIError):
        if isinstance(error.orig, sqlite3.Error):
            name = getattr(error.orig, "sqlite_errorname", "SQLITE_")  # errors of the Python module itself have none
            return name.split("_")[1] in _SQLITE_TROUBLE
        return error.connection_invalidated or isinstance(error, OperationalError | InterfaceError)
    return isinstance(error, PoolTimeout | TimeoutError | OSError)


def _reason(error: BaseException) -> str:
    """The driver's own words, without statement or values."""
    return str(error.orig if isinstance(error, DBAPIError) else error) or type(error).__name__


def _report(error: BaseException, failures: int) -> None:
    _log.warning("the database failed (%d of %d): %s", failures, RETRIES + 1, _reason(error))


def _before_sleep(state: RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome else None
    if error is not None:
        _report(error, state.attempt_number + 1)
