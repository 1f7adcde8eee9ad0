"""Words into chats of people: `send` and `ask`, by HTTP and by the control socket."""

from pathlib import Path

import anyio
import pytest

from gateway.channels.errors import ChannelGone
from gateway.web.control import OperationError
from tests.gateway.api.conftest import Caller


@pytest.mark.requirement("G-121")
async def test_send_says_it_in_the_chat_once_and_tells_what_became_of_it(caller: Caller) -> None:
    key = await caller.key("crm", "send")
    body = {"place": "telegram:77", "text": "**Build** 42 failed"}
    answers = [await caller.post("/api/send", key, body, idempotency_key="b42") for _ in range(2)]
    assert [answer.json()["state"] for answer in answers] == ["sent", "sent"]
    assert answers[0].json()["id"] == answers[1].json()["id"]
    assert [text for text in caller.world.texts() if "Build" in text] == ["Build 42 failed"]
    other = await caller.post("/api/send", key, {**body, "text": "something else"}, idempotency_key="b42")
    assert (other.status_code, other.json()["error"]["code"]) == (422, "idempotency_key_reused")


async def test_what_waits_for_a_chat_that_has_blocked_the_bot_is_told_at_once(caller: Caller) -> None:
    key = await caller.key("crm", "send")
    caller.world.screen().fail("send", ChannelGone("Forbidden: bot was blocked by the user"), times=9)
    answer = await caller.post("/api/send", key, {"place": "telegram:77", "text": "hello"})
    assert answer.status_code == 202
    assert answer.json()["state"] == "waiting"
    assert "blocked" in answer.json()["reason"]


@pytest.mark.requirement("G-121")
async def test_ask_is_answered_in_the_chat_and_to_the_program(caller: Caller) -> None:
    key = await caller.key("crm", "ask")
    await caller.world.asks("I am Ann")
    body = {"place": "telegram:77", "text": "who is here?"}
    answers = [await caller.post("/api/ask", key, body, idempotency_key="w") for _ in range(2)]
    assert "who is here?" in answers[0].json()["text"]
    assert answers[0].json() == answers[1].json()
    assert "who is here?" in await caller.world.shows("who is here?")
    assert len(caller.world.llm.calls) == 2
    asked = str(caller.world.llm.bodies[-1]["messages"])
    assert "I am Ann" in asked, "in the conversation of the chat"
    assert "From crm (api:crm), member." in asked, "and as nobody else"


@pytest.mark.requirement("G-121")
async def test_an_operator_sends_files_and_asks_from_the_machine(caller: Caller, tmp_path: Path) -> None:
    file = anyio.Path(tmp_path / "log of today.txt")
    await file.write_text("nothing")
    sent = await caller.operations["send"]({"place": "telegram:77", "text": "see there", "files": [str(file)]})
    assert sent["state"] == "sent"
    [shown] = [one.message for one in caller.world.screen().shown if one.message.files]
    assert [one.name for one in shown.files] == ["log_of_today.txt"]
    answer = await caller.operations["ask"]({"place": "telegram:77", "text": "are you well?"})
    assert "are you well?" in answer["text"]
    with pytest.raises(OperationError, match="no such file"):
        await caller.operations["send"]({"place": "telegram:77", "text": "", "files": ["/no/such"]})


@pytest.mark.requirement("G-121")
async def test_what_cannot_be_said_is_refused_with_the_reason(caller: Caller) -> None:
    key = await caller.key("crm", "send", "ask")
    for path in ("/api/send", "/api/ask"):
        for body, told in (
            ({}, "place: is missing"),
            ({"place": "nowhere", "text": "x"}, "no place"),
            ({"place": "matrix:1", "text": "x"}, "no account here"),
            ({"place": "telegram:77", "text": " "}, "is empty"),
            ({"place": "telegram:77", "text": "x" * 100_001}, "at most"),
            ({"place": "telegram:77", "text": 5}, "must be a text"),
            ({"place": "telegram:77", "text": "x", "more": 1}, "not known"),
            (b"{", "no JSON"),
            (b"[]", "must be a JSON object"),
        ):
            answer = await caller.post(path, key, body)
            assert answer.status_code in (400, 404), (path, body)
            assert told in answer.json()["error"]["message"], (path, body, answer.text)
        large = await caller.post(path, key, b"x" * (2 << 20))
        assert (large.status_code, large.json()["error"]["message"]) == (413, "too large; at most 1 MB")
    assert caller.world.texts() == []
