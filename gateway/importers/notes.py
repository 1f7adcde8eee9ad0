"""Notes and characters in Markdown, as facts for the memory and as the text of an AGENT.md. Pure.

Each item of a list and each paragraph is a fact, with the headings that it stands under. What a program has put there
to be filled in is none.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence

from agent.memory.records import LONGEST_FACT
from gateway.importers.moved import Note

MOST_NOTES = 2_000  # facts of one home
_HEADING = re.compile(r"(#{1,6})\s++(.*)")
_ITEM = re.compile(r"\s*(?:[-*+]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s*)?(.*)")
_OF_AN_ENTRY = re.compile(r"\s*observed:[^\n]*")  # OpenClaw's comment above each directive
_FRAME = re.compile(r"-{3,}|_{3,}|\*{3,}|```.*|\|[\s|:-]*\|?")
# Left to be filled in: words in brackets or italics alone, a rest that trails off.
_EMPTY = re.compile(r"_.*_|\*[^*]*\*|\(.*\)|.*\s(?:\.\.\.|…)")
_EMPTY_VALUE = re.compile(r"_?\(.*\)_?|")
# Headings that tell where a fact belongs no more than the name of its file.
_PLAIN = re.compile(
    r"(?:user|long[- ]term|agent)?[\s-]*(?:memory|model|profile|notes|(?:user|memory)\.md.*)"
    r"|directives|basic information",
    re.IGNORECASE,
)
_OF_FORMS = frozenset(  # sentences of the forms themselves
    {
        "Information about the user to help personalize interactions.",
        "The more you know, the better you can help. But remember — you're learning about a person, not building a "
        "dossier. Respect the difference.",
        "This file stores important information that should persist across sessions.",
    }
)
# OpenClaw's links to its own documentation, which stand under such a heading.
_LINKS = "related"
_LINK = re.compile(r"\[[^\]]*\]\((?:/|\w+://docs\.openclaw\.ai)[^)\s]*\)")


def notes_in(
    text: str, source: str, *, when: str = "", is_form: bool = False, rest: list[str] | None = None
) -> Sequence[Note]:
    """The facts in a Markdown text. `when` is the day of a daily note; in a form a box that is not ticked says no.

    `rest` gathers all other words in it: hidden ones, superseded ones, and those that look like a form to fill in.
    """
    found: dict[str, Note] = {}
    rest = [] if rest is None else rest
    lines = [line for line in _in_force(text, rest) if not (is_form and _is_unticked(line))]
    shown = "\n".join(lines)
    visible, comments = _parted(shown)
    rest += comments
    for headings, words in _blocks(visible):
        if _is_of_the_program(headings, words):
            continue
        if not _says_something(words):
            if words and words not in _OF_FORMS:
                rest.append(words)
            continue
        above = [heading for heading in headings if not _PLAIN.fullmatch(heading) and heading != when]
        fact = ": ".join((*([when] if when else []), *above[-1:], words))
        for piece in pieces(fact):
            found.setdefault(piece.casefold(), Note(piece, source))
    return tuple(found.values())


def pieces(text: str, most: int = LONGEST_FACT) -> Iterator[str]:
    """The text in parts that are no longer than a fact may be, cut between sentences or words."""
    while len(text) > most:
        cut = max(text.rfind(mark, most // 2, most) + 1 for mark in (". ", "! ", "? ")) or text.rfind(" ", 1, most)
        cut = cut if cut > 0 else most
        yield text[:cut].strip()
        text = text[cut:].strip()
    if text:
        yield text


def is_shipped(text: str, digests: Iterable[str]) -> bool:
    """Whether a program has written the file itself, as it is, and nobody has changed it since."""
    return hashlib.sha256(text.encode()).hexdigest() in set(digests)


def joined(parts: Sequence[tuple[str, str]]) -> str:
    """The parts of a character, as one text; each that has a title under it."""
    texts = [f"# {title}\n\n{text.strip()}" if title else text.strip() for title, text in parts if text.strip()]
    return "\n\n".join(texts)


def _in_force(text: str, rest: list[str]) -> Iterator[str]:
    """The lines without each entry that a comment right above it says to be superseded; `rest` gathers these."""
    waits, inside = False, False  # for the entry, and in its lines
    for line in text.split("\n"):
        if line.lstrip().startswith("<!--") and line.rstrip().endswith("-->"):
            waits, inside = "status: superseded" in line.lower(), False
            rest += _parted(line)[1]
        elif waits and line.strip():
            waits, inside = False, True
            rest.append(line.strip())
        elif inside and line[:1].isspace():
            rest[-1] = f"{rest[-1]} {line.strip()}".strip()
        else:
            inside = False
            yield line


def _parted(text: str) -> tuple[str, Sequence[str]]:
    """The text without its comments, and those that people wrote. One that is not closed is none."""
    visible, comments, at = [], [], 0
    while (begin := text.find("<!--", at)) >= 0 and (end := text.find("-->", begin + 4)) >= 0:
        visible.append(text[at:begin])
        comments.append(text[begin + 4 : end].strip())
        at = end + 3
    visible.append(text[at:])
    return "".join(visible), [one for one in comments if one and not _OF_AN_ENTRY.fullmatch(one)]


def _is_unticked(line: str) -> bool:
    item = line.lstrip()
    return item[:1] in ("-", "*", "+") and item[1:].lstrip().startswith("[ ]")


def _blocks(text: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Items and paragraphs, each with the headings above it; an item `Label:` is one of the items that it holds."""
    headings: list[tuple[int, str]] = []
    labels: list[tuple[int, str]] = []
    words: list[str] = []

    def block() -> Iterator[tuple[tuple[str, ...], str]]:
        if words:
            yield tuple(title for _, title in (*headings, *labels)), " ".join(" ".join(words).split())
        words.clear()

    lines = text.split("\n")
    for number, line in enumerate(lines):
        if heading := _HEADING.fullmatch(line.strip()):
            yield from block()
            labels.clear()
            level = len(heading[1])
            headings = [one for one in headings if one[0] < level] + [(level, _bare(heading[2]))]
        elif not line.strip() or _FRAME.fullmatch(line.strip()):
            yield from block()
        elif item := _ITEM.fullmatch(line):
            yield from block()
            indent, said = len(line) - len(line.lstrip()), _bare(item[1])
            labels[:] = [one for one in labels if one[0] < indent]
            if said.endswith(":") and _holds_items(lines[number + 1 :], indent):
                labels.append((indent, said.rstrip(": ")))
            else:
                words.append(said)
        else:
            if not words and not line[:1].isspace():
                labels.clear()
            words.append(_bare(line.strip()))
    yield from block()


def _holds_items(after: Sequence[str], indent: int) -> bool:
    """Whether the next line is an item that is indented more."""
    first = next((line for line in after if line.strip()), "")
    return _ITEM.fullmatch(first) is not None and len(first) - len(first.lstrip()) > indent


def _is_of_the_program(headings: Sequence[str], words: str) -> bool:
    return any(title.lower() == _LINKS for title in headings) and _LINK.fullmatch(words) is not None


def _bare(text: str) -> str:
    """The text without the stars of bold words."""
    return re.sub(r"\*\*(.+?)\*\*", r"\1", text).strip()


def _says_something(words: str) -> bool:
    return bool(re.search(r"\w", words)) and words not in _OF_FORMS and not _is_to_fill_in(words)


def _is_to_fill_in(words: str) -> bool:
    label, colon, value = words.partition(":")
    if colon and len(label) <= 60:
        return _EMPTY_VALUE.fullmatch(value.strip()) is not None
    return _EMPTY.fullmatch(words) is not None
