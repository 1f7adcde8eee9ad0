"""Takes HTML apart into tags and text, in time that grows with its length and no faster, whatever is in it. Pure.

Python's own parser takes hours for a page made to hold it up; this one reads what pages are made of and no more.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import unescape

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
