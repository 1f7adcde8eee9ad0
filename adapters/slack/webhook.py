"""Slack's signed HTTP requests: believed, handed over, answered only when stored."""

import hashlib
import hmac
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl

import anyio
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from agent.core.bounded_body import BodyTooLarge, whole_body
from gateway.channels.adapter import AdapterContext

# Check of a request's origin: signature v0 and the replay window (docs.slack.dev, "Verifying requests"). Pure.

REPLAY_WINDOW_S = 300


def signature(secret: str, body: bytes, timestamp: str) -> str:
    """The value that `X-Slack-Signature` must have."""
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


log = logging.getLogger("tieline.slack")

# A command or button is not sent again: a person whose answer came too late does it again, though it was done. So
# network time is left.
ACKNOWLEDGE_WITHIN_S = 2.0
BODY_LIMIT = 256 * 1024  # bytes
ANSWER_WITHIN_S = 2.8  # Slack waits 3 s, then sends an event again

# (kind, payload) → done when it is stored; the kinds are those of Socket Mode's envelopes.
Handle = Callable[[str, Mapping[str, Any]], Awaitable[None]]


class SlackWebhook:
    """The routes of one account. All three kinds of request are told apart by their content, so one address will do."""

    def __init__(self, signing_secret: str, adapter_context: AdapterContext, handle: Handle) -> None:
        self._secret = signing_secret
        self._clock = adapter_context.clock
        self._handle = handle

    def routes(self) -> Sequence[BaseRoute]:
        return tuple(
            Route(path, self._receive, methods=["POST"]) for path in ("/events", "/commands", "/interactivity")
        )

    async def _receive(self, request: Request) -> Response:
        try:
            body = await _limited(request)
        except ClientDisconnect:
            return PlainTextResponse("gone", status_code=400)
        if body is None:
            return PlainTextResponse("too large", status_code=413)
        why_not = refusal(
            self._secret,
            body,
            timestamp=request.headers.get("x-slack-request-timestamp"),
            signed=request.headers.get("x-slack-signature"),
            now=self._clock.now().timestamp(),
        )
        if why_not is not None:
            log.warning("refused a request that claims to be from Slack", extra={"why": why_not})
            return PlainTextResponse(why_not, status_code=401)
        found = _payload(body, request.headers.get("content-type", ""))
        if found is None:
            return PlainTextResponse("not understood", status_code=400)
        kind, payload = found
        if payload.get("type") == "url_verification":
            return JSONResponse({"challenge": payload.get("challenge")})
        if payload.get("ssl_check"):
            return Response()
        return await self._hand_over(kind, payload)

    async def _hand_over(self, kind: str, payload: Mapping[str, Any]) -> Response:
        try:
            with anyio.fail_after(ANSWER_WITHIN_S if kind == "events_api" else ACKNOWLEDGE_WITHIN_S):
                await self._handle(kind, payload)
        except TimeoutError:
            if kind != "events_api":  # it goes on; any other answer is shown to the person as a failure
                return Response()
            return PlainTextResponse("not stored in time", status_code=503)
        except RuntimeError:
            log.exception("a request from Slack was not stored; Slack sends events again", extra={"kind": kind})
            return PlainTextResponse("not stored", status_code=503)
        return Response()


async def _limited(request: Request) -> bytes | None:
    """The body, or None when it is larger than Slack ever sends."""
    declared = request.headers.get("content-length", "0")
    if declared.isdigit() and int(declared) > BODY_LIMIT:
        return None
    try:
        return await whole_body(request.stream(), BODY_LIMIT)
    except BodyTooLarge:
        return None


def _payload(body: bytes, content_type: str) -> tuple[str, Mapping[str, Any]] | None:
    """The kind of the request, and its payload; None for what Slack would not send."""
    try:
        if content_type.startswith("application/json"):
            kind, payload = "events_api", json.loads(body)
        else:
            form = dict(parse_qsl(body.decode(), keep_blank_values=True))
            if "payload" in form:
                kind, payload = "interactive", json.loads(form["payload"])
            else:
                kind, payload = "slash_commands", form
    except (ValueError, UnicodeDecodeError):
        return None
    return (kind, payload) if isinstance(payload, dict) else None
