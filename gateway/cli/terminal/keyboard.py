"""The keys of a terminal while an answer is awaited: a key is noticed at once, and is not echoed into what is drawn."""

import os
import select
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Literal

Waited = Literal["key", "woken", "late"]


class Keyboard:
    """Waits for a key without reading it: the line editor reads it then, as the first of a line."""

    def __init__(self, *, is_edited: bool) -> None:
        self._is_edited = is_edited  # without a line editor nobody but the terminal could echo and delete
        self._before: list[Any] | None = None
        self._woken, self._waker = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(self._waker, False)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """The terminal writes no ^C into what is being drawn, and is at the end as it was before."""
        if not sys.stdin.isatty():
            yield
            return
        self._before = termios.tcgetattr(sys.stdin)
        try:
            self.echo(on=True)
            yield
        finally:
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._before)
            self._before = None

    def echo(self, *, on: bool) -> None:
        """Whether keys are shown. The line editor shows them only if the terminal did before it began."""
        if self._before is None:
            return
        flags = self._before[3] & ~termios.ECHOCTL
        if self._is_edited:
            flags &= ~termios.ICANON
            flags = flags | termios.ECHO if on else flags & ~termios.ECHO
        termios.tcsetattr(sys.stdin, termios.TCSANOW, [*self._before[:3], flags, *self._before[4:]])

    def wait(self, seconds: float) -> Waited:
        """Until a key can be read, another thread has called `wake`, or the time is over."""
        ready = select.select([sys.stdin, self._woken], [], [], seconds)[0]
        with suppress(BlockingIOError):
            os.read(self._woken, 4096)
        return "key" if sys.stdin in ready else "woken" if ready else "late"

    def wake(self) -> None:
        """Called by any thread."""
        with suppress(BlockingIOError):  # a full pipe wakes as well
            os.write(self._waker, b".")
