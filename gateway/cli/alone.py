"""The operator's operations on a database that no gateway holds. Imports the storage; loaded only when needed."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from agent.core.clock import SystemClock
from agent.storage.database import Database
from agent.storage.errors import StorageError
from gateway.config.settings import Settings
from gateway.operations.desk import Operations
from gateway.phrases.catalogue import read_catalogue
from gateway.storage.opening import open_database
from gateway.web.control import OperationError

T = TypeVar("T")


class AloneError(Exception):
    """It could not be done; the text says why and how to mend it."""


async def on_database(settings: Settings, work: Callable[[Database], Awaitable[T]]) -> T:
    """Own the database for the length of some work. Raises AloneError."""
    try:
        settings.home.mkdir(parents=True, exist_ok=True, mode=0o700)
        database = await open_database(settings.database.url, settings.home)
    except (StorageError, OSError) as error:
        raise AloneError(str(error)) from error
    try:
        return await work(database)
    finally:
        await database.aclose()


class Alone:
    """Owns the database for the length of one operation."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def operate(self, operation: str, arguments: Mapping[str, Any]) -> Any:
        """Raises AloneError."""

        async def work(database: Database) -> Any:
            operations = Operations(database, clock=SystemClock(), home=self._settings.home, phrase=read_catalogue())
            return await operations.table()[operation](arguments)

        try:
            return await on_database(self._settings, work)
        except OperationError as error:
            raise AloneError(f"{error}{'; ' + error.fix if error.fix else ''}") from error
