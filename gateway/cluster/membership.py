"""This process among those that share the database: it shows that it lives, and buries those that do not (G-138).

Who stopped without leaving lost its session at the server, and is buried within three seconds; who is frozen shows no
sign of life, and is buried after four. With its row go all its claims, and its connections are ended, so that a
transaction it was in holds nobody up. A buried process that wakes finds no row and ends: others do its work.
"""

import asyncio
import logging
import os
import socket
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import Any

import anyio
import anyio.from_thread
import psycopg
from sqlalchemy import URL, Connection, bindparam, delete, insert, select, text

from agent.core.clock import AdjustableClock, Clock
from agent.storage.database import PROCESS, TROUBLE, Database
from agent.storage.errors import DatabaseHeld
from agent.storage.process_tables import process, process_claim
from agent.storage.statements import or_ignore
from agent.storage.timestamps import from_timestamp
from gateway.cluster.connection import address_of
from gateway.cluster.roles import ROLES, Role

BEAT_S = 1.0
GONE_AFTER_S = 1.5  # without a sign of life of one whose session is lost
FROZEN_AFTER_S = 4.0  # of any
BEAT_WITHIN_S = 2.0
STATEMENT_MS = 2000  # else the connection counts as broken
HUNG_AFTER_S = 30.0  # of a loop that did not run at all
CLOSE_S = 0.05  # an answer that took longer tells no time
OFF_BY_S = 0.2  # less than this between this machine's clock and the database's is left alone
_LOCKS = 0x7469656E  # the class of the advisory locks that processes hold while they live

_BEAT = """
update process set seen_at = tieline_now() where id = %s
returning seen_at, (select count(*) from process where 'worker' = any(string_to_array(roles, ','))),
  (select count(*) from process where string_to_array(roles, ',') && array['ingress', 'worker', 'delivery'])
"""
_SHOW = "select pg_advisory_lock(%s, hashtext(%s))"
# Evaluated in this order: a lock is tried only of those who are late.
_BURY = """
with dead as (
  delete from process where id <> %(me)s and case
    when seen_at < tieline_now() - %(frozen)s then true
    when seen_at < tieline_now() - %(gone)s then pg_try_advisory_lock(%(locks)s, hashtext(id))
    else false end
  returning id
), moved as (
  update procrastinate_jobs set queue_name = 'turns' from dead
  where queue_name = 'host.' || dead.id and status = 'todo' returning lock
), ended as (
  select pg_terminate_backend(pid) from pg_stat_activity, dead where application_name = 'tieline-' || dead.id
)
select dead.id, (select count(*) from moved) as moved, (select count(*) from ended) as ended from dead
"""
_UNLOCK = "select pg_advisory_unlock(%s, hashtext(%s))"
_JOIN = or_ignore(insert(process))
# Jobs that wait for a process by name: nobody else would ever fetch them.
_HAND_OVER = text(
    "update procrastinate_jobs set queue_name = 'turns' where queue_name = 'host.' || :id and status = 'todo'"
)

_log = logging.getLogger("tieline.cluster")


