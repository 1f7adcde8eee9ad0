"""Draws documents in a terminal, an answer that grows in place. Every character of a text is shown, none is a command.

Imports rich, which is slow to load: import this module by name, and only where there is a terminal.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import assert_never

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.rule import Rule as RuledLine
from rich.segment import Segment, Segments
from rich.style import Style
from rich.styled import Styled
from rich.syntax import Syntax
from rich.table import Table as Grid
from rich.text import Text as Styling

from gateway.channels.document import (
    Block,
    Bold,
    Break,
    Code,
    CodeBlock,
    Document,
    Heading,
    Inline,
    Italic,
    Item,
    Link,
    List,
    Paragraph,
    Plain,
    Quote,
    Rule,
    Strike,
    Table,
    Text,
)

INDENTED_LEVELS = 8  # deeper lists and quotes stay where they are: a narrow terminal has no columns left for them
NARROWEST_COLUMN = 6  # cells; a table with less for a column is shown cell by cell
NARROWEST_TEXT = 12  # cells beside a mark; a narrower terminal shows the text without its marks

_CODE, _LINK, _MARK = Style.parse("bold cyan"), Style.parse("underline blue"), Style.parse("bold yellow")
_HEADINGS = {1: Style.parse("bold underline"), 2: Style.parse("bold underline")}
_PLAIN = Style.null()

log = logging.getLogger("tieline.terminal")

Line = list[Segment]


class MarkdownRenderer:
    """Draws documents with rich. What it cannot draw it prints as plain text: no text ends the one who reads."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console()
        self._live: Live | None = None
        self._lines: list[Line] = []  # all of what grows
        self._left: list[Line] = []  # those of them that stand above what was typed meanwhile
        self._note = ""

    @property
    def is_drawing(self) -> bool:
        """An answer is growing."""
        return self._live is not None

    def begin(self) -> None:
        """Begin another answer: the next frame is drawn below."""
        self._left = []

    def draw(self, document: Document, text: str) -> None:
        """The whole answer so far, in place of what was drawn of it; `text` is the same without any rendering."""
        self._lines = list(Segment.split_lines(self._rendered(document, text).segments))
        if self._live is None:
            # `visible` would repeat what has scrolled away; a long draft shows its end only until it is final.
            self._live = Live(console=self._console, auto_refresh=False, vertical_overflow="ellipsis")
            self._live.start()
        self._redraw()

    def note(self, text: str) -> None:
        """One line that does not stay, below what grows; "" takes it away."""
        self._note = text
        if self._live is not None:
            self._redraw()

    def hold(self) -> None:
        """Somebody types now, below what is drawn, so nothing can be drawn in its place: its whole lines stay.

        The last one goes, since it grows still; it comes with what follows.
        """
        if self._live is not None:
            self._stop(self._new(self._lines)[:-1])
            self._left = self._lines[:-1]

    def finish(self, document: Document, text: str) -> None:
        """It has grown: this is left standing of it, less what stands already."""
        new = self._new(list(Segment.split_lines(self._rendered(document, text).segments)))
        if self._live is not None:
            self._stop(new)
        elif new:
            self._console.print(_joined(new), end="")
        self._left = []

    def _redraw(self) -> None:
        if self._live is not None:
            new = self._new(self._lines)
            note = [[Segment(self._note, Style(dim=True))]] if self._note else []
            room = max(1, self._console.height - len(note))
            self._live.update(_joined([*new[-room:], *note]), refresh=True)

    def _stop(self, lines: Sequence[Line]) -> None:
        if self._live is not None:
            self._live.update(_joined(lines))
            self._live.stop()  # draws it once more
            self._live = None

    def _new(self, lines: list[Line]) -> list[Line]:
        """All from the first line that does not stand above already: Markdown may have changed what was left."""
        for number, (left, line) in enumerate(zip(self._left, lines, strict=False)):
            if _text_of(left) != _text_of(line):
                return lines[number:]
        return lines[len(self._left) :]

    def put(self, document: Document, text: str, *, dim: bool = False) -> None:
        """Something else that is said, above what grows."""
        self._console.print(self._rendered(document, text, dim=dim), end="")

    def _rendered(self, document: Document, text: str, *, dim: bool = False) -> Segments:
        """Ready to be written, so that no failure leaves half of it on the screen."""
        try:
            drawn: RenderableType = Group(*_blocks(document))
            return Segments(list(self._console.render(Styled(drawn, "dim") if dim else drawn)))
        except Exception:  # whatever a text does to a library, people read on
            log.debug("a message is shown as plain text: it cannot be drawn", exc_info=True)
            return Segments([Segment(text), Segment.line()])


