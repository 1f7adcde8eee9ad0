"""The bot account as Slack's events name it, its addresses and its health. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from gateway.channels.keys import ConversationKey, parts_of, place_id

# Address of a Slack conversation: `<team>:<channel>[:<thread_ts>]`. Pure.

_TS = re.compile(r"\d{1,12}\.\d{1,6}")


@dataclass(frozen=True, slots=True)
class Address:
    """A direct message, a channel, or a thread in either."""

    team: str
    channel: str
    thread_ts: str | None = None

    def __str__(self) -> str:
        return self.place if self.thread_ts is None else place_id(self.team, self.channel, self.thread_ts)

    @property
    def place(self) -> str:
        """The place that grants name: the channel, whatever the thread."""
        return place_id(self.team, self.channel)

    @property
    def around(self) -> str | None:
        """The workspace that the channel is in; None for the workspace itself."""
        return self.team if self.channel else None

    @property
    def is_direct(self) -> bool:
        return self.channel.startswith("D")

    @classmethod
    def parse(cls, channel_id: str) -> "Address":
        """Raises ValueError for what is no `<team>:<channel>[:<thread_ts>]`."""
        team, channel, thread_ts, *more = (*parts_of(channel_id), "", "")
        if not team or not channel or any(more) or (thread_ts and not is_ts(thread_ts)):
            raise ValueError(f"not a Slack conversation: {channel_id!r}; expected <team>:<channel>[:<thread_ts>]")
        return cls(team, channel, thread_ts or None)


def address_of(team: str, channel: str, ts: str, thread_ts: str | None, *, direct: bool) -> Address:
    """The conversation a message belongs to.

    In a channel each message outside a thread opens a conversation of its own, answered in the thread below it; a
    direct message outside a thread belongs to the direct conversation.
    """
    if direct:
        return Address(team, channel, None if thread_ts == ts else thread_ts)
    return Address(team, channel, thread_ts or ts)


def is_ts(text: str) -> bool:
    """Whether it has the form of a Slack timestamp, which is also a message's id."""
    return _TS.fullmatch(text) is not None


def moment(ts: str) -> datetime:
    """The time in a timestamp, UTC."""
    return datetime.fromtimestamp(float(ts), UTC)


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

    `auth.test` may fail while events already arrive; own words must be recognised then, too.
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
