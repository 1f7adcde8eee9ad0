"""Thoughts that stand in the content itself, between tags, taken out of it. Pure.

Servers send them so that were not told how their model thinks. Some templates open the thought themselves, so that only
its end is seen.
"""

import re
from collections.abc import Iterator
from typing import Literal

Kind = Literal["words", "thought", "withdrawn"]  # the last: all words so far were a thought
Piece = tuple[Kind, str]

_OPENS = re.compile(r"<(think|thinking|thought)>")
_OPENINGS = ("<think>", "<thinking>", "<thought>")
_CLOSINGS = ("</think>", "</thinking>", "</thought>")
_LINE = 16  # characters of a line that are looked at: more than any tag has
_FENCES = ("```", "~~~")


class Tagged:
    """The content of one reply, piece by piece. How it was cut into pieces changes nothing."""

    def __init__(self, *, opened: bool = False) -> None:
        """`opened`: this model's replies begin inside a thought."""
        self._state: Literal["beginning", "thinking", "speaking"] = "thinking" if opened else "beginning"
        self._closing = _CLOSINGS[0]
        self._held = ""  # perhaps a tag, or a part of one
        self._kept: list[str] = []  # of a thought that has not ended, with its tag
        self._line = ""  # the beginning of the line that is spoken
        self._fenced = False
        self._may_close = True  # a tag that was never opened may still come
        self._ended = False  # a thought has ended, and nothing was said since

    def taken(self, text: str) -> Iterator[Piece]:
        """What `text` settles."""
        if self._state == "beginning":
            text, self._held = self._held + text, ""
            begun = text.lstrip()
            if any(tag.startswith(begun) and begun != tag for tag in _OPENINGS) and begun not in _OPENINGS:
                self._held = text
                return
            found = _OPENS.match(begun)
            self._state = "thinking" if found else "speaking"
            if found:
                self._closing, text = f"</{found[1]}>", begun[found.end() :]
                self._kept.append(found[0])
        if self._state == "thinking":
            yield from self._thinking(text)
        else:
            yield from self._speaking(text)

    def rest(self, *, cut: bool) -> Iterator[Piece]:
        """What is left at the end. A thought that never ended is one if the reply was `cut`; else it was no thought."""
        held, self._held = self._held, ""
        if self._state == "thinking":
            if not cut:
                yield "words", "".join(self._kept) + held
        elif self._state == "speaking" and self._closes(held):
            yield "withdrawn", ""
        elif held:
            yield "words", held

    def _thinking(self, text: str) -> Iterator[Piece]:
        text, self._held = self._held + text, ""
        thought, closing, after = text.partition(self._closing)
        if closing:
            self._state, self._may_close, self._ended, self._kept = "speaking", False, True, []
            if thought:
                yield "thought", thought
            yield from self._speaking(after)
            return
        held = next((size for size in range(len(self._closing) - 1, 0, -1) if text.endswith(self._closing[:size])), 0)
        thought, self._held = text[: len(text) - held], text[len(text) - held :]
        if thought:
            self._kept.append(thought)
            yield "thought", thought

    def _speaking(self, text: str) -> Iterator[Piece]:
        if self._ended:
            text = text.lstrip()
            self._ended = not text
        if not self._may_close:
            if text:
                yield "words", text
            return
        text, self._held = self._held + text, ""
        *lines, last = text.split("\n")
        said: list[str] = []
        for number, line in enumerate(lines):
            if not self._line and self._closes(line):
                self._may_close, self._ended = False, True
                yield "withdrawn", ""
                yield from self._speaking("\n".join([*lines[number + 1 :], last]))
                return
            self._look_at(line)
            self._line = ""
            said.append(line + "\n")
        if not self._line and last and any(tag.startswith(last.strip(" \t")) for tag in _CLOSINGS):
            self._held = last
        else:
            self._line = (self._line + last)[:_LINE]
            said.append(last)
        if words := "".join(said):
            yield "words", words

    def _look_at(self, rest: str) -> None:
        if (self._line + rest[:_LINE]).lstrip().startswith(_FENCES):
            self._fenced = not self._fenced

    def _closes(self, line: str) -> bool:
        """Is that line nothing but the tag? Who writes about the tag sets it in a sentence or in code."""
        return self._may_close and not self._fenced and line.strip(" \t\r") in _CLOSINGS
