"""Requests to the address of `[alerts.webhook]`. Loads the HTTP library: imported by name at the first request.

The operator names the address, so it may be on this machine or in the local network; no redirect is followed.
"""

from datetime import datetime
from functools import partial

import anyio
import httpx2

from agent.core.httpx_limits import limited_to
from gateway.config.alerts import WebhookSettings
from gateway.config.sections import is_loopback
from gateway.receivers.email import NotSent
from gateway.receivers.message import SIGNATURE, AlertMessage, Taken, body_of, signature

WITHIN_S = 15.0  # for the whole request
LARGEST = 64 * 1024  # bytes of an answer, which nobody reads


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
        try:
            with anyio.fail_after(self._within_s):
                # In a thread: to read the certificates takes as long as tens of turns' steps.
                tls = await anyio.to_thread.run_sync(partial(httpx2.create_ssl_context, trust_env=False))
                async with (
                    httpx2.AsyncClient(
                        verify=tls,
                        trust_env=False,
                        proxy=self._proxy,
                        follow_redirects=False,
                        timeout=None,
                        event_hooks={"response": [limited_to(LARGEST)]},
                    ) as client,
                    client.stream("POST", settings.address, content=body, headers=headers) as answer,
                ):
                    status = answer.status_code
        except TimeoutError as error:
            raise NotSent(f"{host} did not answer within {self._within_s:g} s") from error
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
            # Its text may hold the address; the kind alone is told.
            raise NotSent(f"{host} cannot be reached: {type(error).__name__}") from error
        if not 200 <= status < 300:
            raise NotSent(f"{host} answered with status {status}")
        return Taken(text=f"{host} answered with status {status}")
