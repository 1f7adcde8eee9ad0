"""Answers of platforms come in pieces and are read whole, up to a limit that no platform reaches."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from adapters.discord.rest import BANNED_S, AccountHTTP, Limited
from adapters.slack import api
from adapters.slack.api import SlackApi
from adapters.slack.settings import SlackSettings
from adapters.telegram import request
from adapters.telegram.request import Connections, NetworkError
from agent.core.clock import SystemClock
from gateway.channels.adapter import AdapterContext
from gateway.channels.errors import ChannelBusy
from tests.e2e.site import no_places
from tests.fakes.piecewise import Piecewise, serving

LONG = "x" * 300_000  # never one read


async def test_telegram_is_read_to_the_end_of_an_answer() -> None:
    body = json.dumps({"ok": True, "result": LONG}).encode()
    async with serving(Piecewise(body=body)) as server:
        asked = Connections(most=1)
        try:
            assert await asked.post(f"{server.url}/getUpdates", {}) == LONG
        finally:
            await asked.aclose()


async def test_telegram_is_not_read_for_ever() -> None:
    async with serving(Piecewise(body=b"9" * (request.LARGEST_ANSWER + 1))) as server:
        asked = Connections(most=1)
        try:
            with pytest.raises(NetworkError, match=f"answered with more than {request.LARGEST_ANSWER} bytes"):
                await asked.post(f"{server.url}/getUpdates", {})
        finally:
            await asked.aclose()


def slack(server: Piecewise, home: Path) -> SlackApi:
    settings = SlackSettings(
        account="main", bot_token=SecretStr("xoxb-1"), app_token=SecretStr("xapp-1"), api_base_url=f"{server.url}/api/"
    )
    return SlackApi(settings, AdapterContext(clock=SystemClock(), home=home, known_places=no_places))


async def test_slack_is_read_to_the_end_of_an_answer(tmp_path: Path) -> None:
    body = json.dumps({"ok": True, "messages": [{"text": LONG}]}).encode()
    async with serving(Piecewise(body=body)) as server, slack(server, tmp_path) as account:
        for _ in range(3):  # over the same connection
            assert (await account.call("conversations.history"))["messages"] == [{"text": LONG}]


async def test_slack_is_not_read_for_ever_by_its_library_either(tmp_path: Path) -> None:
    body = b'{"ok": true, "x": "' + b"9" * api.LARGEST_ANSWER + b'"}'
    async with serving(Piecewise(body=body)) as server, slack(server, tmp_path) as account:
        with pytest.raises(ChannelBusy):
            await account.call("conversations.history")


@pytest.mark.parametrize(
    ("body", "after_s"),
    [
        pytest.param({"retry_after": 1.5, "note": "x" * 40_000}, 1.5, id="of Discord, in pieces"),
        pytest.param("x" * 200_000, BANNED_S, id="endless, of the proxy before it"),
    ],
)
async def test_a_refusal_of_discord_is_read_to_its_end_or_its_limit(body: Any, after_s: float) -> None:
    answer = Piecewise(body=json.dumps(body).encode(), status=429, headers={"Via": "1.1 google"})
    async with serving(answer) as server:
        http = AccountHTTP(api_base_url=server.url, gateway_url=None, proxy=None, timeout_s=5.0)
        try:
            with pytest.raises(Limited) as limited:
                await http.static_login("token")
        finally:
            await http.close()
    assert limited.value.retry_after == after_s
