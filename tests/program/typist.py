"""A person at a terminal of their own, with `tieline console` in it."""

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
from pathlib import Path

import anyio
import anyio.to_thread

from tests.fakes.waiting import PATIENCE_S
from tests.program.running import Program

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
PARTS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|.", re.DOTALL)
COLUMNS, ROWS = 80, 24


def _at_a_terminal() -> None:
    """Let Ctrl-C reach the program, as a shell does, even if the shell of the tests ignores it."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Glass:
    """The lines of a terminal after these bytes, with all that has scrolled away."""

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._lines = [""]
        self._row = self._column = 0

    def take(self, text: str) -> None:
        for part in PARTS.findall(text):
            if part.startswith("\x1b"):
                self._steer(part)
            elif part == "\r":
                self._column = 0
            elif part == "\n":
                self._down()
            elif part == "\b":
                self._column = max(0, self._column - 1)
            elif part >= " ":
                self._put(part)

    def _steer(self, escape: str) -> None:
        number = int(re.sub(r"\D", "", escape) or 0)
        line = self._lines[self._row]
        if escape[-1] == "A":
            self._row = max(0, self._row - max(1, number))
        elif escape[-1] == "K":
            self._lines[self._row] = "" if number == 2 else line[: self._column]
        elif escape[-1] == "J":
            self._lines[self._row :] = [line[: self._column]]
        elif escape[-1] == "C":
            self._column += max(1, number)

    def _down(self) -> None:
        self._row += 1
        if self._row == len(self._lines):
            self._lines.append("")

    def _put(self, sign: str) -> None:
        if self._column == self._columns:
            self._column = 0
            self._down()
        line = self._lines[self._row].ljust(self._column)
        self._lines[self._row] = line[: self._column] + sign + line[self._column + 1 :]
        self._column += 1

    def __str__(self) -> str:
        return "\n".join(line.rstrip() for line in self._lines)


class Typist:
    """A person at a terminal of their own, with `tieline console` in it."""

    def __init__(self, program: Program) -> None:
        self._terminal, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (ROWS, COLUMNS))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "gateway", "console"],
            env={**program.environ, "TERM": "xterm"},
            stdin=theirs, stdout=theirs, stderr=theirs,
            start_new_session=True, preexec_fn=_at_a_terminal,
        )  # fmt: skip
        os.close(theirs)
        self.seen = ""
        self._all = b""

    def screen(self) -> str:
        """The lines that are there now."""
        glass = Glass(COLUMNS)
        glass.take(self._all.decode(errors="replace"))
        return str(glass)

    def type(self, text: str) -> None:
        if text == "\x03":
            self._wait_until_it_reads()
        os.write(self._terminal, text.encode())

    def _wait_until_it_reads(self) -> None:
        """A Ctrl-C within the moment in which readline shows a key is seen at the next key only: Python's own limit."""
        end = time.monotonic() + PATIENCE_S
        still = 0
        before = ""
        while still < 5 and time.monotonic() < end:
            # "R" runs and "S" sleeps; behind the state stand, among others, the ticks that the main thread has used.
            after = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/stat").read_text().rpartition(")")[2]
            still = still + 1 if after == before and after.split()[0] == "S" else 0
            before = after
            time.sleep(0.01)

    async def sees(self, what: str, *, within_s: float = PATIENCE_S) -> str:
        """All that came until this did, escapes left out; later calls begin behind it."""

        def look() -> str:
            end = time.monotonic() + within_s
            while (found := re.search(what, self.seen)) is None:
                assert time.monotonic() < end, f"no {what!r} in {self.seen!r}"
                if select.select([self._terminal], [], [], 0.1)[0]:
                    try:
                        read = os.read(self._terminal, 65536)
                        self._all += read
                        self.seen += ESCAPES.sub("", read.decode(errors="replace"))
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
