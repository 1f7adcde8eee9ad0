"""The preview of a growing answer. Pure, and linear over the whole answer: what is settled is read once.

Settled is what stands before an empty line at which a new block begins, or, in a block that has none, before a line far
from the end. Of the settled part only what the newest message holds is kept.
"""

import re
from collections.abc import Callable
from dataclasses import replace

from agent.core.untrusted_text import LONGEST_SECRET
from gateway.channels.document import (
    Block,
    Break,
    CodeBlock,
    Document,
    Inline,
    List,
    Paragraph,
    Plain,
    Quote,
    Table,
    Text,
    is_blank,
)
from gateway.delivery.egress import Guard
from gateway.delivery.rendering.markdown import parse
from gateway.delivery.rendering.splitting import Measure, split

ROOM = 8  # units kept for the "…" before a tail
SEAM = 8  # units at most between two blocks
MOST_JOINED = 8_000  # units: a longer block is not put together again from its parts, which each frame would pay for
SETTLE_AT = 1_000  # characters of an unsettled part, from which on it is worth to look for a joint
CUT_AT = 1_500  # characters without an empty line, from which on a block is cut
LEFT = 400  # characters that stay unsettled at such a cut

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_GOES_ON = re.compile(r"[ \t>]|(?:[-+*]|\d{1,9}[.)])(?:[ \t]|$)")  # lists and quotations are read whole
_ITEM = re.compile(r"(?:[-+*]|\d{1,9}[.)])[ \t]")
_NEXT_ITEM = re.compile(r"\n(?=(?:[-+*]|\d{1,9}[.)])[ \t])")
_TABLE = re.compile(r"\|?[ \t]*+:?-[ \t|:\-]*+$")


class Growing:
    """One for an answer; `frame` is given all of its text so far, which only ever becomes longer."""

    def __init__(
        self,
        limit: int,
        measure: Measure,
        guard: Guard = Guard(),  # noqa: B008 - frozen
        read: Callable[[str], Document] = parse,
    ) -> None:
        self._limit = limit
        self._measure = measure
        self._guard = guard
        self._read = read
        # The settled part, as far as the newest message shows it: blocks, their measure at most, and the last block,
        # which the rest may go on.
        self._head: Document = ()
        self._size = 0
        self._last: Block | None = None
        self._gap: str | None = None  # within a block that was cut: what stood between its halves; else None
        self._between = ""  # what stood between two texts without markup
        self._opening = ""  # source that the rest of a cut block needs before it: a fence, the header of a table
        self._done = 0  # characters that no further frame reads
        self._outgrown = False  # messages before this one were left

    def frame(self, text: str) -> Document:
        """The part of the text that one message shows: all of it, or its end when it has outgrown one message.

        What may be the beginning of a secret waits for the rest. Empty while there is nothing to see.
        """
        start = max(0, self._done - LONGEST_SECRET)
        end = start + len(self._guard.growing(text[start:]))
        tail = text[self._done : max(end, self._done)]
        while (cut := _joint(self._opening, tail, self._guard)) or (cut := _cut(self._opening, tail, self._guard)):
            tail = self._settle(tail, *cut)
        document, _ = self._fitted(self._parsed(tail) if tail.strip() else ())
        if is_blank(document) or not self._outgrown:
            return () if is_blank(document) else document
        if isinstance(first := document[0], Plain):
            return (Plain("…" + first.text), *document[1:])
        return (Paragraph((Text("…"),)), *document)

    def _parsed(self, source: str) -> Document:
        return self._guard.document(self._read(self._opening + source))

    def _settle(self, tail: str, at: int, begin: int, opening: str | None) -> str:
        """Read the source up to `at`; the rest goes on at `begin`, in the same block if there is an `opening`."""
        document, self._size = self._fitted(self._parsed(tail[:at]))
        self._head, self._last = document[:-1], document[-1] if document else None
        if document and self._limit > MOST_JOINED:
            if (size := self._measure(document[-1:])) > MOST_JOINED:
                self._head, self._last = document, None
            else:
                self._size = max(0, self._size - size)
        self._between = tail[at:begin]
        self._gap = None if opening is None else tail[at:begin]
        self._opening = opening or ""
        self._done += begin
        return tail[begin:]

    def _fitted(self, rest: Document) -> tuple[Document, int]:
        """The settled part with the rest behind it, or as much of the end as one message holds; and its size at most.

        Where a message may be very long, those in the head are not measured again for each frame: together they hold no
        more characters than alone.
        """
        limit = self._limit - ROOM if self._outgrown else self._limit
        open_part = self._joined(rest)
        document, size = (*self._head, *open_part), 0
        if self._limit > MOST_JOINED:
            size = self._size + SEAM + self._measure(open_part)
        if not 0 < size <= limit:
            size = self._measure(document)
        if size <= limit:
            return document, size
        self._outgrown = True
        self._head, self._size, self._last, self._gap = (), 0, None, None
        last = split(rest or open_part, self._limit - ROOM, self._measure)[-1]
        return last, self._measure(last) if self._limit > MOST_JOINED else 0

    def _joined(self, rest: Document) -> Document:
        """The last settled block and the rest."""
        if self._last is None or not rest:
            return rest if self._last is None else (self._last,)
        last, first = self._last, rest[0]
        if isinstance(last, Plain) and isinstance(first, Plain):
            one: Block | None = Plain(last.text + self._between + first.text)
        else:
            one = None if self._gap is None else _one(last, first, self._gap)
        return (last, *rest) if one is None else (one, *rest[1:])


