"""Tries the receivers of alerts without sending one: the mail server is connected and logged in to."""

from collections.abc import Sequence

import anyio

from gateway.channels.adapter import Diagnosis
from gateway.config.alerts import AlertSettings
from gateway.receivers.email import Email, NotSent

WITHIN_S = 30.0
SUBJECT = "alerts by e-mail"


async def tried(settings: AlertSettings) -> Sequence[Diagnosis]:
    """Findings about each receiver, as far as that shows without an alert."""
    found = []
    if settings.email.is_on:
        found.append(await _email(settings))
    if settings.webhook.is_on:
        found.append(_webhook(settings))
    return found


async def _email(settings: AlertSettings) -> Diagnosis:
    email = Email(settings.email)
    fix = "see [alerts.email]; `tieline alerts test` sends one"
    try:
        with anyio.fail_after(WITHIN_S):
            said = await email.try_login()
    except NotSent as error:
        return Diagnosis(subject=SUBJECT, level="error", finding=f"{email.where}: {error}", fix=fix)
    except TimeoutError:
        finding = f"{email.where}: no answer within {WITHIN_S:.0f} s"
        return Diagnosis(subject=SUBJECT, level="error", finding=finding, fix=fix)
    return Diagnosis(subject=SUBJECT, level="ok", finding=f"{email.where}: {said}")


def _webhook(settings: AlertSettings) -> Diagnosis:
    webhook = settings.webhook
    finding = f"to {webhook.host} as {webhook.format}, not tried: `tieline alerts test` sends one"
    if webhook.address.startswith("https://") or not (webhook.token or webhook.format in ("slack", "discord")):
        return Diagnosis(subject="alerts by webhook", level="ok", finding=finding)
    return Diagnosis(
        subject="alerts by webhook",
        level="warning",
        finding=f"{webhook.host} is called without TLS, so its secrets can be read on the way",
        fix="use https:// in [alerts.webhook] url",
    )
