"""Webhooks against a server on loopback that refuses, is slow, answers too much, or leads elsewhere."""

import hashlib
import hmac
import json
from email.header import decode_header, make_header

import pytest
from pydantic import SecretStr

from gateway.config.alerts import WebhookSettings
from gateway.receivers.email import NotSent
from gateway.receivers.message import AlertMessage, Taken
from gateway.receivers.webhook import Webhook
from tests.fakes.webhook_server import WebhookServer, webhook_server
from tests.gateway.receivers.test_email import NOW, message, row

SECRET = "a secret of the webhook"


def settings(server: WebhookServer, **more: object) -> WebhookSettings:
    return WebhookSettings(url=SecretStr(f"{server.url}/hook/s3cret"), **more)  # type: ignore[arg-type]


async def test_a_request_is_signed_and_the_same_alert_has_the_same_id() -> None:
    async with webhook_server() as server:
        webhook = Webhook(settings(server, secret=SecretStr(SECRET), token=SecretStr("tk")), proxy=None)
        assert await webhook.send(message("x"), NOW) == Taken(text="127.0.0.1 answered with status 200")
        await webhook.send(message("x"), NOW)
        (body, headers), (again, others) = server.taken
    moment, _, signed = headers["x-tieline-signature"].removeprefix("t=").partition(",v1=")
    assert hmac.new(SECRET.encode(), f"{moment}.".encode() + body, hashlib.sha256).hexdigest() == signed
    assert headers["authorization"] == "Bearer tk"
    assert headers["x-tieline-id"] == others["x-tieline-id"] == json.loads(again)["id"]


@pytest.mark.parametrize("status", [301, 307, 400, 429, 500, 503])
async def test_any_other_answer_is_a_failure_and_no_way_elsewhere_is_followed(status: int) -> None:
    async with webhook_server() as server:
        server.status = status
        with pytest.raises(NotSent, match=f"^127.0.0.1 answered with status {status}$"):
            await Webhook(settings(server), proxy=None).send(message("x"), NOW)
        assert server.asked == 1


async def test_a_slow_one_is_not_waited_for() -> None:
    async with webhook_server() as server:
        server.is_slow = True
        with pytest.raises(NotSent, match=r"did not answer within 0\.2 s"):
            await Webhook(settings(server), proxy=None, within_s=0.2).send(message("x"), NOW)
        server.is_slow = False


async def test_nobody_there_is_told_without_the_address() -> None:
    async with webhook_server() as server:
        webhook = Webhook(settings(server), proxy=None)
    with pytest.raises(NotSent) as told:
        await webhook.send(message("x"), NOW)
    assert str(told.value) == "127.0.0.1 cannot be reached: ConnectError"
    assert "s3cret" not in webhook.where


async def test_this_machine_is_called_without_the_proxy() -> None:
    async with webhook_server() as server:
        await Webhook(settings(server), proxy="http://127.0.0.1:9").send(message("x"), NOW)
        assert server.asked == 1


async def test_a_host_of_other_letters_is_told_in_a_header() -> None:
    async with webhook_server() as server:
        alert = AlertMessage(rows=[row("x")], host="bücher.example")
        await Webhook(settings(server, format="ntfy"), proxy=None).send(alert, NOW)
        (_, headers) = server.taken[0]
    assert str(make_header(decode_header(headers["x-title"]))) == "Tieline on bücher.example"
