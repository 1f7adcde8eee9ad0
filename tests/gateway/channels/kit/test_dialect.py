"""A dialect's rendering: the markup that its table names, and nothing of a text that becomes markup or calls people."""

import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from gateway.channels.document import Bold, Code, CodeBlock, Document, Heading, Link, Paragraph, Plain, Text
from gateway.channels.kit.dialect import JOINER, MARKDOWN, Dialect, measure, render
from gateway.delivery.rendering.markdown import blocks_of, parse

CALLS = re.compile(r"@(?=[a-z])")
CALLING = replace(MARKDOWN, calls=CALLS)
UNLINKED = replace(MARKDOWN, bare_addresses=False)  # CommonMark itself makes no links of addresses
DRAWN = Dialect(structure="text", escapes={}, headings=0, tables="monospace", columns=12, languages=False, rule="──")
SIGNS = st.text(alphabet=r"ab1 \`*_~[]()<>|&#-+=.:!/;$" + "\n\t", max_size=40)
PIECES = [
    "**",
    "*",
    "_",
    "~~",
    "`",
    "``",
    "a",
    "b c",
    " ",
    "- ",
    "1. ",
    "> ",
    "# ",
    "[x](https://e.org/a_b)",
    "<",
    "\\",
]
PIECES += [
    "https://e.org/_x_",
    "&lt;",
    "!",
    "@ann",
    "    ",
    "- [x] ",
    "|",
    "\n",
    "\n\n",
    "```\n",
    "| a |\n|---|\n| b |\n",
]
SOURCES = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)
READER = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


def as_read(text: str) -> Document:
    """As CommonMark reads it."""
    return blocks_of(READER.parse(text))


def texts(part: Any, *, code: bool = True) -> Iterator[str]:
    """The texts in a document or a part of it, with or without those of code."""
    match part:
        case Code(text) | CodeBlock(text):
            yield text if code else ""
        case Plain(text) | Text(text):
            yield text
        case tuple():
            for one in part:
                yield from texts(one, code=code)
        case _ if is_dataclass(part):
            for one in fields(part):
                yield from texts(getattr(part, one.name), code=code)


def letters(document: Document) -> str:
    """The text that a person reads, without the white space and the invisible signs."""
    return re.sub(r"[\s\u00a0\u2060]+", "", "".join(texts(document)))


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        pytest.param("a **b** *c* ~~d~~ `e`", "a **b** *c* ~~d~~ `e`", id="marks"),
        pytest.param("2 \\* 3 \\< x\\_y", "2 \\* 3 \\< x\\_y", id="signs are escaped"),
        pytest.param("`a``b`", "```a``b```", id="code with backticks"),
        pytest.param("````\n```\n````", "````\n```\n````", id="a fence within code"),
        pytest.param("- a\n\n  b\n- c", "- a\n\n  b\n\n- c", id="a loose list"),
        pytest.param("1. a\n   - [x] b", "1. a\n   - [x] b", id="lists in lists"),
        pytest.param("- a\n\n* b", "- a\n\n* b", id="two lists"),
        pytest.param("- a\n\n* b\n\n- c", "- a\n\n* b\n\n- c", id="three lists"),
        pytest.param("> a\n>\n> b", "> a\n>\n> b", id="a quote"),
        pytest.param("| a | b |\n|---|---|\n| 1 | x\\|y |", "| a | b |\n| --- | --- |\n| 1 | x\\|y |", id="a table"),
        pytest.param("[a](https://e.org/(x y)", "\\[a\\](https://e.org/(x y)", id="no link"),
        pytest.param("[a](<https://e.org/(x y>)", "[a](https://e.org/%28x%20y)", id="an odd address"),
        pytest.param("[a](/etc/passwd)", "a (`/etc/passwd`)", id="an address that is none"),
        pytest.param("see https://e.org/a_b_c.", "see https://e.org/a_b_c.", id="a bare address"),
        pytest.param("# a #\\#", "# a #\\#", id="a heading"),
        pytest.param("1\\. a\n\\- b\n\\# c", "1\\. a\n\\- b\n\\# c", id="beginnings of lines"),
    ],
)
def test_markdown(source: str, shown: str) -> None:
    assert render(parse(source), MARKDOWN) == shown


@settings(max_examples=400)
@given(SIGNS)
@example("    code\n\tcode")
@example("a\n===\nb\n---")
@example("![x](https://e.org)")
@example("* * *")
@example("| a |\n|---|")
def test_a_text_stays_text_whatever_stands_in_it(text: str) -> None:
    read = as_read(render((Plain(text),), MARKDOWN))
    assert letters(read) == re.sub(r"\s+", "", text)
    for block in read:
        assert isinstance(block, Paragraph | Plain), block
        if isinstance(block, Paragraph):
            assert not any(isinstance(child, Bold | Code) for child in block.children)
            assert all(child.url in text for child in block.children if isinstance(child, Link))


@settings(max_examples=400)
@given(SOURCES)
def test_what_is_read_back_says_the_same(source: str) -> None:
    document = parse(source)
    read = as_read(render(document, UNLINKED))
    assert letters(read) == letters(document)


@given(SOURCES)
def test_nobody_is_called(source: str) -> None:
    read = as_read(render(parse(source), CALLING))
    assert not any(map(CALLS.search, texts(read, code=False)))  # platforms call nobody out of code


def test_a_call_is_broken_in_the_words_and_in_the_address_of_a_link() -> None:
    document = (Paragraph((Link("https://e.org/@ann", (Text("to @ann"),)), Text(" https://e.org/@all"))),)
    assert render(document, CALLING) == f"[to @{JOINER}ann](https://e.org/%40ann) https://e.org/@{JOINER}all"


def test_a_platform_without_structure_has_it_drawn() -> None:
    document = parse(
        "# A *b*\n\n- [x] c\n- d\n\n  ```py\n  x\n  ```\n\n---\n\n1. e\n   - f\n\n| g | h |\n|---|---|\n| 1 | 2 |"
    )
    assert render(document, DRAWN) == (
        "**A *b***\n\n☑ c\n\n• d\n```\nx\n```\n\n──\n\n1. e\n    • f\n\n```\ng | h\n--|--\n1 | 2\n```"
    )


def test_a_wide_table_becomes_a_list_of_fields() -> None:
    assert render(parse("| name | place |\n|---|---|\n| ann | Berlin-Mitte |"), DRAWN) == (
        "• **name**: ann\n    **place**: Berlin-Mitte"
    )


def test_a_mark_beside_a_letter_would_be_shown_so_the_words_go_without() -> None:
    document = (Paragraph((Text("un"), Bold((Text("believ"),)), Text("able"))),)
    assert render(document, MARKDOWN) == "unbelievable"
    assert render(document, replace(MARKDOWN, marks_in_words=True)) == "un**believ**able"


def test_a_platform_without_a_mark_shows_the_words() -> None:
    dialect = replace(MARKDOWN, strike="", headings=2)
    document = (Heading(5, (Text("x"),)), *parse("~~gone~~ **here**"), CodeBlock("y", "no such thing"))
    assert render(document, dialect) == "## x\n\ngone **here**\n\n```\ny\n```"


def test_the_measure_is_that_of_the_rendering() -> None:
    assert measure((Plain("5 * 3"),), MARKDOWN) == len(r"5 \* 3")
