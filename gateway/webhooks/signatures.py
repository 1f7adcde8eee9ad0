"""Signatures of webhooks, checked and made as each service documents them. Pure: the moment is an argument.

github: docs.github.com/webhooks/using-webhooks/validating-webhook-deliveries. `X-Hub-Signature-256: sha256=<hex>` is
the HMAC of the body. `X-GitHub-Delivery` names the event; a delivery that is repeated has the same.
gitlab: docs.gitlab.com/user/project/integrations/webhooks. `X-Gitlab-Token` is the secret itself; with a signing token
(`whsec_…`) requests are signed as by Standard Webhooks. `Idempotency-Key` stays the same over repeats; the
`X-Gitlab-Event-UUID` does not name a delivery, since webhooks that set off one another share it.
stripe: docs.stripe.com/webhooks#verify-manually. `Stripe-Signature: t=<seconds>,v1=<hex>`, the HMAC of
`<seconds>.<body>`; the event's `id` stands in the body.
standard: github.com/standard-webhooks/standard-webhooks, spec. `webhook-signature: v1,<base64> …` is the HMAC of
`<webhook-id>.<webhook-timestamp>.<body>`.
generic: `X-Signature: sha256=<hex>`, the HMAC of the body; with `X-Timestamp: <seconds>`, of `<seconds>.<body>`.
"""

import base64
import hashlib
import hmac
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from gateway.webhooks.settings import SIGNING, Style, signing_key

TOLERANCE_S = 300  # of a time stamp, as Stripe and Standard Webhooks advise; clocks differ to both sides
LONGEST_STAMP = 12  # digits
MOST_SIGNATURES = 10  # in one header; a service that changes its secret sends two

Headers = Mapping[str, str]  # names in lower case


class BadSignature(Exception):
    """The request is not signed with a secret of the hook. The text says which header was looked at."""


class OldTimestamp(Exception):
    """The signature holds, and is of another time."""


def check(style: Style, headers: Headers, body: bytes, secrets: Sequence[str], now: datetime) -> None:
    """Whether the request is signed with one of the secrets, about now. Raises BadSignature or OldTimestamp.

    Every secret is tried, whichever fits: the time tells nothing of them.
    """
    fits, stamp = False, ""
    for secret in secrets:
        found = _stamp_if_signed(style, headers, body, secret)
        if found is not None:
            fits, stamp = True, found
    if not fits:
        name = _HEADERS[style]
        raise BadSignature(
            f"the header {name} does not fit the secret of this webhook"
            if any(headers.get(one.strip().lower()) for one in name.split(" or "))
            else f"the header {name} is missing"
        )
    if stamp and abs(int(stamp) - now.timestamp()) > TOLERANCE_S:
        raise OldTimestamp(
            f"the request was signed {abs(int(stamp) - now.timestamp()):.0f} s away from now; at most {TOLERANCE_S} s "
            "count: check the clocks, and let the sender sign each try anew"
        )


def signed(style: Style, secret: str, body: bytes, *, id: str, event: str, now: datetime) -> dict[str, str]:
    """Headers of a request with that body, as the service would send it."""
    stamp = str(int(now.timestamp()))
    match style:
        case "github":
            return {_SHA: _hex(secret, body), "x-github-delivery": id, "x-github-event": event}
        case "gitlab":
            token = _standard(secret, id, stamp, body) if secret.startswith(SIGNING) else {"x-gitlab-token": secret}
            return {**token, "idempotency-key": id, "x-gitlab-event": event}
        case "stripe":
            return {"stripe-signature": f"t={stamp},v1={_digest(secret.encode(), _stamped(stamp, body)).hex()}"}
        case "standard":
            return _standard(secret, id, stamp, body)
        case "generic":
            signature = _hex(secret, _stamped(stamp, body))
            return {"x-signature": signature, "x-timestamp": stamp, "idempotency-key": id, "x-event": event}


def event_of(style: Style, headers: Headers, payload: object) -> str:
    """The kind of event in the service's words; "" where it tells none."""
    named = {"github": "x-github-event", "gitlab": "x-gitlab-event", "generic": "x-event"}.get(style)
    told = headers.get(named, "") if named else ""
    return told or (_text(payload, "type") if style != "github" else "")


def id_of(style: Style, headers: Headers, payload: object) -> str:
    """The service's own name of the delivery, the same when it is repeated; "" where there is none."""
    match style:
        case "github":
            return headers.get("x-github-delivery", "")
        case "stripe":
            return _text(payload, "id")
        case "standard":
            return headers.get("webhook-id", "")
        case "gitlab":
            return headers.get("webhook-id", "") or headers.get("idempotency-key", "")
        case "generic":
            return headers.get("idempotency-key", "")


_SHA = "x-hub-signature-256"
_HEADERS: Mapping[Style, str] = {
    "generic": "X-Signature",
    "github": "X-Hub-Signature-256",
    "gitlab": "X-Gitlab-Token or webhook-signature",
    "stripe": "Stripe-Signature",
    "standard": "webhook-signature",
}


def _stamp_if_signed(style: Style, headers: Headers, body: bytes, secret: str) -> str | None:
    """The time stamp that was signed, "" for none, where the signature is made with that secret; else None."""
    match style:
        case "github":
            return "" if _same(headers.get(_SHA, ""), [_hex(secret, body)]) else None
        case "gitlab" if not secret.startswith(SIGNING):
            return "" if _same(headers.get("x-gitlab-token", ""), [secret]) else None
        case "stripe":
            pairs = [one.strip().partition("=")[::2] for one in headers.get("stripe-signature", "").split(",")]
            stamp = next((value for name, value in pairs if name == "t"), "")
            given = [value for name, value in pairs if name == "v1"][:MOST_SIGNATURES]
            expected = _digest(secret.encode(), _stamped(stamp, body)).hex()
            return stamp if _is_stamp(stamp) and _same(expected, given) else None
        case "standard" | "gitlab":
            id, stamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
            given = headers.get("webhook-signature", "").split()[:MOST_SIGNATURES]
            expected = _standard(secret, id, stamp, body)["webhook-signature"]
            return stamp if id and _is_stamp(stamp) and _same(expected, given) else None
        case "generic":
            stamp = headers.get("x-timestamp", "")
            expected = _hex(secret, _stamped(stamp, body) if stamp else body)
            return (
                stamp if (not stamp or _is_stamp(stamp)) and _same(expected, [headers.get("x-signature", "")]) else None
            )


def _standard(secret: str, id: str, stamp: str, body: bytes) -> dict[str, str]:
    digest = _digest(signing_key(secret), f"{id}.".encode() + _stamped(stamp, body))
    signature = f"v1,{base64.b64encode(digest).decode()}"
    return {"webhook-id": id, "webhook-timestamp": stamp, "webhook-signature": signature}


def _stamped(stamp: str, body: bytes) -> bytes:
    return f"{stamp}.".encode() + body


def _hex(secret: str, content: bytes) -> str:
    return f"sha256={_digest(secret.encode(), content).hex()}"


def _digest(key: bytes, content: bytes) -> bytes:
    return hmac.digest(key, content, hashlib.sha256)


def _same(one: str, others: Iterable[str]) -> bool:
    """Whether it is among the others, in a time that does not tell where they differ."""
    found = [hmac.compare_digest(one.encode(), other.encode()) for other in others]
    return any(found)


def _is_stamp(text: str) -> bool:
    return 0 < len(text) <= LONGEST_STAMP and text.isascii() and text.isdigit()


def _text(payload: object, key: str) -> str:
    value = payload.get(key) if isinstance(payload, dict) else None
    return value if isinstance(value, str) else ""
