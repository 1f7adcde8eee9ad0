"""Findings of `tieline migrate --check`: whether processes of the version before may run beside this one. Blocking."""

from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import Connection, MetaData, Table, func, inspect, or_, select

from agent.core.clock import SystemClock
from agent.core.phrases import counted
from agent.storage.connect import State, migrating_from, revision, target_of
from agent.storage.copies.inspection import look, read
from agent.storage.errors import DatabaseUnusable
from agent.storage.timestamps import to_timestamp
from gateway.channels.adapter import Diagnosis
from gateway.config.settings import Settings
from gateway.storage.repair import SCHEMA

PROCESSES = "process"  # the table in which running processes stand; an older database has none
PHASES = {
    "expand": "old processes can run beside it",
    "contract": "no old process may run: it takes away or changes what they use",
}


def findings(settings: Settings) -> Iterator[Diagnosis]:
    """The migrations that will run, each with its phase, and the processes of other versions.

    An "error" is what forbids a rolling upgrade. Raises DatabaseUnusable where the database cannot be judged.
    """
    url, home = settings.database.url, settings.home
    if isinstance(target_of(url, home), Path):
        fix = "stop the gateway for an upgrade, or move to PostgreSQL: `tieline migrate --to URL`"
        yield _found("database", "error", "SQLite belongs to one process, so none can run beside it", fix)
    state = look(url, home, SCHEMA)
    if state is State.FOREIGN:
        raise DatabaseUnusable("the database holds tables that are not ours; name another in [database] url")
    if state in (None, State.EMPTY):
        yield _found("database", "ok", "will be made at the first start")
        return
    yield from _pending(url, home)


def _pending(url: str, home: Path) -> Iterator[Diagnosis]:
    stored = str(read(url, home, revision))
    pending = migrating_from(stored, SCHEMA).pending(SCHEMA.migrations, stored)
    others = read(url, home, _others)
    if not pending:
        yield _found("database", "ok", f"of revision {SCHEMA.head}, as this version wants it: nothing is migrated")
    else:
        yield _found("database", "ok", f"of revision {stored}: {counted(len(pending), 'migration')} will run")
    gone = others is not None and not others  # known to be gone
    for one in pending:
        finding = f"{one.phase}: {PHASES[one.phase]}. {one.text}"
        if one.phase == "expand" or gone:
            yield _found(f"migration {one.revision}", "ok", finding)
        else:
            fix = "stop every process of another version, then start this one"
            yield _found(f"migration {one.revision}", "error", finding, fix)
    if others is None:
        yield _found("processes", "ok", "are not registered in this database")
    elif others:
        named = ", ".join(f"{count} of {name}" for name, count in others.items())
        yield _found("processes", "ok", f"of other versions than {version('tieline')} run: {named}")
    else:
        yield _found("processes", "ok", f"none of another version than {version('tieline')} is registered")


def _others(conn: Connection) -> Mapping[str, int] | None:
    """How many processes of each other version run; None where the database does not tell."""
    if not inspect(conn).has_table(PROCESSES):
        return None
    process = Table(PROCESSES, MetaData(), autoload_with=conn)
    if "version" not in process.c:
        return None
    running: list[Any] = [process.c.version != version("tieline")]
    if "ended_at" in process.c:
        running.append(process.c.ended_at.is_(None))
    if "expires_at" in process.c:
        now = to_timestamp(SystemClock().now())
        running.append(or_(process.c.expires_at.is_(None), process.c.expires_at > now))
    counting = select(process.c.version, func.count()).where(*running).group_by(process.c.version)
    return {str(name): int(count) for name, count in conn.execute(counting.order_by(process.c.version))}


def _found(subject: str, level: Literal["ok", "warning", "error"], finding: str, fix: str = "") -> Diagnosis:
    return Diagnosis(subject=subject, level=level, finding=finding, fix=fix)
