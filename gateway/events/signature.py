"""Headers of a request by the Standard Webhooks specification, version 1. Pure.

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

import hashlib
import hmac
from base64 import b64encode
from collections.abc import Mapping
from datetime import datetime

ID, MOMENT, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"


def signed(key: bytes, message: str, body: bytes, at: datetime) -> Mapping[str, str]:
    """The headers that a receiver checks: `message` is the same in each try, the moment is that of this one."""
    moment = str(int(at.timestamp()))
    digest = hmac.new(key, f"{message}.{moment}.".encode() + body, hashlib.sha256).digest()
    return {ID: message, MOMENT: moment, SIGNATURE: f"v1,{b64encode(digest).decode()}"}