def _joined(lines: Sequence[Line]) -> Segments:
    return Segments([segment for line in lines for segment in (*line, Segment.line())])


def _text_of(line: Line) -> str:
    return "".join(segment.text for segment in line).rstrip()


def _blocks(blocks: Sequence[Block], depth: int = 0, *, tight: bool = False) -> Iterator[RenderableType]:
    """The blocks with an empty line between each two, unless they are to stand close."""
    for number, block in enumerate(blocks):
        if number and not tight:
            yield Styling("")
        yield _block(block, depth)


def _block(block: Block, depth: int) -> RenderableType:
    match block:
        case Plain(text):
            return Styling(text)
        case Paragraph(children):
            return _styling(children)
        case Heading(level, children):
            return _styling(children, _HEADINGS.get(level, Style(bold=True)))
        case CodeBlock(code, language):
            return Syntax(code, language or "text", theme="monokai", word_wrap=True, padding=1)
        case Quote(blocks):
            inner = Group(*_blocks(blocks, depth + 1))
            return _Marked("▌ ", "▌ ", inner) if depth < INDENTED_LEVELS else inner
        case List(items, start, tight):
            return Group(*_items(items, start, depth, tight=tight))
        case Table():
            return _Table(block)
        case Rule():
            return RuledLine(style="dim")
        case _:
            assert_never(block)


def _items(items: Sequence[Item], start: int | None, depth: int, *, tight: bool) -> Iterator[RenderableType]:
    marks = ["• " if start is None else f"{start + index}. " for index in range(len(items))]
    width = max(map(len, marks))
    for number, (mark, item) in enumerate(zip(marks, items, strict=True)):
        if number and not tight:
            yield Styling("")
        task = "" if item.checked is None else "[x] " if item.checked else "[ ] "
        inner = Group(*_blocks(item.blocks, depth + 1, tight=tight))
        first = mark.rjust(width) + task
        if depth < INDENTED_LEVELS:
            yield _Marked(first, " " * len(first), inner)
        else:
            yield Group(Styling(first), inner)


class _Marked:
    """Something with a mark before its first line, and another one before each line that follows."""

    def __init__(self, first: str, rest: str, inner: RenderableType) -> None:
        self._first = first
        self._rest = rest
        self._inner = inner

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width - cell_len(self._first)
        if width < NARROWEST_TEXT:
            yield Styling(self._first)
            yield self._inner
            return
        mark = self._first
        for line in console.render_lines(self._inner, options.update(width=width, height=None), pad=False):
            yield Segment(mark, _MARK)
            yield from line
            yield Segment.line()
            mark = self._rest


class _Table:
    """A table; where its columns would be too narrow to be read, each cell under the name of its column."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = self._table
        if len(table.header) * (NARROWEST_COLUMN + 2) > options.max_width:
            for row in table.rows or (table.header,):
                for name, cell in zip(table.header, row, strict=True):
                    yield _styling((Bold(name), Text(": "), *cell)) if table.rows else _styling(cell)
                yield Styling("")
            return
        grid = Grid(box=box.SIMPLE_HEAVY)
        for name, align in zip(table.header, table.aligns, strict=True):
            grid.add_column(_styling(name), justify=align if align != "none" else "default", overflow="fold")
        for row in table.rows:
            grid.add_row(*map(_styling, row))
        yield grid


def _styling(children: Iterable[Inline], style: Style = _PLAIN) -> Styling:
    """The inlines as one text of rich, which reads no markup in it."""
    found = Styling()
    for text, each in _runs(children, style):
        found.append(text, each)
    return found


def _runs(children: Iterable[Inline], style: Style) -> Iterator[tuple[str, Style]]:
    """Each text and how it looks; of a link the address too, unless that is what it says."""
    for child in children:
        match child:
            case Text(text):
                yield text, style
            case Code(text):
                yield text, style + _CODE
            case Bold(inner):
                yield from _runs(inner, style + Style(bold=True))
            case Italic(inner):
                yield from _runs(inner, style + Style(italic=True))
            case Strike(inner):
                yield from _runs(inner, style + Style(strike=True))
            case Link(url, inner):
                said = list(_runs(inner, style + _LINK))
                yield from said
                if "".join(text for text, _ in said) not in (url, url.removeprefix("mailto:")):
                    yield f" ({url})", style
            case Break():
                yield "\n", style
            case _:
                assert_never(child)
