"""The doubles of the chat platforms are as unkind as these by default: nobody has to ask for it."""

import ast
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tests.doubles.discord_api import DM, DiscordDouble
from tests.doubles.limits import raised_limits, unhindered
from tests.doubles.pieces import flights
from tests.doubles.slack_api import BOT_USER, SlackDouble
from tests.doubles.telegram_api import TelegramDouble

TESTS = Path(__file__).parents[1]
TELEGRAM = "/bot1:token"
DISCORD = f"/api/v10/channels/{DM}/messages"
SLACK = "/api/"


@asynccontextmanager
async def served(double: Any, **headers: str) -> AsyncIterator[aiohttp.ClientSession]:
    runner = web.AppRunner(double.app(), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    base = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        async with aiohttp.ClientSession(base, headers=headers) as http:
            yield http
    finally:
        await runner.cleanup()


@pytest.fixture
async def telegram() -> AsyncIterator[aiohttp.ClientSession]:
    async with served(TelegramDouble(["1:token"])) as http:
        await post(http, "/_control/chats", {"token": "1:token", "chat": {"id": 77, "first_name": "Ann"}})
        yield http


@pytest.fixture
async def discord() -> AsyncIterator[aiohttp.ClientSession]:
    async with served(DiscordDouble("good"), Authorization="Bot good") as http:
        yield http


@pytest.fixture
async def slack() -> AsyncIterator[tuple[SlackDouble, aiohttp.ClientSession]]:
    double = SlackDouble()
    async with served(double, Authorization="Bearer xoxb-1") as http:
        yield double, http


async def post(http: aiohttp.ClientSession, path: str, body: dict[str, Any]) -> dict[str, Any]:
    async with http.post(path, json=body) as answer:
        found: dict[str, Any] = await answer.json()
        return found | {"_status": answer.status, "_headers": dict(answer.headers)}


async def says(http: aiohttp.ClientSession, method: str, **body: Any) -> dict[str, Any]:
    return await post(http, f"{TELEGRAM}/{method}", {"chat_id": 77, **body})


# -- all of them


@pytest.mark.parametrize("body", [b"", b"1", b"12", "grün".encode(), b"x" * 100_000])
def test_a_body_comes_whole_in_its_flights(body: bytes) -> None:
    pieces = flights(body)
    assert b"".join(pieces) == body
    assert len(pieces) > 1 or len(body) < 2


async def test_bodies_come_in_pieces_unless_somebody_measures(
    telegram: aiohttp.ClientSession, discord: aiohttp.ClientSession, slack: tuple[SlackDouble, aiohttp.ClientSession]
) -> None:
    for http, path in ((telegram, f"{TELEGRAM}/getMe"), (discord, DISCORD), (slack[1], SLACK + "api.test")):
        async with http.get(path) as answer:
            pieces = [piece async for piece in answer.content.iter_any()]
        assert len(pieces) > 1, path
        await post(http, "/_control/settings", unhindered())
        async with http.get(path) as answer:
            assert [piece async for piece in answer.content.iter_any()] == [b"".join(pieces)], path


@pytest.mark.parametrize("double", [TelegramDouble, DiscordDouble, SlackDouble])
def test_limits_are_on_unless_they_are_raised_by_name(double: type[Any]) -> None:
    assert all(double().settings[name] is not value for name, value in unhindered().items())


def test_no_suite_raises_limits_in_another_way() -> None:
    own = {"limits.py", "telegram_api.py", "discord_api.py", "slack_api.py"}
    checks = TESTS / "doubles" / "checks"  # they look at the limits themselves
    found = [path for path in TESTS.rglob("*.py") if path.name not in own and checks not in path.parents]
    assert len(found) > 100
    assert [path.name for path in found if any(_names_limits(path))] == []


def _names_limits(path: Path) -> Iterator[bool]:
    """Does it set one of the settings that hold the limits to something that is not stricter?"""
    wanted = {*unhindered(), "chat_rate", "chat_burst", "group_per_minute", "global_rate", "global_per_second"}
    if not any(name in (text := path.read_text()) for name in wanted):
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value in wanted:
                    yield not (isinstance(value, ast.Constant) and value.value is True)
        elif isinstance(node, ast.keyword) and node.arg in wanted:
            yield not (isinstance(node.value, ast.Constant) and node.value.value is True)


# -- Telegram


async def test_telegram_drops_what_is_marked_up_behind_the_hundredth_passage(telegram: aiohttp.ClientSession) -> None:
    text = "".join(f"<b>{number % 10}</b> " for number in range(120))
    message = (await says(telegram, "sendMessage", text=text, parse_mode="HTML"))["result"]
    assert len(message["text"]) == 240
    assert [entity["offset"] for entity in message["entities"]] == list(range(0, 200, 2))


async def test_telegram_refuses_too_many_bytes_of_entities(telegram: aiohttp.ClientSession) -> None:
    text = "".join(f'<a href="https://example.org/{"x" * 300}">{n}</a> ' for n in range(40))
    refused = await says(telegram, "sendMessage", text=text, parse_mode="HTML")
    assert (refused["_status"], refused["description"]) == (400, "Bad Request: ENTITIES_TOO_LONG")


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"text": "😀" * 2049}, "message is too long"),
        ({"text": "x", "reply_markup": {"inline_keyboard": [[{"text": "b", "callback_data": "x" * 65}]]}}, "BUTTON_DATA"),
        ({"text": " \n"}, "message text is empty"),
        ({"text": "x", "message_thread_id": 99}, "message thread not found"),
    ],
)
async def test_telegram_refuses(telegram: aiohttp.ClientSession, body: dict[str, Any], why: str) -> None:
    refused = await says(telegram, "sendMessage", **body)
    assert refused["_status"] == 400
    assert why in refused["description"]


