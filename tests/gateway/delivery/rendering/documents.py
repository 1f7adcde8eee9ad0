"""Texts for property tests, and what of a document must survive being cut."""

from collections.abc import Iterator

from hypothesis import strategies as st

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

_WORDS = st.lists(
    st.sampled_from(
        ["word", "a", "longerword", "naïve", "日本語", "👩‍👩‍👧‍👦", "e\u0301", "x_y", "5*3", "<b>", "&", "🇩🇪", "1.", "-"]
    ),
    min_size=1,
    max_size=30,
).map(" ".join)
_SPAN = st.sampled_from(["{}", "{}", "**{}**", "*{}*", "`{}`", "~~{}~~", "[{}](https://example.org/a)", "**a *{}* b**"])
_RUN = st.tuples(_SPAN, _WORDS).map(lambda pair: pair[0].format(pair[1]))
_PARAGRAPH = st.lists(_RUN, min_size=1, max_size=4).map(" ".join)
_LINES = st.lists(_PARAGRAPH, min_size=1, max_size=4).map("\n".join)
_CODE = st.tuples(st.sampled_from(["", "python", "c++"]), st.lists(_WORDS, min_size=1, max_size=25)).map(
    lambda pair: f"```{pair[0]}\n" + "\n".join(pair[1]) + "\n```"
)
_CELL = st.sampled_from(["one", "**two**", "`x`", "日本", "3 4 5", ""])
_TABLE = st.lists(st.tuples(_CELL, _CELL, _CELL), min_size=1, max_size=30).map(
    lambda rows: "| a | *b* | c |\n|:--|---|--:|\n" + "\n".join("| " + " | ".join(row) + " |" for row in rows)
)
_ITEMS = st.lists(st.tuples(st.sampled_from(["", "[x] ", "[ ] "]), _PARAGRAPH), min_size=1, max_size=12)
_BULLETS = _ITEMS.map(lambda items: "\n".join(f"- {box}{text}" for box, text in items))
_NUMBERS = st.tuples(st.integers(0, 99), _ITEMS).map(
    lambda pair: "\n".join(f"{number}. {text}" for number, (_, text) in enumerate(pair[1], start=pair[0]))
)
_NESTED = st.tuples(_BULLETS, _LINES).map(
    lambda pair: "1. outer\n\n" + _indented(pair[0]) + "\n\n" + _indented(pair[1]) + "\n\n2. next"
)
_SIMPLE = st.one_of(_PARAGRAPH, _LINES, _CODE, _TABLE, _BULLETS, _NUMBERS, _NESTED, st.just("---"), st.just("## Title"))
_QUOTE = _SIMPLE.map(lambda text: "\n".join("> " + line for line in text.split("\n")))

markdown_texts = st.lists(st.one_of(_SIMPLE, _SIMPLE, _QUOTE), min_size=1, max_size=8).map("\n\n".join)

# Anything at all, mostly nonsense: for what must hold for every text.
fragments = st.lists(
    st.sampled_from(
        [
            "word ",
            "x",
            "**",
            "*",
            "_",
            "`",
            "```",
            "~~",
            "[",
            "](http://a.b/c_d)",
            "![",
            "\n",
            "\n\n",
            "- ",
            "3) ",
            "> ",
            "# ",
            "```py\n",
            "    ",
            " | ",
            "\n|---|---|\n",
            "---\n",
            "\\",
            "&amp;",
            "<b>",
            "!",
            "é",
            "😀",
            ".",
            "[x] ",
            "\t",
        ]
    ),
    max_size=40,
).map("".join)

# Plain text with everything that is hard to cut.
plain_texts = st.lists(
    st.sampled_from(
        [
            "word",
            " ",
            " ",
            "\n",
            "\n\n",
            "x" * 30,
            "😀",
            "👩‍👩‍👧‍👦",
            "e\u0301\u0302",
            "🇩🇪🇫🇷",
            "日本語",
            "👍🏽",
            "\r\n",
            "\t",
        ]
    ),
    max_size=200,
).map("".join)


def _indented(text: str) -> str:
    return "\n".join("   " + line if line else "" for line in text.split("\n"))


def streams(document: Document) -> dict[tuple[object, ...], str]:
    """For each place in the structure the visible letters that stand there, in order: what no cut may change."""
    found: dict[tuple[object, ...], str] = {}
    for place, letter in _letters(document, ()):
        found[place] = found.get(place, "") + letter
    return {place: text for place, text in found.items() if text}


def _letters(blocks: Document, place: tuple[object, ...]) -> Iterator[tuple[tuple[object, ...], str]]:
    for block in blocks:
        yield from _of_block(block, place)


def _of_block(block: Block, place: tuple[object, ...]) -> Iterator[tuple[tuple[object, ...], str]]:
    match block:
        case Plain(text):
            yield (*place, "paragraph"), "".join(text.split())
        case Paragraph(children):
            yield from _of_inlines(children, (*place, "paragraph"))
        case Heading(level, children):
            yield from _of_inlines(children, (*place, "heading", level))
        case CodeBlock(code, language):
            yield (*place, "code", language), "".join(code.split("\n"))
        case Quote(blocks):
            yield from _letters(blocks, (*place, "quote"))
        case List(items, start):
            for number, item in enumerate(items, start=start or 0):
                kind = "bullet" if start is None else number
                yield from _letters(item.blocks, (*place, kind, item.checked))
        case Table(header, rows, aligns):
            for row in rows:
                for column, cell in enumerate(row):
                    name = repr(header[column]), aligns[column]
                    yield from _of_inlines(cell, (*place, "cell", column, name))
        case Rule():
            yield (*place, "rule"), "-"


def _of_inlines(children: tuple[Inline, ...], place: tuple[object, ...]) -> Iterator[tuple[tuple[object, ...], str]]:
    for child in children:
        match child:
            case Text(text):
                yield place, "".join(text.split())
            case Code(text):
                yield (*place, "`"), "".join(text.split())
            case Break():
                pass
            case Bold(inner) | Italic(inner) | Strike(inner):
                yield from _of_inlines(inner, (*place, type(child).__name__))
            case Link(url, inner):
                yield from _of_inlines(inner, (*place, url))


def letters(document: Document) -> str:
    """All visible letters in order, without tables (whose headers are repeated)."""
    return "".join(letter for block in document if not isinstance(block, Table) for _, letter in _of_block(block, ()))
