"""Kills starts in the middle of a migration, each in a process of its own: forked from this one, which has all loaded.

    python -m tests.upgrade.killed_migration

A line of the input is a number, a home and the address of a database. The start is killed after that many statements of
its migrations; COMMITTED: once the database is open, WHOLE: not at all. A line of the output for each: the exit code,
which is negative for a signal, and the number of statements that were done.
"""

import os
import signal
import sys
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio
from sqlalchemy import Engine, event

from agent.storage.errors import DatabaseHeld
from gateway.storage.repair import open_database
from tests.fakes.databases import no_copy

WHOLE, COMMITTED = 0, -1
PATIENCE_S = 30.0  # a server frees the lock of a killed process when it has noticed


class Killer:
    """Counts the statements from the first that changes a table, and kills this process after one of them."""

    def __init__(self, after: int) -> None:
        self._after = after
        self._is_migrating = False
        self.done = 0

    def listen(self) -> None:
        """Listen to every engine of this process."""
        event.listen(Engine, "before_cursor_execute", self._before_each)
        event.listen(Engine, "after_cursor_execute", self._after_each)
        event.listen(Engine, "commit", self._at_commit)

    def _before_each(self, _conn: Any, _cursor: Any, statement: str, *_: Any) -> None:
        self._is_migrating |= statement.lstrip().upper().startswith(("CREATE", "ALTER", "DROP"))

    def _after_each(self, *_: Any) -> None:
        if self._is_migrating:
            self.done += 1
            if self.done == self._after:
                os.kill(os.getpid(), signal.SIGKILL)

    def _at_commit(self, _conn: Any) -> None:
        self._is_migrating = False


async def start(url: str, home: Path, number: int) -> None:
    """Open the database as a start does, and close it."""
    with anyio.fail_after(PATIENCE_S):
        while True:
            try:
                database = await open_database(url, home, back_up=no_copy)
                break
            except DatabaseHeld:
                await anyio.sleep(0.02)
    if number == COMMITTED:
        os.kill(os.getpid(), signal.SIGKILL)
    await database.aclose()


def started(url: str, home: Path, number: int) -> tuple[int, int]:
    """The exit code of such a start, and the number of statements."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            killer = Killer(number)
            killer.listen()
            anyio.run(partial(start, url, home, number))
            os.write(writing, str(killer.done).encode())
            os._exit(0)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            sys.stderr.flush()
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading, "rb") as told:
        done = int(told.read() or 0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), done


def main() -> None:
    for name in ("agent.storage.migrate", "agent.storage.postgres", "psycopg"):
        import_module(name)
    for line in sys.stdin:
        number, home, url = line.split()
        print(*started(url, Path(home), int(number)), flush=True)


if __name__ == "__main__":
    main()
