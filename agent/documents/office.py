"""Text of packed documents: Word, Excel and PowerPoint files, OpenDocument, EPUB. Part of the process that reads them.

They are zip files of XML. Only entries with text are unpacked, piece by piece and counted; macros, embedded files and
links to other files are never opened. No entity of XML is expanded.
"""

import posixpath
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeGuard
from urllib.parse import unquote
from xml.parsers import expat

from agent.documents.reading import Reading, Refused
from agent.tools.web.pages import End, Start, Token, page_of, text_of

MOST_UNPACKED = 256 * 1024 * 1024  # bytes of all entries that are read
PIECE = 65_536
LONGEST_PAGE = 8 * 1024 * 1024  # bytes of one chapter of a book
WIDEST_GAP = 50  # empty cells that are written between two of a row
MOST_LEVELS = 6  # of headings


class Package:
    """The entries of a packed document, by name. Raises Refused for one that is no zip file."""

    def __init__(self, path: Path) -> None:
        try:
            self._zip = zipfile.ZipFile(path)
            self.names = frozenset(self._zip.namelist())
        except (zipfile.BadZipFile, ValueError, OSError) as error:
            raise Refused("broken") from error
        self._left = MOST_UNPACKED

    def pieces(self, name: str) -> Iterator[bytes]:
        """An entry, unpacked piece by piece; nothing where there is none."""
        if name not in self.names:
            return
        try:
            if self._zip.getinfo(name).flag_bits & 1:
                raise Refused("encrypted")
            with self._zip.open(name) as entry:
                while piece := entry.read(PIECE):
                    self._left -= len(piece)
                    if self._left < 0:
                        raise Refused("too_large")
                    yield piece
        except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, ValueError, OSError) as error:
            raise Refused("broken") from error  # NotImplementedError: zipfile does not know how an entry is packed

    def beginning(self, name: str, most: int) -> bytes:
        """At most so many bytes of an entry."""
        found = bytearray()
        for piece in self.pieces(name):
            found += piece
            if len(found) >= most:
                break
        return bytes(found[:most])

    def tokens(self, name: str) -> Iterator[Token]:
        """An entry of XML: names without their spaces, attributes of a space with a colon before them."""
        found: list[Token] = []

        def start(tag: str, given: Mapping[str, str]) -> None:
            found.append(Start(_local(tag), {_attribute(key): value for key, value in given.items()}))

        def refuse(*_: object) -> None:
            raise Refused("too_large")  # an entity may unpack to anything, and no writer of documents declares one

        parser = expat.ParserCreate(namespace_separator=" ")
        parser.buffer_text = True
        parser.StartElementHandler = start
        parser.EndElementHandler = lambda tag: found.append(End(_local(tag)))
        parser.CharacterDataHandler = found.append
        parser.EntityDeclHandler = refuse
        try:
            for piece in self.pieces(name):
                parser.Parse(piece)
                yield from found
                found.clear()
        except expat.ExpatError as error:
            raise Refused("broken") from error

    def links(self, part: str) -> list[tuple[str, str, str]]:
        """The relationships of a part of an Office file: id, type, and the part that it leads to in the package."""
        folder, name = posixpath.split(part)
        return [
            (token.given.get("Id", ""), token.given.get("Type", ""), _joined(folder, token.given.get("Target", "")))
            for token in self.tokens(f"{folder}/_rels/{name}.rels".lstrip("/"))
            if isinstance(token, Start) and token.tag == "Relationship" and token.given.get("TargetMode") != "External"
        ]


def read_package(path: Path, reading: Reading) -> None:
    """Read what it is by its own words. Raises Refused, also for another zip file; Full."""
    package = Package(path)
    reading.macros = any(name.endswith("vbaProject.bin") or name.startswith("Basic/") for name in package.names)
    said = package.beginning("mimetype", 100).decode("ascii", "replace").strip()
    if said == "application/epub+zip":
        _read_book(package, reading)
    elif said.startswith("application/vnd.oasis.opendocument."):
        _read_open_document(package, reading)
    else:
        _read_office(package, reading)


def _read_office(package: Package, reading: Reading) -> None:
    for token in package.tokens("[Content_Types].xml"):
        if not isinstance(token, Start) or not token.given.get("ContentType", "").endswith(".main+xml"):
            continue
        kind, part = token.given["ContentType"], token.given.get("PartName", "").lstrip("/")
        if "word" in kind:
            return _read_text_document(package, part, reading)
        if "presentation" in kind or "powerpoint" in kind:
            return _read_slides(package, part, reading)
        if "sheet" in kind or "excel" in kind:
            return _read_sheets(package, part, reading)
    raise Refused("old_format" if "xl/workbook.bin" in package.names else "broken")