class Membership:
    """The row of this process. A thread of its own shows signs of life: a loop that is held up for a while is alive."""

    def __init__(
        self, database: Database, url: URL, clock: Clock, roles: frozenset[Role], *, hung_after_s: float = HUNG_AFTER_S
    ) -> None:
        """A loop that did not run for `hung_after_s` shows no signs of life any more."""
        self.id = PROCESS
        self.roles = roles
        self._database = database
        self._clock = clock
        self._beats = Heartbeat(url, clock, self._was_buried, hung_after_s)
        self._buried = anyio.Event()

    async def join(self) -> None:
        """Write the row and show signs of life from now on. Raises what the database raises."""
        row = {
            "id": self.id,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "roles": ",".join(role for role in ROLES if role in self.roles),
            "version": version("tieline"),
        }

        def add(conn: Connection) -> None:
            now: int = conn.execute(text("select tieline_now()")).scalar_one()
            conn.execute(_JOIN, {**row, "started_at": now, "seen_at": now})

        await self._database.write(add)
        await anyio.to_thread.run_sync(self._beats.begin)

    async def keep(self) -> None:
        """Stay one of the processes, until cancelled. Raises DatabaseHeld when this one was buried."""
        while not self._buried.is_set():
            self._beats.loop_ran_at = time.monotonic()
            with anyio.move_on_after(BEAT_S):
                await self._buried.wait()
        raise DatabaseHeld("other processes found this one dead and do its work", pid=None)

    async def leave(self) -> None:
        """Take the row away, and with it all claims, so that others go on at once. Never raises for trouble."""

        def go(conn: Connection) -> None:
            conn.execute(delete(process).where(process.c.id == self.id))
            conn.execute(_HAND_OVER, {"id": self.id})

        with anyio.CancelScope(shield=True), anyio.move_on_after(BEAT_WITHIN_S):
            try:
                await self._database.write(go)
            except TROUBLE as error:  # the others find out by themselves
                _log.warning("this process could not take its leave: %s", type(error).__name__)
            await anyio.to_thread.run_sync(self._beats.end)

    async def others(self) -> tuple[str, ...]:
        """The ids of the other processes that live."""
        found = await self._database.read(
            lambda conn: conn.execute(select(process.c.id).where(process.c.id != self.id)).scalars().all()
        )
        return tuple(found)

    def workers(self) -> int:
        """How many processes that live have the role `worker`, a second ago at most."""
        return self._beats.seen.workers

    def senders(self) -> int:
        """The same of those that call platforms: all but those that are a `scheduler` alone."""
        return self._beats.seen.senders

    def _was_buried(self) -> None:
        self._buried.set()


@dataclass(frozen=True, slots=True)
class Seen:
    """Processes that lived at the last sign of life, by what they do."""

    workers: int = 1
    senders: int = 1


