"""Updates by webhook: a route of our own that answers 200 only when the update is stored, and the care for its state
at Telegram.
"""

import hashlib
import hmac
import json
import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from adapters.telegram.parse import UPDATES
from adapters.telegram.polling import RETRYING, Intake, asked_s
from adapters.telegram.request import Api, BadRequest, InvalidToken, TelegramError, Unknown, token_refused
from adapters.telegram.settings import TelegramSettings
from agent.core.backoff import Retries
from agent.core.bounded_body import BodyTooLarge, whole_body
from agent.core.clock import Clock
from gateway.channels.errors import ChannelFatal
from gateway.channels.kit.health import HealthMonitor

log = logging.getLogger("tieline.telegram")

SECRET_HEADER = "x-telegram-bot-api-secret-token"  # noqa: S105
BODY_LIMIT = 1024 * 1024  # an update has a few kilobytes
PROBE_S = 20.0  # a webhook that somebody removed is noticed by nothing else
COMPLAINT_FRESH_S = 300.0
ADMIT_S = 50.0  # Telegram gives up after a minute
CONNECTIONS = 40


def secret_of(settings: TelegramSettings) -> str:
    """The configured secret, or one that is the same after each restart."""
    if settings.webhook_secret is not None:
        return settings.webhook_secret.get_secret_value()
    return hmac.new(settings.token.get_secret_value().encode(), b"tieline webhook", hashlib.sha256).hexdigest()


class Webhook:
    """`url` is where Telegram finds the route; None is a mistake that `keep` reports."""

    def __init__(self, settings: TelegramSettings, url: str | None) -> None:
        self._secret = secret_of(settings)
        self._intake: Intake | None = None
        self._health_monitor: HealthMonitor | None = None
        self.url = url
        self.route = Route(settings.webhook_path, self._receive, methods=["POST"])

    def open(self, intake: Intake, health_monitor: HealthMonitor) -> None:
        """From now on updates are taken in."""
        self._intake, self._health_monitor = intake, health_monitor

    def close(self) -> None:
        """From now on they are refused, and Telegram keeps them."""
        self._intake = self._health_monitor = None

    async def _receive(self, request: Request) -> Response:
        given = request.headers.get(SECRET_HEADER, "")
        if not hmac.compare_digest(given.encode(), self._secret.encode()):
            return Response("wrong secret token\n", 403)
        update = await _update_in(request)
        if update is None:
            return Response("not an update\n", 400)
        intake = self._intake
        if intake is None or self._health_monitor is None:
            return Response("not listening yet\n", 503)
        self._health_monitor.connected()
        stored, tried = False, anyio.Event()

        def told(is_stored: bool) -> None:
            nonlocal stored
            stored = is_stored
            tried.set()

        with anyio.move_on_after(ADMIT_S):  # its turn is kept all the same, so that nothing overtakes it meanwhile
            await intake.put(update, told, holds=False)
            await tried.wait()
        return Response(status_code=200) if stored else Response("not stored; send it again\n", 503)

    async def keep(self, api: Api, health_monitor: HealthMonitor, clock: Clock) -> None:
        """Set the webhook and look after it, until cancelled. Raises ChannelFatal when it cannot ever work."""
        if self.url is None:
            raise ChannelFatal('mode = "webhook" needs an address: set webhook_url here, or public_url in [web]')
        retries, is_set = Retries(RETRYING), False
        while True:
            try:
                if not is_set:
                    await self._set(api)
                    is_set = True
                info = await api.call("getWebhookInfo")
            except TelegramError as error:
                if isinstance(error, InvalidToken | Unknown):
                    raise token_refused() from error
                # Also an address that Telegram does not take: its DNS entry may be on its way.
                refused = isinstance(error, BadRequest)
                health_monitor.trouble(
                    f"Telegram does not take {self.url}: {error.message}" if refused else error.message
                )
                wait_s = retries.failed(asked_s(error))
                log.warning("webhook not in order", extra={"reason": error.message, "again_in_s": wait_s})
                await clock.sleep(wait_s)
                continue
            retries.succeeded()
            is_set = info.get("url") == self.url
            if not is_set:
                health_monitor.trouble("somebody else has set another webhook; ours is set again")
                await clock.sleep(RETRYING.first_s)
                continue
            if complaint := complaint_in(info, clock.now()):
                health_monitor.trouble(complaint)
            else:
                health_monitor.connected()
            await clock.sleep(PROBE_S)

    async def _set(self, api: Api) -> None:
        await api.call(
            "setWebhook",
            url=self.url,
            secret_token=self._secret,
            allowed_updates=list(UPDATES),
            max_connections=CONNECTIONS,
            drop_pending_updates=False,
        )


def complaint_in(info: dict[str, Any], now: datetime) -> str | None:
    """Telegram's complaint about our end, if it is recent and updates are waiting for it."""
    if not info.get("last_error_date") or not info.get("pending_update_count"):
        return None
    if now - datetime.fromtimestamp(info["last_error_date"], UTC) > timedelta(seconds=COMPLAINT_FRESH_S):
        return None
    return f"Telegram cannot deliver to the webhook: {info.get('last_error_message', 'no reason given')}"


async def _update_in(request: Request) -> dict[str, Any] | None:
    try:
        update = json.loads(await whole_body(request.stream(), BODY_LIMIT))
    except (BodyTooLarge, ValueError, RecursionError):
        return None
    return update if isinstance(update, dict) and isinstance(update.get("update_id"), int) else None
