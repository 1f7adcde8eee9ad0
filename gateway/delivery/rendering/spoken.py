"""Words of a document as a voice reads them: no markup, no addresses, no code. Pure."""

from collections.abc import Iterator
from typing import assert_never
from urllib.parse import urlsplit

from gateway.channels.document import (
    Block,
    CodeBlock,
    Document,
    Heading,
    List,
    Paragraph,
    Plain,
    Quote,
    Rule,
    Table,
)
from gateway.delivery.rendering.splitting import text_of

ENDS = ".!?…。！？:;"  # what a sentence ends with; a voice pauses there
LEAST_KEPT = 0.5  # of what may be read: a sentence that ends earlier is no place to stop at


def spoken_words(document: Document, most: int, rest: str) -> str:
    """The part of the document that is read out: at most so many characters; "" where there is nothing to read.

    `rest` is said at the end where something is left out: a table, code, or all that is too long.
    """
    parts: list[str] = []
    whole = True
    for words in _parts(document):
        if words is None:
            whole = False
        elif words:
            parts.append(words if words[-1] in ENDS else f"{words}.")
    text = "\n".join(parts)
    if not text or (whole and len(text) <= most):
        return text
    room = most - len(rest) - 1
    if room <= 0:
        return _cut(text, most)
    return f"{_cut(text, room)}\n{rest}"


def _parts(document: Document) -> Iterator[str | None]:
    """The words of each block; None for one that cannot be read out."""
    for block in document:
        yield from _block(block)


def _block(block: Block) -> Iterator[str | None]:
    match block:
        case Plain(text):
            yield _plain(text)
        case Paragraph(children) | Heading(_, children):
            yield _plain(text_of(children))
        case Quote(blocks):
            yield from _parts(blocks)
        case List(items):
            for item in items:
                yield from _parts(item.blocks)
        case CodeBlock() | Table():
            yield None
        case Rule():
            return
        case _:
            assert_never(block)


def _plain(text: str) -> str:
    """The text in one line, of an address its host alone."""
    return " ".join(map(_word, text.split()))


def _word(word: str) -> str:
    if "://" not in word:
        return word
    try:
        return urlsplit(word).hostname or ""
    except ValueError:
        return ""


def _cut(text: str, most: int) -> str:
    """The text up to the end of a sentence, else of a word."""
    if len(text) <= most:
        return text
    head = text[:most]
    sentence = max(head.rfind(f"{sign}{after}") for sign in ENDS for after in (" ", "\n"))
    if sentence >= most * LEAST_KEPT:
        return head[: sentence + 1]
    word = max(head.rfind(" "), head.rfind("\n"))
    return (head[:word] if word >= most * LEAST_KEPT else head).rstrip()