def _one(last: Block, first: Block, gap: str) -> Block | None:
    """The two halves of a block that was cut; None when they are two."""
    match last, first:
        case CodeBlock(before), CodeBlock(after):
            return replace(last, code=before + gap + after)
        case Table(header), Table(same, rows) if header == same:
            return replace(last, rows=(*last.rows, *rows))
        case List(items, start), List(more, other) if (start is None) == (other is None):
            return replace(last, items=(*items, *more))
        case Quote(blocks), Quote(more_blocks):
            return Quote((*blocks, *more_blocks))
        case Paragraph(children), Paragraph(more_children):
            between: tuple[Inline, ...] = (Break(),) if "\n" in gap else (Text(gap),) if gap else ()
            return Paragraph((*children, *between, *more_children))
    return None


Cut = tuple[int, int, str | None]


def _joint(opening: str, tail: str, guard: Guard) -> Cut | None:
    """The last empty line behind which a new block begins, outside a fence."""
    if len(tail) < SETTLE_AT:
        return None
    found: Cut | None = None
    inside = _FENCE.match(opening)
    fence, at, blank_from = inside[1] if inside else "", 0, -1
    for line in tail.splitlines(keepends=True):
        mark = _FENCE.match(line)
        if not fence and not line.strip():
            blank_from = at if blank_from < 0 else blank_from
        else:
            whole = line.endswith("\n") or len(line) > 12  # "1" may yet become "1. a", a list
            if not fence and blank_from > 0 and whole and not _GOES_ON.match(line):
                found = (blank_from - 1, at, None)
            blank_from = -1
            if mark and not fence:
                fence = mark[1]
            elif mark and mark[1].startswith(fence) and not line[mark.end() :].strip():
                fence = ""
        at += len(line)
    return found if found is None or _secret_at(found[1], tail, guard) is None else None


def _secret_at(at: int, tail: str, guard: Guard) -> int | None:
    """Where the secret begins that this place is within: in two pieces it would be none."""
    return next((start for start, end, _ in guard.found(tail) if start < at < end), None)


def _cut(opening: str, tail: str, guard: Guard) -> Cut | None:
    """A line, or else a word, some way before the end, where the block can be cut."""
    if len(tail) < CUT_AT:
        return None
    most = len(tail) - LEFT
    at = tail.rfind("\n", 0, most)
    if _ITEM.match(opening + tail[:12]) and at >= 0:
        # Before an item of the outermost list, if there is one.
        at = max((match.start() for match in _NEXT_ITEM.finditer(tail, 0, most)), default=at)
    if at <= 0:
        at = tail.rfind(" ", 0, most)
    at, begin = (most, most) if at <= 0 else (at, at + 1)
    if (secret := _secret_at(begin, tail, guard)) is not None:
        at = begin = secret
    return (at, begin, _opening(opening + tail[:at])) if at > 0 else None


def _opening(source: str) -> str:
    """The opening that the source behind it needs, to be read as the same block."""
    fence, fence_line, header = "", "", ""
    before = ""
    for line in source.splitlines():
        mark = _FENCE.match(line)
        if mark and not fence:
            fence, fence_line = mark[1], line + "\n"
        elif mark and mark[1].startswith(fence) and not line[mark.end() :].strip():
            fence = ""
        if fence or not line.strip():
            header = ""
        elif "|" in before and "-" in line and _TABLE.match(line):
            header = f"{before}\n{line}\n"
        before = line
    return fence_line if fence else header
