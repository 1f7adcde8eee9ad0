"""The real program as its own process: start, watch, stop, kill -9, start again on the same home."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence, Set
from contextlib import closing
from pathlib import Path
from typing import Any

import aiohttp
import anyio

from gateway.web.control_client import call
from tests.fakes.starting import started
from tests.fakes.waiting import PATIENCE_S
from tests.program.doubles import free_port
from tests.program.shipped import as_shipped


class Program:
    """`tieline run` on a home of its own, as it is shipped. `config` is TOML without `[web]`; the port is chosen here.

    `about` names the settings beyond the default install that a test is about; any other is refused (NotAsShipped).
    """

    host = "127.0.0.1"  # another where it has a network of its own

    def __init__(
        self,
        home: Path,
        config: str,
        environ: Mapping[str, str] | None = None,
        *,
        about: Set[str] = frozenset(),
    ) -> None:
        self.home = home
        self.port = free_port()
        self.log = home / "run.log"
        self._environ = dict(environ or {})
        self.command = [sys.executable, "-m", "gateway", "run"]
        self.process: subprocess.Popen[bytes] | None = None
        self._told = False  # to stop: a second signal would end it at once
        home.mkdir(parents=True, exist_ok=True)
        self.write(config, about=about)

    def write(self, config: str, *, about: Set[str] = frozenset()) -> None:
        """Set the configuration file."""
        as_shipped(config, about)
        host = "" if self.host == Program.host else f'host = "{self.host}"\nallow_remote = true\n'
        (self.home / "gateway.toml").write_text(f"{config}\n[web]\nport = {self.port}\n{host}")

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    @property
    def environ(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "VIRTUAL_ENV") if name in os.environ}
        return {**kept, "TIELINE_HOME": str(self.home), **self._environ}

    def start(self) -> None:
        started()
        self._told = False
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log, env=self.environ)

    async def cli(
        self, *args: str, timeout: float = 100.0, stdin: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Another `tieline` command in a second shell; the doubles go on meanwhile."""

        started()

        def run() -> subprocess.CompletedProcess[str]:
            command = [sys.executable, "-m", "gateway", *args]
            return subprocess.run(
                command, env=self.environ, capture_output=True, text=True, timeout=timeout, input=stdin, check=False
            )

        return await anyio.to_thread.run_sync(run)

    async def ready(self, seconds: float = 100.0) -> None:
        """Wait until `/readyz` is green."""
        end = time.monotonic() + seconds
        seen = "nothing answered"
        async with aiohttp.ClientSession() as client:
            while time.monotonic() < end:
                if self.process is None or self.process.poll() is not None:
                    raise AssertionError(f"the program ended:\n{self.log.read_text()[-3000:]}")
                try:
                    async with client.get(f"{self.url}/readyz", timeout=aiohttp.ClientTimeout(20)) as answer:
                        seen = f"{answer.status} {await answer.text()}"
                        if answer.status == 200:
                            return
                except (aiohttp.ClientError, TimeoutError) as error:
                    seen = repr(error)
                await anyio.sleep(0.05)
        raise AssertionError(f"not ready after {seconds} s: {seen}\n{self.log.read_text()[-3000:]}")

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(f"file:{self.home}/tieline.db?mode=ro", uri=True, timeout=30)) as database:
            return database.execute(query).fetchall()

    def insert(self, statement: str, values: Mapping[str, object]) -> None:
        """Write a row, past the program."""
        with closing(sqlite3.connect(self.home / "tieline.db", timeout=30)) as database, database:
            database.execute(statement, dict(values))

    @property
    def fallen(self) -> "Sequence[Program]":
        """Processes of it that have ended."""
        return [self] if self.process is not None and self.process.poll() is not None else []

    async def waits(self, what: str, *, without: str = "\0", seconds: float = PATIENCE_S) -> None:
        """Wait until a message that no turn has begun with holds these words, and none holds those."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            waiting = [
                json.dumps(json.loads(text)) for (text,) in self.rows("select payload from inbox where status = 'new'")
            ]
            if any(what in text for text in waiting) and not any(without in text for text in waiting):
                return
            await anyio.sleep(0.05)
        raise AssertionError(f"after {seconds} s {what!r} does not wait, or {without!r} still does")

    async def settled(self, seconds: float = PATIENCE_S) -> None:
        """Wait until every answer is noted as sent: a kill before that makes a send unsure."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.rows("select count(*) from outbox where status in ('new', 'sending')") == [(0,)]:
                return
            await anyio.sleep(0.05)
        raise AssertionError(f"answers are still on their way after {seconds} s")

    async def noted(self, seconds: float = PATIENCE_S) -> None:
        """Wait until something shown is noted: after a kill before that Telegram cannot be asked."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.rows("select count(*) from ephemeral") != [(0,)]:
                return
            await anyio.sleep(0.05)
        raise AssertionError(f"nothing is noted after {seconds} s")

    def sign_in_link(self) -> str:
        """A one-time link, as `tieline sign-in` prints it."""
        return str(call(self.home, "sign-in-link"))

    def kill(self) -> None:
        """As the power cut does."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(PATIENCE_S)

    async def told_to_stop(self) -> None:
        """As the operator does; until it has begun to."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        self._told = True
        end = time.monotonic() + PATIENCE_S
        while '"ending: ' not in self.log.read_text():
            assert time.monotonic() < end, "it does not end"
            await anyio.sleep(0.05)

    async def stop(self, timeout: float = 40.0 + PATIENCE_S) -> int:
        """As the operator does; what it returned."""
        assert self.process is not None
        if self.process.poll() is None and not self._told:
            self.process.send_signal(signal.SIGTERM)
        return await anyio.to_thread.run_sync(self.process.wait, timeout)

    async def __aenter__(self) -> "Program":
        self.start()
        await self.ready()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill()


if os.environ.get("TIELINE_TESTS_ON") == "cluster":  # the same tests, with five processes for each program
    from tests.cluster.crew import Crew

    Program = Crew  # type: ignore[misc]