# Texts of Word and PowerPoint, whose paragraphs, runs and tables have the same names.

_APART = ("footnotes", "endnotes", "comments")


def _read_text_document(package: Package, part: str, reading: Reading) -> None:
    links = package.links(part)
    styles = next((to for _, kind, to in links if kind.endswith("/styles")), "")
    for line in _paragraphs(package.tokens(part), _headings(package.tokens(styles))):
        reading.write(line)
    for _, kind, to in links:
        name = kind.rpartition("/")[2]
        lines = [line for line in _paragraphs(package.tokens(to), {}) if line] if name in _APART else []
        if lines:
            reading.write(f"\n[{name}]")
        for line in lines:
            reading.write(line)


def _read_slides(package: Package, part: str, reading: Reading) -> None:
    targets = {id: to for id, _, to in package.links(part)}
    shown = _given(package.tokens(part), "sldId", ":id")
    slides = [targets[id] for id in shown if id in targets]
    reading.pages = len(slides)
    for number, slide in enumerate(slides, 1):
        reading.begin(f"## Slide {number}")
        for line in _paragraphs(package.tokens(slide), {}):
            if line:
                reading.write(line)
        for _, kind, to in package.links(slide):
            said = _paragraphs(package.tokens(to), {}) if kind.endswith("/notesSlide") else iter(())
            notes = [line for line in said if line]
            if notes and notes != [str(number)]:  # alone, the number of the slide
                reading.write("\n".join(("Notes:", *notes)))


def _headings(tokens: Iterator[Token]) -> dict[str, int]:
    """The levels of the styles that are headings; their names are English in every language of Word."""
    found: dict[str, int] = {}
    style = ""
    for token in tokens:
        if _is(token, "style"):
            style = token.given.get(":styleId", "")
        elif _is(token, "name") and style:
            word, _, level = token.given.get(":val", "").lower().partition(" ")
            if word in ("title", "heading") and (level.isdecimal() or not level):
                found[style] = min(int(level or 1), MOST_LEVELS)
    return found


@dataclass(slots=True)
class _Paragraph:
    """A paragraph as it is read, and the rows and cells around it, the innermost last."""

    text: list[str] = field(default_factory=list)
    mark: str = ""
    rows: list[list[str]] = field(default_factory=list)
    cells: list[list[str]] = field(default_factory=list)

    def end(self) -> str | None:
        """Its line; None within a cell, which takes it."""
        line, self.text, self.mark = self.mark + "".join(self.text), [], ""
        if not self.cells:
            return line
        self.cells[-1].append(line)
        return None

    def end_row(self) -> str | None:
        """The row's line; None for one within a cell."""
        row = self.rows.pop() if self.rows else []
        line = " | ".join(row) if any(row) else ""
        if not self.cells:
            return line
        self.cells[-1].append(line)
        return None


def _paragraphs(tokens: Iterator[Token], headings: Mapping[str, int]) -> Iterator[str]:
    """The lines of a text: one for each paragraph, and for each row of a table."""
    now, in_run, in_text, skipped, line = _Paragraph(), False, False, 0, None
    for token in tokens:
        match token:
            case Start(tag="Fallback"):  # the same again for older programs
                skipped += 1
            case End(tag="Fallback"):
                skipped -= 1
            case _ if skipped:
                continue
            case str():
                if in_text:
                    now.text.append(token)
            case Start(tag="t") | End(tag="t"):
                in_text = isinstance(token, Start)
            case Start(tag="r") | End(tag="r"):
                in_run = isinstance(token, Start)
            case Start(tag="tab") if in_run:
                now.text.append("\t")
            case Start(tag="br" | "cr"):
                now.text.append("\n")
            case Start(tag="noBreakHyphen"):
                now.text.append("-")
            case Start(tag="pStyle") if level := headings.get(token.given.get(":val", ""), 0):
                now.mark = f"{'#' * level} "
            case Start(tag="numPr"):
                now.mark = now.mark or "- "
            case Start(tag="tr"):
                now.rows.append([])
            case Start(tag="tc"):
                now.cells.append([])
            case End(tag="p"):
                line = now.end()
            case End(tag="tc") if now.cells:
                cell = " ".join(filter(None, now.cells.pop()))
                if now.rows:
                    now.rows[-1].append(cell)
            case End(tag="tr"):
                line = now.end_row()
        if line is not None:
            yield line
            line = None


