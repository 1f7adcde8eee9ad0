"""Which bot account this is, as Slack's events name it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from adapters.slack.address import Address
from gateway.channels.keys import ConversationKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Empty ids are not known (yet): `auth.test` gives them, and every event brings them along."""

    channel_type: str
    team: str = ""
    bot_user: str = ""
    bot_id: str = ""
    app_id: str = ""

    def key(self, address: Address) -> ConversationKey:
        return ConversationKey(self.channel_type, str(address))

    def wrote(self, message: Mapping[str, Any]) -> bool:
        """Whether a message is the bot's own."""
        return any(
            mine and mine == message.get(field)
            for mine, field in ((self.bot_user, "user"), (self.bot_id, "bot_id"), (self.app_id, "app_id"))
        )


def completed(account: Account, payload: Mapping[str, Any]) -> Account:
    """The account with what an event's envelope says about it, where that was unknown.

    `auth.test` may fail while events already arrive; own words must be recognised then, too (SPEC §1.3).
    """
    if account.team and account.bot_user and account.app_id:
        return account
    bot: Mapping[str, Any] = next((one for one in payload.get("authorizations") or () if one.get("is_bot")), {})
    return replace(
        account,
        team=account.team or bot.get("team_id") or payload.get("team_id") or "",
        bot_user=account.bot_user or bot.get("user_id") or "",
        app_id=account.app_id or payload.get("api_app_id") or "",
    )
