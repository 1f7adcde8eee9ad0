"""Listening by webhook: Telegram is answered 200 when the update is stored, and only Telegram is listened to."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from pydantic import SecretStr
from starlette.applications import Starlette
from starlette.testclient import TestClient

from adapters.telegram.adapter import TelegramAdapter
from adapters.telegram.settings import TelegramSettings
from adapters.telegram.webhook import BODY_LIMIT, complaint_in, secret_of
from gateway.channels.adapter import State
from gateway.channels.errors import ChannelFatal, GatewayUnavailable
from gateway.channels.inbound import Inbound, MessageReceived, Receipt
from gateway.testing.harness import eventually
from tests.adapters.telegram.stage import TOKEN, Stage, Telegram, adapter_context, hooked, listening, settings_for
from tests.fakes.clock import FakeClock

UPDATE = {"update_id": 1, "message": {"message_id": 1, "date": 1, "chat": {"id": 77, "type": "private"}, "text": "hi"}}


def texts(actor: Stage) -> list[str]:
    return [said.text for said in actor.said]


async def post(actor: Stage, secret: str | None, body: Any) -> int:
    url = actor.telegram.double.bots[TOKEN].webhook["url"]
    headers = {} if secret is None else {"X-Telegram-Bot-Api-Secret-Token": secret}
    payload = body if isinstance(body, bytes) else None
    async with (
        aiohttp.ClientSession() as http,
        http.post(url, headers=headers, data=payload, json=None if payload is not None else body) as response,
    ):
        return response.status


async def test_updates_come_in_and_are_answered(tmp_path: Path) -> None:
    async with hooked(tmp_path) as actor:
        await actor.says("hello")
        await eventually(lambda: texts(actor) == ["hello"])
        await eventually(lambda: actor.telegram.double.bots[TOKEN].delivered == 1)
        call = actor.telegram.calls("setWebhook")[0]["params"]
        assert call["drop_pending_updates"] is False
        assert actor.telegram.double.bots[TOKEN].webhook["url"].endswith("/channels/telegram/webhook")


@pytest.mark.parametrize("secret", [None, "", "wrong", "wröng"])
@pytest.mark.requirement("G-12")
async def test_nobody_else_is_listened_to(tmp_path: Path, secret: str | None) -> None:
    async with hooked(tmp_path) as actor:
        sent = secret.encode().decode("latin-1") if secret else secret
        assert await post(actor, sent, UPDATE) == 403
        assert actor.admitted == []


@pytest.mark.parametrize("body", [b"no json", b"[]", b'{"update_id": "x"}', b"x" * (BODY_LIMIT + 1), b"[" * 500_000])
async def test_what_is_no_update_is_refused(tmp_path: Path, body: bytes) -> None:
    async with hooked(tmp_path, webhook_secret="s3cret") as actor:
        assert await post(actor, "s3cret", body) == 400
        assert await post(actor, "s3cret", UPDATE) == 200


class Failing(Stage):
    """Cannot store the first two."""

    failures = 2

    async def admit(self, inbound: Inbound) -> Receipt:
        if self.failures:
            self.failures -= 1
            raise GatewayUnavailable("disk full")
        return await super().admit(inbound)


async def test_what_is_not_stored_is_sent_again(tmp_path: Path) -> None:
    async with hooked(tmp_path, stage_class=Failing) as actor:
        await actor.says("hello")
        await eventually(lambda: texts(actor) == ["hello"])
        statuses = [call["status"] for call in actor.telegram.calls("webhook") if "status" in call]
        assert statuses[:2] == [503, 503]


def test_while_not_running_telegram_keeps_its_updates(tmp_path: Path) -> None:
    config = TelegramSettings(token=SecretStr(TOKEN), mode="webhook", webhook_secret=SecretStr("s3cret"))
    adapter = TelegramAdapter(config, adapter_context(tmp_path, public_url="http://127.0.0.1:1"))
    client = TestClient(Starlette(routes=list(adapter.routes)))
    answer = client.post("/webhook", json=UPDATE, headers={"X-Telegram-Bot-Api-Secret-Token": "s3cret"})
    assert answer.status_code == 503


async def test_one_place_keeps_its_order_and_does_not_hold_up_others(tmp_path: Path) -> None:
    class Slow(Stage):
        gate = asyncio.Event()

        async def admit(self, inbound: Inbound) -> Receipt:
            if isinstance(inbound, MessageReceived) and inbound.text == "a1":
                await self.gate.wait()
            return await super().admit(inbound)

    async with hooked(tmp_path, stage_class=Slow) as actor:
        assert isinstance(actor, Slow)
        await actor.telegram.update(text="a1")
        await eventually(lambda: len(actor.telegram.calls("webhook")) == 1)
        await actor.telegram.update(text="a2")
        await actor.telegram.update(user={"id": 5}, text="b1")
        await eventually(lambda: texts(actor) == ["b1"])
        actor.gate.set()
        await eventually(lambda: texts(actor) == ["b1", "a1", "a2"])


async def test_a_webhook_somebody_else_set_is_set_back(tmp_path: Path) -> None:
    clock = FakeClock()
    async with hooked(tmp_path, clock) as actor:
        bot = actor.telegram.double.bots[TOKEN]
        ours = bot.webhook["url"]
        bot.webhook = {"url": "http://127.0.0.1:9/theirs"}
        for seconds in (60.0, 1.0):
            await eventually(lambda: clock.sleepers > 0)
            clock.advance(seconds)
            await eventually(lambda: len(actor.telegram.calls("getWebhookInfo")) >= 2)
        await eventually(lambda: bot.webhook["url"] == ours)
        await eventually(lambda: actor.adapter.health().hears)


async def test_trouble_with_the_probe_shows_and_passes(tmp_path: Path) -> None:
    clock = FakeClock()
    async with hooked(tmp_path, clock) as actor:
        await actor.telegram.fault("getWebhookInfo", "server_error", status=502)
        await eventually(lambda: clock.sleepers > 0)
        clock.advance(60.0)
        await eventually(lambda: actor.adapter.health().state is State.RECONNECTING)
        await eventually(lambda: clock.sleepers > 0)
        clock.advance(1.0)
        await eventually(lambda: actor.adapter.health().hears)


async def test_an_update_is_a_sign_of_life(tmp_path: Path) -> None:
    clock = FakeClock()
    async with hooked(tmp_path, clock) as actor:
        await eventually(lambda: clock.sleepers > 0)
        await actor.telegram.fault("getWebhookInfo", "server_error", status=502, times=99)
        clock.advance(60.0)
        await eventually(lambda: not actor.adapter.health().hears)
        await actor.says("hello")
        await eventually(lambda: actor.adapter.health().hears)


NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("ago_s", "pending", "complains"), [(10, 3, True), (10, 0, False), (3600, 3, False), (None, 3, False)]
)
def test_complaints_count_while_they_are_fresh_and_something_waits(
    ago_s: int | None, pending: int, complains: bool
) -> None:
    info: dict[str, Any] = {"pending_update_count": pending, "last_error_message": "Connection refused"}
    if ago_s is not None:
        info["last_error_date"] = int((NOW - timedelta(seconds=ago_s)).timestamp())
    complaint = complaint_in(info, NOW)
    assert (complaint is not None) is complains
    assert complaint is None or "Connection refused" in complaint


async def test_a_webhook_without_an_address_is_fatal(tmp_path: Path) -> None:
    async with Telegram().running() as telegram:
        adapter = TelegramAdapter(settings_for(telegram, mode="webhook"), adapter_context(tmp_path))
        actor = Stage(telegram, adapter)
        with pytest.raises(ChannelFatal, match="webhook_url"):
            await adapter.run(actor.admit)
        assert adapter.health().state is State.FAILED
        await adapter.aclose()


async def test_an_address_telegram_does_not_take_is_named_and_tried_again(tmp_path: Path) -> None:
    clock = FakeClock()
    async with Telegram().running() as telegram:
        config = settings_for(telegram, mode="webhook", webhook_url="https://example.org/hook")
        actor = Stage(telegram, TelegramAdapter(config, adapter_context(tmp_path, clock)))
        async with listening(actor):
            health = actor.adapter.health()
            assert health.state is State.RECONNECTING
            assert "https://example.org/hook" in health.detail
            await eventually(lambda: clock.sleepers > 0)
            clock.advance(1.0)
            await eventually(lambda: len(telegram.calls("setWebhook")) == 2)


def test_the_secret_is_the_configured_one_or_stays_the_same() -> None:
    first = TelegramSettings(token=SecretStr("1:aaaa"), mode="webhook")
    again = TelegramSettings(token=SecretStr("1:aaaa"), mode="webhook")
    other = TelegramSettings(token=SecretStr("1:bbbb"), mode="webhook")
    assert secret_of(first) == secret_of(again) != secret_of(other)
    assert "aaaa" not in secret_of(first)
    assert secret_of(first.model_copy(update={"webhook_secret": SecretStr("mine")})) == "mine"
