"""A page as Markdown: words, headings, lists, tables as lines, links; nothing that people would not see.

Hidden text is left out: nobody but a model would read it, and that is what it is there for. Pure.
"""

import re
from codecs import getincrementaldecoder
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import unescape
from urllib.parse import urljoin

# Tokenizer of HTML, in time that grows linearly with its length whatever is in it. Pure.

LONGEST_TAG = 1_000  # characters of it that are looked at for attributes
_RAW = ("script", "style", "textarea", "xmp", "noembed", "noframes", "plaintext")  # hold no tags
_SIGNS = re.compile(r"<(?:<(?=<|[^a-zA-Z/!?]|\Z))*+")
_NAME = re.compile(r"/?([a-zA-Z][a-zA-Z0-9]{0,30})")
_ATTRIBUTE = re.compile(r"([a-zA-Z][\w-]{0,40})(?:\s{0,9}=\s{0,9}(\"[^\"]*+\"|'[^']*+'|[^\s\"'=<>`]++))?")


@dataclass(frozen=True, slots=True)
class Start:
    tag: str
    given: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class End:
    tag: str


Token = Start | End | str


def tokens_of(html: str) -> Iterator[Token]:
    """The page from its beginning to its end; comments and the contents of scripts are left out."""
    small, at = html.lower(), 0
    while at < len(html):
        opening = html.find("<", at)
        if opening < 0:
            yield unescape(html[at:])
            return
        if opening > at:
            yield unescape(html[at:opening])
        if small.startswith("<!--", opening):
            at = _behind(small, "-->", opening + 4)
            continue
        found = _NAME.match(html, opening + 1)
        if found is None and html[opening + 1 : opening + 2] not in ("!", "?", "/"):
            signs = _SIGNS.match(html, opening)  # no tag
            yield signs[0] if signs is not None else "<"
            at = signs.end() if signs is not None else opening + 1
            continue
        at = _end_of_tag(html, opening)
        if found is None:
            continue
        tag = found[1].lower()
        if html[opening + 1] == "/":
            yield End(tag)
            continue
        yield Start(tag, _attributes(html[found.end() : min(at - 1, opening + LONGEST_TAG)]))
        if tag in _RAW:
            closing = small.find(f"</{tag}", at)
            at = closing if closing >= 0 else len(html)


def _end_of_tag(html: str, opening: int) -> int:
    """Behind its `>`; one within quotes is not meant, as far as that can be told soon."""
    at = opening
    for _ in range(4):
        at = html.find(">", at) + 1
        if not at:
            return len(html)
        content = html[opening : min(at, opening + LONGEST_TAG)]
        if content.count('"') % 2 == 0 or at - opening > LONGEST_TAG:
            break
    return at


def _attributes(written: str) -> dict[str, str]:
    return {name.lower(): unescape(value.strip("\"'")) for name, value in _ATTRIBUTE.findall(written)}


def _behind(text: str, mark: str, at: int) -> int:
    found = text.find(mark, at)
    return found + len(mark) if found >= 0 else len(text)


LONGEST_LINK = 500
LONGEST = 500_000  # characters that are looked at
_PIECE = 65_536  # bytes
DEEPEST = 200  # elements within each other; more stand beside each other
_SILENT = frozenset({"script", "style", "noscript", "template", "svg", "math", "iframe", "object", "canvas", "select",
                     "datalist", "dialog", "head"})  # fmt: skip
_AROUND = frozenset({"nav", "footer", "aside", "form", "header", "menu"})  # beside what a page is about
_VOID = frozenset({"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track",
                   "wbr"})  # fmt: skip
_PARAGRAPHS = frozenset({"p", "h1", "h2", "h3", "h4", "h5", "h6", "table", "pre", "ul", "ol"})
_BLOCKS = _PARAGRAPHS | {"div", "section", "article", "main", "li", "tr", "blockquote", "dl", "dt", "dd", "figure",
                         "figcaption", "br", "hr", "address", "details", "summary", "header", "footer", "nav", "aside",
                         "form", "body"}  # fmt: skip
# Encodings of pages; Python knows codecs besides that take hours, or are no letters at all.
_LETTERS = re.compile(
    r"(?:us-)?ascii|utf-?(?:8|16|32)(?:-?[lb]e)?|iso-?8859-?\d{1,2}|latin-?\d|windows-\d{3,4}|cp\d{3,4}|koi8-?\w|mac\w*"
    r"|gb(?:k|2312|18030)|big5(?:-?hkscs)?|euc-?\w\w|shift[_-]?jis|iso-?2022-\w\w(?:-\w+)?|tis-?620",
    re.IGNORECASE,
)
_HIDDEN = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|opacity\s*:\s*0(?:\.0+)?\s*(?:;|!|$)"
    r"|font-size\s*:\s*0|(?:left|top|text-indent)\s*:\s*-\d{3,}|clip\s*:\s*rect\(0",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Page:
    title: str
    text: str


@dataclass(slots=True)
class _Open:
    """One element that is not closed yet."""

    tag: str
    silent: bool
    href: str = ""
    begun_at: int = 0