class Heartbeat:
    """The thread: a sign of life each second, and a look for those that show none. Blocking, beside the loop."""

    def __init__(self, url: URL, clock: Clock, buried: Callable[[], None], hung_after_s: float) -> None:
        """`buried` is called in the loop of whoever called `begin`."""
        self._hung_after_s = hung_after_s
        self._address = address_of(url)
        self._clock = clock
        self._buried = buried
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.seen = Seen()
        self.loop_ran_at: float | None = None  # None: nobody says so yet; a start may take long

    def begin(self) -> None:
        """Connect, and beat from then on. Raises psycopg.Error and DatabaseHeld. Call it in a thread of the loop."""
        self._loop = anyio.from_thread.run_sync(asyncio.get_running_loop)
        connection = self._connected()
        self._beat(connection)
        self._thread = threading.Thread(target=self._run, args=(connection,), name="heartbeat", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """No more signs of life."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(BEAT_WITHIN_S)

    def _connected(self) -> "psycopg.Connection[Any]":
        connection = psycopg.connect(self._address, autocommit=True, options=f"-c statement_timeout={STATEMENT_MS}")
        connection.execute(_SHOW, (_LOCKS, PROCESS))
        return connection

    def _run(self, connection: "psycopg.Connection[Any] | None") -> None:
        steady_since = time.monotonic()
        while not self._stop.wait(BEAT_S):
            if self.loop_ran_at is not None and time.monotonic() - self.loop_ran_at > self._hung_after_s:
                continue  # nothing is done here any more: others may do it
            try:
                connection = connection or self._connected()
                self._beat(connection)
                if time.monotonic() - steady_since > FROZEN_AFTER_S:
                    self._bury(connection)
            except DatabaseHeld:
                assert self._loop is not None
                with suppress(RuntimeError):  # the loop is closed: the process ends anyway
                    self._loop.call_soon_threadsafe(self._buried)
                return
            except (psycopg.Error, OSError) as error:
                # All may have been cut off together: whoever is back first must not bury the others.
                steady_since = time.monotonic()
                _log.warning("no sign of life reached the database: %s", type(error).__name__)
                if connection is not None:
                    with suppress(psycopg.Error, OSError):
                        connection.close()
                connection = None
        if connection is not None:
            connection.close()

    def _beat(self, connection: "psycopg.Connection[Any]") -> None:
        before, began = self._clock.now(), time.monotonic()
        found = connection.execute(_BEAT, (PROCESS,)).fetchone()
        took_s = time.monotonic() - began
        if found is None:
            raise DatabaseHeld("buried", pid=None)
        self.seen = Seen(*found[1:])
        if took_s < CLOSE_S:
            self._set_clock((from_timestamp(found[0]) - before).total_seconds() - took_s / 2)

    def _set_clock(self, off_s: float) -> None:
        """Take the database's time: clocks of machines differ, and leases, schedules and pauses hold for all."""
        if isinstance(self._clock, AdjustableClock) and abs(off_s) > OFF_BY_S:
            _log.warning("this machine's clock differs by %.1f s from the database's, which counts", off_s)
            self._clock.shift(off_s)

    def _bury(self, connection: "psycopg.Connection[Any]") -> None:
        limits = {"frozen": int(FROZEN_AFTER_S * 1e6), "gone": int(GONE_AFTER_S * 1e6), "locks": _LOCKS}
        for id, moved, ended in connection.execute(_BURY, {"me": PROCESS, **limits}).fetchall():
            connection.execute(_UNLOCK, (_LOCKS, id))
            _log.warning("process %s is dead; %d conversations go on elsewhere, %d connections ended", id, moved, ended)


# Claims: things that one process at a time may do. One ends with its process.

CLAIMING_S = 1.0  # between two tries

_CLAIM = or_ignore(insert(process_claim)).returning(process_claim.c.name)
_HOLDER = select(process_claim.c.process).where(process_claim.c.name == bindparam("claim"))


class Claims:
    """Things that this process alone does now. `hears`: it takes accounts of platforms; `works`: it has agents."""

    def __init__(self, database: Database, *, hears: bool, works: bool) -> None:
        self.hears, self.works = hears, works
        self._database = database
        self._held: set[str] = set()
        self._changing = anyio.Lock()

    def is_held(self, name: str) -> bool:
        return name in self._held

    async def only(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        """Run it once this process is the one that may; give the claim back afterwards, whatever happens."""
        await self.take(name)
        try:
            await run()
        finally:
            await self.give_back(name)

    async def take(self, name: str) -> None:
        """Return once it is ours."""
        while name not in self._held:
            try:
                async with self._changing:  # else one that is being given back would be found to be ours
                    is_ours = await self._database.write(partial(_claimed, name=name))
            except TROUBLE as error:
                _log.warning("%s cannot be claimed yet: %s", name, type(error).__name__)
                is_ours = False
            if is_ours:
                self._held.add(name)
                return
            await anyio.sleep(CLAIMING_S)

    async def give_back(self, name: str) -> None:
        """Let another have it. Never raises for trouble: it goes with the process."""
        ours = (process_claim.c.name == name) & (process_claim.c.process == PROCESS)
        with anyio.CancelScope(shield=True), anyio.move_on_after(BEAT_WITHIN_S):
            try:
                async with self._changing:
                    if name not in self._held:
                        return
                    self._held.discard(name)
                    await self._database.write(lambda conn: conn.execute(delete(process_claim).where(ours)))
            except TROUBLE as error:
                _log.warning("%s could not be given back: %s", name, type(error).__name__)


def _claimed(conn: Connection, *, name: str) -> bool:
    """Whether it is this process's: now, or since a time at which it could not be given back."""
    if conn.execute(_CLAIM, {"name": name, "process": PROCESS}).first() is not None:
        return True
    return bool(conn.execute(_HOLDER, {"claim": name}).scalar() == PROCESS)
