"""Signatures of webhooks: made by the services as they document it, checked by the gateway."""

import base64
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gateway.webhooks.settings import Style
from gateway.webhooks.signatures import BadSignature, OldTimestamp, check, event_of, id_of, signed
from tests.gateway.webhooks import senders
from tests.gateway.webhooks.senders import GENERIC, GITHUB, GITLAB, STANDARD, STRIPE, generic, raw

BODY = raw({"id": "evt_1", "type": "invoice.paid", "data": {"n": 1}})
OTHER = "another-secret-0123456789"


def gitlab_signed(body: bytes, **how: Any) -> dict[str, str]:
    """GitLab with a signing token: as Standard Webhooks, and its own headers beside them."""
    headers = senders.standard(body, **how)
    return {**headers, "x-gitlab-event": "Push Hook", "idempotency-key": headers["webhook-id"]}


def stamped(body: bytes, **how: Any) -> dict[str, str]:
    return generic(body, **{"ago_s": 0, **how})


WAYS = [
    pytest.param("github", GITHUB, senders.github, id="github"),
    pytest.param("gitlab", GITLAB, senders.gitlab, id="gitlab's token"),
    pytest.param("gitlab", STANDARD, gitlab_signed, id="gitlab's signing token"),
    pytest.param("stripe", STRIPE, senders.stripe, id="stripe"),
    pytest.param("standard", STANDARD, senders.standard, id="standard webhooks"),
    pytest.param("generic", GENERIC, generic, id="generic"),
    pytest.param("generic", GENERIC, stamped, id="generic with a time stamp"),
]
Sign = Callable[..., dict[str, str]]


def now(**later: float) -> datetime:
    return datetime.now(UTC) + timedelta(**later)


@pytest.mark.requirement("G-135")
@pytest.mark.parametrize(("style", "secret", "sign"), WAYS)
def test_what_the_service_signs_is_taken_and_nothing_else(style: Style, secret: str, sign: Sign) -> None:
    headers = sign(BODY)
    check(style, headers, BODY, [secret], now())
    check(style, headers, BODY, [OTHER if style != "standard" else STANDARD, secret], now())  # a former one
    wrong = base64.b64encode(b"w" * 24).decode() if secret == STANDARD else OTHER
    with pytest.raises(BadSignature):
        check(style, headers, BODY, [f"whsec_{wrong}" if secret == STANDARD else wrong], now())
    with pytest.raises(BadSignature, match="is missing"):
        check(style, {"content-type": "application/json"}, BODY, [secret], now())
    if secret != GITLAB:  # the token of GitLab signs no body
        with pytest.raises(BadSignature, match="does not fit"):
            check(style, headers, BODY + b" ", [secret], now())


@pytest.mark.requirement("G-135")
@pytest.mark.parametrize(("style", "secret", "sign"), [WAYS[2], WAYS[3], WAYS[4], WAYS[6]])
@pytest.mark.parametrize("ago_s", [330, -330])
def test_a_signature_of_another_time_is_old(style: Style, secret: str, sign: Sign, ago_s: int) -> None:
    check(style, sign(BODY, ago_s=270 if ago_s > 0 else -270), BODY, [secret], now())
    with pytest.raises(OldTimestamp, match=r"3[23]\d s away"):
        check(style, sign(BODY, ago_s=ago_s), BODY, [secret], now())


def forged(headers: dict[str, str], **changed: str | None) -> dict[str, str]:
    """The same with some headers changed or left out."""
    given = {**headers, **{name.replace("_", "-"): value for name, value in changed.items()}}
    return {name: value for name, value in given.items() if value is not None}


@pytest.mark.requirement("G-135")
@pytest.mark.parametrize(
    ("style", "secret", "headers"),
    [
        pytest.param("github", GITHUB, {"x-hub-signature": senders.github(BODY)["x-hub-signature"]}, id="sha1 alone"),
        pytest.param("github", GITHUB, {"x-hub-signature-256": "sha256="}, id="an empty digest"),
        pytest.param("gitlab", GITLAB, {"x-gitlab-token": ""}, id="an empty token"),
        pytest.param("gitlab", STANDARD, {"x-gitlab-token": STANDARD}, id="a signing token as a plain one"),
        pytest.param("gitlab", GITLAB, {"x-gitlab-token": "gitläb"}, id="letters beyond ASCII"),
        pytest.param("stripe", STRIPE, forged(senders.stripe(BODY), stripe_signature="t=1,v1="), id="an empty v1"),
        pytest.param("stripe", STRIPE, {"stripe-signature": "nonsense"}, id="no pairs"),
        pytest.param(
            "stripe",
            STRIPE,
            {"stripe-signature": senders.stripe(BODY)["stripe-signature"].replace("v1=", "v0=")},
            id="v0 alone",
        ),
        pytest.param("standard", STANDARD, forged(senders.standard(BODY), webhook_id="msg_2"), id="another id"),
        pytest.param("standard", STANDARD, forged(senders.standard(BODY), webhook_timestamp="-5"), id="no number"),
        pytest.param(
            "standard", STANDARD, forged(senders.standard(BODY), webhook_timestamp="9" * 400), id="a long one"
        ),
        pytest.param("standard", STANDARD, forged(senders.standard(BODY), webhook_timestamp="٣"), id="other digits"),
        pytest.param("standard", STANDARD, forged(senders.standard(BODY), webhook_id=None), id="without an id"),
        pytest.param("generic", GENERIC, forged(stamped(BODY), x_timestamp=None), id="the stamp left out"),
        pytest.param("generic", GENERIC, forged(generic(BODY), x_timestamp="1"), id="a stamp added"),
    ],
)
def test_a_forged_signature_is_refused(style: Style, secret: str, headers: dict[str, str]) -> None:
    with pytest.raises(BadSignature):
        check(style, headers, BODY, [secret], now())


@pytest.mark.requirement("G-135")
def test_one_of_two_signatures_is_enough_while_the_service_changes_its_secret() -> None:
    headers = senders.stripe(BODY, more=f"v1={'0' * 64},")
    check("stripe", headers, BODY, [STRIPE], now())


@pytest.mark.parametrize(("style", "secret", "sign"), WAYS)
def test_the_gateway_signs_a_try_as_the_service_would(style: Style, secret: str, sign: Sign) -> None:
    headers = signed(style, secret, BODY, id="x1", event="push", now=now())
    check(style, headers, BODY, [secret], now())
    assert id_of(style, headers, {"id": "x1"}) == "x1"


@pytest.mark.parametrize(
    ("style", "headers", "event", "id"),
    [
        ("github", senders.github(BODY, event="push", id="g"), "push", "g"),
        ("gitlab", senders.gitlab(BODY, id="k"), "Pipeline Hook", "k"),
        ("stripe", {}, "invoice.paid", "evt_1"),
        ("standard", senders.standard(BODY, id="m"), "invoice.paid", "m"),
        ("generic", {"x-event": "done", "idempotency-key": "i"}, "done", "i"),
        ("generic", {}, "invoice.paid", ""),
    ],
)
def test_event_and_id_are_those_of_the_service(style: Style, headers: dict[str, str], event: str, id: str) -> None:
    payload = json.loads(BODY)
    assert (event_of(style, headers, payload), id_of(style, headers, payload)) == (event, id)
    odds: tuple[object, ...] = ([], "text", None, {"id": 5, "type": ["x"]})
    for odd in odds:
        assert isinstance(event_of(style, {}, odd), str)
        assert id_of(style, {}, odd) == ""