async def test_telegram_takes_a_few_messages_of_a_chat_at_once_and_then_one_a_second(
    telegram: aiohttp.ClientSession,
) -> None:
    answers = [await says(telegram, "sendMessage", text=str(number)) for number in range(14)]
    assert [answer["_status"] for answer in answers[:10]] == [200] * 10
    assert answers[-1]["_status"] == 429
    assert answers[-1]["parameters"]["retry_after"] >= 1


# -- Discord


async def test_discord_forgets_a_nonce_and_never_gives_it_back(discord: aiohttp.ClientSession) -> None:
    body = {"content": "once", "nonce": "k-1", "enforce_nonce": True}
    first = await post(discord, DISCORD, body)
    assert first["nonce"] == "k-1"
    assert (await post(discord, DISCORD, body))["id"] == first["id"]
    async with discord.get(DISCORD) as answer:
        assert [("nonce" in row, row["content"]) for row in await answer.json()] == [(False, "once")]
    await post(discord, "/_control/settings", {"clock_ahead": 600})
    assert (await post(discord, DISCORD, body))["id"] != first["id"]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"content": "x" * 2001}, 50035),
        ({"content": " \n"}, 50006),
        ({"content": "x", "components": [{"type": 1, "components": [{"type": 2, "style": 1, "custom_id": "a"}]}]}, 50035),
        ({"content": "x", "components": [{"type": 1, "components": []}] * 6}, 50035),
        ({"embeds": [{"fields": [{"name": "n", "value": ""}]}]}, 50035),
        ({"content": "x", "allowed_mentions": {"parse": ["users"], "users": ["1"]}}, 50035),
    ],
)
async def test_discord_refuses(discord: aiohttp.ClientSession, body: dict[str, Any], code: int) -> None:
    refused = await post(discord, DISCORD, body)
    assert (refused["_status"], refused["code"]) == (400, code)


async def test_discord_has_a_bucket_for_each_route_and_says_how_full_it_is(discord: aiohttp.ClientSession) -> None:
    made = [await post(discord, DISCORD, {"content": str(number)}) for number in range(6)]
    assert [answer["_status"] for answer in made] == [200] * 5 + [429]
    assert [answer["_headers"]["X-RateLimit-Remaining"] for answer in made[:5]] == ["4", "3", "2", "1", "0"]
    assert 0 < made[5]["retry_after"] <= 5
    statuses = []
    for emoji in ("👀", "🎉"):
        async with discord.put(f"{DISCORD}/{made[0]['id']}/reactions/{emoji}/@me") as answer:
            statuses.append(answer.status)
    assert statuses == [204, 429]


