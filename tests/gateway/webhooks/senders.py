"""Other services, as their documentation says that they sign: written apart from the product's own signatures."""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Mapping
from typing import Any

GITHUB, GITLAB, STRIPE = "github-secret-0123456789", "gitlab-token-0123456789", "whsec_stripe0123456789"
STANDARD, GENERIC = "whsec_" + base64.b64encode(b"k" * 24).decode(), "generic-secret-0123456789"

BUILD = {
    "action": "completed",
    "workflow_run": {"name": "CI", "conclusion": "failure", "html_url": "https://github.example.org/a/b/actions/7"},
    "repository": {"full_name": "ann/kiln"},
}


def raw(payload: Any) -> bytes:
    """The bytes of a payload."""
    return payload if isinstance(payload, bytes) else json.dumps(payload).encode()


def github(body: bytes, *, id: str = "d-1", event: str = "workflow_run", secret: str = GITHUB) -> dict[str, str]:
    """docs.github.com: the headers of a delivery."""
    digest = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    sha1 = hmac.new(secret.encode(), body, hashlib.sha1).hexdigest()
    return {
        "user-agent": "GitHub-Hookshot/044aadd",
        "content-type": "application/json",
        "x-github-hook-id": "292430182",
        "x-github-event": event,
        "x-github-delivery": id,
        "x-hub-signature": f"sha1={sha1}",
        "x-hub-signature-256": f"sha256={digest}",
    }


def gitlab(body: bytes, *, id: str = "g-1", token: str = GITLAB) -> dict[str, str]:
    """docs.gitlab.com: a secret token, and an id that stays the same over repeats."""
    return {
        "user-agent": "GitLab/18.4.0",
        "content-type": "application/json",
        "x-gitlab-event": "Pipeline Hook",
        "x-gitlab-event-uuid": "13792a34-cac6-4fda-95a8-c58e00a3954e",
        "idempotency-key": id,
        "x-gitlab-token": token,
    }


def stripe(body: bytes, *, ago_s: int = 0, secret: str = STRIPE, more: str = "") -> dict[str, str]:
    """docs.stripe.com: a time stamp and the signature of both."""
    stamp = int(time.time()) - ago_s
    digest = hmac.new(secret.encode(), f"{stamp}.".encode() + body, hashlib.sha256).hexdigest()
    return {"content-type": "application/json", "stripe-signature": f"t={stamp},{more}v1={digest},v0=6ffbb59b2300"}


def standard(body: bytes, *, id: str = "msg_1", ago_s: int = 0, secret: str = STANDARD) -> dict[str, str]:
    """The Standard Webhooks specification."""
    stamp = str(int(time.time()) - ago_s)
    key = base64.b64decode(secret.removeprefix("whsec_"))
    digest = hmac.new(key, f"{id}.{stamp}.".encode() + body, hashlib.sha256).digest()
    signature = f"v1,{base64.b64encode(b'0' * 32).decode()} v1,{base64.b64encode(digest).decode()}"
    return {"webhook-id": id, "webhook-timestamp": stamp, "webhook-signature": signature}


def generic(body: bytes, *, ago_s: int | None = None, secret: str = GENERIC, **more: str) -> dict[str, str]:
    """The project's own form, with a time stamp or without."""
    stamp = "" if ago_s is None else str(int(time.time()) - ago_s)
    content = f"{stamp}.".encode() + body if stamp else body
    digest = hmac.new(secret.encode(), content, hashlib.sha256).hexdigest()
    named = {name.replace("_", "-"): value for name, value in more.items()}
    return {"x-signature": f"sha256={digest}", **({"x-timestamp": stamp} if stamp else {}), **named}


def section(name: str, secret: str, **more: Any) -> str:
    """A `[[webhooks]]` section."""
    fields: Mapping[str, Any] = {"name": name, "secret": secret, "place": "telegram:77", **more}
    return "[[webhooks]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in fields.items())


def two_hooks(template: str) -> str:
    """The sections of a hook that the agent answers, and of one that says by the template what came; both GitHub's."""
    return f"""
[[webhooks]]
name = "builds"
secret = "{GITHUB}"
style = "github"
place = "telegram:77"
mode = "ask"
[[webhooks]]
name = "news"
secret = "{GITHUB}"
style = "github"
place = "telegram:77"
mode = "say"
template = "{template}"
"""
