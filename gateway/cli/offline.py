"""Operations for commands: through the running gateway, or on the database itself when none runs."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import anyio
import click
from anyio import to_thread
from sqlalchemy.exc import DBAPIError

from agent.core.clock import SystemClock
from agent.core.untrusted_text import one_line
from agent.storage.connect import State
from agent.storage.copies.inspection import look
from agent.storage.database import Database
from agent.storage.errors import StorageError
from gateway.backup.request import before_migration, wanted_of
from gateway.cli.options import fail, home_from, settings_from
from gateway.config.settings import Settings
from gateway.operations.operations import Operations
from gateway.phrases.catalogue import read_catalogue
from gateway.storage.repair import SCHEMA, open_database
from gateway.web.control import OperationError
from gateway.web.control_client import NoGateway, Refused, call, is_running


def operate(operation: str, config_path: Path | None, home: Path | None, **arguments: Any) -> Any:
    """Do it and return its answer; ends the program with the reason and the fix."""
    folder = home_from(home)
    try:
        if is_running(folder):  # its configuration is its own affair: ours may have mistakes by now
            return call(folder, operation, **arguments)
    except (NoGateway, Refused) as error:
        fail(f"{error}{'; ' + error.fix if isinstance(error, Refused) and error.fix else ''}")
    # Loaded only now: a running gateway answers without the price of these imports.
    settings = settings_from(config_path, home)
    alone = import_module("gateway.cli.offline")
    try:
        return anyio.run(partial(alone.Alone(settings).operate, operation, arguments))
    except alone.AloneError as error:
        fail(str(error))


def local_minute(moment: str) -> str:
    """A stored moment (ISO 8601, UTC) on the clock of this machine, as people read one."""
    return f"{datetime.fromisoformat(moment).astimezone():%Y-%m-%d %H:%M}"


def shown(rows: list[Mapping[str, Any]], columns: Mapping[str, str], empty: str) -> None:
    """A plain table: `columns` maps a row's key to its heading."""
    if not rows:
        click.echo(empty)
        return
    cells = [list(columns.values()), *([one_line(str(row[key])) for key in columns] for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(columns))]
    for line in cells:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


# Operations on a database that no gateway holds. Imports the storage; loaded only when needed.

T = TypeVar("T")


class AloneError(Exception):
    """It could not be done; the text says why and how to mend it."""


async def on_database(settings: Settings, work: Callable[[Database], Awaitable[T]]) -> T:
    """Own the database for the length of some work. Raises AloneError, also where the database fails at it."""
    try:
        settings.home.mkdir(parents=True, exist_ok=True, mode=0o700)
        database = await open_database(settings.database.url, settings.home, back_up=before_migration(settings))
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
    """Refuse a mistyped home, which would otherwise look as if everything there were in order."""
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
                people=lambda: self._settings.people,
                wanted=partial(wanted_of, self._settings),
            )
            return await operations.table()[operation](arguments)

        await to_thread.run_sync(_must_be_there, self._settings)
        try:
            return await on_database(self._settings, work)
        except OperationError as error:
            raise AloneError(f"{error}{'; ' + error.fix if error.fix else ''}") from error
