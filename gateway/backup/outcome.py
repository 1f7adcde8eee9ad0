"""The end of the newest backup, kept in the database: when it was made and by whom, or why there is none."""

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import Connection

from agent.core.clock import Clock
from agent.core.ids import ConversationId
from agent.storage.database import Database
from agent.storage.errors import StorageError
from agent.storage.timestamps import to_timestamp
from gateway.backup.request import Archived
from gateway.storage import settings_rows

OUTCOME_SETTING = "backup"
LONGEST_ERROR = 500  # characters

_log = logging.getLogger("tieline.backup")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The end of one. `by` made it, `error` is why there is none; `left_out` counts what the archive does not hold."""

    began_at: datetime
    ended_at: datetime
    by: str
    path: str
    size: int = 0
    files: int = 0
    left_out: int = 0
    error: str = ""


_OUTCOME = TypeAdapter(Outcome)


def newest(conn: Connection) -> Outcome | None:
    """The end of the newest; None where none is known."""
    stored = settings_rows.get(conn, ConversationId(OUTCOME_SETTING), OUTCOME_SETTING)
    with suppress(ValidationError):  # of another version
        return _OUTCOME.validate_json(stored) if stored else None
    return None


def put(conn: Connection, outcome: Outcome) -> None:
    """Keep it in place of the one before."""
    text = _OUTCOME.dump_json(outcome).decode()
    at = to_timestamp(outcome.ended_at)
    settings_rows.put(conn, ConversationId(OUTCOME_SETTING), OUTCOME_SETTING, text, at=at)


async def recorded(
    database: Database,
    clock: Clock,
    make: Callable[[], Awaitable[Archived]],
    *,
    by: str,
    to: Path,
    keeps_failure: bool = True,
) -> Archived:
    """Make it and keep how that ended. Raises what `make` raises; an end that cannot be kept is logged alone.

    Without `keeps_failure` a person at a terminal has read the reason already.
    """
    began = clock.now()
    try:
        made = await make()
    except (StorageError, OSError) as error:
        text = str(error)[:LONGEST_ERROR]
        if keeps_failure:
            await _keep(database, Outcome(began_at=began, ended_at=clock.now(), by=by, path=str(to), error=text))
        raise
    outcome = Outcome(
        began_at=began,
        ended_at=clock.now(),
        by=by,
        path=str(made.path),
        size=made.size,
        files=made.files,
        left_out=len(made.left_out),
    )
    await _keep(database, outcome)
    return made


async def _keep(database: Database, outcome: Outcome) -> None:
    try:
        await database.write(lambda conn: put(conn, outcome))
    except StorageError as error:
        _log.warning("how the backup ended cannot be kept: %s", error, extra=asdict(outcome))