# Spreadsheets of Excel: the values as they were reckoned last, dates as dates.

_DATES, _TIMES = frozenset({14, 15, 16, 17, 22}), frozenset({18, 19, 20, 21, 45, 46, 47})  # ECMA-376 18.8.30
_BEGAN, _BEGAN_1904 = datetime(1899, 12, 30), datetime(1904, 1, 1)  # noqa: DTZ001 - days of a sheet have no zone
_LAST_DAY = 2_958_465  # 9999-12-31


def _read_sheets(package: Package, part: str, reading: Reading) -> None:
    links = package.links(part)
    targets = {id: to for id, _, to in links}
    by_kind = {kind.rpartition("/")[2]: to for _, kind, to in links}
    began = _BEGAN
    sheets: list[tuple[str, str]] = []
    for token in package.tokens(part):
        if _is(token, "workbookPr") and token.given.get("date1904") in ("1", "true"):
            began = _BEGAN_1904
        elif _is(token, "sheet") and token.given.get(":id") in targets:
            hidden = "" if token.given.get("state", "visible") == "visible" else " (hidden)"
            sheets.append((f"## {token.given.get('name', '')}{hidden}", targets[token.given[":id"]]))
    reading.pages = len(sheets)
    strings = list(_strings(package.tokens(by_kind.get("sharedStrings", ""))))
    dates = _date_styles(package.tokens(by_kind.get("styles", "")))
    for heading, sheet in sheets:
        reading.begin(heading)
        for cells in _rows(package.tokens(sheet), strings, dates, began):
            reading.write("\t".join(cells))


def _strings(tokens: Iterator[Token]) -> Iterator[str]:
    text: list[str] = []
    in_text, sounds = False, False
    for token in tokens:
        match token:
            case str() if in_text and not sounds:
                text.append(token)
            case Start(tag="t") | End(tag="t"):
                in_text = isinstance(token, Start)
            case Start(tag="rPh") | End(tag="rPh"):  # how Japanese words sound
                sounds = isinstance(token, Start)
            case End(tag="si"):
                yield "".join(text)
                text = []


def _date_styles(tokens: Iterator[Token]) -> frozenset[str]:
    """The numbers of the styles that show a number as date or time."""
    codes: dict[str, str] = {}
    dates: set[str] = set()
    in_cells, count = False, 0
    for token in tokens:
        match token:
            case Start(tag="numFmt"):
                codes[token.given.get("numFmtId", "")] = token.given.get("formatCode", "")
            case Start(tag="cellXfs") | End(tag="cellXfs"):
                in_cells = isinstance(token, Start)
            case Start(tag="xf") if in_cells:
                id = token.given.get("numFmtId", "")
                built_in = id.isdecimal() and int(id) in _DATES | _TIMES
                if built_in or _shows_date(codes.get(id, "")):
                    dates.add(str(count))
                count += 1
    return frozenset(dates)


def _shows_date(code: str) -> bool:
    """Whether a format has signs of a date or time outside of quotes and brackets."""
    kept = [part for quoted, part in enumerate(code.split('"')) if quoted % 2 == 0]
    plain = "".join(part.rpartition("]")[2] for part in "".join(kept).lower().split("["))
    return "general" not in plain and any(sign in plain for sign in "ymdhs")


def _rows(
    tokens: Iterator[Token], strings: Sequence[str], dates: frozenset[str], began: datetime
) -> Iterator[Sequence[str]]:
    """The rows that hold something."""
    cells: list[str] = []
    column, kind, style, written, in_value = 0, "", "", "", False
    for token in tokens:
        match token:
            case str() if in_value:
                written += token
            case Start(tag="c"):
                column, kind = _column(token.given.get("r", "")), token.given.get("t", "")
                style, written = token.given.get("s", ""), ""
            case Start(tag="v" | "t") | End(tag="v" | "t"):
                in_value = isinstance(token, Start)
            case End(tag="c") if written:
                gap = column - len(cells) - 1 if column else 0
                cells += [""] * min(max(gap, 0), WIDEST_GAP)
                cells.append(" ".join(_value(written, kind, strings, began if style in dates else None).split()))
            case End(tag="row"):
                if any(cells):
                    yield cells
                cells = []


