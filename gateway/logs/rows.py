"""Kept lines of the log, and chosen levels, in the database. Plain functions over a `Connection`."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, bindparam, delete, func, insert, or_, select, update

from agent.storage.statements import or_update
from agent.storage.watch_tables import log_entry as table
from gateway.logs.buffer import LogLine
from gateway.storage.tables import log_level

COUNTED_FOR_US = 3_600_000_000  # an equal line within the hour counts up the one before it
BATCH = 500  # rows that one step of the pruning removes

_AGAIN = (
    update(table)
    .where(table.c.digest == bindparam("same"), table.c.first_at > bindparam("since"))
    .values(times=table.c.times + bindparam("more"), last_at=bindparam("at"))
)
_ADD = insert(table)
_ONE = select(table).where(table.c.id == bindparam("number"))
_NEWEST = select(table).order_by(table.c.last_at.desc(), table.c.id.desc())
_LOGGERS = select(table.c.logger).distinct().order_by(table.c.logger)
_CHOOSE = or_update(insert(log_level), key=("logger",), columns=("level", "until", "by"))


def add(conn: Connection, lines: Sequence[LogLine], may_write: Callable[[LogLine], bool] = lambda line: True) -> None:
    """Write the lines, or count up equal ones of the last hour. `may_write` is asked of each."""
    for line in lines:
        if not may_write(line):
            continue
        same = {"same": line.digest, "since": line.last_at - COUNTED_FOR_US, "more": line.times, "at": line.last_at}
        if not conn.execute(_AGAIN, same).rowcount:
            conn.execute(_ADD, _values(line))


def newest(
    conn: Connection,
    *,
    level: str = "",
    logger: str = "",
    conversations: Collection[str] | None = None,
    refs: Collection[str] | None = None,
    begins: str = "",
    find: str = "",
    most: int = 50,
    skip: int = 0,
) -> Sequence[LogLine]:
    """The newest first, for which all that is given holds. `logger` stands for those below it, too.

    `refs` are references, `begins` is the beginning of another one: lines of any of them are meant. `find` is looked
    for in messages and errors.
    """
    columns = table.c
    wanted: list[ColumnElement[bool]] = []
    if level in ("error", "critical"):
        wanted.append(columns.level.in_(("error", "critical")))
    elif level:
        wanted.append(columns.level == level)
    if logger:
        wanted.append(or_(columns.logger == logger, columns.logger.startswith(f"{logger}.", autoescape=True)))
    if conversations is not None:
        wanted.append(columns.conv.in_(sorted(conversations)))
    if refs is not None:
        meant = columns.ref.in_(sorted(refs))
        wanted.append(or_(meant, columns.ref.startswith(begins, autoescape=True)) if begins else meant)
    if find:
        wanted.append(or_(*(one.icontains(find, autoescape=True) for one in (columns.message, columns.error))))
    return [_read(row) for row in conn.execute(_NEWEST.where(*wanted).limit(most).offset(skip))]


def line(conn: Connection, number: int) -> LogLine | None:
    """The line of that number."""
    row = conn.execute(_ONE, {"number": number}).one_or_none()
    return None if row is None else _read(row)


def loggers(conn: Connection) -> Sequence[str]:
    """The loggers that have lines."""
    return conn.scalars(_LOGGERS).all()


def prune(conn: Connection, *, before: int, most: int) -> int:
    """Remove up to 500 lines that were last written before that moment, or are more than `most`; how many went."""
    there = conn.execute(select(func.count()).select_from(table)).scalar_one()
    oldest = select(table.c.id, table.c.last_at).order_by(table.c.last_at, table.c.id).limit(BATCH)
    excess = there - most
    gone = [row.id for place, row in enumerate(conn.execute(oldest)) if place < excess or row.last_at < before]
    conn.execute(delete(table).where(table.c.id.in_(gone)))
    return len(gone)


def _values(line: LogLine) -> Mapping[str, object]:
    return {
        "digest": line.digest,
        "first_at": line.first_at,
        "last_at": line.last_at,
        "times": line.times,
        "level": line.level,
        "logger": line.logger,
        "conv": line.conversation,
        "ref": line.ref,
        "message": line.message,
        "error": line.error,
        "traceback": line.traceback,
    }


def _read(row: Any) -> LogLine:
    return LogLine(
        id=row.id,
        first_at=row.first_at,
        last_at=row.last_at,
        times=row.times,
        level=row.level,
        logger=row.logger,
        conversation=row.conv,
        ref=row.ref,
        message=row.message,
        error=row.error,
        traceback=row.traceback,
    )


# Levels that operators chose.


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenLevel:
    """The level of a logger and of those below it, `until` a moment (UTC microseconds); None: until the next start."""

    logger: str
    level: str
    until: int | None
    by: str


def chosen_levels(conn: Connection) -> Sequence[ChosenLevel]:
    """All of them, by the logger's name."""
    return [
        ChosenLevel(logger=row.logger, level=row.level, until=row.until, by=row.by)
        for row in conn.execute(select(log_level).order_by(log_level.c.logger))
    ]


def choose_level(conn: Connection, chosen: ChosenLevel) -> None:
    """Keep it in place of the one before."""
    conn.execute(_CHOOSE, {"logger": chosen.logger, "level": chosen.level, "until": chosen.until, "by": chosen.by})


def forget_levels(conn: Connection, *, now: int, starts: bool = False, logger: str = "") -> None:
    """Remove those whose time is over, that of `logger`, and when the program `starts` those until then."""
    over = or_(log_level.c.until <= now, log_level.c.logger == logger)
    conn.execute(delete(log_level).where(or_(over, log_level.c.until.is_(None)) if starts else over))
