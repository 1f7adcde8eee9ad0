"""Is a request from Slack? Signature v0 and the replay window (docs.slack.dev, "Verifying requests"). Pure."""

import hashlib
import hmac

REPLAY_WINDOW_S = 300


def signature(secret: str, body: bytes, timestamp: str) -> str:
    """What `X-Slack-Signature` must say."""
    digest = hmac.new(secret.encode(), b"v0:" + timestamp.encode() + b":" + body, hashlib.sha256).hexdigest()
    return f"v0={digest}"


def refusal(secret: str, body: bytes, *, timestamp: str | None, signed: str | None, now: float) -> str | None:
    """Why a request is not believed, or None if it is. `now` is Unix time in seconds."""
    if not timestamp or not signed:
        return "unsigned"
    if not (timestamp.isascii() and timestamp.isdigit()) or abs(now - int(timestamp)) > REPLAY_WINDOW_S:
        return "too old, or the clock is wrong"
    if not hmac.compare_digest(signature(secret, body, timestamp).encode(), signed.encode()):
        return "wrong signature"
    return None
