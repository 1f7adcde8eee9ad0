"""Documents as Discord Markdown: read back they are the same, plain text stays what it is."""

import re
import string
from time import thread_time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from adapters.discord.limits import TEXT_LIMIT
from adapters.discord.render import measure, render
from gateway.channels.document import CodeBlock, Document, Heading, Paragraph, Plain, Table, Text
from gateway.delivery.rendering.markdown import parse
from gateway.delivery.rendering.splitting import split
from tests.adapters.discord.reading import readable
from tests.fakes.commonmark import read


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("hello", id="a word"),
        pytest.param("5 * 3 * 2 < 10 & a_b_c ~ x | y", id="signs that begin nothing"),
        pytest.param("2**10 and one * lonely star", id="a pair that is none"),
        pytest.param("C:\\dir\\file and 50%", id="backslashes before letters"),
        pytest.param("  two\n\n\nempty lines\t", id="white space"),
        pytest.param("see https://example.org/a_b_(c)?x=1&y=__init__ now", id="an address"),
        pytest.param("<@500000000000000001> <t:1700000000:R> <:wave:1>", id="mentions, times, emoji that are meant"),
        pytest.param("#hashtag -5 1.5 >_< @everyone", id="line beginnings without a blank"),
    ],
)
def test_plain_text_goes_out_byte_for_byte(text: str) -> None:
    assert render((Plain(text),)) == text


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("a || b || c", id="would be a spoiler"),
        pytest.param("foo__bar__baz", id="would be underlined"),
        pytest.param("2 ** 3 ** 4", id="would be bold"),
        pytest.param("~~ old ~~", id="would be struck out"),
        pytest.param("`a` and ```b```", id="would be code"),
        pytest.param("*a* _b_ **c**", id="would be emphasis"),
        pytest.param("one *half\n\nother* half", id="across a blank line"),
        pytest.param("¯\\_(ツ)_/¯", id="the backslash would go"),
        pytest.param(
            "# not a heading\n- not a list\n> no quote\n-# no small print\n1. no number", id="line beginnings"
        ),
        pytest.param("[click](https://evil.example)", id="would hide an address"),
        pytest.param("__init__ https://x.org/__init__ done", id="an address keeps its signs"),
    ],
)
def test_what_discord_would_take_for_markup_is_read_as_it_is(text: str) -> None:
    sent = render((Plain(text),))
    assert sent != text
    assert readable(sent) == text


ALPHABET = string.ascii_letters + string.digits + " \n*_~|`\\[]()<>#-+.!&:/@{}=\"'é日😀"
texts = st.text(ALPHABET, min_size=1, max_size=80)


@given(texts)
@example("*")
@example("snake_case and more_ words")
@example("\\")
@example("_a_*b*")
@example("`\\`a`")
def test_people_read_the_letters_of_a_plain_text(text: str) -> None:
    assert readable(render((Plain(text),))) == text


@given(texts)
def test_text_in_a_paragraph_is_read_back(text: str) -> None:
    line = " ".join(text.split())
    if not line:
        return
    document = (Paragraph((Text(line),)), CodeBlock("x"))  # never a single Plain
    again = read(render(document))
    assert again in (document, (Plain(line), CodeBlock("x")))


@given(st.lists(texts, min_size=1, max_size=4))
def test_the_measure_is_never_less_than_what_is_sent(parts: list[str]) -> None:
    for document in ((Plain(parts[0]),), tuple(Paragraph((Text(part),)) for part in parts)):
        assert len(render(document)) <= measure(document)


