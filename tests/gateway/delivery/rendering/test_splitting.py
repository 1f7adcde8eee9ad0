"""Parts fit, lose nothing and keep their structure, whatever the text and the unit."""

import itertools
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.channels.document import (
    Bold,
    CodeBlock,
    Document,
    Heading,
    Link,
    List,
    Paragraph,
    Plain,
    Quote,
    Table,
    Text,
)
from gateway.channels.document import is_blank as blank
from gateway.delivery.rendering.markdown import parse
from gateway.delivery.rendering.splitting import Measure, is_grapheme_break, split
from tests.fakes.markdown_source import to_markdown
from tests.fakes.readable import readable, utf16_length
from tests.gateway.delivery.rendering.documents import fragments, letters, markdown_texts, plain_texts, streams


def code_points(document: Document) -> int:
    return len(to_markdown(document))


MEASURES = pytest.mark.parametrize("measure", [utf16_length, code_points], ids=["UTF-16 as read", "Markdown source"])


def raw(parts: tuple[Document, ...]) -> list[str]:
    texts = []
    for part in parts:
        (block,) = part
        assert isinstance(block, Plain)
        texts.append(block.text)
    return texts


@pytest.mark.requirement("G-10")
@given(text=plain_texts, limit=st.integers(40, 200))
def test_the_parts_of_plain_text_joined_are_that_text(text: str, limit: int) -> None:
    parts = split((Plain(text),), limit, utf16_length)
    assert all(utf16_length(part) <= limit for part in parts)
    assert not any(blank(part) for part in parts)
    if text.strip() and not _long_gap(text, limit):
        assert "".join(raw(parts)) == text
    else:
        assert "".join("".join(raw(parts)).split()) == "".join(text.split())


def _long_gap(text: str, limit: int) -> bool:
    """White space so long that no message can hold it beside a letter."""
    longest = run = 0
    for character in text:
        run = run + 1 if character.isspace() else 0
        longest = max(longest, run)
    return longest > limit - 12


@pytest.mark.requirement("G-10")
@given(text=plain_texts, limit=st.integers(40, 200))
def test_no_character_is_torn(text: str, limit: int) -> None:
    parts = raw(split((Plain(text),), limit, utf16_length))
    for part in parts[1:]:
        assert unicodedata.category(part[0])[0] != "M"
        assert part[0] not in "\u200d🏽"
    for before, after in itertools.pairwise(parts):
        assert not before.endswith("\u200d")
        assert is_grapheme_break(before + after, len(before))


def test_a_syllable_of_hangul_in_parts_is_one_character() -> None:
    text = unicodedata.normalize("NFD", "한국어 말")
    grapheme_breaks = [at for at in range(len(text) + 1) if is_grapheme_break(text, at)]
    assert [text[start:end] for start, end in itertools.pairwise(grapheme_breaks)] == [
        unicodedata.normalize("NFD", syllable) for syllable in "한국어 말"
    ]


@pytest.mark.requirement("G-10")
@MEASURES
@settings(deadline=None, max_examples=40)
@given(text=markdown_texts, limit=st.integers(300, 900))
def test_parts_fit_and_keep_every_letter_in_its_place(measure: object, text: str, limit: int) -> None:
    assert callable(measure)
    document = parse(text)
    parts = split(document, limit, measure)
    assert all(measure(part) <= limit for part in parts)
    assert not any(blank(part) for part in parts)
    whole = tuple(block for part in parts for block in part)
    assert streams(whole) == streams(document)
    assert letters(whole) == letters(document)


@pytest.mark.requirement("G-10")
@settings(deadline=None, max_examples=40)
@given(text=markdown_texts, limit=st.integers(300, 900))
@pytest.mark.slow
def test_each_part_parses_to_itself(text: str, limit: int) -> None:
    """No unbalanced fence, no open emphasis: as Markdown, each part is read as what it is."""
    for part in split(parse(text), limit, code_points):
        assert streams(parse(to_markdown(part))) == streams(part)


@settings(deadline=None, max_examples=40)
@given(text=fragments, limit=st.integers(50, 120))
def test_any_nonsense_is_split_without_loss_of_letters(text: str, limit: int) -> None:
    document = parse(text)
    parts = split(document, limit, utf16_length)
    assert all(utf16_length(part) <= limit for part in parts)
    if not any(isinstance(block, Table) for block in document) and "http" not in text and not blank(document):
        whole = tuple(block for part in parts for block in part)
        assert letters(whole) == letters(document)


@pytest.mark.parametrize(
    ("text", "limit", "parts"),
    [
        pytest.param("one\ntwo three", 10, ["one\n", "two three"], id="the last newline inside the limit"),
        pytest.param("one two three", 10, ["one two ", "three"], id="else the last space"),
        pytest.param("x" * 25, 10, ["x" * 10, "x" * 10, "x" * 5], id="else a hard cut"),
        pytest.param("x" * 9 + "😀", 10, ["x" * 9, "😀"], id="no half of a surrogate pair"),
        pytest.param("x" * 8 + "e\u0301\u0302", 10, ["x" * 8, "e\u0301\u0302"], id="no mark without its letter"),
        pytest.param("x" * 8 + "👍🏽", 10, ["x" * 8, "👍🏽"], id="no skin tone on its own"),
        pytest.param("xx🇩🇪🇫🇷🇩🇪", 10, ["xx🇩🇪🇫🇷", "🇩🇪"], id="no half flag"),
        pytest.param("one two three\n\n\n", 15, ["one two ", "three\n\n\n"], id="no blank last part"),
        pytest.param("   \n   one two", 10, ["   \n   one", " two"], id="no blank first part"),
        pytest.param("fits", 10, ["fits"], id="what fits stays whole"),
        pytest.param(" \n ", 10, [], id="nothing to see is nothing to send"),
    ],
)
@pytest.mark.requirement("G-10")
def test_where_plain_text_is_cut(text: str, limit: int, parts: list[str]) -> None:
    assert raw(split((Plain(text),), limit, utf16_length)) == parts