def _column(reference: str) -> int:
    """The number of the column that a cell is in, from 1; 0 where it does not say."""
    number = 0
    for sign in reference[:3]:
        if "A" <= sign <= "Z":
            number = number * 26 + ord(sign) - 64
    return number


def _value(written: str, kind: str, strings: Sequence[str], began: datetime | None) -> str:
    match kind:
        case "s":
            return strings[int(written)] if written.isdecimal() and int(written) < len(strings) else ""
        case "b":
            return "TRUE" if written == "1" else "FALSE"
        case "" | "n":
            return _number(written, began)
        case _:
            return written


def _number(written: str, began: datetime | None) -> str:
    try:
        number = float(written)
    except ValueError:
        return written
    if began is not None and 0 <= number <= _LAST_DAY:
        at = began + timedelta(seconds=round(number * 86_400))
        return format(at, "%H:%M:%S" if number < 1 else "%Y-%m-%d" if number.is_integer() else "%Y-%m-%d %H:%M:%S")
    return f"{number:.15g}" if "." in written else written


# OpenDocument, and books.


def _read_open_document(package: Package, reading: Reading) -> None:
    if any(_is(token, "encryption-data") for token in package.tokens("META-INF/manifest.xml")):
        raise Refused("encrypted")
    now, in_text = _Paragraph(), 0
    for token in package.tokens("content.xml"):
        line = None
        match token:
            case Start(tag="p" | "h"):
                in_text += 1
                if token.tag == "h":
                    level = token.given.get(":outline-level", "1")
                    now.mark = "#" * (min(int(level), MOST_LEVELS) if level.isdecimal() else 1) + " "
            case str() if in_text:
                now.text.append(token)
            case Start(tag="tab" | "s"):
                now.text.append("\t" if token.tag == "tab" else " ")
            case Start(tag="line-break"):
                now.text.append("\n")
            case Start(tag="table" | "page") if ":name" in token.given:
                reading.pages += 1
                reading.begin(f"## {token.given[':name']}")
            case Start(tag="table-row"):
                now.rows.append([])
            case Start(tag="table-cell"):
                now.cells.append([])
            case End(tag="p" | "h"):
                in_text -= 1
                line = now.end()
            case End(tag="table-cell") if now.cells:
                cell = " ".join(filter(None, now.cells.pop()))
                if now.rows:
                    now.rows[-1].append(cell)
            case End(tag="table-row"):
                line = now.end_row()
                line = line.rstrip(" |") if line else None
        if line is not None:
            reading.write(line)


def _read_book(package: Package, reading: Reading) -> None:
    contents = next(_given(package.tokens("META-INF/container.xml"), "rootfile", "full-path"), "")
    files: dict[str, str] = {}
    spine: list[str] = []
    for token in package.tokens(contents):
        if _is(token, "item") and "html" in token.given.get("media-type", ""):
            files[token.given.get("id", "")] = _joined(posixpath.dirname(contents), token.given.get("href", ""))
        elif _is(token, "itemref"):
            spine.append(token.given.get("idref", ""))
    chapters = [files[id] for id in spine if id in files]
    locked = _given(package.tokens("META-INF/encryption.xml"), "CipherReference", "URI")
    if not set(chapters).isdisjoint(locked):
        raise Refused("encrypted")
    if not chapters:
        raise Refused("broken")
    reading.pages = len(chapters)
    for number, chapter in enumerate(chapters, 1):
        reading.begin(f"[chapter {number}]")
        html = text_of(package.beginning(chapter, LONGEST_PAGE), "")
        reading.write(page_of(html, "", whole=True).text)


def _is(token: Token, tag: str) -> TypeGuard[Start]:
    return isinstance(token, Start) and token.tag == tag


def _given(tokens: Iterator[Token], tag: str, attribute: str) -> Iterator[str]:
    """That attribute of each element of that name."""
    return (token.given.get(attribute, "") for token in tokens if _is(token, tag))


def _local(name: str) -> str:
    return name.rpartition(" ")[2]


def _attribute(name: str) -> str:
    space, _, local = name.rpartition(" ")
    return f":{local}" if space else local


def _joined(folder: str, target: str) -> str:
    """A path in the package; one that begins with a slash is from its root."""
    path = unquote(target.partition("#")[0])
    return posixpath.normpath(path.lstrip("/") if path.startswith("/") else posixpath.join(folder, path))
