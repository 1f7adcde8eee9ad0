"""Questions of `tieline doctor` to Telegram about this bot."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from adapters.telegram.request import Api, InvalidToken, TelegramError, Unknown
from adapters.telegram.settings import TelegramSettings
from adapters.telegram.webhook import complaint_in
from agent.core.clock import Clock
from gateway.channels.adapter import Diagnosis, Withheld

CLOCK_TOLERANCE_S = 5.0


async def diagnose(
    api: Api, settings: TelegramSettings, clock: Clock, webhook_url: str | None
) -> tuple[Diagnosis, ...]:
    subject = settings.channel_type
    try:
        me = await api.call("getMe")
        server_time = api.sending.server_time
        info = await api.call("getWebhookInfo")
    except (InvalidToken, Unknown):
        fix = "take a fresh token from @BotFather (/token) and put it into the configuration"
        return (Diagnosis(subject=subject, level="error", finding="Telegram refuses the bot token", fix=fix),)
    except TelegramError as error:
        fix = f"check that {settings.api_base_url} can be reached from here, and the proxy if one is set"
        return (Diagnosis(subject=subject, level="error", finding=error.message, fix=fix),)
    found = [Diagnosis(subject=subject, level="ok", finding=f"signed in as @{me.get('username')}")]
    if withheld := withheld_by(me):
        found += [one.diagnosis(subject) for one in withheld]
    else:
        found.append(Diagnosis(subject=subject, level="ok", finding="reads every message of its groups"))
    if not me.get("can_join_groups", True):
        fix = "@BotFather /setjoingroups, Enable"
        found.append(Diagnosis(subject=subject, level="warning", finding="it cannot be added to groups", fix=fix))
    found.append(_webhook(subject, settings, info, webhook_url, clock.now()))
    if server_time is not None:
        found.append(_clock(subject, server_time, clock.now()))
    return tuple(found)


def withheld_by(me: Mapping[str, Any]) -> tuple[Withheld, ...]:
    """Messages that Telegram keeps from the bot, by getMe (core.telegram.org/bots/features, "Privacy Mode")."""
    if me.get("can_read_all_group_messages"):
        return ()
    finding = "privacy mode is on: in groups where it is no administrator it sees only commands, mentions and replies"
    fix = "@BotFather /setprivacy, Disable, then bring it into the group anew; or make it an administrator there"
    return (Withheld(affects=("unaddressed messages",), finding=finding, fix=fix),)


def _webhook(
    subject: str, settings: TelegramSettings, info: dict[str, object], webhook_url: str | None, now: datetime
) -> Diagnosis:
    url = info.get("url")
    if settings.mode == "polling":
        if url:
            finding = f"a webhook is set ({url}), so polling is refused"
            return Diagnosis(
                subject=subject, level="warning", finding=finding, fix="`tieline run` removes it when it starts"
            )
        return Diagnosis(subject=subject, level="ok", finding="no webhook in the way of polling")
    if webhook_url is None:
        fix = "set webhook_url in this section, or public_url in [web]"
        return Diagnosis(subject=subject, level="error", finding="webhook mode without an address", fix=fix)
    if not webhook_url.startswith("https://") and settings.api_base_url.endswith("api.telegram.org"):
        fix = "put a TLS proxy in front and set its https address"
        return Diagnosis(subject=subject, level="error", finding="Telegram calls https addresses only", fix=fix)
    if complaint := complaint_in(dict(info), now):
        fix = f"check that {webhook_url} reaches this gateway from outside"
        return Diagnosis(subject=subject, level="error", finding=complaint, fix=fix)
    if url != webhook_url:
        finding = f"the webhook is {url or 'not set'}, not {webhook_url}"
        return Diagnosis(subject=subject, level="warning", finding=finding, fix="`tieline run` sets it when it starts")
    return Diagnosis(subject=subject, level="ok", finding=f"webhook set, {info.get('pending_update_count', 0)} waiting")


def _clock(subject: str, theirs: datetime, ours: datetime) -> Diagnosis:
    apart_s = abs((ours - theirs).total_seconds())
    if apart_s <= CLOCK_TOLERANCE_S:
        return Diagnosis(subject=subject, level="ok", finding="the clock agrees with Telegram's")
    finding = f"this machine's clock is {apart_s:.0f} s away from Telegram's"
    return Diagnosis(subject=subject, level="warning", finding=finding, fix="switch on time synchronisation (NTP)")
