"""JSON payloads come out of the database unchanged, today and after a change of defaults."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from agent.core.ids import PersonId
from agent.core.messages import (
    FilePart,
    Part,
    RedactedThinking,
    SummaryPart,
    TextPart,
    Thinking,
    ToolResult,
    ToolUse,
)
from agent.core.outbox import Button, FileRef, OutgoingMessage
from agent.inbox import Incoming
from agent.storage.payloads import (
    decode_incoming,
    decode_outgoing,
    decode_parts,
    encode_incoming,
    encode_outgoing,
    encode_parts,
)

texts = st.text()
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
    max_leaves=8,
)
files = st.builds(FilePart, path=texts, mime_type=texts, name=texts, size=st.integers(0, 2**40), quoted=st.booleans())
parts = st.one_of(
    st.builds(TextPart, text=texts),
    st.builds(ToolUse, id=texts, name=texts, input=st.dictionaries(texts, json_values)),
    st.builds(ToolResult, tool_use_id=texts, content=texts, is_error=st.booleans()),
    st.builds(Thinking, thinking=texts, signature=texts, family=texts),
    st.builds(RedactedThinking, data=texts, family=texts),
    st.builds(SummaryPart, text=texts),
    files,
)


@given(st.lists(parts).map(tuple))
def test_message_parts_come_back_as_they_were(value: tuple[Part, ...]) -> None:
    assert decode_parts(encode_parts(value)) == value


@given(
    st.builds(
        Incoming,
        text=texts,
        person=st.none() | texts.map(PersonId),
        display=texts,
        language=texts,
        role=st.sampled_from(["owner", "admin", "member"]),
        chat_type=st.sampled_from(["direct", "group", "channel"]),
        files=st.lists(files, max_size=2).map(tuple),
        quoted=st.none() | texts,
        quoted_from=texts,
        message_ref=st.none() | texts,
        interaction=st.none() | texts,
        received_at=st.datetimes(
            min_value=datetime(1970, 1, 1), max_value=datetime(9999, 1, 1), timezones=st.just(UTC)
        ),
    )
)
def test_what_came_in_comes_back_as_it_was(value: Incoming) -> None:
    assert decode_incoming(encode_incoming(value)) == value


def test_what_is_to_be_said_comes_back_as_it_was() -> None:
    say = OutgoingMessage(
        text="*hi*",
        kind="notice",
        reply_to="1",
        private_to=PersonId("telegram:7"),
        interaction="x",
        buttons=((Button(label="a", action="b"),),),
        files=(FileRef(path="p", name="n", mime_type="m"),),
        verbatim=True,
    )
    assert decode_outgoing(encode_outgoing(say)) == say


def test_half_an_emoji_does_not_stop_a_message() -> None:
    """Lone surrogates come out of platforms' JSON; UTF-8 cannot hold them."""
    half = json.loads('"a\\ud83d!"')
    incoming = Incoming(text=half, received_at=datetime(2026, 1, 1, tzinfo=UTC))
    assert decode_incoming(encode_incoming(incoming)).text == "a\ufffd!"
    assert decode_outgoing(encode_outgoing(OutgoingMessage(text=half, kind="reply"))).text == "a\ufffd!"
    use = ToolUse(id="1", name="t", input={"q": [half]})
    assert decode_parts(encode_parts((use,))) == (ToolUse(id="1", name="t", input={"q": ["a\ufffd!"]}),)


def test_an_older_row_without_a_later_field_and_a_newer_one_with_more_are_read() -> None:
    older: dict[str, Any] = {"text": "hi", "received_at": "2026-01-01T00:00:00Z"}
    assert decode_incoming(json.dumps(older)).language == "en"
    assert decode_incoming(json.dumps({**older, "mood": "sunny"})).text == "hi"


def test_defaults_are_written_too() -> None:
    assert json.loads(encode_outgoing(OutgoingMessage(text="", kind="reply")))["verbatim"] is False


@pytest.mark.parametrize("broken", ["", "{}", '{"text": 1}', '[{"kind": "sculpture"}]'])
def test_anything_else_is_refused(broken: str) -> None:
    for decode in (decode_incoming, decode_outgoing, decode_parts):
        with pytest.raises(ValidationError):
            decode(broken)
