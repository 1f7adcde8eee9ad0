"""Markdown becomes blocks; plain text stays plain; what is written out reads back as the same."""

import pytest
from hypothesis import example, given, settings

from gateway.channels.document import (
    Bold,
    Break,
    Code,
    CodeBlock,
    Document,
    Heading,
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
from gateway.delivery.rendering.markdown import parse
from tests.fakes.markdown_source import to_markdown
from tests.fakes.readable import readable
from tests.gateway.delivery.rendering.documents import fragments, letters, markdown_texts


def paragraph(text: str) -> Paragraph:
    return Paragraph((Text(text),))


@pytest.mark.parametrize(
    "text",
    [
        "hello",
        "two\nlines  \n\n\nand more",
        "5 * 3 * 2 < 10 & a_b_c, x > y | z ~ 7",
        "an *open end",
        "[not a link] (really)",
        "a # b, #hashtag, 1.5, -3, +4",
        "[Result]: 42",
        "see [1]: it is a note",
        "<b>html</b> <!-- not --> </p>",
        "https://example.org/a_b_c?d=*e&f",
        "half a `tick",
        "**",
        ">",
        "#",
        "   leading space",
        ">" * 90 + " deeper than anybody nests",
    ],
)
def test_text_without_markup_stays_plain(text: str) -> None:
    assert parse(text) == (Plain(text),)


@pytest.mark.parametrize("text", ["", " ", "\n\n", "\t"])
def test_a_blank_text_is_no_document(text: str) -> None:
    assert parse(text) == ()


@pytest.mark.parametrize(
    ("text", "document"),
    [
        pytest.param(
            "a **b *c*** ~~d~~ `e`",
            (
                Paragraph(
                    (
                        Text("a "),
                        Bold((Text("b "), Italic((Text("c"),)))),
                        Text(" "),
                        Strike((Text("d"),)),
                        Text(" "),
                        Code("e"),
                    )
                ),
            ),
            id="spans",
        ),
        pytest.param("## A *b*", (Heading(2, (Text("A "), Italic((Text("b"),)))),), id="heading"),
        pytest.param("A\n===", (Heading(1, (Text("A"),)),), id="underlined heading"),
        pytest.param("a\\*b &amp; c", (paragraph("a*b & c"),), id="escapes are markup"),
        pytest.param("**a**\nb", (Paragraph((Bold((Text("a"),)), Break(), Text("b"))),), id="line ending"),
        pytest.param("```py x=1\n<a>\n\n```", (CodeBlock("<a>\n", "py"),), id="fence"),
        pytest.param("```\nnever closed", (CodeBlock("never closed"),), id="open fence"),
        pytest.param("> a\n> > b", (Quote((paragraph("a"), Quote((paragraph("b"),)))),), id="quotes"),
        pytest.param("- a\n- b", (List((Item((paragraph("a"),)), Item((paragraph("b"),)))),), id="bullets"),
        pytest.param(
            "3. a\n\n4. b", (List((Item((paragraph("a"),)), Item((paragraph("b"),))), 3, tight=False),), id="numbers"
        ),
        pytest.param(
            "- [ ] a\n- [x] **b**\n- [y] c",
            (
                List(
                    (
                        Item((paragraph("a"),), False),
                        Item((Paragraph((Bold((Text("b"),)),)),), True),
                        Item((paragraph("[y] c"),)),
                    )
                ),
            ),
            id="tasks",
        ),
        pytest.param(
            "| a | b |\n|:-:|--:|\n| *1* | 2 |",
            (Table(((Text("a"),), (Text("b"),)), (((Italic((Text("1"),)),), (Text("2"),)),), ("center", "right")),),
            id="table",
        ),
        pytest.param("a\n\n***\n\nb", (paragraph("a"), Rule(), paragraph("b")), id="rule"),
        pytest.param("[a](http://x 'title')", (Paragraph((Link("http://x", (Text("a"),)),)),), id="link"),
        pytest.param("[a][1]\n\n[1]: http://x", (Paragraph((Link("http://x", (Text("a"),)),)),), id="reference"),
        pytest.param(
            "[a][1], [Result]\n\n[1]: http://x\n[Result]: 42\n[2]: http://y",
            (
                Paragraph((Link("http://x", (Text("a"),)), Text(", "), Link("42", (Text("Result"),)))),
                paragraph("[2]: http://y"),
            ),
            id="an unused definition leaves the others alone",
        ),
        pytest.param(
            "[1]: http://x\n[2]: http://y\n[3]: z\n[a][2]",
            (
                paragraph("[1]: http://x"),
                Paragraph((Text("[3]: z"),)),
                Paragraph((Link("http://y", (Text("a"),)),)),
            ),
            id="definitions nobody uses are text",
        ),
        pytest.param("![alt](http://x)", (Paragraph((Link("http://x", (Text("alt"),)),)),), id="picture"),
        pytest.param("![](http://x)", (Paragraph((Link("http://x", (Text("http://x"),)),)),), id="nameless picture"),
        pytest.param("<http://x>", (Paragraph((Link("http://x", (Text("http://x"),)),)),), id="address in angles"),
        pytest.param("**b** <i>x</i>", (Paragraph((Bold((Text("b"),)), Text(" <i>x</i>"))),), id="html is text"),
        pytest.param(
            "**a**[x](javascript:alert(1))",
            (Paragraph((Bold((Text("a"),)), Text("[x](javascript:alert(1))"))),),
            id="no script links",
        ),
    ],
)
def test_markup_becomes_blocks(text: str, document: Document) -> None:
    assert parse(text) == document


@settings(deadline=None, max_examples=50)
@given(markdown_texts)
def test_what_is_written_out_reads_back_as_the_same(text: str) -> None:
    document = parse(text)
    assert parse(to_markdown(document)) == document


@settings(deadline=None, max_examples=200)
@given(fragments)
def test_any_text_can_be_read_and_is_never_nothing(text: str) -> None:
    document = parse(text)
    assert bool(document) == bool(text.strip())
    outside = "\n".join(line for line in text.splitlines() if "```" not in line)  # there words name a language
    if "|" not in text:  # a table drops cells beyond its header
        assert readable(document).count("word") >= outside.count("word")


@settings(deadline=None, max_examples=200)
@given(fragments)
@example(text="[x] [](http://a.b/c_d)[x] ")
def test_any_text_written_out_keeps_its_letters(text: str) -> None:
    document = parse(text)
    again = parse(to_markdown(document))
    if not any(isinstance(block, Table | List) for block in document):
        assert letters(again) == letters(document)
