"""Findings of `tieline doctor` about a Slack account: tokens, scopes, the way in, the clock."""

from collections.abc import Collection, Iterable, Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime

from adapters.slack.api import SlackApi, header
from adapters.slack.manifest import SCOPES
from adapters.slack.settings import SlackSettings
from gateway.channels.adapter import AdapterContext, Diagnosis, Withheld
from gateway.channels.errors import ChannelError, ChannelFatal

REPLAY_WINDOW_S = 300  # older requests are refused by the signature check of slack-bolt
_SKEW_S = 60
_APPS = "api.slack.com/apps"
_REINSTALL = f"paste `tieline slack-manifest` at {_APPS} → App Manifest, then reinstall the app"
_HEARING = ("channels:history", "groups:history", "mpim:history")  # the events of messages, and their history
_PEOPLE = ("usergroups:read", "users:read")


async def diagnose(api: SlackApi, settings: SlackSettings, adapter_context: AdapterContext) -> tuple[Diagnosis, ...]:
    """Ask Slack with both tokens; never raises for what Slack answers."""
    name = settings.channel_type
    try:
        answer = await api.call("auth.test")
    except ChannelFatal as error:
        fix = f"copy the Bot User OAuth Token anew from {_APPS} → OAuth & Permissions"
        return (Diagnosis(subject=f"{name} bot token", level="error", finding=str(error), fix=fix),)
    except ChannelError as error:
        fix = "check the network, the proxy and api_base_url"
        return (Diagnosis(subject=f"{name} connection", level="error", finding=str(error), fix=fix),)
    found = [
        Diagnosis(
            subject=f"{name} bot token",
            level="ok",
            finding=f"signed in as {answer.get('user')} in {answer.get('team')} ({answer.get('team_id')})",
        ),
        *_scopes(name, api.granted, settings),
        *_clock(name, answer.headers, adapter_context),
    ]
    found.append(await _way_in(api, settings, adapter_context))
    return tuple(found)


def withheld_by(granted: frozenset[str] | None, settings: SlackSettings) -> Iterable[Withheld]:
    """Things that Slack keeps from the app for want of a scope, as far as it told which are granted."""
    if granted is not None and (missing := _of(_HEARING, granted)):
        finding = f"without {missing} it hears only mentions there, and reads nothing of before a pause"
        yield Withheld(affects=("unaddressed messages", "history"), finding=finding, fix=_REINSTALL)
    if granted is not None and (missing := _of(_PEOPLE, granted)):
        finding = f"without {missing} it is not told who has which role (user groups, admins of the workspace)"
        yield Withheld(affects=("platform roles",), finding=finding, fix=_REINSTALL)
    if not settings.look_up_people:
        finding = "look_up_people is off: nobody counts as an admin of the workspace"
        yield Withheld(affects=("platform roles",), finding=finding, fix="set look_up_people = true")


def _scopes(name: str, granted: frozenset[str] | None, settings: SlackSettings) -> Iterable[Diagnosis]:
    """The scopes that it needs in any case, and what is withheld."""
    subject = f"{name} scopes"
    if granted is not None and (missing := _of(set(SCOPES) - {*_HEARING, *_PEOPLE}, granted)):
        yield Diagnosis(subject=subject, level="warning", finding=f"missing: {missing}", fix=_REINSTALL)
    elif granted is not None and not _of(SCOPES, granted):
        yield Diagnosis(subject=subject, level="ok", finding="all there")
    for one in withheld_by(granted, settings):
        yield one.diagnosis(f"{name} {' and '.join(one.affects)}")


def _of(wanted: Collection[str], granted: frozenset[str]) -> str:
    """The wanted scopes that are not granted, as people read them."""
    return ", ".join(sorted(set(wanted) - granted))


def _clock(name: str, headers: Mapping[str, str], adapter_context: AdapterContext) -> Iterable[Diagnosis]:
    date = header(headers, "date")
    if date is None:
        return
    try:
        theirs = parsedate_to_datetime(date)
    except ValueError:
        return
    skew = abs((adapter_context.clock.now() - theirs.astimezone(UTC)).total_seconds())
    if skew <= _SKEW_S:
        yield Diagnosis(subject=f"{name} clock", level="ok", finding=f"within {skew:.0f} s of Slack's")
        return
    yield Diagnosis(
        subject=f"{name} clock",
        level="error" if skew > REPLAY_WINDOW_S else "warning",
        finding=f"{skew:.0f} s away from Slack's; signed requests are refused beyond {REPLAY_WINDOW_S} s",
        fix="switch on time synchronisation (NTP) on this machine",
    )


async def _way_in(api: SlackApi, settings: SlackSettings, adapter_context: AdapterContext) -> Diagnosis:
    name = settings.channel_type
    if settings.app_token is None:
        subject = f"{name} signed HTTP"
        if adapter_context.public_url is None:
            fix = "set [web] public_url to the address Slack can reach, or set app_token for Socket Mode"
            return Diagnosis(subject=subject, level="warning", finding="no public address is configured", fix=fix)
        address = f"{adapter_context.public_url.rstrip('/')}/channels/{name}/events"
        return Diagnosis(subject=subject, level="ok", finding=f"request URL for the app's settings: {address}")
    subject = f"{name} Socket Mode"
    try:
        await api.call("apps.connections.open", token=settings.app_token.get_secret_value())
    except ChannelError as error:
        fix = f"{_APPS} → Socket Mode: switch it on; Basic Information → App-Level Tokens: connections:write"
        return Diagnosis(subject=subject, level="error", finding=str(error), fix=fix)
    return Diagnosis(subject=subject, level="ok", finding="Slack gives a socket to this app token")
