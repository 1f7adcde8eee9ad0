"""Bodies of all kinds at the doors: no 500, no hang, an answer that says what is wrong; and the description is true."""

import json
from collections.abc import Iterator
from typing import Any

import anyio
import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.routing import Mount, Route

from tests.gateway.api.conftest import Caller, serving

POSTS = ("/v1/chat/completions", "/v1/responses", "/api/send", "/api/ask")
USUAL: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"model": "tieline", "user": "u", "messages": [{"role": "user", "content": "hi"}]},
    "/v1/responses": {"model": "tieline", "user": "u", "input": "hi"},
    "/api/send": {"place": "telegram:77", "text": "hi"},
    "/api/ask": {"place": "telegram:77", "text": "hi"},
}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
    max_leaves=8,
)
ODD_BODIES = [
    b"",
    b"{",
    b"null",
    b"\xff\xfe",
    b'{"model": "tieline", "messages": [{"role": "user", "content": "\\ud800"}]}',
    b'{"place": "telegram:77", "text": "\\u0000"}',
    b"[" * 100_000,
    b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    b'{"model": 1e999}',
    json.dumps({"model": "x" * 100_000}).encode(),
    json.dumps({"place": "telegram:" + "7" * 500, "text": "x"}).encode(),
    json.dumps({"place": "telegram:../../etc", "text": "x"}).encode(),
    json.dumps(
        {"model": "tieline", "user": "a:b/../%2e\u202e", "messages": [{"role": "user", "content": "hi"}]}
    ).encode(),
]


@pytest.mark.requirement("G-123")
async def test_odd_bodies_are_refused_with_the_reason(caller: Caller) -> None:
    key = await caller.key("crm", "chat", "send", "ask", per_minute=10_000)
    for path in POSTS:
        for body in ODD_BODIES:
            with anyio.fail_after(20):
                answer = await caller.post(path, key, body)
            assert answer.status_code in (200, 400, 404, 502), (path, body[:80], answer.text)
            if answer.status_code != 200:
                assert answer.json()["error"]["message"], (path, body[:80])


@pytest.mark.requirement("G-123")
async def test_no_value_of_any_field_breaks_anything(caller: Caller) -> None:
    key = await caller.key("crm", "chat", "send", "ask", per_minute=100_000)
    bodies = list(_bodies())
    async with httpx2.AsyncClient(
        base_url=caller.url, headers={"authorization": f"Bearer {key}"}, timeout=30
    ) as client:
        for path, body in bodies:
            answer = await client.post(path, content=body, headers={"content-type": "application/json"})
            assert answer.status_code < 500 or answer.json()["error"]["code"] == "turn_failed", (
                path,
                body,
                answer.text,
            )


def _bodies() -> Iterator[tuple[str, bytes]]:
    """Usual requests with any value in the place of one field, or beside them."""
    found: list[tuple[str, bytes]] = []

    @settings(max_examples=60, database=None, derandomize=True, suppress_health_check=list(HealthCheck), deadline=None)
    @given(st.sampled_from(POSTS), st.data())
    def draw(path: str, data: st.DataObject) -> None:
        usual = USUAL[path]
        name = data.draw(
            st.sampled_from([*usual, "stream_options", "conversation", "tools", "max_tokens"]) | st.text(max_size=9)
        )
        value = data.draw(VALUES)
        found.append((path, json.dumps({**usual, name: value}).encode()))

    draw()
    yield from found


@pytest.mark.requirement("G-123")
async def test_the_description_names_each_door_and_no_other(caller: Caller) -> None:
    async with httpx2.AsyncClient() as client:
        described = (await client.get(f"{caller.url}/api/openapi.json")).json()
    served = {
        f"{mount.path}{route.path}".replace(":path}", "}"): {method.lower() for method in route.methods or ()}
        - {"head"}
        for mount in caller.world.services.doors.mounts
        if isinstance(mount, Mount)
        for route in mount.routes
        if isinstance(route, Route)
    }
    assert served.pop("/api/openapi.json") == {"get"}
    served.pop("/api/mcp")  # the protocol describes itself
    assert {path: set(operations) for path, operations in described["paths"].items()} == served
    assert described["servers"] == [{"url": caller.url}]


@pytest.mark.requirement("G-123")
async def test_pages_of_other_origins_may_ask_where_the_configuration_names_them(world_of: Any) -> None:
    world = world_of(accounts=("telegram", "api"), config='[api]\norigins = ["https://app.example.org"]\n')
    async with world.process(), serving(world) as there:
        key = await there.key()
        for origin, allowed in {
            "https://app.example.org": True,
            "https://app.example.org.evil.org": False,
            "null": False,
        }.items():
            headers = {"origin": origin, "access-control-request-method": "POST"}
            async with httpx2.AsyncClient() as client:
                asked = await client.options(f"{there.url}/v1/chat/completions", headers=headers)
                got = await client.get(
                    f"{there.url}/v1/models", headers={"origin": origin, "authorization": f"Bearer {key}"}
                )
            assert (asked.headers.get("access-control-allow-origin") == origin) is allowed
            assert (got.headers.get("access-control-allow-origin") == origin) is allowed
            assert "access-control-allow-credentials" not in got.headers
