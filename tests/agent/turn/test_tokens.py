"""Token estimates and their calibration."""

import gc
from weakref import ref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.messages import FilePart, Message, ToolUse, text_message
from agent.core.tools import ToolSpec
from agent.providers.provider import ToolSchema
from agent.turn.tokens import Estimator, count_by_bytes


@pytest.mark.requirement("B-18", "R-16")
@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        pytest.param("", 0, id="nothing"),
        pytest.param("a" * 8, 2, id="words: four bytes a token"),
        pytest.param("a" * 9, 3, id="rounded up"),
        pytest.param('{"a": 12}', 5, id="JSON: two bytes a token"),
        pytest.param("[1, 2, 3]", 5, id="a list"),
        pytest.param("[ok] fine", 3, id="a bracket before a word is no JSON"),
        pytest.param("<b>hi</b>", 5, id="markup"),
        pytest.param("< 5 apples", 3, id="less than is no markup"),
        pytest.param("привет", 4, id="mostly non-ASCII: three bytes a token"),
    ],
)
def test_count_by_bytes(text: str, tokens: int) -> None:
    assert count_by_bytes(text) == tokens


@given(st.text())
def test_every_text_has_a_count(text: str) -> None:
    assert count_by_bytes(text) >= (1 if text else 0)


def test_a_message_is_counted_once_in_its_life() -> None:
    asked: list[str] = []

    def count(text: str) -> int:
        asked.append(text)
        return len(text)

    estimator = Estimator(count)
    message = text_message("user", "12345")
    assert estimator.message(message) == estimator.message(message) == 9
    assert asked == ["12345"]
    alive = ref(message)
    del message
    gc.collect()
    assert alive() is None


def test_what_requests_share_is_counted_once_while_it_is_in_use() -> None:
    asked: list[str] = []

    def count(text: str) -> int:
        asked.append(text)
        return len(text)

    estimator = Estimator(count)
    for turn in range(20):
        for _ in range(3):
            assert estimator.text("the stable part") + estimator.text(f"it is {turn}") == 15 + len(f"it is {turn}")
    assert asked == ["the stable part", *(f"it is {turn}" for turn in range(20))]


def test_what_was_written_down_is_believed_if_the_same_tokenizer_counted_it() -> None:
    asked: list[str] = []

    def count(text: str) -> int:
        asked.append(text)
        return len(text)

    name = "letters"
    estimator = Estimator(count, name=lambda: name)
    known, other, new = (text_message("user", text) for text in ("12345", "1234567", "123"))
    assert estimator.written(known) == "9 letters"
    asked.clear()
    again = text_message("user", "12345")
    estimator.take([(again, "9 letters"), (other, "2 words"), (new, "")])
    assert asked == ["1234567", "123"]
    assert [estimator.message(one) for one in (again, other, new)] == [9, 11, 7]
    stored = text_message("user", "12345")
    estimator.same(again, stored)
    assert estimator.message(stored) == 9
    assert asked == ["1234567", "123"]


def test_files_count_as_what_a_model_makes_of_them() -> None:
    def part(mime_type: str) -> Message:
        return Message(role="user", parts=(FilePart(path="p", mime_type=mime_type, name="n", size=10**7),))

    estimator = Estimator()
    assert estimator.message(part("image/png")) > 1000 > estimator.message(part("application/zip"))


def test_tool_definitions_count() -> None:
    spec = ToolSpec(name="echo", description="x" * 40, schema={"type": "object"})
    estimator = Estimator()
    schema = ToolSchema(specs=(spec,))
    assert estimator.tools(schema) == estimator.tools(schema) == 1 + 10 + count_by_bytes('{"type": "object"}')
    assert estimator.message(Message(role="assistant", parts=(ToolUse(id="a", name="echo"),))) > 4


@pytest.mark.requirement("R-16")
class TestCalibration:
    def test_the_scale_is_the_mean_of_what_was_reported(self) -> None:
        estimator = Estimator()
        estimator.learn(100, 150)
        estimator.learn(100, 110)
        assert estimator.scale == pytest.approx(1.3)
        assert estimator.scaled(10) == 13

    @pytest.mark.parametrize(("real", "scale"), [(10_000, 2.0), (1, 0.5)])
    def test_the_scale_is_clamped(self, real: int, scale: float) -> None:
        estimator = Estimator()
        estimator.learn(100, real)
        assert estimator.scale == scale

    def test_only_the_last_eight_count(self) -> None:
        estimator = Estimator()
        estimator.learn(100, 200)
        for _ in range(8):
            estimator.learn(100, 100)
        assert estimator.scale == 1.0

    @pytest.mark.parametrize(("raw", "real"), [(0, 5), (5, 0)])
    def test_zero_says_nothing(self, raw: int, real: int) -> None:
        estimator = Estimator()
        estimator.learn(raw, real)
        assert estimator.scale == 1.0

    def test_only_the_last_eight_of_the_model_that_is_followed_count(self) -> None:
        estimator = Estimator()
        estimator.follow("one")
        estimator.learn(100, 200)
        for _ in range(8):
            estimator.learn(100, 100)
        assert (estimator.scale, estimator.samples) == (1.0, 8)

    def test_another_model_starts_anew(self) -> None:
        estimator = Estimator()
        estimator.learn(100, 150)
        estimator.follow("another")
        assert estimator.scale == 1.0
