"""What people wrote as a name, a path, a pattern, a product or an address arrives as written; emphasis is emphasis."""

import re

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gateway.channels.document import Bold, Document, Inline, Italic, Paragraph, Plain, Strike, Text
from gateway.delivery.literal import literal_spans
from gateway.delivery.markdown import parse
from tests.bench.peers.robustness import KEEP, NASTY
from tests.fakes.readable import readable


def said(text: str) -> str:
    """The text with tags for what is emphasised."""
    document = parse(text)
    return "\n\n".join(
        _tagged(block.children) if isinstance(block, Paragraph) else block.text for block in _flat(document)
    )


def _flat(document: Document) -> list[Paragraph | Plain]:
    assert all(isinstance(block, Paragraph | Plain) for block in document), document
    return [block for block in document if isinstance(block, Paragraph | Plain)]


def _tagged(children: tuple[Inline, ...]) -> str:
    out = ""
    for child in children:
        match child:
            case Text(text):
                out += text
            case Bold(inner):
                out += f"<b>{_tagged(inner)}</b>"
            case Italic(inner):
                out += f"<i>{_tagged(inner)}</i>"
            case Strike(inner):
                out += f"<s>{_tagged(inner)}</s>"
            case _:
                out += f"<{type(child).__name__}>"
    return out


@pytest.mark.parametrize(
    "text",
    [
        "open __init__.py and setup.py",
        "__init__ is called before __call__() and __main__",
        "if __name__ == '__main__': run()",
        "src/__tests__/a.js and __pycache__/ go",
        "__class_getitem__ and _private_name_ and snake_case_name",
        "_private and _other",
        "a*b*c = 2*3*4",
        "2**3**4 and x**2 + y**2",
        "(a)*(b)*(c) and f(x)*g(y)*h(z)",
        "a[0]*b[1]*c[2]",
        "SELECT COUNT(*), SUM(*) FROM t",
        "f(*args, **kwargs) and g(*args, **kwargs)",
        "int *p, *q; char **r, **s;",
        "*.py and *.js, also *.tar.* and *.*",
        "**/*.py and **/*.ts",
        "src/**/*.py or src/**/test_*_x.py",
        "**/node_modules/** and **/dist/**",
        "*foo*bar* and *_test.py",
        "{*.js,*.ts}",
        "100%_sure and 5%_of_it_",
        "http://example.test/a_b_(c)",
        "https://x.org/?q=*a* and https://x.org/?q=*b*",
        "https://en.wikipedia.org/wiki/A_(b)_c_(d)_",
        "www.a_b.org/_c_/d and ftp://_a_.org/~~b~~",
        "mail _foo_bar_@example.org, or __x__@example.org",
        r"C:\Users\_me_\*.txt and \\host\share\_x_\.git",
        "2 * 3 * 4",
        "5* hotels and 4* hotels",
        "a~~b~~c",
        "/*comment*/ and /** doc */",
        'the sign "*" and the sign "*"',
        "^caret^ $x_1$ {brace} $HOME",
    ],
)
def test_what_is_written_as_it_is_stays(text: str) -> None:
    assert parse(text) == (Plain(text),)


@pytest.mark.parametrize("snippet", KEEP)
def test_the_snippets_of_the_rig_stay(snippet: str) -> None:
    assert snippet in readable(parse(NASTY.replace("\\\\", "\\")))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("**bold** and __bold__", "<b>bold</b> and <b>bold</b>"),
        ("*italic* and _italic_", "<i>italic</i> and <i>italic</i>"),
        ("***both*** and **_both_**", "<i><b>both</b></i> and <b><i>both</i></b>"),
        ("~~gone~~, (~~gone~~)", "<s>gone</s>, (<s>gone</s>)"),
        ("**Note**: x, **Note:** y, **Note**:z", "<b>Note</b>: x, <b>Note:</b> y, <b>Note</b>:z"),
        ("*a phrase of words*, _another one_.", "<i>a phrase of words</i>, <i>another one</i>."),
        ("(**a**) [**b**] “*c*” —_d_—", "(<b>a</b>) [<b>b</b>] “<i>c</i>” —<i>d</i>—"),
        ("**A**/**B**, **x**-**y**, **3**%", "<b>A</b>/<b>B</b>, <b>x</b>-<b>y</b>, <b>3</b>%"),
        ("the **API**s", "the <b>API</b>s"),
        ("*it*'s, _it_'s", "<i>it</i>'s, <i>it</i>'s"),
        ("**bold *with italic* in it**", "<b>bold <i>with italic</i> in it</b>"),
        ("**edit /etc/hosts** or **.env** or **src/**", "<b>edit /etc/hosts</b> or <b>.env</b> or <b>src/</b>"),
        ("**snake_case_name** and *__init__.py*", "<b>snake_case_name</b> and *__init__.py*"),
        ("**2*3*4** is 24", "<b>2*3*4</b> is 24"),
        ("**https://x.org/a_b_c**", "<b>https://x.org/a_b_c</b>"),
        ("*see https://x.org/_a_*", "<i>see https://x.org/_a_</i>"),
        ("**「重要」**な点", "<b>「重要」</b>な点"),
        ("これは**重要**です", "これは<b>重要</b>です"),
        ("使用API**重要**功能", "使用API<b>重要</b>功能"),
        ("看**“引用”**和*斜体*。", "看<b>“引用”</b>和<i>斜体</i>。"),
        ("매우 **중요**합니다", "매우 <b>중요</b>합니다"),
        ("⚠️**Warning** 1️⃣**Title**", "⚠️<b>Warning</b> 1️⃣<b>Title</b>"),
        ("**हिन्दी** और *उर्दू*", "<b>हिन्दी</b> और <i>उर्दू</i>"),
        ("<br>*text*<br>", "<br><i>text</i><br>"),
        ("*sigh.* *Really?*", "<i>sigh.</i> <i>Really?</i>"),
        ("2*3*4 and **b** and 5*6*7", "2*3*4 and <b>b</b> and 5*6*7"),
        ("__init__.py is __very__ short", "__init__.py is <b>very</b> short"),
    ],
)
def test_emphasis_stays_emphasis(text: str, shown: str) -> None:
    assert said(text) == shown