@pytest.mark.requirement("G-10")
def test_a_fence_is_closed_and_opened_again_with_its_language() -> None:
    code = "\n".join(f"line {number} = {number}" for number in range(200))
    parts = split(parse(f"before\n\n```python\n{code}\n```\n\nafter"), 500, code_points)
    blocks = [block for part in parts for block in part if isinstance(block, CodeBlock)]
    assert len(blocks) > 3
    assert {block.language for block in blocks} == {"python"}
    assert "\n".join(block.code for block in blocks) == code


def functions(between: str, count: int = 30) -> str:
    return between.join(f"def f{number}(x):\n    y = x + {number}\n    return y * 2" for number in range(count))


@pytest.mark.parametrize("limit", range(300, 700, 37))
@pytest.mark.parametrize("measure", [utf16_length, code_points], ids=["UTF-16 as read", "Markdown source"])
@pytest.mark.parametrize("between", ["\n\n", "\n"], ids=["blank lines", "none"])
def test_code_is_cut_between_its_functions(between: str, measure: Measure, limit: int) -> None:
    code = functions(between)
    blocks = [block for part in split((CodeBlock(code, "python"),), limit, measure) for block in part]
    assert "\n".join(block.code for block in blocks if isinstance(block, CodeBlock)) == code
    assert len(blocks) > 1
    assert all(isinstance(block, CodeBlock) and block.code.startswith("def ") for block in blocks)


@pytest.mark.parametrize(
    ("code", "ends_with"),
    [
        pytest.param("a = 1\n\n" + "b = [\n" + "    1,\n" * 60 + "]", "    1,", id="a blank line far above is none"),
        pytest.param("x" * 250 + "\n\n" + "    y\n" * 60, "x", id="a blank line, whatever follows it"),
        pytest.param("x = {\n" + "    1: 2,\n" * 26 + "}\n" + "    z\n" * 60, "    z", id="a bracket belongs above"),
    ],
)
def test_where_code_is_cut(code: str, ends_with: str) -> None:
    (first, *_), *_ = split((CodeBlock(code),), 300, code_points)
    assert isinstance(first, CodeBlock)
    assert first.code.rstrip("\n").endswith(ends_with)


def test_a_list_goes_on_with_its_numbers() -> None:
    text = "\n".join(f"{number}. item number {number}" for number in range(5, 60))
    lists = [block for part in split(parse(text), 200, code_points) for block in part]
    starts = []
    for block in lists:
        assert isinstance(block, List)
        starts.append((block.start or 0, len(block.items)))
    assert starts[0][0] == 5
    assert all(start + count == following for (start, count), (following, _) in itertools.pairwise(starts))


def test_a_table_repeats_its_header() -> None:
    text = "| name | value |\n|:--|--:|\n" + "\n".join(f"| row {number} | {number} |" for number in range(100))
    parts = split(parse(text), 300, code_points)
    assert len(parts) > 3
    rows: list[object] = []
    for (table,) in parts:
        assert isinstance(table, Table)
        assert (table.header, table.aligns) == (((Text("name"),), (Text("value"),)), ("left", "right"))
        rows.extend(table.rows)
    assert len(rows) == 100


def test_a_row_wider_than_a_message_is_told_cell_by_cell() -> None:
    parts = split(parse(f"| key | text |\n|---|---|\n| a | {'word ' * 100} |\n| b | c |"), 200, utf16_length)
    assert all(utf16_length(part) <= 200 for part in parts)
    assert parts[0][0] == Paragraph((Bold((Text("key"),)), Text(": "), Text("a")))
    assert isinstance(parts[-1][-1], Table)
    assert sum(readable(part).count("word") for part in parts) == 100


def test_an_address_longer_than_a_message_is_written_out() -> None:
    url = "https://example.org/" + "x" * 300
    parts = split((Paragraph((Link(url, (Text("here"),)), Text(" it is."))),), 100, utf16_length)
    assert all(utf16_length(part) <= 100 for part in parts)
    assert "".join("".join(readable(part).split()) for part in parts) == f"here({url})itis."


def test_a_heading_goes_with_what_it_stands_over() -> None:
    parts = split(parse(f"{'word ' * 15}\n\n# Title\n\n{'text ' * 15}"), 100, utf16_length)
    assert [type(block) for block in parts[1]] == [Heading, Paragraph]


def test_a_quote_stays_a_quote() -> None:
    parts = split(parse("\n>\n".join(f"> paragraph {number} of it" for number in range(20))), 100, code_points)
    assert len(parts) > 3
    assert all(isinstance(block, Quote) for part in parts for block in part)


def test_nesting_deeper_than_a_message_is_wide_loses_no_word() -> None:
    document: Document = (Paragraph((Text("word"),)),)
    for _ in range(40):
        document = (Quote(document),)
    parts = split(document, 50, code_points)
    assert all(code_points(part) <= 50 for part in parts)
    assert "".join(readable(part).strip("> ") for part in parts) == "word"


@pytest.mark.parametrize("text", ["x" * 100_000, "word " * 20_000, "- item of a list\n" * 6_000, "a\n\n" * 33_000])
def test_a_long_text_is_measured_a_few_times_only(text: str) -> None:
    measured = 0

    def counting(document: Document) -> int:
        nonlocal measured
        length = utf16_length(document)
        measured += length
        return length

    parts = split(parse(text), 4096, counting)
    assert len(parts) >= 24
    assert measured < 12 * len(text)
