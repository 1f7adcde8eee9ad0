"""Rendering as text with entities: what Telegram shows reads back as the document."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.telegram.render import (
    MOST_ENTITIES,
    TEXT_LIMIT,
    clipped,
    cut,
    index_at,
    is_caption,
    measure,
    plain,
    render,
    utf16_len,
)
from gateway.channels.document import (
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
from gateway.delivery.rendering.splitting import split
from tests.adapters.telegram.reading import intended, shown

URL = "https://example.org/a_(b)?c=1&d"
words = st.lists(
    st.sampled_from(["word", "x_y", "<b>", "&amp;", "日本語", "👩‍👩‍👧‍👦", "e\u0301", "🇩🇪", "*", "a|b"]),
    min_size=1,
    max_size=4,
).map(" ".join)
codes = st.sampled_from(["x", "a < b && c", "`", "日本"])
texts = words.map(Text)


def inlines(depth: int) -> st.SearchStrategy[tuple[Inline, ...]]:
    leaf: st.SearchStrategy[Any] = st.one_of(texts, texts, codes.map(Code))
    if depth:
        inner = inlines(depth - 1)
        leaf = st.one_of(
            leaf,
            inner.map(Bold),
            inner.map(Italic),
            inner.map(Strike),
            st.lists(texts, min_size=1, max_size=2).map(lambda label: Link(URL, tuple(label))),
        )
    # Text first: a lone marker at the start of a line would be no paragraph in any Markdown either.
    return st.tuples(texts, st.lists(leaf, max_size=3)).map(lambda parts: (parts[0], *parts[1]))


def _paragraph(parts: tuple[tuple[Inline, ...], tuple[Inline, ...] | None]) -> Paragraph:
    first, second = parts
    return Paragraph(first if second is None else (*first, Break(), *second))


paragraphs = st.tuples(inlines(2), st.none() | inlines(1)).map(_paragraph)
code_blocks = st.tuples(
    st.sampled_from(["x = 1", "if a:\n\n    b  \n", "  indented", "日本\n👍"]), st.sampled_from(["", "python", "c++"])
).map(lambda parts: CodeBlock(parts[0], parts[1]))
tables = st.lists(st.tuples(inlines(1), inlines(1)), min_size=1, max_size=3).map(
    lambda rows: Table(((Text("h"),), (Text("日本 g"),)), tuple(rows), ("right", "center"))
)


def lists(depth: int) -> st.SearchStrategy[Any]:
    inner: st.SearchStrategy[Any] = paragraphs if not depth else st.one_of(paragraphs, code_blocks, lists(depth - 1))
    item = st.tuples(paragraphs, st.lists(inner, max_size=2), st.sampled_from([None, None, True, False])).map(
        lambda parts: Item((parts[0], *parts[1]), parts[2])
    )
    return st.tuples(
        st.lists(item, min_size=1, max_size=3), st.sampled_from([None, None, 0, 1, 99]), st.booleans()
    ).map(lambda parts: List(tuple(parts[0]), parts[1], parts[2]))


simple = st.one_of(paragraphs, code_blocks, tables, st.just(Rule()), inlines(1).map(lambda i: Heading(2, i)))
blocks = st.one_of(
    simple,
    lists(2),
    st.lists(st.one_of(paragraphs, code_blocks), min_size=1, max_size=3).map(lambda inner: Quote(tuple(inner))),
)


def apart(found: list[Any]) -> Document:
    """With a paragraph between, so that two lists or quotes in a row are not read as one."""
    document: list[Any] = []
    for block in found:
        document += [Paragraph((Text("between"),)), block]
    return tuple(document)


documents = st.lists(blocks, min_size=1, max_size=5).map(apart)


@settings(max_examples=50, deadline=None)
@given(documents)
def test_what_is_shown_reads_back_as_the_document(document: Document) -> None:
    rendered = render(document)
    assert list(shown(rendered.text, rendered.entities)) == list(intended(document))


@settings(deadline=None, max_examples=50)
@given(documents, st.integers(1, 400))
def test_the_beginning_of_a_growing_answer_is_valid(document: Document, limit: int) -> None:
    rendered = render(document)
    beginning = clipped(rendered, limit)
    assert utf16_len(beginning.text) <= limit
    assert rendered.text.startswith(beginning.text)
    list(shown(beginning.text, beginning.entities))


@pytest.mark.parametrize("text", ["a", "  lead\n\n*x* _y_ `z` <b> &amp; [l](u) | ~s~ ", "👩‍👩‍👧‍👦\r\n\tend\n"])
def test_plain_text_is_the_very_same(text: str) -> None:
    assert render((Plain(text),)).text == text
    assert render((Plain(text),)).entities == ()
    assert plain((Plain(text),)) == text


@pytest.mark.parametrize(("text", "units"), [("abc", 3), ("ä", 1), ("日本", 2), ("😀", 2), ("👩‍👩‍👧‍👦", 11), ("🇩🇪", 4)])
@pytest.mark.requirement("G-10")
def test_length_is_counted_in_utf16_units(text: str, units: int) -> None:
    assert measure((Plain(text),)) == units
    assert measure((Paragraph((Bold((Text(text),)),)),)) == units  # markup costs nothing


@given(st.text(max_size=30), st.integers(0, 70))
def test_offsets_lead_back_to_the_character(text: str, offset: int) -> None:
    index = index_at(text, offset)
    assert utf16_len(text[:index]) <= offset
    assert utf16_len(cut(text, offset)) <= offset
    if index < len(text):
        assert utf16_len(text[: index + 1]) > offset or utf16_len(text[:index]) == offset


@pytest.mark.parametrize(
    ("document", "text", "kinds"),
    [
        pytest.param((Heading(1, (Text("T"), Bold((Text("b"),)))),), "Tb", ["bold"], id="a heading is bold, once"),
        pytest.param(
            (Paragraph((Bold((Text("a"), Code("c"), Text("d"))),)),),
            "acd",
            ["bold", "code", "bold"],
            id="code interrupts a style",
        ),
        pytest.param(
            (Paragraph((Bold((Italic((Code("c"), Text("d"))),)),)),),
            "cd",
            ["code", "bold", "italic"],
            id="code interrupts every style around it",
        ),
        pytest.param((Paragraph((Link(URL, (Code("c"),)),)),), "c", ["text_link"], id="a link wins over code"),
        pytest.param((Paragraph((Link(URL, (Text(URL),)),)),), URL, [], id="an address that names itself is text"),
        pytest.param((Paragraph((Link(URL, ()),)),), URL, [], id="a link without words shows its address"),
        pytest.param(
            (Paragraph((Link("docs/a.md", (Text("a"),)),)),), "a (docs/a.md)", [], id="no link Telegram would drop"
        ),
        pytest.param((Rule(),), "──────────", [], id="a rule"),
        pytest.param(
            (Quote((Paragraph((Text("a"),)), Quote((Paragraph((Text("b"),)),)))),),
            "a\n\n> b",
            ["blockquote"],
            id="quotes do not nest",
        ),
        pytest.param(
            (List((Item((Paragraph((Text("a"),)),)), Item((CodeBlock("x\n  y", "py"),))), 9),),
            "9. a\n10. \nx\n  y",
            ["pre"],
            id="code in a list stands at the margin, byte for byte",
        ),
        pytest.param(
            (
                List(
                    (Item((Paragraph((Text("a"), Break(), Text("b"))),), True), Item((Paragraph((Text("c"),)),), False))
                ),
            ),
            "☑ a\n  b\n☐ c",
            [],
            id="boxes, and lines that hang",
        ),
    ],
)
def test_render(document: Document, text: str, kinds: list[str]) -> None:
    rendered = render(document)
    assert rendered.text == text
    assert sorted(str(entity["type"]) for entity in rendered.entities) == sorted(kinds)


def test_plain_keeps_addresses_while_they_fit() -> None:
    document: Document = (Paragraph((Link(URL, (Text("here"),)),)),)
    assert plain(document) == f"here ({URL})"
    long: Document = (Paragraph((Text("x" * 4090), Link(URL, (Text("here"),)))),)
    assert utf16_len(plain(long)) <= TEXT_LIMIT


@pytest.mark.requirement("G-10")
@pytest.mark.parametrize(
    ("address", "fewest"),
    [pytest.param("", 3, id="words"), pytest.param("https://example.org/" + "a" * 200, 7, id="long addresses")],
)
def test_a_message_holds_no_more_entities_than_telegram_keeps(address: str, fewest: int) -> None:
    """A hundred of them, and about 9,500 bytes: what is behind loses its marking, or all of it is refused."""
    mark = (lambda n: Link(f"{address}{n}", (Text(str(n)),))) if address else (lambda n: Bold((Text(str(n)),)))
    document: Document = tuple(Paragraph((Text("See "), mark(n))) for n in range(250))
    parts = split(document, TEXT_LIMIT, measure)
    assert len(parts) >= fewest
    for part in parts:
        entities = render(part).entities
        assert len(entities) <= MOST_ENTITIES
        assert sum(12 + len(str(entity.get("url", ""))) for entity in entities) < 9500
    assert sum(len(render(part).entities) for part in parts) == 250


def test_a_caption_may_be_short_and_full_of_entities() -> None:
    bolds = tuple(Paragraph((Bold((Text("b"),)),)) for _ in range(90))
    assert is_caption(render(bolds))
    assert not is_caption(render((*bolds, *bolds)))
    assert not is_caption(render((Plain("x" * 1025),)))
