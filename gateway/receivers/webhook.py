"""Requests to the address of `[alerts.webhook]`. Loads the HTTP library: imported by name at the first request.

The operator names the address, so it may be on this machine or in the local network; no redirect is followed.
"""

from datetime import datetime

from gateway.config.alerts import WebhookSettings
from gateway.config.sections import is_loopback
from gateway.receivers.email import NotSent
from gateway.receivers.http_post import WITHIN_S, post, tls_of_clients
from gateway.receivers.message import SIGNATURE, AlertMessage, Taken, body_of, signature


class Webhook:
    """Posts to one address. `proxy` is the operator's; this machine is called without it."""

    def __init__(self, settings: WebhookSettings, *, proxy: str | None, within_s: float = WITHIN_S) -> None:
        self._settings = settings
        self._within_s = within_s
        self._proxy = None if is_loopback(settings.host) else proxy

    @property
    def where(self) -> str:
        """The receiver in words. The address holds a secret, so only its host is told."""
        return f"webhook at {self._settings.host}"

    async def send(self, message: AlertMessage, at: datetime) -> Taken:
        """Post it. Raises NotSent."""
        settings, host = self._settings, self._settings.host
        body, kind = body_of(message, settings.format)
        headers = {"user-agent": "Tieline", "x-tieline-id": message.id, **kind}
        if settings.secret is not None:
            headers[SIGNATURE] = signature(settings.secret.get_secret_value(), body, at)
        if settings.token is not None:
            headers["authorization"] = f"Bearer {settings.token.get_secret_value()}"
        tls = await tls_of_clients()
        answer = await post(settings.address, host, body, headers, tls=tls, proxy=self._proxy, within_s=self._within_s)
        if not 200 <= answer.status < 300:
            raise NotSent(f"{host} answered with status {answer.status}")
        return Taken(text=f"{host} answered with status {answer.status}")
