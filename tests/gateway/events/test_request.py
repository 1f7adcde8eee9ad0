"""Requests to subscribers: their signature, the addresses that may be called, and answers that are none."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from ipaddress import ip_address

import pytest
from pydantic import SecretStr

from gateway.config.events import EventSettings
from gateway.events.request import Caller
from gateway.events.signature import signed
from gateway.receivers.email import NotSent
from tests.fakes.standard_webhooks import verified
from tests.fakes.webhook_server import WebhookServer, webhook_server

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
MESSAGE = "msg_p5jXN8AQM9LWM0D4loKWxJek"
BODY = '{"test": 2432232314}'
NOW = datetime.now(UTC)


def section(url: str, *own: str, secret: str = SECRET) -> EventSettings:
    return EventSettings(name="crm", url=SecretStr(url), secret=SecretStr(secret), allow_private=own)


def names(*addresses: str) -> Caller:
    """A caller whose resolver knows these addresses for every name."""

    async def lookup(host: str, port: int) -> Sequence[str]:
        return addresses

    return Caller(lookup)


@pytest.mark.requirement("G-129")
def test_the_signature_is_that_of_the_published_example() -> None:
    key = section("https://x", secret=SECRET).key
    headers = signed(key, MESSAGE, BODY.encode(), datetime.fromtimestamp(1614265330, UTC))
    assert headers == {
        "webhook-id": MESSAGE,
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }
    assert verified(SECRET, BODY.encode(), headers, now=1614265330) == json.loads(BODY)


@pytest.mark.parametrize("change", ["body", "id", "moment", "secret", "late"])
def test_a_request_that_was_changed_or_comes_late_is_told_from_a_good_one(change: str) -> None:
    headers = dict(signed(section("https://x").key, MESSAGE, BODY.encode(), NOW))
    headers["webhook-id"] += "x" if change == "id" else ""
    headers["webhook-timestamp"] = str(int(NOW.timestamp()) + (change == "moment"))
    with pytest.raises(ValueError, match=r"no signature is right|too old"):
        verified(
            b"another key of theirs" if change == "secret" else SECRET,
            BODY.encode() + (b" " if change == "body" else b""),
            headers,
            now=NOW.timestamp() + (400 if change == "late" else 0),
        )


@pytest.mark.parametrize("secret", [SECRET, "a plain text of mine"])
async def test_a_receiver_can_check_what_comes(secret: str) -> None:
    async with webhook_server() as hook:
        subscription = section(f"{hook.url}/hook/x", "127.0.0.1", secret=secret)
        answer = await Caller().call(subscription, MESSAGE, BODY, NOW, proxy=None)
        assert (answer.status, answer.after_s) == (200, None)
        ((body, headers),) = hook.taken
        key = secret if secret == SECRET else secret.encode()
        assert verified(key, body, headers, now=NOW.timestamp()) == json.loads(BODY)
        assert headers["content-type"] == "application/json"
        assert headers["host"] == hook.url.removeprefix("http://")


OWN = (
    "127.0.0.1", "10.0.0.5", "172.16.3.4", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "::1",
    "fe80::1", "fc00::1", "::ffff:10.0.0.5", "::10.0.0.5", "2002:0a00:0005::1", "64:ff9b::a00:5",
)  # fmt: skip


@pytest.mark.requirement("G-131")
@pytest.mark.parametrize("address", OWN)
async def test_an_address_of_a_private_network_is_not_called(address: str) -> None:
    with pytest.raises(NotSent, match="an address of a private network; name it in allow_private"):
        await names("8.8.8.8", address).call(section("https://example.org/x"), MESSAGE, BODY, NOW, proxy=None)


@pytest.mark.requirement("G-131")
@pytest.mark.parametrize(
    ("own", "address", "is_allowed"),
    [
        pytest.param("10.0.0.5", "10.0.0.5", True, id="an address"),
        pytest.param("10.0.0.5", "10.0.0.6", False, id="its neighbour"),
        pytest.param("10.0.0.0/24", "10.0.0.6", True, id="a network"),
        pytest.param("10.0.0.5", "::ffff:10.0.0.5", True, id="the same, written as IPv6"),
        pytest.param("fd00::/8", "fd12::1", True, id="a network of IPv6"),
        pytest.param("10.0.0.5", "8.8.8.8", True, id="the internet is called anyway"),
    ],
)
async def test_ones_own_addresses_are_called_that_are_named(own: str, address: str, is_allowed: bool) -> None:
    subscription = section("https://example.org/x", own)
    if is_allowed:
        assert await names(address).allowed(subscription) == (ip_address(address),)
        return
    with pytest.raises(NotSent, match="allow_private"):
        await names(address).allowed(subscription)


@pytest.mark.requirement("G-131")
async def test_the_address_that_was_checked_is_called_and_no_name_is_asked_for_again() -> None:
    async with webhook_server() as hook:
        port = hook.url.rpartition(":")[2]
        subscription = section(f"http://crm.example.org:{port}/hook/x", "127.0.0.1")
        await names("127.0.0.1").call(subscription, MESSAGE, BODY, NOW, proxy=None)
        assert hook.taken[0][1]["host"] == f"crm.example.org:{port}"


@pytest.mark.requirement("G-131")
async def test_a_name_that_leads_elsewhere_by_now_is_checked_again() -> None:
    leads_to = ["127.0.0.1"]

    async def lookup(host: str, port: int) -> Sequence[str]:
        return leads_to

    async with webhook_server() as hook:
        port = hook.url.rpartition(":")[2]
        subscription = section(f"http://crm.example.org:{port}/hook/x", "127.0.0.1")
        caller = Caller(lookup)
        await caller.call(subscription, MESSAGE, BODY, NOW, proxy=None)
        leads_to[:] = ["169.254.169.254"]
        with pytest.raises(NotSent, match="an address of a private network"):
            await caller.call(subscription, MESSAGE, BODY, NOW, proxy=None)
        assert len(hook.taken) == 1


async def test_another_address_is_called_where_nobody_answers_at_the_first() -> None:
    async with webhook_server() as hook:
        port = hook.url.rpartition(":")[2]
        subscription = section(f"http://crm.example.org:{port}/hook/x", "127.0.0.0/8")
        await names("127.0.0.2", "127.0.0.1").call(subscription, MESSAGE, BODY, NOW, proxy=None)
        assert len(hook.taken) == 1


@pytest.mark.requirement("G-131")
async def test_the_internet_is_called_with_tls_alone() -> None:
    with pytest.raises(NotSent, match="where only https:// is called"):
        await names("8.8.8.8").allowed(section("http://example.org/x", "10.0.0.5"))


@pytest.mark.requirement("G-131")
@pytest.mark.parametrize("status", [301, 307])
async def test_a_way_elsewhere_is_not_followed(status: int) -> None:
    async with webhook_server() as hook:
        hook.status = status
        answer = await Caller().call(section(f"{hook.url}/hook/x", "127.0.0.1"), MESSAGE, BODY, NOW, proxy=None)
        assert (answer.status, hook.asked) == (status, 1)


@pytest.mark.parametrize(("after", "seconds"), [("7", 7.0), ("", None), ("soon", None), ("-3", None)])
async def test_the_wait_that_is_asked_for_is_read(after: str, seconds: float | None) -> None:
    async with webhook_server() as hook:
        hook.status, hook.after = 429, after
        answer = await Caller().call(section(f"{hook.url}/hook/x", "127.0.0.1"), MESSAGE, BODY, NOW, proxy=None)
        assert (answer.status, answer.after_s) == (429, seconds)


async def test_one_that_hangs_is_not_waited_for() -> None:
    async with webhook_server() as hook:
        hook.is_slow = True
        caller = Caller(within_s=0.2)
        with pytest.raises(NotSent, match=r"^127\.0\.0\.1 did not answer within 0\.2 s$"):
            await caller.call(section(f"{hook.url}/hook/x", "127.0.0.1"), MESSAGE, BODY, NOW, proxy=None)
        hook.is_slow = False


async def test_nobody_there_is_told_without_the_address() -> None:
    async with webhook_server() as hook:
        subscription = section(f"{hook.url}/hook/s3cret", "127.0.0.1")
    with pytest.raises(NotSent) as told:
        await Caller().call(subscription, MESSAGE, BODY, NOW, proxy=None)
    assert str(told.value) == "127.0.0.1 cannot be reached: ConnectError"


async def test_ones_own_network_is_called_without_the_proxy(hook: WebhookServer) -> None:
    subscription = section(f"{hook.url}/hook/x", "127.0.0.1")
    await Caller().call(subscription, MESSAGE, BODY, NOW, proxy="http://127.0.0.1:9")
    assert hook.asked == 1


@pytest.mark.requirement("G-131")
@pytest.mark.parametrize("addresses", [("10.0.0.5", "8.8.8.8"), ("8.8.8.8", "10.0.0.5")])
async def test_one_address_of_the_internet_is_enough_to_need_tls(addresses: tuple[str, ...]) -> None:
    with pytest.raises(NotSent, match="where only https:// is called"):
        await names(*addresses).allowed(section("http://example.org/x", "10.0.0.5"))