_NAME = st.from_regex(r"[A-Za-z][A-Za-z0-9]{0,6}", fullmatch=True)
_IDENTIFIER = st.from_regex(r"_{0,2}[a-z][a-z0-9]{0,5}(?:_{1,2}[A-Za-z0-9]{1,5}){0,3}_{0,2}", fullmatch=True).filter(
    lambda name: not re.fullmatch(r"_+[^_]+_+", name)  # `_word_` is how italics are written
)
_DUNDER = st.sampled_from(["__init__", "__main__", "__all__", "__str__", "__name__", "__file__", "__FILE__"])
_FILE = st.tuples(_IDENTIFIER | _DUNDER, st.sampled_from([".py", ".tar.gz", "()", "[0]", ".x_y_z", "/x", "/"])).map(
    "".join
)
_PATH = st.lists(_IDENTIFIER | _DUNDER, min_size=2, max_size=5).flatmap(
    lambda parts: st.sampled_from(
        ["/".join(parts), "/" + "/".join(parts), "C:\\" + "\\".join(parts), "~/" + "/".join(parts)]
    )
)
_SEGMENT = st.sampled_from(["*", "**", "*.py", "test_*", "*_test", "a*b", "*.tar.*", "src", "[a-z]*", "*-x", "x_*_y"])
_GLOB = st.lists(_SEGMENT, min_size=2, max_size=5).map("/".join) | st.sampled_from(
    ["*.py", "*.*", "*_test.py", "test_*.py", "*foo*bar*", "foo*", "*.{js,ts}", "?*.c", "*.d.ts", "**/*", "*/*"]
)
_OPERAND = st.from_regex(r"[a-z0-9]{1,3}|\([a-z]\)|[a-z]\([a-z]\)|[a-z]\[[0-9]\]", fullmatch=True)
_PRODUCT = st.tuples(st.lists(_OPERAND, min_size=2, max_size=5), st.sampled_from(["*", "**", " * "])).map(
    lambda given: given[1].join(given[0])
)
_ADDRESS = st.tuples(
    st.sampled_from(["http://", "https://", "ftp://", "www."]),
    _NAME,
    st.sampled_from([".org/", ".test:80/"]),
    st.from_regex(r"(?:[a-z0-9]{1,3}[_*~/?=&.:,;!'@-]{1,2}|_\([a-z_*]{1,3}\)){0,6}[a-z0-9]{1,2}", fullmatch=True),
).map("".join)
_LITERAL = _IDENTIFIER | _DUNDER | _FILE | _PATH | _GLOB | _PRODUCT | _ADDRESS


@settings(deadline=None, max_examples=600)
@given(_LITERAL, st.sampled_from(["{}", "see {} there", "see {}, there.", "({})", "- {} x\n- y", "x: {}\ny"]))
def test_any_name_path_pattern_product_and_address_stays(literal: str, around: str) -> None:
    assert literal in readable(parse(around.format(literal)))


@settings(deadline=None, max_examples=600)
@given(
    st.lists(_NAME, min_size=1, max_size=4).map(" ".join),
    st.sampled_from(["**{}**", "*{}*", "_{}_", "__{}__", "~~{}~~", "***{}***"]),
    st.sampled_from(["{}", "x {} y", "({}), x", "x {}: y", "“{}”", "{}.", "- {}\n- x", "# {}", "| a |\n|---|\n| {} |"]),
    _LITERAL,
)
def test_intended_emphasis_is_shown_beside_any_of_them(words: str, mark: str, around: str, literal: str) -> None:
    from gateway.delivery.literal import _SPECIAL

    assume(words not in _SPECIAL)
    marked = mark.format(words)
    shown = readable(parse(around.format(marked)))
    assert words in shown
    assert marked not in shown
    beside = readable(parse(f"{marked} {literal}"))
    assert literal in beside
    assert not beside.startswith(marked)


def test_addresses_end_where_the_sentence_goes_on() -> None:
    text = "(see https://x.org/a_(b)). Or www.x.org/y, or a@b.org."
    spans = literal_spans(text)
    found = [text[start:stop] for start, stop in zip(spans.starts, spans.stops, strict=True)]
    assert found == ["https://x.org/a_(b)", "www.x.org/y", "a@b.org"]
