"""Slack's signed HTTP requests: checked and dispatched by slack-bolt, answered only when what they bring is stored."""

import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl

import anyio
from slack_bolt.adapter.starlette.async_handler import to_starlette_response
from slack_bolt.async_app import AsyncApp
from slack_bolt.authorization import AuthorizeResult
from slack_bolt.context.ack.async_ack import AsyncAck
from slack_bolt.request.async_request import AsyncBoltRequest
from slack_bolt.response import BoltResponse
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from adapters.slack.intake import ACKNOWLEDGE_WITHIN_S
from agent.core.bounded_body import BodyTooLarge, whole_body

log = logging.getLogger("tieline.slack")

BODY_LIMIT = 256 * 1024  # bytes
ANSWER_WITHIN_S = 2.8  # Slack waits 3 s, then sends an event again
FORM = "application/x-www-form-urlencoded"
TIMESTAMP, SIGNATURE = "x-slack-request-timestamp", "x-slack-signature"

# (kind, payload) → done when it is stored; the kinds are those of Socket Mode's envelopes.
Handle = Callable[[str, Mapping[str, Any]], Awaitable[None]]

# Its lower levels print whole requests, also those that nobody signed.
_bolt_log = logging.getLogger("tieline.slack.bolt")
_bolt_log.setLevel(logging.ERROR)


class SlackWebhook:
    """The routes of one account. All three kinds of request are told apart by their content, so one address will do."""

    def __init__(self, signing_secret: str, handle: Handle) -> None:
        self._app = _app(signing_secret, handle)

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
        # These alone: others may tell the library not to run a listener.
        headers = {name: request.headers.get(name, "") for name in (TIMESTAMP, SIGNATURE, "content-type")}
        if not _could_be_signed(headers):
            return _refused("unsigned")
        understood = _understood(body, headers)
        if understood is None:
            return PlainTextResponse("not understood", status_code=400)
        answer = await self._app.async_dispatch(understood)
        if answer.status == 401:
            return _refused("wrong signature, too old, or the clock is wrong")
        return to_starlette_response(answer)


def _app(signing_secret: str, handle: Handle) -> AsyncApp:
    """Checks the signature and the age of a request, and answers it when its listener has ended."""
    app = AsyncApp(
        name=_bolt_log.name,  # the library sets the level of the logger with this name, too
        logger=_bolt_log,
        process_before_response=True,
        signing_secret=signing_secret,
        authorize=_authorize,
        # Of these the adapter decides itself, by the names that the account has; the certificate check is signed, too.
        ignoring_self_events_enabled=False,
        ssl_check_enabled=False,
    )

    async def take(kind: str, payload: Mapping[str, Any], ack: AsyncAck) -> BoltResponse | None:
        try:
            with anyio.fail_after(ANSWER_WITHIN_S if kind == "events_api" else ACKNOWLEDGE_WITHIN_S):
                await handle(kind, payload)
        except TimeoutError:
            if kind == "events_api":
                return BoltResponse(status=503, body="not stored in time")
            # It goes on; any other answer is shown to the person as a failure.
        except RuntimeError:
            log.exception("a request from Slack was not stored; Slack sends events again", extra={"kind": kind})
            return BoltResponse(status=503, body="not stored")
        await ack()
        return None

    async def take_event(body: dict[str, Any], ack: AsyncAck) -> BoltResponse | None:
        return await take("events_api", body, ack)

    async def take_command(body: dict[str, Any], ack: AsyncAck) -> BoltResponse | None:
        return await take("slash_commands", body, ack)

    async def take_press(body: dict[str, Any], ack: AsyncAck) -> BoltResponse | None:
        return await take("interactive", body, ack)

    anything = re.compile("")
    app.middleware(_leave_out_the_rest)
    app.event(anything)(take_event)
    app.command(anything)(take_command)
    app.action(anything)(take_press)
    return app


async def _authorize(enterprise_id: str | None, team_id: str | None) -> AuthorizeResult:
    """The library would ask Slack with each first request who the bot is; the adapter knows, or learns it elsewhere."""
    return AuthorizeResult(enterprise_id=enterprise_id, team_id=team_id)


async def _leave_out_the_rest(body: dict[str, Any], next_: Callable[[], Awaitable[None]]) -> BoltResponse | None:
    """Signed, but no listener takes it: the check of a certificate, a note on rate limits, an unused control."""
    event = body.get("event")
    is_event = body.get("type") == "event_callback" and isinstance(event, dict) and isinstance(event.get("type"), str)
    is_press = body.get("type") == "block_actions" and bool(body.get("actions"))
    if is_event or is_press or "command" in body:
        await next_()
        return None
    log.info("a request from Slack is left out", extra={"type": str(body.get("type") or "")})
    return BoltResponse(status=200)


def _refused(why: str) -> Response:
    log.warning("refused a request that claims to be from Slack", extra={"why": why})
    return PlainTextResponse(why, status_code=401)


def _could_be_signed(headers: Mapping[str, str]) -> bool:
    """Whether the library can read these headers: what is no number, or not ASCII, makes it fail with a 500."""
    timestamp, signature = headers[TIMESTAMP], headers[SIGNATURE]
    return timestamp.isascii() and timestamp.isdigit() and len(timestamp) < 16 and signature.isascii()


def _understood(body: bytes, headers: Mapping[str, str]) -> AsyncBoltRequest | None:
    """The request as the library knows it; None for what Slack would not send."""
    try:
        text = body.decode()
        request = AsyncBoltRequest(body=text, headers={**headers})
        if not request.body and headers["content-type"].startswith(FORM):
            # A form with the word "payload" anywhere, and no such field, is empty for the library.
            request.body = dict(parse_qsl(text, keep_blank_values=True))
    except (ValueError, TypeError, AttributeError, LookupError, RecursionError):
        return None  # it looks into what it has read before it knows that there is an object
    return request if isinstance(request.body, dict) else None


async def _limited(request: Request) -> bytes | None:
    """The body, or None when it is larger than Slack ever sends."""
    declared = request.headers.get("content-length", "0")
    if declared.isdigit() and int(declared) > BODY_LIMIT:
        return None
    try:
        return await whole_body(request.stream(), BODY_LIMIT)
    except BodyTooLarge:
        return None
