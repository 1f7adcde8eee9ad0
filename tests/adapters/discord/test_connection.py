"""Pins what is private to discord.py and used all the same; fails when an update moves it."""

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import discord
import pytest
from discord.gateway import DiscordWebSocket, KeepAliveHandler
from discord.http import HTTPClient, Ratelimit, Route

from adapters.discord.connection import AFTER, BEFORE, OURS, Client, intents
from adapters.discord.rest import AccountHTTP, Bucket
from adapters.discord.settings import DiscordSettings
from tests.adapters.discord.harness import Discord, House, connected, eventually

SETTINGS = DiscordSettings(type="discord", token="t", api_base_url="http://127.0.0.1:1/x")  # type: ignore[arg-type]


ROOT = Path(__file__).parents[3]
RECORD = ROOT / "docs/decisions/0026-private-parts-of-libraries.md"
PRIVATE = {
    *("_connection", "_get_websocket", "_keep_alive", "_last_recv", "_last_ack"),
    *("_buckets", "_try_clear_expired_ratelimits", "_loop", "_last_request"),
}


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _made_here(tree: ast.Module) -> Iterator[str]:
    """Private names of our own: functions, fields of classes, what `__init__` puts on `self`, slots."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.name
                if node.name == "__init__":
                    yield from (
                        one.attr
                        for one in ast.walk(node)
                        if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store)
                    )
            case ast.ClassDef():
                yield from (
                    one.target.id
                    for one in node.body
                    if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
                )
            case ast.With() | ast.AsyncWith():  # `with ... as self._scope`
                yield from (
                    one.optional_vars.attr for one in node.items if isinstance(one.optional_vars, ast.Attribute)
                )


def private_of_others(platform: str) -> set[str]:
    """Private attributes that an adapter uses of others, or of `self` though none of its modules makes them."""
    trees = [ast.parse(path.read_text()) for path in sorted((ROOT / "adapters" / platform).glob("*.py"))]
    made = {name for tree in trees for name in _made_here(tree)}
    used = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    return {
        node.attr
        for node in used
        if _is_private(node.attr)
        and (node.attr not in made or not isinstance(node.value, ast.Name) or node.value.id not in ("self", "cls"))
    }


@pytest.mark.parametrize(("platform", "names"), [("discord", PRIVATE), ("slack", {"_body"}), ("telegram", set())])
def test_no_other_private_attribute_of_a_library_is_used(platform: str, names: set[str]) -> None:
    assert private_of_others(platform) == names


def test_the_decision_lists_what_is_private() -> None:
    said = RECORD.read_text()
    assert [name for name in sorted({*PRIVATE, "_body"}) if name not in said] == []


async def test_the_parsers_are_a_dictionary_of_the_connection_state() -> None:
    client = Client(shard_down=lambda shard: None, intents=intents(SETTINGS))
    parsers = client._connection.parsers  # noqa: SLF001 - docs/decisions/0026
    assert {*OURS, *BEFORE, *AFTER, "READY", "RESUMED"} <= set(parsers)
    assert "client._connection.parsers" in inspect.getsource(DiscordWebSocket.from_client)
    assert "_discord_parsers[event]" in inspect.getsource(DiscordWebSocket.received_message)


def test_the_pulse_is_where_it_is_read() -> None:
    source = inspect.getsource(KeepAliveHandler)
    assert "self._last_ack = ack_time" in source
    assert "self._last_recv = time.perf_counter()" in source
    assert "self._keep_alive" in inspect.getsource(DiscordWebSocket)
    assert "shard_disconnect" in inspect.getsource(discord.shard.Shard.reidentify)


def test_the_client_makes_its_requests_and_sockets_by_these_methods() -> None:
    assert list(inspect.signature(HTTPClient.request).parameters) == ["self", "route", "files", "form", "kwargs"]
    assert list(inspect.signature(HTTPClient.ws_connect).parameters) == ["self", "url", "compress"]
    assert "self.get_ratelimit(key)" in inspect.getsource(HTTPClient.request)
    assert "trace_configs=None if self.http_trace is None" in inspect.getsource(HTTPClient.static_login)
    assert "client.http.ws_connect" in inspect.getsource(DiscordWebSocket.from_client)
    assert {"remaining", "outgoing", "expires", "_last_request", "_loop"} <= set(Ratelimit.__slots__)
    get_ratelimit = inspect.getsource(HTTPClient.get_ratelimit)
    assert "self._buckets[key]" in get_ratelimit
    assert "self._try_clear_expired_ratelimits()" in get_ratelimit
    assert issubclass(Bucket, Ratelimit)
    assert issubclass(AccountHTTP, HTTPClient)


async def test_the_gateway_that_is_configured_wins_over_the_one_discord_names(services: House) -> None:
    async with (
        Discord().served() as rest,
        Discord().served() as gateway,
        connected(rest, services, gateway_url=f"ws://{gateway.base}/gateway/"),
    ):
        assert len(gateway.double.identifies) == 1
        assert not rest.double.identifies


@pytest.mark.requirement("G-07")
async def test_two_accounts_on_two_endpoints_do_not_meet(services: House) -> None:
    """No module global is changed: each account has its own addresses."""
    async with Discord().served() as one, Discord().served() as two:
        other = House(services.adapter_context.home)
        async with connected(one, services), connected(two, other, account="second"):
            await one.says("to the first")
            await two.says("to the second")
            await eventually(lambda: bool(services.admitted and other.admitted))
            assert (services.texts(), other.texts()) == (["to the first"], ["to the second"])
            assert services.admitted[0].key.channel_type == "discord"
            assert other.admitted[0].key.channel_type == "discord@second"
    assert Route.BASE == "https://discord.com/api/v10"
    assert str(DiscordWebSocket.DEFAULT_GATEWAY) == "wss://gateway.discord.gg/"
