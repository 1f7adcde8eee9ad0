"""A preview of a growing answer shows what a look at all of it would show, and reads each part of it once."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.discord import render as discord
from adapters.telegram import render as telegram
from adapters.web import render as web
from gateway.channels.document import Document, is_blank
from gateway.delivery.egress import Guard
from gateway.delivery.rendering.growing import CUT_AT, MOST_JOINED, Growing
from gateway.delivery.rendering.markdown import parse
from gateway.delivery.rendering.splitting import Measure
from tests.fakes.readable import readable, utf16_length
from tests.gateway.delivery.rendering.documents import markdown_texts

PARAGRAPHS = "\n\n".join(f"Paragraph **{n}** says `x_{n}` and *more* of what a_b_{n} is." for n in range(650))
CODE = "Look:\n\n```py\n" + "\n".join(f"value_{n} = {n} * {n}  # **not bold**" for n in range(1000)) + "\n```\n\nDone."
LIST = "".join(f"{n}. item **{n}**\n   - deep `{n}`\n" for n in range(1, 1250))
TABLE = "| a | b |\n|---|---|\n" + "".join(f"| **{n}** | x_{n} |\n" for n in range(1500))
LINE = "word **bold** _it_ " * 1650
PLAIN = "no markup at all, only words\nin lines\n\n" * 800
ANSWERS = {"paragraphs": PARAGRAPHS, "code": CODE, "list": LIST, "table": TABLE, "line": LINE, "plain": PLAIN}


@pytest.mark.parametrize("name", ANSWERS)
def test_a_frame_shows_all_of_what_fits(name: str) -> None:
    text = ANSWERS[name][:MOST_JOINED]
    growing = Growing(100_000, utf16_length)
    for end in range(330, len(text), 830):
        frame = growing.frame(text[:end])
        assert "".join(readable(frame).split()) == "".join(readable(parse(text[:end])).split())


@pytest.mark.parametrize("name", ["paragraphs", "code", "list", "table", "plain"])
def test_a_joined_frame_is_the_document(name: str) -> None:
    text = ANSWERS[name][:MOST_JOINED].rpartition("\n")[0]
    growing = Growing(100_000, utf16_length)
    for end in range(100, len(text), 100):
        growing.frame(text[:end])
    assert readable(growing.frame(text)) == readable(parse(text))


@pytest.mark.parametrize("name", ANSWERS)
def test_a_frame_of_what_outgrew_a_message_is_its_end(name: str) -> None:
    text = ANSWERS[name][:20_000]
    growing = Growing(4096, telegram.measure)
    for end in range(700, len(text), 3700):
        frame = growing.frame(text[:end])
        assert telegram.measure(frame) <= 4096
        shown = readable(frame).replace("…", "")
        if end > 10_000:
            assert readable(frame).startswith("…")
        assert "".join(readable(parse(text[:end])).split()).endswith("".join(shown.split())[-6:])


@settings(deadline=None, max_examples=30)
@given(markdown_texts, st.integers(150, 900), st.integers(100, 700))
def test_every_frame_fits_and_shows_something(text: str, step: int, limit: int) -> None:
    growing = Growing(limit, utf16_length)
    for end in range(step, len(text) + step, step):
        frame = growing.frame(text[:end])
        assert utf16_length(frame) <= limit
        assert not is_blank(frame) or is_blank(parse(text[:end]))


def test_a_secret_is_never_cut_in_two() -> None:
    secret = "S" + "e " * 150 + "T"
    guard = Guard(
        found=lambda text: [(at, at + len(secret), "***")] if (at := text.find(secret)) >= 0 else [],
        begun=lambda text: at if (at := text.rfind("S")) >= 0 and secret not in text else len(text),
    )
    for before in range(2000, 3000, 130):
        text = "a " * (before // 2) + secret + " b" * 1500
        growing = Growing(100_000, utf16_length, guard)
        for end in range(100, len(text) + 100, 100):
            assert "e e e" not in readable(growing.frame(text[:end]))


class Counting:
    """The parser and a measure, which count the characters that they are given."""

    def __init__(self, measure: Measure) -> None:
        self._measure = measure
        self.read = self.measured = 0

    def parse(self, text: str) -> Document:
        self.read += len(text)
        return parse(text)

    def measure(self, document: Document) -> int:
        self.measured += len(readable(document))
        return self._measure(document)


@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.parametrize(
    ("limit", "measure"),
    [
        pytest.param(2_000, discord.measure, id="discord"),
        pytest.param(4_096, telegram.measure, id="telegram"),
        pytest.param(100_000, web.text_length, id="web"),
    ],
)
def test_work_on_a_frame_does_not_grow_with_the_answer(name: str, limit: int, measure: Measure) -> None:
    text, step = ANSWERS[name], 1500
    assert len(text) > 27_000
    counting = Counting(measure)
    growing = Growing(limit, counting.measure, read=counting.parse)
    most_read = most_measured = 0
    for end in range(step, len(text), step):
        before = counting.read, counting.measured
        growing.frame(text[:end])
        most_read = max(most_read, counting.read - before[0])
        most_measured = max(most_measured, counting.measured - before[1])
    frames = len(text) // step
    assert most_read <= 2 * (CUT_AT + step), "a frame reads the rest once to settle a part of it, and once to show it"
    assert counting.read <= 2 * len(text) + frames * CUT_AT
    assert most_measured <= 2 * min(limit, MOST_JOINED) + 12 * CUT_AT


def test_a_long_answer_at_once_is_read_once() -> None:
    counting = Counting(telegram.measure)
    growing = Growing(4096, counting.measure, read=counting.parse)
    growing.frame(PARAGRAPHS)
    assert counting.read <= len(PARAGRAPHS) + CUT_AT