MARKDOWN = [
    pytest.param("# One\n\n## Two ##\n\n### Three #3", id="headings"),
    pytest.param("**bold** *it* ***both*** ~~no~~ **a *b* c** _**x**_ foo*bar*baz", id="styles"),
    pytest.param("a `code` and ``with ` tick`` and `` ` `` and ` x `", id="code in a line"),
    pytest.param("```python\ndef f():\n    return 1\n```", id="a fence with its language"),
    pytest.param("```\n\n  indented\n\n```", id="blanks in code"),
    pytest.param("- one\n- two\n  - deep\n    - deeper\n- three", id="nested list"),
    pytest.param("3. three\n4. four\n\n   more\n\n   ```sh\n   ls -l\n   ```", id="numbered list with code"),
    pytest.param("- [x] done\n- [ ] open\n- \\[x] no task", id="tasks"),
    pytest.param("- a\n\n* b", id="two lists in a row"),
    pytest.param("1. a\n\n1) b", id="two numbered lists in a row"),
    pytest.param("> quote\n>\n> more **bold**\n\nafter", id="quote"),
    pytest.param("> - a\n> - b\n>\n> ```\n> x\n> ```", id="list and code in a quote"),
    pytest.param("> one\n\n> two", id="two quotes"),
    pytest.param("[text](https://example.org/a_(b)) <https://example.org> [b](https://x.y/a\\)b)", id="links"),
    pytest.param("one  \ntwo\nthree", id="line endings"),
    pytest.param("a\n\n---\n\nb", id="a rule"),
    pytest.param("\\* \\# x\n\\- y\n1\\. z\n\\> q\n\\=== \\| a | b |", id="signs that are none"),
    pytest.param("&amp;amp; &lt;b&gt; <b>x</b> \\&amp;", id="entities and tags"),
    pytest.param("*snake_case* **2 \\* 3** ~~a~b~~", id="signs within styles"),
    pytest.param("wow!\\[x](y) !\\[z]", id="no picture"),
]


@pytest.mark.parametrize("text", MARKDOWN)
def test_marked_up_text_is_read_back_the_same(text: str) -> None:
    document = parse(text)
    assert read(render(document)) == document


PIECES = [*"*_`a# \n(!é", "**", "~~", "\n\n", "- ", "1. ", "> ", "# ", "b c", "x_y", "```\n", "    ", "[x] "]


@settings(derandomize=True, max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=25).map("".join))
def test_any_marked_up_text_is_read_back_the_same(text: str) -> None:
    document = parse(text)
    shape = repr(document)
    # What has no form of its own on Discord, and what holds no letter at all.
    if "```" in shape or re.search(r"code='(\\n)*'", shape):
        return
    if any(sign in shape for sign in ("blocks=()", "children=(Break()", "Rule(", "level=4", "level=5", "level=6")):
        return
    if any(not name.isalnum() for name in re.findall(r"language='(.+?)'", shape)):
        return
    if not re.search(r"(Bold|Italic|Strike|Code|CodeBlock|Heading|List|Quote|Link)\(", shape):
        return  # the letters of plain text are another test's
    assert read(render(document)) == document


def test_a_title_is_no_heading_below_the_third_level() -> None:
    assert render((Heading(5, (Text("Deep"),)), Paragraph((Text("x"),)))) == "### Deep\nx"


@pytest.mark.parametrize(
    ("markdown", "seen"),
    [
        pytest.param("````md\na\n```py\nx = '**y**'\n```\nb\n````\n**after**", "a", id="a fence in code"),
        pytest.param(
            "~~~\nlet s = '```' + x\n~~~\n\n*after* ```", "let s = '```' + x", id="three ticks in a line of code"
        ),
        pytest.param("```\n```\n\nafter **bold** ``` and `x`", "after bold ``` and x", id="an empty block of code"),
        pytest.param("**a** \\[click](https://evil.example)", "[click](https://evil.example)", id="no link"),
        pytest.param(
            "\\[[**a**](https://x.org) \\]\\(https://y.org)", "[a (https://x.org) ](https://y.org)", id="brackets"
        ),
        pytest.param(
            "**x** snake_case and more_ words _it_ a_b", "x snake_case and more_ words it a_b", id="underscores"
        ),
        pytest.param("**a `x**y` b** c", "a x**y b c", id="bold around code with stars"),
        pytest.param("_a `x_y` b_ *c `x*y_z` d* e", "a x_y b c x*y_z d e", id="italics around code"),
        pytest.param("~~a `x~~y` b~~ c", "a x~~y b c", id="struck code"),
        pytest.param(
            "*see https://x.org/a_b_c now* d", "see https://x.org/a_b_c now d", id="italics around an address"
        ),
    ],
)
def test_people_read_what_was_meant_in_spite_of_the_signs(markdown: str, seen: str) -> None:
    shown = readable(render(parse(markdown)))
    assert seen in shown
    if "after" in markdown:
        assert "after" in shown
        assert "**after**" not in shown


