"""The input line of a terminal: it steps aside for output, and comes back with what was typed.

Where no person types (a script, a pipe) there is no prompt, only lines to read.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

PROMPT = "› "
CLEAR_LINE = "\r\033[K"
CLEAR_LINE_ABOVE = "\033[A" + CLEAR_LINE


class Prompt:
    """Read by one thread; another one shows things meanwhile."""

    def __init__(self, *, interactive: bool, echo: Callable[[str], None]) -> None:
        self._echo = echo
        self._editor: Any = _line_editor() if interactive else None
        self._text = PROMPT if interactive else ""
        self._is_aside = False
        self.stands = False  # somebody may be typing

    @property
    def is_edited(self) -> bool:
        """A line editor shows what is typed; else the terminal does."""
        return self._editor is not None

    def stand(self) -> None:
        """Somebody types from now on: whoever shows things steps aside for it."""
        self._is_aside = False
        self.stands = True

    def read(self) -> str:
        """The next line. Raises EOFError and KeyboardInterrupt as `input` does."""
        self.stand()
        if self._text:
            self._echo(CLEAR_LINE)  # of what does not stay
        try:
            return input(self._text)
        finally:
            self.stands = False

    def give_up(self) -> str:
        """After a KeyboardInterrupt in `read`: what had been typed, which is sent nowhere."""
        typed: str = self._editor.get_line_buffer() if self._editor else ""
        self._echo("^C\n" if typed else CLEAR_LINE)
        return typed

    def leave_no_trace(self) -> None:
        """Take the empty line away that was just read."""
        if self._text:
            self._echo(CLEAR_LINE_ABOVE)

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


def _line_editor() -> Any:
    """`input` uses it once it is loaded; not every Python has it."""
    try:
        return import_module("readline")
    except ImportError:
        return None