# -- Slack


async def events(slack: tuple[SlackDouble, aiohttp.ClientSession], **spec: Any) -> list[dict[str, Any]]:
    """The frames that the app is sent over a socket."""
    double, http = slack
    opened = await post(http, SLACK + "apps.connections.open", {"token": "xapp-1"})
    sent: list[dict[str, Any]] = []
    async with http.ws_connect(opened["url"]) as socket:
        assert (await socket.receive_json())["type"] == "hello"
        for _ in double.make_request(spec):
            envelope = await socket.receive_json(timeout=20)
            await socket.send_json({"envelope_id": envelope["envelope_id"]})
            sent.append(envelope["payload"]["event"])
    return sent


async def test_slack_leaves_files_out_of_app_mention_and_sends_either_twin_first(
    slack: tuple[SlackDouble, aiohttp.ClientSession],
) -> None:
    spec = {"channel": "C0GENERAL", "text": f"<@{BOT_USER}> look", "files": [{"name": "a.txt"}]}
    told = [await events(slack, **spec) for _ in range(2)]
    assert [[event["type"] for event in twins] for twins in told] == [
        ["message", "app_mention"],
        ["app_mention", "message"],
    ]
    for twins in told:
        assert {event["type"]: "files" in event for event in twins} == {"message": True, "app_mention": False}


async def test_slack_tells_of_files_of_others_only_that_they_are_there(
    slack: tuple[SlackDouble, aiohttp.ClientSession],
) -> None:
    double, http = slack
    double.channels["C0SHARED"] = {"id": "C0SHARED", "name": "s", "is_ext_shared": True, "members": [BOT_USER, "U0ANN"]}
    (event,) = await events(slack, channel="C0SHARED", text="look", files=[{"name": "a.txt", "text": "12"}])
    (file,) = event["files"]
    assert ("name" in file, file["mode"], file["file_access"]) == (False, "file_access", "check_file_info")
    info = (await post(http, SLACK + "files.info", {"file": file["id"]}))["file"]
    assert (info["name"], info["size"]) == ("a.txt", 2)
    (event,) = await events(slack, text="see", forward={"files": [{"name": "b.txt"}]})
    (shared,) = event["attachments"]
    assert (shared["is_share"], shared["files"][0]["name"]) == (True, "b.txt")


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({"text": ""}, "no_text"),
        ({"text": "x", "blocks": [{"type": "section", "text": {"type": "mrkdwn", "text": "x" * 3001}}]}, "invalid_blocks"),
        ({"text": "x", "blocks": [{"type": "divider"}] * 51}, "invalid_blocks"),
        ({"text": "x", "blocks": [{"type": "markdown", "text": "x" * 7000}] * 2}, "msg_blocks_too_long"),
        ({"text": "x", "channel": "C0OTHER"}, "not_in_channel"),
        ({"text": "x", "thread_ts": "1.000001"}, "thread_not_found"),
    ],
)
async def test_slack_refuses(
    slack: tuple[SlackDouble, aiohttp.ClientSession], body: dict[str, Any], error: str
) -> None:
    refused = await post(slack[1], SLACK + "chat.postMessage", {"channel": "D0ANN", **body})
    assert (refused["ok"], refused["error"]) == (False, error)


async def test_slack_shows_nothing_to_somebody_who_is_not_there(
    slack: tuple[SlackDouble, aiohttp.ClientSession],
) -> None:
    body = {"channel": "C0GENERAL", "user": "U0GONE", "text": "psst"}
    assert (await post(slack[1], SLACK + "chat.postEphemeral", body))["error"] == "user_not_in_channel"


async def test_slack_takes_a_few_messages_of_a_channel_at_once_and_then_one_a_second(
    slack: tuple[SlackDouble, aiohttp.ClientSession],
) -> None:
    answers = [
        await post(slack[1], SLACK + "chat.postMessage", {"channel": "D0ANN", "text": str(n)}) for n in range(9)
    ]
    assert [answer["_status"] for answer in answers[:5]] == [200] * 5
    assert answers[-1]["_status"] == 429
    assert int(answers[-1]["_headers"]["Retry-After"]) >= 1
