"""Streams are put together without losing or changing a byte."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.errors import ProviderBusy
from agent.core.messages import RedactedThinking, TextPart, Thinking, ToolUse
from agent.providers.provider import (
    Chunk,
    Done,
    RedactedThinkingDone,
    Spared,
    TextDelta,
    TextWithdrawn,
    ThinkingDelta,
    ThinkingDone,
    ToolCallDelta,
    ToolCallDone,
    ToolCallStart,
    Unknown,
    Usage,
)
from agent.providers.replies import MOST_THINKING, MOST_TOOL_JSON, Accumulator, Reply, ReplyTooLarge, joined_text

WHOLE = st.characters(codec="utf-8", exclude_characters="\0")


def collected(*chunks: Chunk) -> Reply:
    accumulator = Accumulator("anthropic")
    for chunk in chunks:
        accumulator.take(chunk)
    return accumulator.reply()


def test_texts_that_arrive_together_are_one_and_nothing_changes_its_place() -> None:
    chunks: list[Chunk] = [TextDelta("a"), TextDelta("b"), ThinkingDelta("c"), TextDelta("d"), Done("end_turn")]
    assert list(joined_text(chunks)) == [TextDelta("ab"), ThinkingDelta("c"), TextDelta("d"), Done("end_turn")]
    assert list(joined_text([TextDelta("a"), TextDelta("b")])) == [TextDelta("ab")]
    assert list(joined_text([])) == []


def test_text_before_an_error_that_came_with_it_is_not_lost() -> None:
    def broken() -> Iterator[Chunk]:
        yield TextDelta("a")
        yield TextDelta("b")
        raise ProviderBusy("overloaded")

    seen: list[Chunk] = []
    with pytest.raises(ProviderBusy):
        seen.extend(joined_text(broken()))
    assert seen == [TextDelta("ab")]


@pytest.mark.requirement("Z-13", "R-14", "B-30")
def test_text_thinking_and_calls_become_parts_in_their_order() -> None:
    reply = collected(
        ThinkingDelta("let me "),
        ThinkingDone("let me see", "sig=="),
        TextDelta("I'll "),
        TextDelta("look."),
        ToolCallStart(1, "call_1", "echo"),
        ToolCallDelta(1, '{"text": '),
        ToolCallDelta(1, '"a"}'),
        ToolCallDone(1),
        RedactedThinkingDone("opaque"),
        Usage(prompt=3, output=4),
        Done("tool_use"),
    )
    assert reply.parts == (
        Thinking(thinking="let me see", signature="sig==", family="anthropic"),
        TextPart(text="I'll look."),
        ToolUse(id="call_1", name="echo", input={"text": "a"}),
        RedactedThinking(data="opaque", family="anthropic"),
    )
    assert (reply.text, reply.stop_reason, reply.usage) == ("I'll look.", "tool_use", Usage(prompt=3, output=4))


@pytest.mark.requirement("Z-13", "R-14")
def test_thinking_after_text_stays_after_it() -> None:
    reply = collected(TextDelta("First."), ThinkingDone("and then", "sig=="), TextDelta("Second."), Done("end_turn"))
    assert reply.parts == (
        TextPart(text="First."),
        Thinking(thinking="and then", signature="sig==", family="anthropic"),
        TextPart(text="Second."),
    )


@pytest.mark.requirement("Z-13", "R-14", "G-32")
def test_text_after_a_call_stays_after_it() -> None:
    reply = collected(
        TextDelta("First "),
        TextDelta("I look."),
        ToolCallStart(0, "call_1", "echo"),
        ToolCallDelta(0, "{}"),
        ToolCallDone(0),
        TextDelta("Now "),
        TextDelta("I wait."),
        ToolCallStart(1, "call_2", "echo"),
        ToolCallDone(1),
        Done("tool_use"),
    )
    assert reply.parts == (
        TextPart(text="First I look."),
        ToolUse(id="call_1", name="echo", input={}),
        TextPart(text="Now I wait."),
        ToolUse(id="call_2", name="echo", input={}),
    )


@pytest.mark.requirement("Z-19")
@given(st.text(), st.text())
def test_thinking_is_kept_byte_for_byte(thinking: str, signature: str) -> None:
    (part,) = collected(ThinkingDone(thinking, signature), Done("end_turn")).parts
    assert isinstance(part, Thinking)
    assert (part.thinking, part.signature) == (thinking, signature)


@given(st.lists(st.text(min_size=1)), st.data())
def test_deltas_add_up_to_the_text(pieces: list[str], data: st.DataObject) -> None:
    accumulator = Accumulator("x")
    shown = "".join(accumulator.take(TextDelta(piece)) for piece in pieces)
    assert shown == accumulator.reply().text == "".join(pieces).replace("\0", "\ufffd")


@pytest.mark.parametrize(
    ("chunks", "text"),
    [
        pytest.param((TextDelta("up \ud83d"), TextDelta("\ude80!")), "up \U0001f680!", id="cut between two pieces"),
        pytest.param(
            (TextDelta("\ud83d"), TextDelta(""), TextDelta("\ude80")), "\U0001f680", id="an empty piece between"
        ),
        pytest.param((TextDelta("up \ud83d"), TextDelta("on")), "up \ufffdon", id="the other half does not come"),
        pytest.param((TextDelta("up \ud83d"), Done("end_turn")), "up \ufffd", id="nor at the end"),
        pytest.param((TextDelta("\ud83d"), ToolCallStart(0, "c", "echo")), "\ufffd", id="nor before a call"),
        pytest.param((TextDelta("on \ude80"), TextDelta("a\0b")), "on \ufffda\ufffdb", id="a second half, and NUL"),
    ],
)
def test_half_an_emoji_is_joined_or_replaced(chunks: tuple[Chunk, ...], text: str) -> None:
    accumulator = Accumulator("x")
    shown = [accumulator.take(chunk) for chunk in chunks]
    assert "".join(shown) == accumulator.reply().text == text
    "".join(shown).encode()


def test_what_arguments_name_as_escapes_is_made_whole() -> None:
    written = '{"q\\u0000": ["moored \\ud83d yacht", "\\ud83d\\ude80"], "raw": "\ud83d'
    pieces = (ToolCallDelta(0, written), ToolCallDelta(0, '\ude80"}'))
    reply = collected(ToolCallStart(0, "c\0", "ec\ud83dho"), *pieces, ToolCallDone(0), Done("tool_use"))
    made = {"q\ufffd": ["moored \ufffd yacht", "\U0001f680"], "raw": "\U0001f680"}
    assert reply.calls == (ToolUse(id="c\ufffd", name="ec\ufffdho", input=made),)


@given(st.dictionaries(st.text(WHOLE), st.integers() | st.text(WHOLE)), st.integers(1, 5))
def test_arguments_are_read_however_they_are_cut(arguments: dict[str, Any], width: int) -> None:
    written = json.dumps(arguments, ensure_ascii=False)
    pieces = [ToolCallDelta(0, written[at : at + width]) for at in range(0, len(written), width)]
    reply = collected(ToolCallStart(0, "c", "echo"), *pieces, ToolCallDone(0), Done("tool_use"))
    assert reply.calls[0].input == arguments
    assert not reply.malformed


@pytest.mark.requirement("B-30")
@pytest.mark.parametrize(
    ("written", "mistake"),
    [
        pytest.param('{"text": ', "not valid JSON", id="cut off"),
        pytest.param("[1]", "must be a JSON object, not list", id="no object"),
        pytest.param("[" * 100_000, "not valid JSON", id="nested beyond reason"),
    ],
)
def test_arguments_that_cannot_be_read_are_said_to_be(written: str, mistake: str) -> None:
    reply = collected(ToolCallStart(0, "c", "echo"), ToolCallDelta(0, written), ToolCallDone(0), Done("tool_use"))
    assert mistake in reply.malformed["c"]
    assert reply.calls[0].input == {}


def test_a_call_without_arguments_has_none() -> None:
    assert collected(ToolCallStart(0, "c", "now"), ToolCallDone(0)).calls[0].input == {}


def test_calls_that_come_interleaved_are_kept_apart() -> None:
    reply = collected(
        ToolCallStart(0, "a", "echo"),
        ToolCallStart(1, "b", "echo"),
        ToolCallDelta(1, '{"text":"B"}'),
        ToolCallDelta(0, '{"text":"A"}'),
    )
    assert [(call.id, call.input["text"]) for call in reply.calls] == [("a", "A"), ("b", "B")]


@pytest.mark.requirement("G-34")
def test_what_is_unknown_is_noted_and_changes_nothing() -> None:
    accumulator = Accumulator("x")
    for chunk in (Unknown("citations_delta"), TextDelta("ok"), ToolCallDelta(7, "{"), Done("end_turn")):
        accumulator.take(chunk)
    assert accumulator.reply().text == "ok"
    assert accumulator.unknown == ["citations_delta", "a piece of a tool call that was never begun"]


@pytest.mark.parametrize(
    "chunks",
    [
        pytest.param((ToolCallStart(0, "c", "echo"), ToolCallDelta(0, "x" * (MOST_TOOL_JSON + 1))), id="tool JSON"),
        pytest.param((ThinkingDelta("x" * (MOST_THINKING + 1)),), id="thinking"),
        pytest.param((ThinkingDone("x" * (MOST_THINKING + 1), ""),), id="thinking in one piece"),
    ],
)
def test_what_grows_too_large_is_an_error_not_a_silent_cut(chunks: tuple[Chunk, ...]) -> None:
    with pytest.raises(ReplyTooLarge):
        collected(*chunks)


def test_usage_in_two_reports_is_not_counted_twice() -> None:
    reply = collected(Usage(prompt=100, cache_read=5), Usage(prompt=100, output=20), Done("end_turn"))
    assert reply.usage == Usage(prompt=100, output=20, cache_read=5)


@pytest.mark.parametrize(
    ("written", "made"),
    [
        pytest.param("null", {}, id="null stands for none"),
        pytest.param('"{\\"text\\": \\"ä\\"}"', {"text": "ä"}, id="encoded twice"),
    ],
)
def test_arguments_in_the_way_of_some_servers(written: str, made: dict[str, Any]) -> None:
    reply = collected(ToolCallStart(0, "c", "echo"), ToolCallDelta(0, written), ToolCallDone(0), Done("tool_use"))
    assert reply.calls[0].input == made
    assert not reply.malformed


def test_words_that_were_a_thought_are_no_part_of_the_reply() -> None:
    reply = collected(TextDelta("The plan."), TextWithdrawn(), TextDelta("Hello."), Done("end_turn"))
    assert reply.parts == (TextPart(text="Hello."),)


def test_what_a_service_was_spared_is_told_and_is_no_beginning() -> None:
    taker = Accumulator("openai")
    assert taker.take(Spared("tools")) == ""
    assert not taker.begun
    assert taker.reply().spared == {"tools"}
