"""What Slack's refusals mean for delivery. Pure."""

from gateway.channels.errors import (
    ChannelBusy,
    ChannelError,
    ChannelFatal,
    ChannelGone,
    ChannelRejected,
    ChannelUnsure,
)

_LOGIN = frozenset(
    {
        "invalid_auth",
        "not_authed",
        "token_revoked",
        "token_expired",
        "not_allowed_token_type",
        "invalid_token",
        "org_login_required",
        "team_access_not_granted",
        "app_uninstalled",
    }
)
# `account_inactive` also answers for a person whose account was closed: that ends one conversation, not the bot.
# `auth.test` tells the cases apart: there it means the login.
_CLOSED = frozenset(
    {
        "channel_not_found",
        "is_archived",
        "not_in_channel",
        "channel_is_archived",
        "user_not_found",
        "user_disabled",
        "user_not_in_channel",
        "messages_tab_disabled",
        "cannot_dm_bot",
        "cannot_dm_user",
        "thread_not_found",
        "account_inactive",
        "user_is_deactivated",
    }
)
# Of `chat.postEphemeral` they tell of the one it is for, who has left or is no more; the place is as open as before.
_PERSONS = frozenset({"user_not_found", "user_disabled", "user_not_in_channel", "user_is_deactivated"})
_BLOCKS = frozenset(
    {
        "invalid_blocks",
        "invalid_blocks_format",
        "invalid_block_type",
        "blocks_not_allowed",
        "unsupported_block",
    }
)
_MISSING = frozenset(
    {
        "message_not_found",
        "file_not_found",
        "file_deleted",
    }
)
_DONE = frozenset({"already_reacted", "no_reaction"})
_OUTAGE = frozenset(
    {
        "internal_error",
        "fatal_error",
        "service_unavailable",
        "request_timeout",
    }
)
_BUSY = frozenset(
    {
        "ratelimited",
        "rate_limited",
        "message_limit_exceeded",
        "team_added_to_org",
    }
)
_LOGIN_METHODS = frozenset({"auth.test", "apps.connections.open"})
OUTAGE_PAUSE_S = 2.0


class BlocksRefused(ChannelRejected):
    """The rendering was refused, not the message: it may be sent plain. Stays inside this adapter."""


class AlreadyDone(ChannelRejected):
    """Things stand as the call wanted them. Stays inside this adapter."""


class MessageGone(ChannelRejected):
    """What the call names is not there (any more)."""


def refusal(
    method: str, code: str, *, status: int = 200, retry_after: float | None = None, detail: str = "", repeatable: bool
) -> ChannelError:
    """The error for an answer that is not ok.

    `repeatable` calls do no harm when done twice (edits, reads), so their outcome is never "unsure".
    """
    says = f"Slack refused {method}: {code or f'HTTP {status}'}{f' ({detail})' if detail else ''}"
    if status == 429 or code in _BUSY:
        return ChannelBusy(says, after_s=min(max(retry_after or 1.0, 0.1), 3599.0))
    if status >= 500 or code in _OUTAGE or (not code and status == 200):
        return cut(method, says, repeatable=repeatable)
    if code in _LOGIN or (code == "account_inactive" and method in _LOGIN_METHODS):
        return ChannelFatal(f"{says}. Install the app again or copy its token anew (api.slack.com/apps)")
    if code == "missing_scope":
        return ChannelRejected(f"{says}. Add the scope (`tieline slack-manifest` lists all) and reinstall the app")
    if code in _BLOCKS:
        return BlocksRefused(says)
    if code in _DONE:
        return AlreadyDone(says)
    if code in _MISSING:
        return MessageGone(says)
    if code in _PERSONS and method == "chat.postEphemeral":
        return ChannelRejected(says)
    if code in _CLOSED:
        return ChannelGone(says)
    return ChannelRejected(says)


def cut(method: str, says: str = "", *, repeatable: bool) -> ChannelError:
    """The error for a call whose answer never came."""
    says = says or f"the connection was cut during {method}"
    return ChannelBusy(says, after_s=OUTAGE_PAUSE_S) if repeatable else ChannelUnsure(says)
