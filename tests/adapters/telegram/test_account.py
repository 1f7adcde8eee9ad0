"""The account as a whole: settings, command menu, doctor's findings, modules that it must not load."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from aiohttp import web
from pydantic import ValidationError

from adapters.telegram.account import RETRY_AFTER_S, UNKNOWN_FOR_S, Feature
from adapters.telegram.adapter import TelegramAdapter, menu
from adapters.telegram.settings import TelegramSettings
from gateway.channels.document import Plain
from gateway.channels.entry_points import open_adapter, settings_class
from gateway.channels.errors import ChannelBusy, ChannelFatal
from gateway.channels.outbound import CommandSpec, Outbound
from gateway.testing.harness import eventually
from tests.adapters.telegram.stage import (
    PERSON,
    TOKEN,
    Stage,
    Telegram,
    adapter_context,
    listening,
    settings_for,
    stage,
)
from tests.fakes.clock import FakeClock

HELP = CommandSpec(name="help", description="What I can do")
MODEL = CommandSpec(name="model", description="Choose the model", options="[name]", admin=True)
ODD = CommandSpec(name="grüße", description="no name for Telegram")


# -- settings


@pytest.mark.requirement("G-11")
def test_what_is_left_out_has_its_default() -> None:
    settings = TelegramSettings.model_validate({"type": "telegram", "token": TOKEN})
    assert (settings.mode, settings.stream_interval_ms, settings.poll_timeout_s) == ("polling", 3000, 30)
    assert (settings.drafts, settings.rich, settings.reactions) == (True, "auto", True)
    assert settings.api_base_url == "https://api.telegram.org"
    assert settings.channel_type == "telegram"
    assert settings.model_copy(update={"account": "second"}).channel_type == "telegram@second"


@pytest.mark.requirement("G-28")
def test_the_token_is_in_no_description_of_the_settings() -> None:
    settings = TelegramSettings.model_validate({"token": TOKEN, "webhook_secret": "s3cret", "mode": "webhook"})
    assert "TEST-token" not in repr(settings) + str(settings) + settings.model_dump_json()
    assert "s3cret" not in repr(settings) + str(settings) + settings.model_dump_json()


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"token": "abc"}, "@BotFather"),
        ({"token": "12 :x"}, "@BotFather"),
        ({"token": TOKEN, "mode": "push"}, "'polling' or 'webhook'"),
        ({"token": TOKEN, "api_base_url": "127.0.0.1:8081"}, "https://host"),
        ({"token": TOKEN, "proxy": "socks5://x:1"}, "https://host"),
        ({"token": TOKEN, "webhook_url": "https://x.example/h"}, 'mode = "webhook"'),
        ({"token": TOKEN, "mode": "webhook", "webhook_secret": "no spaces"}, "A-Z"),
        ({"token": TOKEN, "webhook_path": "webhook"}, "/webhook"),
        ({"token": TOKEN, "stream_interval_ms": 100}, "1000"),
        ({"token": TOKEN, "tokn": "x"}, "tokn"),
        ({}, "token"),
    ],
)
def test_mistakes_name_the_fix(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError) as raised:
        TelegramSettings.model_validate(fields)
    assert says in str(raised.value)
    assert "TEST-token" not in str(raised.value)


def test_reading_settings_and_updates_loads_no_platform_library() -> None:
    """G-30's budget: configuration is checked, and rendering is tested, without the library."""
    modules = "adapters.telegram.settings, adapters.telegram.parse, adapters.telegram.render, adapters.telegram.limits"
    code = f"import sys, {modules}; print([m for m in ('telegram', 'aiohttp', 'httpx') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# -- the command menu


def test_the_menu_of_a_scope() -> None:
    assert menu([HELP, MODEL, ODD], admin=False) == [{"command": "help", "description": "What I can do"}]
    everything = menu([HELP, MODEL, ODD], admin=True)
    assert everything[1] == {"command": "model", "description": "Choose the model"}
    long = CommandSpec(name="a-b", description="x" * 300)
    assert menu([long], admin=False) == [{"command": "a_b", "description": "x" * 256}]


async def test_the_menu_is_set_where_it_differs(tmp_path: Path) -> None:
    async with stage(tmp_path) as actor:
        await actor.adapter.publish([HELP, MODEL])
        assert len(actor.telegram.calls("setMyCommands")) == 3
        await actor.adapter.publish([HELP, MODEL])
        assert len(actor.telegram.calls("setMyCommands")) == 3
        await actor.adapter.publish([HELP])
        assert len(actor.telegram.calls("setMyCommands")) == 5  # people without rights never saw /model
        await actor.adapter.publish([])
        assert len(actor.telegram.calls("deleteMyCommands")) == 3


async def test_a_menu_that_cannot_be_set_now_is_told_and_goes_on_where_it_broke_off(tmp_path: Path) -> None:
    async with stage(tmp_path) as actor:
        await actor.telegram.fault("setMyCommands", "server_error", status=502, after=1)
        with pytest.raises(ChannelBusy):
            await actor.adapter.publish([HELP])
        assert len(actor.telegram.calls("setMyCommands")) == 2
        await actor.adapter.publish([HELP])
        assert len(actor.telegram.calls("setMyCommands")) == 4  # the two that were left
        await actor.telegram.fault("getMyCommands", "rate_limit", retry_after=7)
        with pytest.raises(ChannelBusy) as flooded:
            await actor.adapter.publish([HELP])
        assert flooded.value.after_s == 7


# -- doctor


async def findings(telegram: Telegram, tmp_path: Path, clock: Any = None, **fields: Any) -> list[tuple[str, str, str]]:
    adapter = TelegramAdapter(settings_for(telegram, **fields), adapter_context(tmp_path, clock))
    try:
        return [(line.level, line.finding, line.fix) for line in await adapter.diagnose()]
    finally:
        await adapter.aclose()


