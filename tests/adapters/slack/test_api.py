"""Meaning of Slack's refusals."""

import pytest

from adapters.slack.api import BlocksRefused, MessageGone, refusal
from gateway.channels.errors import (
    ChannelBusy,
    ChannelError,
    ChannelFatal,
    ChannelGone,
    ChannelRejected,
    ChannelUnsure,
)
from gateway.channels.kit.http import cut


@pytest.mark.requirement("Z-06", "Z-35", "Z-36")
@pytest.mark.parametrize(
    ("method", "code", "status", "kind"),
    [
        ("chat.postMessage", "ratelimited", 429, ChannelBusy),
        ("chat.postMessage", "rate_limited", 200, ChannelBusy),
        ("chat.postMessage", "internal_error", 500, ChannelUnsure),
        ("chat.postMessage", "fatal_error", 200, ChannelUnsure),
        ("chat.postMessage", "", 502, ChannelUnsure),
        ("chat.postMessage", "", 404, ChannelRejected),
        ("chat.postMessage", "channel_not_found", 200, ChannelGone),
        ("chat.postMessage", "is_archived", 200, ChannelGone),
        ("chat.postMessage", "not_in_channel", 200, ChannelGone),
        ("chat.postMessage", "account_inactive", 200, ChannelGone),
        ("chat.postMessage", "user_is_deactivated", 200, ChannelGone),
        ("chat.postEphemeral", "user_not_in_channel", 200, ChannelRejected),  # who has left; the place is open
        ("chat.postEphemeral", "user_not_found", 200, ChannelRejected),
        ("chat.postEphemeral", "not_in_channel", 200, ChannelGone),
        ("auth.test", "account_inactive", 200, ChannelFatal),
        ("auth.test", "invalid_auth", 200, ChannelFatal),
        ("chat.postMessage", "token_revoked", 200, ChannelFatal),
        ("apps.connections.open", "not_allowed_token_type", 200, ChannelFatal),
        ("chat.postMessage", "invalid_blocks", 200, BlocksRefused),
        ("chat.update", "message_not_found", 200, MessageGone),
        ("chat.postMessage", "msg_too_long", 200, ChannelRejected),
        ("chat.postMessage", "something_new", 200, ChannelRejected),
    ],
)
def test_codes(method: str, code: str, status: int, kind: type[ChannelError]) -> None:
    assert type(refusal(method, code, status=status, repeatable=False)) is kind


def test_what_may_be_done_twice_is_never_unsure() -> None:
    for error in (refusal("chat.update", "internal_error", status=500, repeatable=True), cut("x", creates=False)):
        assert isinstance(error, ChannelBusy)
        assert error.after_s > 0
    assert isinstance(cut("chat.postMessage", creates=True), ChannelUnsure)


@pytest.mark.parametrize(("header", "after_s"), [(30.0, 30.0), (None, 1.0), (99999.0, 3599.0), (0.0, 1.0)])
def test_the_time_to_wait(header: float | None, after_s: float) -> None:
    error = refusal("chat.postMessage", "ratelimited", status=429, retry_after=header, repeatable=False)
    assert isinstance(error, ChannelBusy)
    assert error.after_s == after_s


def test_a_missing_scope_says_how_to_mend_it() -> None:
    error = refusal("files.info", "missing_scope", detail="needed: files:read", repeatable=True)
    assert "files:read" in str(error)
    assert "slack-manifest" in str(error)
