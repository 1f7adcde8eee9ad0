"""Keys of other programs: made once, kept as hashes, and asked for at each door."""

import re
from functools import partial
from typing import Any

import pytest
from sqlalchemy import text

from gateway.api.keys import SCOPES
from gateway.web.control import OperationError
from tests.gateway.api.conftest import Caller

# Each door with what it takes, and the scope that opens it.
DOORS: dict[str, tuple[str, Any]] = {
    "/v1/chat/completions": ("chat", {"model": "tieline", "messages": [{"role": "user", "content": "hi"}]}),
    "/v1/responses": ("chat", {"model": "tieline", "input": "hi"}),
    "/api/send": ("send", {"place": "telegram:77", "text": "hi"}),
    "/api/ask": ("ask", {"place": "telegram:77", "text": "hi"}),
}


@pytest.mark.requirement("G-117")
@pytest.mark.parametrize("scope", SCOPES)
async def test_each_scope_opens_its_doors_and_no_other(caller: Caller, scope: str) -> None:
    key = await caller.key("crm", scope)
    for path, (needed, body) in DOORS.items():
        answer = await caller.post(path, key, body)
        assert answer.status_code == (200 if scope == needed else 403), (path, answer.text)
        if scope != needed:
            assert answer.json()["error"]["code"] == "insufficient_scope"
            assert needed in answer.json()["error"]["message"]


@pytest.mark.requirement("G-117")
async def test_nothing_is_open_without_a_key_that_holds(caller: Caller) -> None:
    key = await caller.key("crm", *SCOPES)
    gone = await caller.key("gone", *SCOPES)
    short = await caller.key("short", *SCOPES, days=1)
    await caller.operations["keys.revoke"]({"name": "gone"})
    caller.world.clock.ahead_s += 86_401
    for path, (_, body) in DOORS.items():
        for given in ("", "sk-tieline-" + "x" * 43, key[:-1], gone, short):
            answer = await caller.post(path, given, body)
            assert answer.status_code == 401, (path, given)
            assert answer.json()["error"]["type"] == "authentication_error"
            assert not given or given not in answer.text
    assert "expired" in (await caller.post("/api/send", short, {})).text
    assert not caller.world.llm.calls
    assert caller.world.texts() == []


@pytest.mark.requirement("G-117")
async def test_a_key_reaches_the_places_that_it_names_and_what_is_in_them(caller: Caller) -> None:
    key = await caller.key("crm", "send", "ask", places=("telegram:77", "telegram:-1005"))
    for place, reached in {
        "telegram:77": True,
        "telegram:-1005:9": True,
        "telegram:78": False,
        "telegram:-10": False,
    }.items():
        for path in ("/api/send", "/api/ask"):
            answer = await caller.post(path, key, {"place": place, "text": f"hello {path}"})
            assert answer.status_code == (200 if reached else 403), (place, answer.text)
    assert caller.world.texts("78") == []


@pytest.mark.requirement("G-117")
async def test_a_key_may_be_used_so_often_a_minute_and_no_more(caller: Caller) -> None:
    key = await caller.key("crm", "send", per_minute=2)
    other = await caller.key("other", "send")
    send = partial(caller.post, "/api/send", key)
    now = caller.world.clock.now()
    caller.world.clock.ahead_s += 61 - now.second  # at the beginning of a minute
    answers = [await send({"place": "telegram:77", "text": f"{number}"}) for number in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert 0 < int(answers[2].headers["retry-after"]) <= 60
    assert (await caller.post("/api/send", other, {"place": "telegram:77", "text": "3"})).status_code == 200
    caller.world.clock.ahead_s += 60
    assert (await send({"place": "telegram:77", "text": "4"})).status_code == 200


@pytest.mark.requirement("G-117")
async def test_a_key_is_shown_once_and_stands_nowhere_else(caller: Caller) -> None:
    key = await caller.key("crm", "chat", "send", days=30)
    assert re.fullmatch(r"sk-tieline-[A-Za-z0-9_-]{43}", key)
    await caller.post("/api/send", key, {"place": "telegram:77", "text": f"my key is {key}"})
    assert key not in caller.world.texts()[-1], "as any secret"

    def everything(conn: Any) -> str:
        tables = conn.execute(
            text("select name from sqlite_master where type = 'table' and name = 'api_key'")
        ).scalars()
        return repr([conn.execute(text(f"select * from {name}")).all() for name in tables])

    assert key[20:] not in await caller.world.database.read(everything)
    [shown] = await caller.operations["keys.list"]({})
    assert shown["key"] == f"sk-tieline-…{key[-4:]}"
    assert (shown["state"], shown["scopes"]) == ("active", "chat send")
    assert shown["used_at"]
    assert shown["expires_at"]


@pytest.mark.requirement("G-117")
@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"name": "CRM"}, "no name of a key"),
        ({"name": "x", "scopes": []}, "without a scope"),
        ({"name": "x", "scopes": ["all"]}, "no scope"),
        ({"name": "x", "scopes": ["send"], "places": []}, "reaches into chats"),
        ({"name": "x", "scopes": ["send"], "places": ["here"]}, "no place"),
        ({"name": "x", "per_minute": 0}, "not from 1 to"),
        ({"name": "x", "days": 99_999}, "not from 0 to"),
    ],
)
async def test_mistakes_of_a_new_key_are_told_with_the_fix(caller: Caller, given: dict[str, Any], told: str) -> None:
    with pytest.raises(OperationError, match=told):
        await caller.operations["keys.create"]({"scopes": ["chat"], **given})
    assert await caller.operations["keys.list"]({}) == []


@pytest.mark.requirement("G-117")
async def test_the_name_of_a_key_is_given_once(caller: Caller) -> None:
    """Its conversations are kept under the name: whoever got it again would read them."""
    await caller.key("crm")
    await caller.operations["keys.revoke"]({"name": "crm"})
    with pytest.raises(OperationError, match="is or was a key"):
        await caller.key("crm")
    with pytest.raises(OperationError, match="no key called"):
        await caller.operations["keys.revoke"]({"name": "crm"})


async def test_two_keys_have_no_conversation_in_common(caller: Caller) -> None:
    first, second = caller.client(await caller.key("one")), caller.client(await caller.key("two"))
    for client in (first, second):
        await client.chat.completions.create(
            model="tieline", user="anna", messages=[{"role": "user", "content": "remember 4711"}]
        )
    sent = caller.world.llm.bodies[-1]["messages"]
    assert str(sent).count("remember 4711") == 1
