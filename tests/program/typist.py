"""Somebody at a terminal of their own, with `tieline console` in it."""

import fcntl
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time

import anyio
import anyio.to_thread

from tests.program.doubles import PATIENCE_S
from tests.program.running import Program

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def _at_a_terminal() -> None:
    """What a shell does for a program: Ctrl-C reaches it, also where the tests run behind a shell that ignores it."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Typist:
    """Somebody at a terminal of their own, with `tieline console` in it."""

    def __init__(self, program: Program) -> None:
        self._terminal, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "gateway", "console"],
            env={**program.environ, "TERM": "xterm"},
            stdin=theirs, stdout=theirs, stderr=theirs,
            start_new_session=True, preexec_fn=_at_a_terminal,
        )  # fmt: skip
        os.close(theirs)
        self.seen = ""

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    async def sees(self, what: str, *, within_s: float = PATIENCE_S) -> str:
        """All that came until this did, escapes left out; later calls begin behind it."""

        def look() -> str:
            end = time.monotonic() + within_s
            while (found := re.search(what, self.seen)) is None:
                assert time.monotonic() < end, f"no {what!r} in {self.seen!r}"
                if select.select([self._terminal], [], [], 0.1)[0]:
                    try:
                        self.seen += ESCAPES.sub("", os.read(self._terminal, 65536).decode(errors="replace"))
                    except OSError:  # nobody holds its other end any more
                        end = 0
            before, self.seen = self.seen[: found.end()], self.seen[found.end() :]
            return before

        return await anyio.to_thread.run_sync(look)

    async def ended(self) -> int:
        """Wait until the terminal's program has ended by itself; its exit code."""
        return await anyio.to_thread.run_sync(self.process.wait, PATIENCE_S)

    def close(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE_S)
        os.close(self._terminal)
