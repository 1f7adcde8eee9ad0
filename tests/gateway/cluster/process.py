"""Another process on the same database: the name of a process is fixed when it starts, so it takes a real one.

`python -m tests.gateway.cluster.process URL ROLES` does what it is told, a line of JSON at a time, and answers each.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import anyio
from sqlalchemy import insert, make_url, text
from sqlalchemy.exc import DBAPIError

from agent.core.clock import AdjustableClock
from agent.core.ids import ConversationId
from agent.storage import conversation_rows
from agent.storage.database import PROCESS
from agent.storage.errors import DatabaseHeld
from agent.storage.postgres import PostgresDatabase
from agent.storage.tables import outbox
from agent.storage.timestamps import to_timestamp
from gateway.cluster.membership import Claims, Membership
from gateway.cluster.outlets import ClusterOutlets
from gateway.cluster.roles import roles_of
from gateway.cluster.words import Words


class Other:
    """The process, as its test sees it."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.id = ""

    async def asked(self, *words: object) -> Any:
        """Its answer. Raises EOFError when it has ended."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()
        return await self.answer()

    async def answer(self) -> Any:
        assert self._process.stdout is not None
        line = await anyio.to_thread.run_sync(self._process.stdout.readline, abandon_on_cancel=True)
        if not line:
            raise EOFError
        return json.loads(line)

    def send_signal(self, number: int) -> None:
        self._process.send_signal(number)

    async def ended(self) -> int:
        return await anyio.to_thread.run_sync(self._process.wait, 30)


@asynccontextmanager
async def other_process(url: str, roles: str = "all") -> AsyncIterator[Other]:
    """One of the processes on the database, killed at the end."""
    command = [sys.executable, "-m", __name__, url, roles]
    process = await anyio.to_thread.run_sync(
        partial(subprocess.Popen, command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ})
    )
    try:
        other = Other(process)
        other.id = await other.answer()
        yield other
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()


class _Told:
    def __init__(self, database: PostgresDatabase, roles: str) -> None:
        self.clock = AdjustableClock()
        self.membership = Membership(database, database.url, self.clock, roles_of(roles))
        self._database = database
        self._claims = Claims(database, hears=True, works=True)
        self._outlets = ClusterOutlets(database, lambda conversation: False, delivers=True)
        self.words = Words(database)

    async def claim(self, name: str) -> str:
        await self._claims.take(name)
        return name

    async def give_back(self, name: str) -> str:
        await self._claims.give_back(name)
        return name

    async def take_outlet(self, conversation: str) -> list[str] | None:
        found = await self._outlets.take(ConversationId(conversation))
        return None if found is None else [row.ref for row in found]

    async def rest(self, conversation: str) -> str:
        await self._outlets.rest(ConversationId(conversation))
        return conversation

    async def lease(self, conversation: str) -> int | None:
        """The epoch."""
        now = to_timestamp(self.clock.now())
        claim = partial(
            conversation_rows.claim,
            key=ConversationId(conversation),
            worker=PROCESS,
            run="run",
            now=now,
            until=now + 3_600_000_000,
        )
        return await self._database.write(claim)

    async def hold(self, conversation: str) -> None:
        """Stay in a transaction that keeps everybody from the row of the conversation; answers from within."""

        def work(conn: Any) -> None:
            conversation_rows.lock_row(conn, ConversationId(conversation))
            _answer("held")
            conn.execute(text("select pg_sleep(50)"))

        with suppress(DBAPIError):  # its connection was ended
            await self._database.write(work)
        await anyio.sleep_forever()

    async def write_outbox(self, conversation: str) -> str:
        row = {
            "conv": conversation,
            "part": 0,
            "dedup": f"{PROCESS}:{conversation}",
            "payload": "{}",
            "created_at": to_timestamp(self.clock.now()),
        }
        await self._database.write(lambda conn: conn.execute(insert(outbox), row))
        return conversation

    async def tell(self, channel_type: str, words: str) -> str:
        self.words.tell(channel_type, words)
        return channel_type

    async def shift(self, seconds: float) -> float:
        """Set its clock."""
        self.clock.shift(seconds)
        return seconds

    async def now(self) -> int:
        """Microseconds."""
        return to_timestamp(self.clock.now())

    async def leave(self) -> str:
        await self.membership.leave()
        return "left"


def _answer(value: object) -> None:
    print(json.dumps(value), flush=True)


async def _obey(told: _Told) -> None:
    while line := await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
        word, *given = json.loads(line)
        do: Callable[..., Awaitable[object]] = getattr(told, word)
        _answer(await do(*given))


async def _main(url: str, roles: str) -> None:
    told = _Told(PostgresDatabase(make_url(url).set(drivername="postgresql+psycopg")), roles)
    await told.membership.join()
    _answer(PROCESS)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(told.membership.keep)
            tasks.start_soon(told.words.run)
            tasks.start_soon(_obey, told)
    except* DatabaseHeld:
        _answer("buried")
        os._exit(3)  # a thread still waits for the next line


if __name__ == "__main__":
    anyio.run(_main, sys.argv[1], sys.argv[2])
