"""Documents as HTML: the right tags, and nothing a model writes can become one."""

import time
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.web.render import blocks_as_html, linked, text_length
from gateway.channels.document import (
    Block,
    Bold,
    Break,
    Code,
    CodeBlock,
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


def said(*inlines: Inline) -> Paragraph:
    return Paragraph(inlines)


@pytest.mark.parametrize(
    ("block", "html"),
    [
        pytest.param(Plain("a <b>\n & c"), '<p class="plain">a &lt;b&gt;\n &amp; c</p>', id="plain text"),
        pytest.param(said(Bold((Text("x"),)), Italic((Text("y"),))), "<p><strong>x</strong><em>y</em></p>", id="marks"),
        pytest.param(said(Text("x"), Break(), Text("y")), "<p>x<br>y</p>", id="line ending"),
        pytest.param(said(Strike((Code("<i>"),))), "<p><del><code>&lt;i&gt;</code></del></p>", id="code in a mark"),
        pytest.param(
            said(Text("so"), Text("¹", 1)),
            '<p>so<a href="#" data-note="1" aria-label="Footnote 1" rel="noopener noreferrer nofollow">¹</a></p>',
            id="a footnote's sign leads to its words",
        ),
        pytest.param(
            said(Text("¹ ", 1), Text("x")),
            '<p><a href="#" data-words="1" aria-label="Footnote 1" rel="noopener noreferrer nofollow">¹</a> x</p>',
            id="and its words back",
        ),
        pytest.param(Heading(1, (Text("t"),)), "<h3>t</h3>", id="the first heading is below the page's own"),
        pytest.param(Heading(6, (Text("t"),)), "<h6>t</h6>", id="there is no level below six"),
        pytest.param(Rule(), "<hr>", id="rule"),
        pytest.param(Quote((said(Text("q")),)), "<blockquote><p>q</p></blockquote>", id="quote"),
        pytest.param(
            List((Item((said(Text("a")),)), Item((said(Text("b")),))), start=3),
            '<ol start="3"><li>a</li><li>b</li></ol>',
            id="a list keeps its first number",
        ),
        pytest.param(
            List((Item((said(Text("a")),), checked=True),)),
            '<ul class="tasks"><li><span class="box" role="img" aria-label="done">☑</span> a</li></ul>',
            id="a task says its state to those who cannot see it",
        ),
        pytest.param(
            said(Link("https://a.example/?a=1&b=2", (Text("x"),))),
            '<p><a href="https://a.example/?a=1&amp;b=2" target="_blank" rel="noopener noreferrer nofollow">x</a></p>',
            id="a link tells its target nothing",
        ),
        pytest.param(
            said(Link("javascript:alert(1)", (Text("x"),))), "<p>x (javascript:alert(1))</p>", id="no link that runs"
        ),
        pytest.param(said(Link("JaVaScript:alert(1)", ())), "<p>JaVaScript:alert(1)</p>", id="in no spelling"),
        pytest.param(
            said(Link("data:text/html,<script>", (Text("x"),))),
            "<p>x (data:text/html,&lt;script&gt;)</p>",
            id="no data link",
        ),
        pytest.param(
            said(Link("//evil.example", (Text("x"),))), "<p>x (//evil.example)</p>", id="no link without a scheme"
        ),
        pytest.param(said(Link("a.md", (Text("a.md"),))), "<p>a.md</p>", id="an address is not said twice"),
        pytest.param(
            said(Link('mailto:a"onclick="x', (Text("x"),))),
            '<p><a href="mailto:a&quot;onclick=&quot;x" target="_blank" rel="noopener noreferrer nofollow">x</a></p>',
            id="no way out of an attribute",
        ),
    ],
)  # fmt: skip
def test_blocks_as_html(block: Block, html: str) -> None:
    assert blocks_as_html((block,)) == (html,)


def test_code_keeps_every_line_ending_and_its_language() -> None:
    (html,) = blocks_as_html((CodeBlock("\n\nx < 1\n", "py<t>"),))
    assert "<code>\n\nx &lt; 1\n</code>" in html
    assert "<figcaption>py&lt;t&gt;</figcaption>" in html


@pytest.mark.parametrize(
    ("language", "code", "html"),
    [
        pytest.param(
            "python",
            'def f(x):  # "no"\n    return "a<b" + 1',
            '<span class="w">def</span> f(x):  <span class="c"># "no"</span>\n    '
            '<span class="w">return</span> <span class="s">"a&lt;b"</span> + <span class="n">1</span>',
            id="python",
        ),
        pytest.param(
            "TS", "let s = `a\n${b}` /* x", '<span class="w">let</span> s = <span class="s">`a\n${b}`</span> '
            '<span class="c">/* x</span>', id="what is never closed ends with the block",
        ),
        pytest.param("sql", "SELECT 'it' -- all", '<span class="w">SELECT</span> <span class="s">\'it\'</span> '
                     '<span class="c">-- all</span>', id="sql"),
        pytest.param("", "def f", "def f", id="no language"),
        pytest.param("brainfuck", "def <f>", "def &lt;f&gt;", id="an unknown language"),
        pytest.param("python", "def " * 6_000, "def " * 6_000, id="a long block stays plain"),
    ],
)  # fmt: skip
def test_code_has_colours(language: str, code: str, html: str) -> None:
    (found,) = blocks_as_html((CodeBlock(code, language),))
    assert f"<code>{html}</code>" in found


def test_a_table_scrolls_by_itself_and_keeps_its_sides() -> None:
    table = Table(((Text("h"),), (Text("n"),)), (((Text("a"),), (Text("1"),)),), ("left", "right"))
    (html,) = blocks_as_html((table,))
    assert html.startswith('<div class="table" role="region" tabindex="0" aria-label="table">')
    assert '<th scope="col" class="left">h</th>' in html
    assert '<td class="right">1</td>' in html


inlines: st.SearchStrategy[Inline] = st.recursive(
    st.builds(Text, st.text()) | st.builds(Code, st.text()),
    lambda inner: st.builds(Bold, st.tuples(inner)) | st.builds(Link, st.text(), st.tuples(inner)),
    max_leaves=4,
)
blocks: st.SearchStrategy[Block] = (
    st.builds(Plain, st.text())
    | st.builds(Paragraph, st.tuples(inlines))
    | st.builds(CodeBlock, st.text(), st.text(), st.booleans())
    | st.builds(Table, st.tuples(st.tuples(inlines)), st.tuples(st.tuples(st.tuples(inlines))), st.just(("none",)))
)

ALLOWED = {
    *("p", "strong", "code", "a", "pre", "figure", "figcaption"),
    *("div", "table", "thead", "tbody", "tr", "th", "td"),
}  # fmt: skip


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self.attributes += attrs


@given(blocks)
def test_whatever_a_model_writes_gives_only_our_own_tags(block: Block) -> None:
    tags = Tags()
    tags.feed("".join(blocks_as_html((block,))))
    assert tags.seen <= ALLOWED
    assert not [name for name, _ in tags.attributes if name.startswith("on") or name == "style"]
    links = [value or "" for name, value in tags.attributes if name == "href"]
    assert all(link.split(":")[0].lower() in {"http", "https", "mailto"} for link in links)


def test_length_counts_what_is_read() -> None:
    document = (Heading(2, (Text("ab"),)), List((Item((said(Text("cd")),)),)), CodeBlock("ef", "python"))
    assert text_length(document) == 6


LINK = '<a href="{0}" target="_blank" rel="noopener noreferrer nofollow">{0}</a>'


@pytest.mark.requirement("Z-167")
@pytest.mark.parametrize(
    ("text", "html"),
    [
        pytest.param("see https://a.example.", f"see {LINK.format('https://a.example')}.", id="the end of a sentence"),
        pytest.param("(https://a.example/b_(c))", f"({LINK.format('https://a.example/b_(c)')})", id="brackets"),
        pytest.param("HTTP://a.example?a=1&b", LINK.format("HTTP://a.example?a=1&amp;b"), id="in any spelling"),
        pytest.param("javascript://a.example", "javascript://a.example", id="no link that runs"),
        pytest.param("xhttps://a.example", "xhttps://a.example", id="within a word"),
        pytest.param("https:// and https://.", "https:// and https://.", id="no host"),
        pytest.param(
            'https://a.example/"onmouseover=x', f'{LINK.format("https://a.example/")}"onmouseover=x', id="no way out"
        ),
        pytest.param("https://a.example/<b>", f"{LINK.format('https://a.example/')}&lt;b&gt;", id="no markup"),
    ],
)
def test_an_address_in_running_text_is_a_link(text: str, html: str) -> None:
    assert blocks_as_html((Plain(text),)) == (f'<p class="plain">{html}</p>',)
    assert blocks_as_html((said(Text(text)),)) == (f"<p>{html}</p>",)
    assert linked(text) == html


@pytest.mark.requirement("Z-167")
@pytest.mark.parametrize("marked", [tuple, Bold, Italic, Strike, lambda inlines: Bold((Italic(inlines),))])
def test_an_address_within_a_link_or_code_is_none(marked: Callable[[tuple[Inline, ...]], Any]) -> None:
    label = marked((Text("https://b.example"),))
    inner: tuple[Inline, ...] = label if isinstance(label, tuple) else (label,)
    (html,) = blocks_as_html((said(Link("https://a.example", inner), Code("https://c.example")),))
    assert html.count("<a ") == 1
    assert "<code>https://c.example</code>" in html


@pytest.mark.requirement("Z-167")
def test_a_long_address_is_one_link() -> None:
    address = f"https://a.example/?signature={'x' * 3000}"
    assert f'href="{address}"' in linked(f"see {address}, please")


@pytest.mark.requirement("Z-167")
def test_many_addresses_take_no_time() -> None:
    began = time.monotonic()
    linked("https://a.example/" + ")" * 100_000 + "https://" * 20_000)
    assert time.monotonic() - began < 5


@pytest.mark.requirement("Z-165")
def test_a_formula_is_its_source() -> None:
    hostile = "$x_1</code><script>alert(1)</script>$"
    inline, block = blocks_as_html((said(Code(hostile, formula=True)), CodeBlock("a < b", "latex", formula=True)))
    assert inline == '<p><code class="math">$x_1&lt;/code&gt;&lt;script&gt;alert(1)&lt;/script&gt;$</code></p>'
    assert block == '<figure class="formula"><code class="math">a &lt; b</code></figure>'
    assert text_length((said(Code("$x$", formula=True)),)) == 3
