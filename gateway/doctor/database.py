"""The part of `tieline doctor` that looks at the database. Imports the storage: loaded only when needed. Blocking."""

import secrets
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Literal

from sqlalchemy import URL, Connection

from agent.storage.connect import BACKUPS, State, target_of, way_back
from agent.storage.copies.inspection import check_pages, look, look_at_revision, read
from agent.storage.errors import DatabaseDamaged, DatabaseUnusable, SchemaTooNew, SchemaTooOld
from gateway.channels.adapter import Diagnosis
from gateway.config.settings import Settings
from gateway.storage.repair import SCHEMA, Ailment, ailments, homeless_schedules, refused_histories

ARRIVES_WITHIN_S = 3.0  # a notification; milliseconds where nothing is wrong


def findings(settings: Settings, running: bool) -> Iterator[Diagnosis]:
    """Whether it is there, ours, whole and of this version. What a running gateway holds is not read through."""
    url, home = settings.database.url, settings.home
    try:
        state = look(url, home, SCHEMA)
        if state is State.OTHER:
            look_at_revision(url, home, SCHEMA)
        elif state is State.CURRENT and not running:
            check_pages(url, home)
        suffers = _ailments(settings) if state is State.CURRENT and not running else ()
    except DatabaseUnusable as error:
        yield _found("error", str(error), way_out(error, settings))
        return
    if state is State.FOREIGN:
        yield _found("error", "it holds tables that are not ours", "name an empty database in [database] url")
    elif state is State.OTHER and running:
        finding = "held by a running gateway of an older version, and will be migrated when that is restarted"
        yield _found("warning", finding, "restart the gateway")
    elif state is State.OTHER:
        yield _found("ok", "will be migrated at the next start: `tieline upgrade --check` tells more")
    elif running:
        yield _found("ok", "held by the running gateway")
    elif state is not State.CURRENT:
        yield _found("ok", "will be made at the first start")
    elif not suffers:
        yield _found("ok", "there and up to date")
    for one in suffers:
        yield _found("warning", f"{one.count} {one.text}", one.advice or "`tieline doctor --fix`")
    target = target_of(url, home)
    if isinstance(target, URL) and _loses_notifications(target):
        finding = "notifications get lost on the way: a pooler that lends connections by transaction lies between"
        yield _found("error", finding, "name the server itself in [database] url, or a pooler in session mode")


def _found(level: Literal["ok", "warning", "error"], finding: str, fix: str = "") -> Diagnosis:
    return Diagnosis(subject="database", level=level, finding=finding, fix=fix)


def _loses_notifications(url: URL) -> bool:
    """Whether what one session listens for does not reach it, so that processes would not hear each other."""
    connected, channel = import_module("gateway.cluster.connection").connected, f"tieline_doctor_{secrets.token_hex(8)}"
    with connected(url) as one, connected(url) as other:
        one.execute(f"listen {channel}")
        other.execute("select pg_notify(%s, '')", (channel,))
        return not list(one.notifies(timeout=ARRIVES_WITHIN_S, stop_after=1))


def _ailments(settings: Settings) -> Sequence[Ailment]:
    accounts = [channel.channel_type for channel in settings.channels]

    def work(conn: Connection) -> Sequence[Ailment]:
        return [*ailments(conn), *homeless_schedules(conn, accounts), *refused_histories(conn)]

    return read(settings.database.url, settings.home, work)


def way_out(error: DatabaseUnusable, settings: Settings) -> str:
    """Advice to a person who reads only this line."""
    if isinstance(error, SchemaTooOld):
        return f"start it once with the program of commit {SCHEMA.last_to_know_all}"
    if not isinstance(error, DatabaseDamaged | SchemaTooNew):
        return "see [database] in the configuration"
    target = target_of(settings.database.url, settings.home)
    if isinstance(error, SchemaTooNew):
        return way_back(target, settings.home, SCHEMA)
    copies = (target.parent if isinstance(target, Path) else settings.home) / BACKUPS
    return f"`tieline restore FILE` puts a backup in its place; copies are in {copies}"