def page_of(html: str, url: str, *, whole: bool) -> Page:
    """The page's words. Not `whole`: without what stands around its subject, where that can be told apart."""
    text, title, main = _read(html, url, around=whole)
    if not whole and len(main) > 200:
        text = main
    elif not whole and len(text) < 200:
        text = _read(html, url, around=True)[0]
    return Page(title=" ".join(title.split())[:300], text=text)


def _read(html: str, url: str, *, around: bool) -> tuple[str, str, str]:
    reader = _Reader(url, _SILENT if around else _SILENT | _AROUND)
    reader.read(html)
    return tidy("".join(reader.out)), reader.title, tidy("".join(reader.main))


def tidy(text: str) -> str:
    """Without spaces at line ends and more than one empty line."""
    lines = [line.strip() if not line.startswith("    ") else line.rstrip() for line in text.splitlines()]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


class _Reader:
    """Goes through a page once; `main` is what stands within its <main> or <article>."""

    def __init__(self, url: str, silent: frozenset[str]) -> None:
        self.title = ""
        self.out: list[str] = []
        self.main: list[str] = []
        self._url = url
        self._silent = silent
        self._open: list[_Open] = []
        self._count: Counter[str] = Counter()  # of the open elements

    def read(self, html: str) -> None:
        in_title = False
        for token in tokens_of(html[:LONGEST]):
            match token:
                case str():
                    if in_title:
                        self.title += token
                    else:
                        self._write(token if self._count["pre"] else re.sub(r"\s+", " ", token))
                case Start(tag="title"):
                    in_title = not self.title
                case End(tag="title"):
                    in_title = False
                case Start():
                    self._begin(token.tag, token.given)
                case End():
                    self._finish(token.tag)

    def _begin(self, tag: str, given: Mapping[str, str]) -> None:
        if tag == "base" and "href" in given:
            self._url = self._link(given["href"]) or self._url
        if tag in _BLOCKS:
            self._write("\n")
        if tag in _VOID:
            if tag == "img" and given.get("alt", "").strip() and not _is_hidden(given):
                self._write(f"[image: {given['alt'].strip()[:200]}]")
            elif tag == "hr":
                self._write("\n---\n")
            return
        silent = tag in self._silent or _is_hidden(given) or any(one.silent for one in self._open[-1:])
        href = given.get("href", "") if tag == "a" else ""
        if len(self._open) < DEEPEST:
            self._open.append(_Open(tag, silent, href, len(self.out)))
            self._count[tag] += 1
        self._write(_before(tag))

    def _finish(self, tag: str) -> None:
        if not self._count[tag]:
            return
        while True:
            closed = self._open.pop()
            self._count[closed.tag] -= 1
            if closed.tag == tag:
                break
        if closed.href and not closed.silent and (link := self._link(closed.href)):
            words = "".join(self.out[closed.begun_at :]).strip()
            if words and words != link:
                self._write(f" ({link})")
        if tag in ("td", "th"):
            self._write(" | ")
        if tag in _BLOCKS:
            self._write("\n\n" if tag in _PARAGRAPHS else "\n")

    def _write(self, text: str) -> None:
        if not text or (self._open and self._open[-1].silent):
            return
        self.out.append(text)
        if self._count["main"] or self._count["article"]:
            self.main.append(text)

    def _link(self, href: str) -> str:
        """Where a link leads, if that is on the web."""
        try:
            found = urljoin(self._url, href.strip())
        except ValueError:
            return ""
        return found if found.startswith(("http://", "https://")) and len(found) <= LONGEST_LINK else ""


def _before(tag: str) -> str:
    if len(tag) == 2 and tag[0] == "h" and tag[1] in "123456":
        return "#" * int(tag[1]) + " "
    return {"li": "- ", "blockquote": "> "}.get(tag, "")


def _is_hidden(given: Mapping[str, str]) -> bool:
    return (
        "hidden" in given
        or given.get("aria-hidden", "").lower() == "true"
        or bool(_HIDDEN.search(given.get("style", "")))
    )


def text_of(data: bytes, charset: str) -> str:
    """The letters of a document, by what its server said, else what it says itself, else UTF-8."""
    if not charset and (
        found := re.search(rb"<meta[^>]{0,200}charset=[\"']?([\w-]{2,40})", data[:2048], re.IGNORECASE)
    ):
        charset = found[1].decode("ascii", "replace")
    if not _LETTERS.fullmatch(charset):
        charset = "utf-8-sig"
    try:
        return _decoded(data, charset)
    except (LookupError, UnicodeError):
        return _decoded(data, "utf-8")


def _decoded(data: bytes, charset: str) -> str:
    """The text, decoded in pieces: one call for millions of undecodable bytes would hold up the process."""
    if re.match(r"utf-?(?:16|32)", charset, re.IGNORECASE):
        return data.decode(
            charset, "replace"
        )  # fast whatever it holds, and in pieces it would ask for a byte order mark
    decoder = getincrementaldecoder(charset)("replace")
    pieces = (decoder.decode(data[at : at + _PIECE]) for at in range(0, len(data), _PIECE))
    return "".join(pieces) + decoder.decode(b"", final=True)