def test_a_picture_is_a_link() -> None:
    assert render(parse("![alt](https://x.org/p.png)")) == "[alt](https://x.org/p.png)"


def test_links_discord_would_not_show() -> None:
    assert render(parse("[mail](mailto:a@b.c) [here](/x) [https://a.b](https://c.d)")) == (
        "mail (mailto:a@b.c) here (/x) https://a.b (<https://c.d>)"
    )


def table(*rows: str) -> Document:
    return parse("\n".join(rows))


def test_a_small_table_is_aligned_code() -> None:
    document = table("| name | wert |", "|:--|--:|", "| größe | 1 |", "| 日本 | 22 |")
    assert render(document) == "```\nname  | wert\n------|-----\ngröße |    1\n日本  |   22\n```"


@pytest.mark.parametrize(
    "cell",
    [pytest.param("long " * 14, id="too wide"), pytest.param("[a](https://x.org)", id="with a link")],
)
def test_another_table_is_a_list_of_fields(cell: str) -> None:
    sent = render(table("| name | value |", "|---|---|", f"| one | {cell} |", "| two | x |"))
    assert sent.startswith("- **name**: one\n  **value**: ")
    assert sent.endswith("- **name**: two\n  **value**: x")
    assert "https://x.org" in sent or "long long" in sent


def test_no_word_of_a_table_is_lost() -> None:
    wide = table("| a | b |", "|---|---|", *(f"| row{n} `c{n}` | **v{n}** {'w' * 50} |" for n in range(5)))
    for document in (wide, table("| a |", "|---|"), table("| a | b |", "|---|---|", "| x | |")):
        assert isinstance(document[0], Table)
        sent = render(document)
        assert all(f"row{n}" in sent and f"c{n}" in sent and f"v{n}" in sent for n in range(5)) or document is not wide


@pytest.mark.requirement("G-10")
@pytest.mark.parametrize(
    "document",
    [
        pytest.param((Plain("word " * 2000),), id="words"),
        pytest.param((Plain("x" * 5000),), id="no place to cut"),
        pytest.param((Plain("*" * 5000),), id="signs"),
        pytest.param((CodeBlock("line of code\n" * 500, "py"),), id="code"),
        pytest.param((Plain("```py\n" * 900),), id="fences that are none"),
    ],
)
def test_parts_fit_and_lose_nothing(document: Document) -> None:
    sent = [render(part) for part in split(document, TEXT_LIMIT, measure)]
    assert all(0 < len(content) <= TEXT_LIMIT for content in sent)
    letters = "".join("".join(map(readable, sent)).split())
    (block,) = document
    assert isinstance(block, Plain | CodeBlock)
    assert letters == "".join((block.text if isinstance(block, Plain) else block.code).split())


def test_a_text_of_any_length_is_rendered_quickly() -> None:
    for text in ("_a " * 20_000, "*a" * 30_000, "[" * 60_000, "~~" * 30_000, "`" * 60_000):
        began = thread_time()
        render((Plain(text),))
        measure((Plain(text),))
        render((Plain(text[:TEXT_LIMIT]),))
        assert thread_time() - began < 3.0
