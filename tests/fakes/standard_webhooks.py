"""Receivers' check of a request by the Standard Webhooks specification, written from its text and not from the product.

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Mapping
from typing import Any

TOLERATED_S = 300  # difference of the clocks


def verified(secret: str | bytes, body: bytes, headers: Mapping[str, str], *, now: float | None = None) -> Any:
    """The body's value. Raises ValueError for a request that is old, or not signed with the secret."""
    key = base64.b64decode(secret.removeprefix("whsec_")) if isinstance(secret, str) else secret
    if abs((time.time() if now is None else now) - int(headers["webhook-timestamp"])) > TOLERATED_S:
        raise ValueError("the request is too old, or of the future")
    signed = b".".join((headers["webhook-id"].encode(), headers["webhook-timestamp"].encode(), body))
    wanted = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest())
    for signature in headers["webhook-signature"].split(" "):
        version, _, found = signature.partition(",")
        if version == "v1" and hmac.compare_digest(found.encode(), wanted):
            return json.loads(body)
    raise ValueError("no signature is right")
