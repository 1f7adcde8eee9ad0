"""Rendering for Slack: Markdown that parses back, plain text that stays as it is, a readable fallback."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.slack.markdown import markdown, mrkdwn
from adapters.slack.parse import unescaped
from adapters.slack.render import key_of, measure, poor, rich
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
from gateway.channels.outbound import Button, Outbound
from gateway.delivery.rendering.markdown import parse
from gateway.delivery.rendering.splitting import split
from tests.doubles.slack_api import check_blocks
from tests.fakes.commonmark import read

LONG = Path(__file__).with_name("long_answer.md").read_text()


def sense(document: Document) -> Any:
    """The document, where text without any markup may stand as it is or in paragraphs, and spaces at ends of lines
    do not count."""
    if all(isinstance(block, Plain | Paragraph) for block in document):
        texts = [_letters(block) for block in document if isinstance(block, Plain | Paragraph)]
        if None not in texts:
            return " ".join(" ".join(text or "" for text in texts).split())
    return re.sub(r"[ \t]+(?=', '|'\)|\\n)", "", repr(document)).replace("' ", "'")


def _letters(block: Plain | Paragraph) -> str | None:
    if isinstance(block, Plain):
        return block.text
    if not all(isinstance(child, Text | Break) for child in block.children):
        return None
    return "".join(child.text if isinstance(child, Text) else " " for child in block.children)


@pytest.mark.parametrize(
    "source",
    [
        "**bold**, *italic*, ***both***, ~~gone~~, `code`, ``a ` b``",
        "un*frigging*believable and **a**b and _x_",
        "# One\n\n## Two with `code`\n\ntext",
        "- a\n- b\n  - c\n    - d\n\n1. one\n2. two\n\n   more of two\n",
        "5. five\n6. six",
        "- [ ] to do\n- [x] done",
        "- a\n\n\n* b\n",
        "> quoted\n> > twice\n>\n> - a list",
        "```python\nif x < 3:\n    print('`', \"```\")\n```",
        "````md\n```py\nx\n```\n````",
        "| a | b |\n|:--|--:|\n| `x|y` | **2** |\n| \\| | |",
        "[a link](https://example.org/a_(b)?c=1&d=2) and <https://example.org> and <ann@example.org>",
        "![a picture](https://example.org/x.png)",
        "line one  \nline two\nline three",
        "**Note:** 5 \\* 3 is 15, a\\_b, \\# no heading, 1\\. no list, \\[x](y)",
        "one\n\n---\n\ntwo",
        "*a* & <b> &amp;amp; &lt;c&gt; \\&amp; **x**",
        "**x**\n\n\\> no quote\n\n\\- no list\n\n+ list\n\n\\=\\=\\=",
        "**x** <@U123> <!channel> \\<@U1>",
        "**x** C:\\new\\*dir\\",
        "- ```\n  code in a list\n  ```\n- b",
        "これは**重要**です",
    ],
)
def test_markdown_parses_back(source: str) -> None:
    document = parse(source)
    assert sense(read(markdown(document))) == sense(document)


def test_a_mark_between_punctuation_and_a_letter_is_set_elsewhere() -> None:
    assert markdown(parse("これは**「重要」**な*「点」*")) == "これは「**重要**」な「*点」*"
    assert markdown(parse("これは**`code`**な**[a](http://x.org)**点")) == "これは`code`な[a](http://x.org)点"


_MARKS = ("**", "~~", "1.", "&amp;", "<b>", *"*_`>#-<&|![]():=+")
_WORDS = ("a", "b1 ", "word", "5", " ", "\n", "\n\n", "- ", "1. ", "# ", "> ", "[x](http://y.z/a_b)", "https://x.y")
_BLOCKS = ("```\ncode\n```\n", "\n- a\n- b\n", "\n> q\n", "\n| a | b |\n|---|---|\n| c | d |\n")
_PIECES = st.sampled_from((*_MARKS, *_WORDS, *_BLOCKS))


@settings(max_examples=150, deadline=None)
@given(st.lists(_PIECES, max_size=14).map("".join))
def test_no_text_is_lost_however_odd_the_markup(source: str) -> None:
    document = parse(source)
    again = read(markdown(document))
    assert _only_letters(again) == _only_letters(document)


def _only_letters(document: Document) -> str:
    # The fallback holds every letter of every block; what a mark became does not matter here.
    return re.sub(r"[\W_]+", "", unescaped(mrkdwn(document)))


@pytest.mark.parametrize("name", ["<@U123>", "<!channel>", "<!here>", "<#C1>", "<!subteam^S1>"])
def test_a_models_words_call_nobody(name: str) -> None:
    for document in ((Plain(name),), (Paragraph((Text(f"see {name}"), Bold((Text(name),)))),)):
        body = rich(Outbound(document=document))
        assert name not in body["text"]
        assert all(name not in block["text"] for block in body["blocks"] if block["type"] == "markdown")


@given(st.text(min_size=1).filter(str.strip))
def test_plain_text_arrives_as_it_is(text: str) -> None:
    body = rich(Outbound(document=(Plain(text),)))
    (block,) = body["blocks"]
    assert block["type"] == "rich_text"  # the one block in which nothing is markup
    assert block["elements"][0]["elements"] == [{"type": "text", "text": text}]
    assert unescaped(body["text"]) == text


def test_marked_up_text_is_a_markdown_block_with_a_fallback() -> None:
    body = rich(Outbound(document=parse("**a** & b"), key="o1-0"))
    assert body["blocks"] == [{"type": "markdown", "text": "**a** & b"}]
    assert body["text"] == "*a* &amp; b"
    assert key_of(body) == "o1-0"


def test_without_a_key_there_is_no_metadata() -> None:
    assert "metadata" not in rich(Outbound(document=(Plain("x"),)))
    assert key_of({"metadata": {"event_type": "other", "event_payload": {"key": "x"}}}) is None


def test_plain_and_marked_up_parts_keep_their_order() -> None:
    body = rich(Outbound(document=(Plain("*a*"), Paragraph((Bold((Text("b"),)),)), Plain("c"))))
    assert [block["type"] for block in body["blocks"]] == ["rich_text", "markdown", "rich_text"]


def test_buttons() -> None:
    rows = ((Button(label="Yes", action="a:" + "x" * 62, style="primary"), Button(label="", action="b")),)
    body = rich(Outbound(document=(Plain("?"),), buttons=rows))
    check_blocks(body["blocks"])
    yes, no = body["blocks"][1]["elements"]
    assert (yes["value"], yes["action_id"], yes["style"]) == ("a:" + "x" * 62, "a:" + "x" * 62, "primary")
    assert "style" not in no
    long = rich(Outbound(document=(), buttons=((Button(label="l" * 200, action="c"),),)))
    assert len(long["blocks"][0]["elements"][0]["text"]["text"]) == 75


def test_the_fallback_keeps_text_and_buttons() -> None:
    message = Outbound(document=parse("x " * 3000 + "**y**"), buttons=((Button(label="Go", action="go"),),))
    body = poor(message)
    check_blocks(body["blocks"])
    assert "".join(block["text"]["text"] for block in body["blocks"][:-1]) == body["text"]
    assert poor(Outbound(document=parse("**x**")))["blocks"] == []


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("# Title", "*Title*"),
        ("**a** *b* ~~c~~ `d<e`", "*a* _b_ ~c~ `d&lt;e`"),
        ("[text](https://x.org/?a=1&b=2|3)", "<https://x.org/?a=1&amp;b=2%7C3|text>"),
        ("[text](/relative)", "text (/relative)"),
        ("<https://x.org>", "<https://x.org>"),
        ("- a\n- b\n  - c", "• a\n• b\n    • c"),
        ("3. a\n4. b", "3. a\n4. b"),
        ("- [ ] a\n- [x] b", "☐ a\n☑ b"),
        ("> a\n> b", "> a\n> b"),
        ("```py\na < b\n```", "```\na &lt; b\n```"),
        ("| a | bb |\n|--:|----|\n| 日本 | x |", "```\n   a | bb\n-----|---\n日本 | x\n```"),
        ("a\n\n***\n\nb *c*", "a\n\n──────────\n\nb _c_"),
        ("- a\n  ```\n  b\n    c\n  ```\n  d", "• a\n```\nb\n  c\n```\n    d"),
        ("- - ```\n    b\n    ```", "• •\n```\nb\n```"),
        ("un`x`ed **API**s, `x`: 日本**語**。", "unxed APIs, `x`: 日本語。"),
    ],
)
def test_mrkdwn(source: str, shown: str) -> None:
    assert mrkdwn(parse(source)) == shown


def test_the_measure_is_that_of_the_longer_form() -> None:
    assert measure((Plain("abc"),)) == 3
    assert measure((Plain("a&b"),)) == 7  # &amp; in the fallback
    assert measure(parse("**a** # `b`")) == len("**a** # `b`")


@pytest.mark.requirement("G-10")
def test_a_long_answer_arrives_whole_and_valid() -> None:
    assert len(LONG) > 10_000
    document = parse(LONG)
    parts = split(document, 4000, measure)
    assert len(parts) >= 3
    again: list[Any] = []
    for part in parts:
        body = rich(Outbound(document=part))
        check_blocks(body["blocks"])
        assert len(body["text"]) <= 4000  # what chat.update takes
        for block in body["blocks"]:
            assert len(block["text"]) <= 4000
            again.extend(read(block["text"]))
    assert sense(tuple(again)) == sense(tuple(block for part in parts for block in part))
    for emoji in ("🚀", "👩‍👩‍👧‍👦"):
        assert LONG.count(emoji) == sum(markdown(part).count(emoji) for part in parts)


def test_every_kind_of_block_and_inline_is_rendered() -> None:
    inlines: tuple[Inline, ...] = (
        Text("t"), Bold((Text("b"),)), Text(" "), Italic((Text("i"),)), Text(" "), Strike((Text("s"),)), Break(),
        Code("c"), Link("https://x.org", (Text("l"),)),
    )  # fmt: skip
    document: Document = (
        Heading(2, (Text("h"),)), Paragraph(inlines), CodeBlock("c", "py"), Quote((Paragraph((Text("q"),)),)),
        List((Item((Paragraph((Text("x"),)),), True),)), Rule(),
        Table(((Text("h"),),), (((Text("c"),),),), ("center",)),
    )  # fmt: skip
    assert read(markdown(document)) == document
