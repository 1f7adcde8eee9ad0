"""Record of what has been read out of one document so far, within its limits. Part of the process that reads it."""

from dataclasses import dataclass, field
from typing import Literal

Reason = Literal["encrypted", "broken", "too_large", "old_format", "needs_extra", "empty"]

CONTROLS = dict.fromkeys((*range(9), 11, 12, *range(14, 32), 127, 0xFFFE, 0xFFFF))


class Refused(Exception):
    """The document is not read, for this reason."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason: Reason = reason


class Full(Exception):
    """As much was read as may be."""


@dataclass(slots=True, kw_only=True)
class Reading:
    """`pages` are those of the document, `read` those begun; `pictures` are pages as PNG, by their number.

    `unseen` counts pages without text for which there was no room among the pictures; `worded`: there are words in it.
    """

    most_chars: int
    most_pages: int
    most_pictures: int
    pages: int = 0
    read: int = 0
    chars: int = 0
    cut: bool = False
    macros: bool = False
    worded: bool = False
    unseen: int = 0
    text: list[str] = field(default_factory=list)
    pictures: list[tuple[int, bytes]] = field(default_factory=list)

    def write(self, line: str) -> None:
        """Add a line of the document; one empty line follows another no more. Raises Full where it does not fit."""
        line = line.translate(CONTROLS).rstrip()
        self.worded = self.worded or bool(line)
        if line or (self.text and self.text[-1] != "\n"):
            self._add(line)

    def begin(self, heading: str) -> None:
        """Begin a page, under a heading of ours. Raises Full where it may not be read any more."""
        if self.read >= self.most_pages:
            raise Full
        self.read += 1
        self._add(f"\n{heading}" if self.text else heading)

    def remark(self, words: str) -> None:
        """Add words of ours on a page. Raises Full."""
        self._add(words)

    def _add(self, line: str) -> None:
        room = self.most_chars - self.chars
        self.text.append(f"{line}\n"[:room])
        self.chars += len(self.text[-1])
        if len(line) >= room:
            self.cut = True
            raise Full
