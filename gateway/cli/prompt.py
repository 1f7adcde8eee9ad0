"""The input line of a terminal: it steps aside for output, and comes back with what was typed.

Where no person types (a script, a pipe) there is no prompt, only lines to read.
"""

import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

PROMPT = "› "
CLEAR_LINE = "\r\033[K"


class Prompt:
    """Read by one thread; another one shows things meanwhile."""

    def __init__(self, *, interactive: bool, echo: Callable[[str], None]) -> None:
        self._echo = echo
        self._editor: Any = _line_editor() if interactive else None
        self._text = PROMPT if interactive else ""
        self._is_aside = False
        self.stands = False  # somebody may be typing

    def read(self) -> str:
        """The next line. Raises EOFError and KeyboardInterrupt as `input` does."""
        self._is_aside = False
        self.stands = True
        if self._text:
            self._echo(CLEAR_LINE)  # of what does not stay
        try:
            return input(self._text)
        finally:
            self.stands = False

    def step_aside(self) -> None:
        """Something is shown now, from the beginning of the line."""
        if self.stands and self._text and not self._is_aside:
            self._is_aside = True
            self._echo(CLEAR_LINE)

    def come_back(self) -> None:
        """It is shown."""
        if self.stands and self._is_aside:
            self._is_aside = False
            self._echo(self._text + (self._editor.get_line_buffer() if self._editor else ""))


@contextmanager
def no_control_characters() -> Iterator[None]:
    """The terminal would write ^C into what is being drawn."""
    if not sys.stdin.isatty():
        yield
        return
    before = termios.tcgetattr(sys.stdin)
    changed = [*before[:3], before[3] & ~termios.ECHOCTL, *before[4:]]
    termios.tcsetattr(sys.stdin, termios.TCSADRAIN, changed)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _line_editor() -> Any:
    """`input` uses it once it is loaded; not every Python has it."""
    try:
        return import_module("readline")
    except ImportError:
        return None
