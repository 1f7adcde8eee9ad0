"""Requests that are refused: with a clear reason, and nothing of a secret anywhere."""

import logging
from urllib.parse import urlencode

import pytest

from tests.gateway.webhooks.conftest import Opened
from tests.gateway.webhooks.senders import BUILD, GENERIC, GITHUB, STRIPE, generic, github, raw, section, stripe

ASK = section(
    "builds", GITHUB, style="github", events=["workflow_run", "release.*"], template="{{ workflow_run.name }}"
)
PAID = section("paid", STRIPE, style="stripe", mode="say", template="{{ type }} {{ amount / 100 }}")
ELSEWHERE = section("far", GENERIC, place="discord:5")


@pytest.mark.requirement("G-135")
async def test_what_cannot_be_taken_is_refused_clearly_and_nothing_comes_of_it(
    sender_of: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "tieline")
    body = raw(BUILD)
    signed = github(body)
    large = b'"' + b"x" * (2 << 20) + b'"'
    bare = raw({"type": "t", "amount": "x"})
    cases = [
        ("builds", body, {**signed, "x-hub-signature-256": "sha256=" + "0" * 64}, 401, "does not fit the secret"),
        ("builds", body, {"content-type": "application/json"}, 401, "X-Hub-Signature-256 is missing"),
        ("builds", body + b" ", signed, 401, "does not fit"),
        ("nosuch", body, signed, 404, "no webhook of this name"),
        ("paid", body, stripe(body, ago_s=400), 400, "s away from now; at most 300 s"),
        ("paid", body, stripe(body, secret=GITHUB), 401, "Stripe-Signature does not fit"),
        ("paid", bare, stripe(bare), 422, "template fails on this payload (TypeError)"),
        ("builds", large, github(large), 413, "too large; at most 1 MB"),
        ("builds", b"{", github(b"{"), 400, "no JSON"),
        ("builds", b"", github(b""), 400, "no JSON"),
        ("builds", b"a=1", {**github(b"a=1"), "content-type": senders_form()}, 400, "no field"),
        ("builds", b"\xff=%ff", {**github(b"\xff=%ff"), "content-type": senders_form()}, 400, "cannot be read"),
        ("far", body, generic(body), 503, "the account discord of its chat"),
    ]
    async with sender_of(ASK, PAID, ELSEWHERE) as sender:
        for name, content, headers, status, told in cases:
            answer = await sender.send(name, content, headers)
            assert (answer.status_code, told in answer.text) == (status, True), (name, status, answer.text)
            assert isinstance(answer.json()["error"]["message"], str)
        assert (await sender.send("builds", b"", {}, method="GET")).status_code == 405
        assert await sender.world.rows() == []
        assert sender.world.texts() == []
    for secret in (GITHUB, STRIPE, GENERIC):
        assert secret not in caplog.text
    assert "webhook builds refused a request" in caplog.text


def senders_form() -> str:
    return "application/x-www-form-urlencoded"


@pytest.mark.requirement("G-135")
async def test_events_that_nobody_wants_and_a_ping_are_acknowledged_and_nothing_comes_of_them(
    sender_of: Opened,
) -> None:
    async with sender_of(ASK, section("news", GENERIC, mode="say", template="{% if go %}go{% endif %}")) as sender:
        answers = [
            await sender.post("builds", {"zen": "Keep it logically awesome."}, github, event="ping"),
            await sender.post("builds", BUILD, github, event="push"),
            await sender.post("news", {"go": False}, generic),
        ]
        assert [answer.status_code for answer in answers] == [200, 200, 200]
        assert all("ignored" in answer.json() for answer in answers)
        assert await sender.world.rows() == []
        wanted = await sender.post("builds", BUILD, github, event="release.published", id="r")
        assert wanted.status_code == 202


@pytest.mark.requirement("G-135")
async def test_a_form_of_github_is_read_by_its_payload(sender_of: Opened) -> None:
    async with sender_of(ASK) as sender:
        body = urlencode({"payload": raw(BUILD).decode()}).encode()
        answer = await sender.send("builds", body, {**github(body), "content-type": senders_form()})
        assert answer.status_code == 202
        await sender.world.settled()
        assert "CI" in str(sender.world.llm.bodies[-1]["messages"])


@pytest.mark.requirement("G-135")
async def test_json_that_a_client_calls_a_form_is_read_all_the_same(sender_of: Opened) -> None:
    """As `curl -d` does, in docs/webhooks.md too."""
    async with sender_of(section("disk", GENERIC, mode="say", template="disk {{ disk }}")) as sender:
        body = b'{"disk": "91 %"}'
        answer = await sender.send("disk", body, {**generic(body), "content-type": senders_form()})
        assert answer.status_code == 202, answer.text
        await sender.world.shows("disk 91 %")


@pytest.mark.requirement("G-135")
async def test_a_changed_section_counts_at_once_and_a_former_secret_for_a_while(sender_of: Opened) -> None:
    async with sender_of(section("news", GENERIC, mode="say", template="one {{ n }}")) as sender:
        assert (await sender.post("news", {"n": 1}, generic)).status_code == 202
        await sender.world.shows("one 1")
        fresh = "fresh-secret-0123456789"
        sender.world.config = section("news", fresh, mode="say", template="two {{ n }}", former_secrets=[GENERIC])
        assert sender.world.reload() == ()
        for number, secret in ((2, GENERIC), (3, fresh)):
            assert (await sender.post("news", {"n": number}, generic, secret=secret)).status_code == 202
            await sender.world.shows(f"two {number}")
        sender.world.config = section("news", fresh, mode="say", template="two {{ n }}")
        sender.world.reload()
        assert (await sender.post("news", {"n": 4}, generic)).status_code == 401
        sender.world.config = ""
        sender.world.reload()
        assert (await sender.post("news", {"n": 5}, generic, secret=fresh)).status_code == 404


async def test_a_value_that_is_missing_is_logged_once(sender_of: Opened, caplog: pytest.LogCaptureFixture) -> None:
    async with sender_of(section("news", GENERIC, mode="say", template="new {{ n }}{{ absent.thing }}")) as sender:
        for number in range(3):
            assert (await sender.post("news", {"n": number}, generic)).status_code == 202
        await sender.world.shows("new 2")
    assert caplog.text.count("webhook news: a payload has no absent") == 1


async def test_a_large_body_is_read_apart_from_the_loop(sender_of: Opened) -> None:
    async with sender_of(section("news", GENERIC, mode="say", template="{{ n }} of {{ many|length }}")) as sender:
        many = [{"text": "x" * 90} for _ in range(8_000)]
        assert (await sender.post("news", {"n": 1, "many": many}, generic)).status_code == 202
        await sender.world.shows("1 of 100")
