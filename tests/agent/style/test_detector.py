"""The four numbers of a style: by the formulas of the specification, whatever is written."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.style.detector import (
    ENOUGH,
    WINDOW,
    Signals,
    Style,
    StyleDetector,
    line_of,
    signals_of,
    style_of,
    traits_of,
    unpacked,
)

COUNTS = st.builds(Signals, *[st.integers(0, 500)] * 8)
WINDOWS = st.lists(COUNTS, max_size=WINDOW).map(tuple)


@pytest.mark.parametrize(
    ("text", "signals"),
    [
        pytest.param("", Signals(), id="nothing"),
        pytest.param(
            "Hello there, friend!", Signals(3, 1, 16, 1, 1, 0, 0, 0), id="words, a long one, a capital, a mark"
        ),
        pytest.param("don't self-made (x)", Signals(3, 1, 13, 0, 0, 0, 1, 0), id="a word with a mark in it is one"),
        pytest.param("🎉☀🪀 ok", Signals(1, 0, 2, 0, 0, 3, 0, 0), id="emoji of all three blocks"),
        pytest.param("see\n```py\nFOO(!)\nB\n```\nyes", Signals(2, 0, 6, 0, 0, 0, 0, 2), id="code is counted apart"),
        pytest.param("ÄRGER im Straßenbahnnetz", Signals(3, 1, 22, 6, 0, 0, 0, 0), id="other letters"),
    ],
)
def test_what_is_counted(text: str, signals: Signals) -> None:
    assert signals_of(text) == signals


@pytest.mark.requirement("W-69")
@pytest.mark.parametrize(
    ("window", "style"),
    [
        pytest.param((), Style(formality=0.5, energy=0.5, terseness=0.5, emoji_use=0.0), id="nobody has written"),
        pytest.param(
            (Signals(words=20, long_words=5, letters=100, capitals=10),),
            Style(formality=0.8 * 0.25 + 0.2 * 0.9, energy=0.3 * 0.1, terseness=0.25, emoji_use=0.0),
            id="one message",
        ),
        pytest.param(
            (
                Signals(words=4, letters=10, exclamations=2, emoji=1),
                Signals(words=2, letters=10, exclamations=9, emoji=2),
            ),
            Style(formality=0.2, energy=0.5 + 0.2 * 3 / 5, terseness=1.0, emoji_use=3 / 5),
            id="all messages together",
        ),
        pytest.param(
            (Signals(emoji=50, exclamations=50, letters=2, capitals=2),),
            Style(formality=0.0, energy=1.0, terseness=1.0, emoji_use=1.0),
            id="never above one",
        ),
    ],
)
def test_the_formulas(window: tuple[Signals, ...], style: Style) -> None:
    found = style_of(window)
    for name in ("formality", "energy", "terseness", "emoji_use"):
        assert getattr(found, name) == pytest.approx(getattr(style, name)), name


@given(WINDOWS)
def test_every_number_is_between_nothing_and_one(window: tuple[Signals, ...]) -> None:
    style = style_of(window)
    assert all(0 <= value <= 1 for value in (style.formality, style.energy, style.terseness, style.emoji_use))


@given(st.lists(st.text(max_size=20), max_size=14))
def test_the_window_is_that_of_the_last_ten(texts: list[str]) -> None:
    detector = StyleDetector()
    for text in texts:
        detector = detector.observe(text)
    counted = [signals_of(text) for text in texts if StyleDetector().observe(text).window]
    assert detector.window == tuple(counted[-WINDOW:])


@given(st.text(alphabet="abc xyzÄÖ!()\n", max_size=80), st.integers(1, 5))
def test_more_exclamation_never_calms_and_more_words_are_never_terser(text: str, more: int) -> None:
    one = style_of((signals_of(text),))
    assert style_of((signals_of(text + "!" * more),)).energy >= one.energy
    assert style_of((signals_of(text + " word" * more),)).terseness <= one.terseness


@given(WINDOWS)
def test_what_is_stored_comes_back(window: tuple[Signals, ...]) -> None:
    assert unpacked(json.loads(json.dumps(window))) == window


@pytest.mark.parametrize("damaged", ["{}", "[1]", "[[1]]", "[[1,1,1,1,1,1,1,-1]]", '[[1,1,1,1,1,1,1,"x"]]', "null"])
def test_what_is_damaged_is_no_window(damaged: str) -> None:
    with pytest.raises(ValueError, match="no "):
        unpacked(json.loads(damaged))


@pytest.mark.parametrize("text", ["", "  \n", "今日はとても天気がいいですね", "كيف حالك اليوم", "```\nfoo(1)\n```"])
def test_what_cannot_be_measured_changes_nothing(text: str) -> None:
    assert StyleDetector().observe(text) == StyleDetector()
    assert StyleDetector().observe("👍 42").window, "no letters at all can be"


@pytest.mark.requirement("W-69")
@pytest.mark.parametrize(
    ("text", "traits"),
    [
        pytest.param("ok do it", ("casual", "short messages"), id="short and casual"),
        pytest.param("YEAH!! 🎉🎉", ("casual", "lively", "short messages", "emoji"), id="lively"),
        pytest.param(
            "Considering previous correspondence regarding contractual obligations, management requests additional "
            "documentation concerning outstanding deliveries, including certificates, invoices, customs declarations, "
            "insurance policies, transport agreements, warehouse receipts.",
            ("formal", "long messages with detail"),
            id="formal and long",
        ),
        pytest.param(
            "Could you tell me which of the trains to Vienna leaves before seven tomorrow?", (), id="the middle"
        ),
    ],
)
def test_what_is_told(text: str, traits: tuple[str, ...]) -> None:
    detector = StyleDetector()
    for _ in range(ENOUGH - 1):
        detector = detector.observe(text)
    assert line_of(detector) == "", "too few messages"
    detector = detector.observe(text)
    assert traits_of(detector.style) == traits
    line = line_of(detector)
    assert bool(line) is bool(traits)
    assert "\n" not in line
    assert all(trait in line for trait in traits)