async def test_doctor_finds_all_well_but_privacy_mode(tmp_path: Path) -> None:
    async with Telegram().running() as telegram:
        lines = await findings(telegram, tmp_path)
        assert [level for level, _, _ in lines] == ["ok", "warning", "ok", "ok"]
        assert "@double_bot" in lines[0][1]
        assert "/setprivacy" in lines[1][2]


async def test_doctor_names_a_refused_token(tmp_path: Path) -> None:
    async with Telegram().running() as telegram:
        ((level, finding, fix),) = await findings(telegram, tmp_path, token="99:other-token")
        assert level == "error"
        assert "@BotFather" in fix
        assert "other-token" not in finding + fix


async def test_doctor_names_an_unreachable_server(tmp_path: Path) -> None:
    telegram = Telegram()
    telegram.url = "http://127.0.0.1:9"
    ((level, finding, fix),) = await findings(telegram, tmp_path)
    assert level == "error"
    assert "cannot reach" in finding
    assert "http://127.0.0.1:9" in fix


async def test_doctor_names_a_clock_that_is_off(tmp_path: Path) -> None:
    clock = FakeClock(datetime.now(UTC) + timedelta(minutes=5))
    async with Telegram().running() as telegram:
        lines = await findings(telegram, tmp_path, clock)
        assert lines[-1][0] == "warning"
        assert "NTP" in lines[-1][2]


@pytest.mark.parametrize(
    ("fields", "webhook", "level", "finding"),
    [
        ({}, "http://127.0.0.1:9/x", "warning", "polling is refused"),
        ({"mode": "webhook"}, "", "error", "without an address"),
        ({"mode": "webhook", "webhook_url": "http://127.0.0.1:9/h"}, "", "warning", "not set"),
        ({"mode": "webhook", "webhook_url": "http://127.0.0.1:9/h"}, "http://127.0.0.1:9/h", "ok", "webhook set"),
    ],
)
async def test_doctor_looks_at_the_webhook(
    tmp_path: Path, fields: dict[str, Any], webhook: str, level: str, finding: str
) -> None:
    async with Telegram().running() as telegram:
        telegram.double.bot(TOKEN).webhook = {"url": webhook}
        line = (await findings(telegram, tmp_path, **fields))[2]
        assert line[0] == level
        assert finding in line[1]


# -- the way to the server


async def test_everything_goes_through_the_proxy(tmp_path: Path) -> None:
    """A forward proxy on loopback: it is given whole addresses."""
    seen: list[str] = []

    async def forward(request: web.BaseRequest) -> web.StreamResponse:
        seen.append(request.raw_path)
        body = '{"ok": true, "result": {"id": 123456, "username": "double_bot", "message_id": 1}}'
        if request.raw_path.endswith("getUpdates"):
            body = '{"ok": true, "result": []}'
        return web.Response(text=body, content_type="application/json")

    runner = web.ServerRunner(web.Server(forward))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        telegram = Telegram()
        telegram.url = "http://bot-api.invalid"
        proxy = f"http://127.0.0.1:{runner.addresses[0][1]}"
        adapter = TelegramAdapter(settings_for(telegram), adapter_context(tmp_path, proxy=proxy))
        actor = Stage(telegram, adapter)
        async with listening(actor):
            await eventually(lambda: adapter.health().hears)
            await actor.channel.send(Outbound(document=(Plain("x"),), key="k"))
        assert {path.rpartition("/")[2] for path in seen} == {"getMe", "getUpdates", "sendMessage"}
        assert all(path.startswith("http://bot-api.invalid/bot") for path in seen)
    finally:
        await runner.cleanup()


def test_a_proxy_of_another_kind_is_named_without_its_password(tmp_path: Path) -> None:
    settings = TelegramSettings.model_validate({"token": TOKEN})
    with pytest.raises(ChannelFatal, match="http://host:port") as raised:
        TelegramAdapter(settings, adapter_context(tmp_path, proxy="socks5://me:secret@10.0.0.1:1080"))
    assert "secret" not in str(raised.value)


def test_a_feature_is_refused_as_a_whole_only_when_it_never_worked() -> None:
    feature = Feature("x", wanted=True)
    feature.refused(100.0)
    assert not feature.usable(101.0)
    assert feature.usable(100.0 + RETRY_AFTER_S)
    feature.worked()
    feature.refused(4000.0)
    assert feature.usable(4000.0)
    feature.unknown(4000.0)
    assert not feature.usable(4000.0 + UNKNOWN_FOR_S - 1)
    assert feature.usable(4000.0 + UNKNOWN_FOR_S)
    assert not Feature("x", wanted=False).usable(0.0)


async def test_it_is_found_by_name_and_built_in_a_thread(tmp_path: Path) -> None:
    assert settings_class("telegram") is TelegramSettings
    async with Telegram().running() as telegram:
        built = await anyio.to_thread.run_sync(open_adapter, settings_for(telegram), adapter_context(tmp_path))
        assert isinstance(built, TelegramAdapter)
        actor = Stage(telegram, built)
        async with listening(actor):
            await actor.says("hi")
            await eventually(lambda: [said.text for said in actor.said] == ["hi"])


async def test_two_accounts_do_not_meet(tmp_path: Path) -> None:
    async with stage(tmp_path, account="second") as actor:
        assert actor.adapter.channel_type == "telegram@second"
        await actor.telegram.update(user=PERSON, text="hi")
        await eventually(lambda: bool(actor.said))
        assert str(actor.said[0].key) == "telegram@second:77"
