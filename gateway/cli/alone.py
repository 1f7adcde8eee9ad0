"""The operator's operations on a database that no gateway holds. Imports the storage; loaded only when needed."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from anyio import to_thread
from sqlalchemy.exc import DBAPIError

from agent.core.clock import SystemClock
from agent.storage.database import Database
from agent.storage.errors import StorageError
from agent.storage.inspection import look
from agent.storage.schema import State
from gateway.config.settings import Settings
from gateway.operations.operations import Operations
from gateway.phrases.catalogue import read_catalogue
from gateway.storage.opening import SCHEMA, open_database
from gateway.web.control import OperationError

T = TypeVar("T")


class AloneError(Exception):
    """It could not be done; the text says why and how to mend it."""


async def on_database(settings: Settings, work: Callable[[Database], Awaitable[T]]) -> T:
    """Own the database for the length of some work. Raises AloneError, also where the database fails at it."""
    try:
        settings.home.mkdir(parents=True, exist_ok=True, mode=0o700)
        database = await open_database(settings.database.url, settings.home)
    except (StorageError, OSError) as error:
        raise AloneError(str(error)) from error
    try:
        return await work(database)
    except StorageError as error:
        raise AloneError(str(error)) from error
    except DBAPIError as error:
        raise AloneError(f"the database failed: {error.orig}") from error
    finally:
        await database.aclose()


def _must_be_there(settings: Settings) -> None:
    """Who mistypes a home is told so, and not that everything there is in order."""
    try:
        state = look(settings.database.url, settings.home, SCHEMA)
    except StorageError:
        return  # it is there, in some way; opening it tells what is wrong
    if state is None or state is State.EMPTY:
        raise AloneError(
            f"there is no database of Tieline for {settings.home} yet: `tieline run` makes it; "
            "if you meant another directory, see --home and TIELINE_HOME"
        )


class Alone:
    """Owns the database for the length of one operation."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def operate(self, operation: str, arguments: Mapping[str, Any]) -> Any:
        """Raises AloneError."""

        async def work(database: Database) -> Any:
            operations = Operations(
                database,
                clock=SystemClock(),
                home=self._settings.home,
                phrase=read_catalogue(),
                admins=lambda: self._settings.access.admins,
            )
            return await operations.table()[operation](arguments)

        await to_thread.run_sync(_must_be_there, self._settings)
        try:
            return await on_database(self._settings, work)
        except OperationError as error:
            raise AloneError(f"{error}{'; ' + error.fix if error.fix else ''}") from error
