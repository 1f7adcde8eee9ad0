"""Names, paths, patterns, products and addresses arrive as written; emphasis is emphasis.

`TIELINE_EXAMPLES=20000` has the property tests try so many texts instead of the few, always the same, of CI.
"""

import os
import re
from collections.abc import Callable
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.discord import render as discord
from adapters.slack import render as slack
from adapters.telegram import render as telegram
from adapters.telegram import rich
from adapters.web import render as web
from gateway.channels.document import Bold, Document, Inline, Italic, Paragraph, Plain, Strike, Text
from gateway.channels.outbound import Outbound
from gateway.delivery.rendering.emphasis import literal_spans
from gateway.delivery.rendering.markdown import parse
from tests.adapters.discord.reading import readable as read_discord
from tests.adapters.slack.world import shown as read_slack
from tests.bench.peers.robustness import KEEP, NASTY
from tests.doubles.telegram_api import flat, parse_rich
from tests.fakes.readable import readable

MANY = int(os.environ.get("TIELINE_EXAMPLES", "0"))
examined = settings(deadline=None, max_examples=MANY or 250, derandomize=not MANY, database=None)

# -- what people see on each platform


class _Page(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.text = ""
        self.feed(page)
        self.close()

    def handle_data(self, data: str) -> None:
        self.text += data


def on_telegram(document: Document) -> str:
    if rich.gains(document):
        return flat(parse_rich({"html": rich.html(document)}))
    return telegram.render(document).text


def on_slack(document: Document) -> str:
    return read_slack(slack.rich(Outbound(document=document)))


def on_discord(document: Document) -> str:
    return read_discord(discord.render(document))


def on_the_web(document: Document) -> str:
    return _Page("\n".join(web.blocks_as_html(document))).text


PLATFORMS: dict[str, Callable[[Document], str]] = {
    "telegram": on_telegram,
    "slack": on_slack,
    "discord": on_discord,
    "web": on_the_web,
}


def shows(text: str, words: str) -> None:
    """These words stand there on every platform."""
    document = parse(text)
    for name, shown_by in PLATFORMS.items():
        assert " ".join(words.split()) in " ".join(shown_by(document).split()), name


def said(text: str) -> str:
    """The text with tags for what is emphasised."""
    return "\n\n".join(
        _tagged(block.children) if isinstance(block, Paragraph) else block.text for block in _flat(parse(text))
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


# -- by example


@pytest.mark.parametrize(
    "text",
    [
        "open __init__.py and setup.py",
        "__init__ is called before __call__() and __main__",
        "if __name__ == '__main__': run()",
        "src/__tests__/a.js and __pycache__/ go",
        "__class_getitem__ and snake_case_name",
        "_private and _other",
        "_._ and _/_ and _x__ and __x_",
        "a*b*c = 2*3*4",
        "2**3**4 and x**2 + y**2",
        "(a)*(b)*(c) and f(x)*g(y)*h(z)",
        "a[0]*b[1]*c[2]",
        "SELECT COUNT(*), SUM(*) FROM t",
        "f(*args, **kwargs) and g(*args, **kwargs)",
        "{**a,**b}",
        "int *p, *q; char **r, **s;",
        "*.py and *.js, also *.tar.* and *.*",
        "**/*.py and **/*.ts, or **/*.js",
        "src/**/*.py or src/**/test_*_x.py",
        "**/node_modules/** and **/dist/**",
        "*foo*bar* and *_test.py and *_test/test_* and *[a-z]* and *.{a,b}*",
        "*.py and foo*",
        "*_test.py and foo*",
        "{*.js,*.ts}",
        "100%_sure and 5%_of_it_",
        "http://example.test/a_b_(c)",
        "https://x.org/?q=*a* and https://x.org/?q=*b*",
        "https://x.org/?a=1&lt;=*2*",
        "https://en.wikipedia.org/wiki/A_(b)_c_(d)_",
        "www.a_b.org/_c_/d and ftp://_a_.org/~~b~~",
        "mail _foo_bar_@example.org, or __x__@example.org",
        r"C:\Users\_me_\*.txt and \\host\share\_x_\.git",
        "2 * 3 * 4",
        "5* hotels and 4* hotels",
        "a~~b~~c",
        "/*comment*/ and /** doc */",
        'the sign "*" and the sign "*"',
        "^caret^ {brace} $HOME_A and $HOME_B",
        "変数snake_case_nameと関数__init__です",
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
        ("**bold** and __two words__", "<b>bold</b> and <b>two words</b>"),
        ("*italic* and _italic_", "<i>italic</i> and <i>italic</i>"),
        ("***both*** and **_both_**", "<i><b>both</b></i> and <b><i>both</i></b>"),
        ("_**both**_ and ~~*gone*~~", "<i><b>both</b></i> and <s><i>gone</i></s>"),
        ("~~gone~~, (~~gone~~)", "<s>gone</s>, (<s>gone</s>)"),
        ("**Note**: x, **Note:** y, **Note**:z", "<b>Note</b>: x, <b>Note:</b> y, <b>Note</b>:z"),
        ("*a phrase of words*, _another one_.", "<i>a phrase of words</i>, <i>another one</i>."),
        ("(**a**) [**b**] “*c*” —_d_—", "(<b>a</b>) [<b>b</b>] “<i>c</i>” —<i>d</i>—"),
        ('*"Hello"* "*Hello*" *(so)*', '<i>"Hello"</i> "<i>Hello</i>" <i>(so)</i>'),
        ("**A**/**B**, **x**-**y**, **3**%, **50%**", "<b>A</b>/<b>B</b>, <b>x</b>-<b>y</b>, <b>3</b>%, <b>50%</b>"),
        ("the **API**s, **S**oftware", "the <b>API</b>s, <b>S</b>oftware"),
        ("*it*'s, _it_'s, **Python**’s", "<i>it</i>'s, <i>it</i>'s, <b>Python</b>’s"),
        ("**bold *with italic* in it**", "<b>bold <i>with italic</i> in it</b>"),
        ("***bold words** in italics*", "<i><b>bold words</b> in italics</i>"),
        ("*italics with **bold words***", "<i>italics with <b>bold words</b></i>"),
        ("**edit /etc/hosts** or **.env** or **src/**", "<b>edit /etc/hosts</b> or <b>.env</b> or <b>src/</b>"),
        ("**snake_case_name** and *__init__.py*", "<b>snake_case_name</b> and *__init__.py*"),
        ("**__init__.py** and **--flag**", "<b>__init__.py</b> and <b>--flag</b>"),
        ("**2*3*4** is 24", "<b>2*3*4</b> is 24"),
        ("**use 2*3*4 or a_b_c now**", "<b>use 2*3*4 or a_b_c now</b>"),
        ("**https://x.org/a_b_c**", "<b>https://x.org/a_b_c</b>"),
        ("*see https://x.org/_a_*", "<i>see https://x.org/_a_</i>"),
        ("**`code`** and *`a*b`*", "<b><Code></b> and <i><Code></i>"),
        ("**[a b](http://x.org)** and *[c*d*e](http://x.org) f*", "<b><Link></b> and <i><Link> f</i>"),
        ("**a**[b](http://x.org)**c** な**[d](http://x.org)**点", "<b>a</b><Link><b>c</b> な<b><Link></b>点"),
        ("**「重要」**な点", "<b>「重要」</b>な点"),
        ("これは**重要**です", "これは<b>重要</b>です"),
        ("使用API**重要**功能", "使用API<b>重要</b>功能"),
        ("看**“引用”**和*斜体*。", "看<b>“引用”</b>和<i>斜体</i>。"),
        ("매우 **중요**합니다", "매우 <b>중요</b>합니다"),
        ("⚠️**Warning** 1️⃣**Title**", "⚠️<b>Warning</b> 1️⃣<b>Title</b>"),
        ("**हिन्दी** और *उर्दू*", "<b>हिन्दी</b> और <i>उर्दू</i>"),
        ("<br>*text*<br>", "<br><i>text</i><br>"),
        ("2*3*4 and **b** and 5*6*7", "2*3*4 and <b>b</b> and 5*6*7"),
    ],
)
def test_emphasis_stays_emphasis(text: str, shown: str) -> None:
    assert said(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("_x_ and _a/a_", "<i>x</i> and <i>a/a</i>", id="one underscore at each end of a word is emphasis"),
        pytest.param("*word*", "<i>word</i>", id="one star at each end of a word is emphasis, no pattern"),
        pytest.param("*config.* *e.g.*", "*config.* *e.g.*", id="with a point before the star it is a pattern"),
        pytest.param("__very__", "__very__", id="two underscores at each end of a word are a name"),
        pytest.param("*a_b* **a_b**", "*a_b* <b>a_b</b>", id="a star around a name is a pattern, two are bold"),
        pytest.param("_a and b_", "<i>a and b</i>", id="between two names it is a phrase"),
        pytest.param("长*宽*高", "长<i>宽</i>高", id="between letters without blanks it is emphasis"),
    ],
)
def test_where_both_could_be_meant(text: str, shown: str) -> None:
    assert said(text) == shown


def test_addresses_end_where_the_sentence_goes_on() -> None:
    text = "(see https://x.org/a_(b)). Or www.x.org/y, or a@b.org."
    spans = literal_spans(text)
    found = [text[start:stop] for start, stop in zip(spans.starts, spans.stops, strict=True)]
    assert found == ["https://x.org/a_(b)", "www.x.org/y", "a@b.org"]


# -- by property: names, paths, patterns, products, addresses

_WORD = st.from_regex(r"[A-Za-z][A-Za-z0-9]{0,6}", fullmatch=True)
_ANY_IDENTIFIER = st.from_regex(
    r"_{0,2}[A-Za-z][A-Za-z0-9]{0,4}(?:_{1,2}[A-Za-z0-9]{1,4}){0,3}_{0,2}", fullmatch=True
) | st.sampled_from(["__init__", "__main__", "__all__", "__FILE__", "__class_getitem__"])


def _is_italic(token: str) -> bool:
    """`_x_`, `_a/a_` and `*word*` are emphasis: that is decided, and nothing else is left out here."""
    return re.fullmatch(r"_[^_*]+_|\*[A-Za-z0-9](?:[^_*]*[A-Za-z0-9?])?\*", token) is not None


_IDENTIFIER = _ANY_IDENTIFIER.filter(lambda name: not _is_italic(name))
_FILE = st.tuples(
    _ANY_IDENTIFIER, st.sampled_from([".py", ".tar.gz", "()", "[0]", ".x_y_z", "/x", "/", "-x", "=1"])
).map("".join)
_PATH = (
    st.lists(_ANY_IDENTIFIER, min_size=2, max_size=5)
    .flatmap(
        lambda parts: st.sampled_from(
            ["/".join(parts), "/" + "/".join(parts), "C:\\" + "\\".join(parts), "~/" + "/".join(parts)]
        )
    )
    .filter(lambda path: not _is_italic(path))
)
_PIECE = st.sampled_from(["*", "*", "?", "[a-z]", "{a,b}", "_", "-", ".", ".py", "a", "src", "test_", "_x"])
_SEGMENT = st.just("**") | st.lists(_PIECE, min_size=1, max_size=5).map("".join).filter(lambda one: "**" not in one)
_GLOB = (
    st.lists(_SEGMENT, min_size=1, max_size=4)
    .map("/".join)
    .filter(lambda glob: "*" in glob and glob.strip("*") and not _is_italic(glob))
)
_OPERAND = st.from_regex(r"-?[a-z0-9]{1,3}|\([a-z]\)|[a-z]\([a-z]\)|[a-z]\[[0-9]\]|[0-9]\.[0-9]", fullmatch=True)
_SPACED_PRODUCT = st.lists(_OPERAND, min_size=2, max_size=5).map(" * ".join)
_PRODUCT = st.tuples(st.lists(_OPERAND | _ANY_IDENTIFIER, min_size=2, max_size=5), st.sampled_from(["*", "**"])).map(
    lambda given: given[1].join(given[0])
)
_ADDRESS = st.tuples(
    st.sampled_from(["http://", "https://", "ftp://", "www."]),
    _WORD,
    st.sampled_from([".org/", ".test:80/"]),
    st.from_regex(r"(?:[a-z0-9]{1,3}[_*~/?=&.:,;!'@-]{1,2}|_\([a-z_*]{1,3}\)){0,6}[a-z0-9]{1,2}", fullmatch=True),
).map("".join)
_LITERAL = _IDENTIFIER | _FILE | _PATH | _GLOB | _PRODUCT | _SPACED_PRODUCT | _ADDRESS

_AROUND = st.sampled_from(
    [
        ("{}", "{}"),
        ("see {} there", "see {} there"),
        ("see {}, there.", "see {}, there."),
        ("({})", "({})"),
        ("“{}”", "“{}”"),
        ("x: {}\ny", "x: {}"),
        ("- {} x\n- y", "{} x"),
        ("# x {}", "x {}"),
        ("> {} x", "{} x"),
        ("| a |\n|---|\n| {} |", "{}"),
        ("**bold** {} *italic*", "bold {} italic"),
        ("*two words* {} _two words_", "two words {} two words"),
        ("{} **two words** {}", "{0} two words {0}"),
        ("**Note:** {}, __two words__", "Note: {}, two words"),
        ("_it_ {} ~~gone~~ ***both***", "it {} gone both"),
        ("`x` {} [link](https://x.org)", "x {} link"),
    ]
)


@examined
@given(_LITERAL, _AROUND)
def test_any_name_path_pattern_product_and_address_stays(literal: str, around: tuple[str, str]) -> None:
    written, shown = (one.replace("{0}", "{}").replace("{}", literal) for one in around)
    shows(written, shown)


# -- by property: emphasis

_PHRASE = st.lists(
    _WORD | st.sampled_from(["don't", "well-known", "3", "50%", "C++", "naïve", "a/b"]), min_size=2, max_size=4
)
_INNER = st.lists(_WORD | st.sampled_from(["snake_case", "2*3*4", "__init__", "a & b"]), max_size=2)
_ONE = {"*{}*": "<i>{}</i>", "**{}**": "<b>{}</b>", "***{}***": "<i><b>{}</b></i>", "~~{}~~": "<s>{}</s>"}
_WORD_MARKS = {**_ONE, "_{}_": "<i>{}</i>", "**_{}_**": "<b><i>{}</i></b>", "_**{}**_": "<i><b>{}</b></i>"}
_PHRASE_MARKS = {**_WORD_MARKS, "__{}__": "<b>{}</b>", "~~**{}**~~": "<s><b>{}</b></s>"}
_NESTED = {
    "**{} *{}* {}**": "<b>{} <i>{}</i> {}</b>",
    "**{} _{}_ {}**": "<b>{} <i>{}</i> {}</b>",
    "*{} **{}** {}*": "<i>{} <b>{}</b> {}</i>",
    "_{} **{}** {}_": "<i>{} <b>{}</b> {}</i>",
    "***{} {}** {}*": "<i><b>{} {}</b> {}</i>",
    "***{} {}* {}**": "<b><i>{} {}</i> {}</b>",
    "*{} **{} {}***": "<i>{} <b>{} {}</b></i>",
    "**{} *{} {}***": "<b>{} <i>{} {}</i></b>",
    "~~{} **{}** {}~~": "<s>{} <b>{}</b> {}</s>",
}
_BESIDE = st.sampled_from(
    [
        "{}",
        "x {} y",
        "({})",
        "({}), x",
        "x {}: y",
        "“{}”",
        '"{}"',
        "{}.",
        "{}!",
        "x {}? y",
        "x—{}—y",
        "…{}",
        "[{}]",
        "{}'s",
    ]
)
_END = st.sampled_from(["", "", "!", "?", ":", ",", "%"])
_CJK = st.sampled_from(["重要", "「重要」", "とても大切", "(重要)", "“引用”", "API", "重要！", "第3章", "中文 words"])
_CJK_BESIDE = st.sampled_from(
    ["这是{}的", "{}です", "これは{}", "我们用{}，然后", "（{}）", "看：{}。", "{}", "한국어 {}는"]
)


def _emphasised(marks: dict[str, str], *words: str) -> st.SearchStrategy[tuple[str, str]]:
    return st.sampled_from(sorted(marks)).map(lambda mark: (mark.format(*words), marks[mark].format(*words)))


_WORDS = st.tuples(_WORD, _END).flatmap(lambda given: _emphasised(_WORD_MARKS, "".join(given)))
_PHRASES = st.tuples(_PHRASE, _INNER, _WORD, _END | st.just(".")).flatmap(
    lambda given: _emphasised(_PHRASE_MARKS, " ".join([*given[0], *given[1], given[2]]) + given[3])
)
_NESTINGS = st.tuples(*[_PHRASE.map(" ".join)] * 3).flatmap(lambda given: _emphasised(_NESTED, *given))
_SPANS = _WORDS | _PHRASES | _NESTINGS


@examined
@given(_SPANS, _BESIDE, _LITERAL)
def test_intended_emphasis_is_shown(span: tuple[str, str], beside: str, literal: str) -> None:
    written, tagged = (beside.replace("{}", one) for one in span)
    assert said(written) == tagged
    shows(written, re.sub("<[^>]+>", "", tagged))
    behind = parse(f"{span[0]} {literal}")
    assert isinstance(behind[0], Paragraph)
    assert _tagged(behind[0].children).startswith(span[1])


@examined
@given(_CJK.flatmap(lambda words: _emphasised(_ONE, words)), _CJK_BESIDE)
def test_intended_emphasis_is_shown_where_no_blanks_are_written(span: tuple[str, str], beside: str) -> None:
    written, tagged = (beside.replace("{}", one) for one in span)
    assert said(written) == tagged
    shows(written, re.sub("<[^>]+>", "", tagged))
