"""Calls to Slack's Web API: paced, with a deadline, never repeated, every failure one of the gateway's errors."""

import logging
from collections.abc import Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

import aiohttp
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from adapters.slack.settings import SlackSettings
from agent.core.backoff import Backoff
from agent.core.bounded_body import BodyTooLarge, whole_body
from gateway.channels.adapter import AdapterContext
from gateway.channels.errors import ChannelBusy, ChannelError, ChannelFatal, ChannelGone, ChannelRejected
from gateway.channels.kit.http import cut, transport_error
from gateway.channels.kit.rate_limits import Rate, RateLimits

# Meaning of Slack's refusals for delivery. Pure.

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


class BlocksRefused(ChannelRejected):
    """The rendering was refused, not the message: it may be sent plain. Stays inside this adapter."""


class AlreadyDone(ChannelRejected):
    """Things stand as the call wanted them. Stays inside this adapter."""


class MessageGone(ChannelRejected):
    """The target of the call is not there (any more)."""


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
        return cut(says, creates=not repeatable)
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


# Slack's rate limits as policy: a bucket per channel for posts, one per method for the rest. Pure; never waits.

FRAME_RESERVE = 0.4  # share of a bucket that frames of a preview leave to final texts


def _rate(*, per_minute: float, burst: float) -> Rate:
    return Rate(per_s=per_minute / 60, burst=burst, reserve=burst * FRAME_RESERVE)


_TIER_2, _TIER_3, _TIER_4 = (_rate(per_minute=minute, burst=minute) for minute in (20.0, 50.0, 100.0))
RATES = {
    "chat.postMessage": _rate(per_minute=60.0, burst=4.0),
    "chat.postEphemeral": _TIER_4,
    "chat.update": _TIER_3,
    "chat.delete": _TIER_3,
    "chat.startStream": _TIER_2,
    "chat.appendStream": _TIER_4,
    "chat.stopStream": _TIER_2,
    "reactions.add": _TIER_3,
    "reactions.remove": _TIER_2,
    "assistant.threads.setStatus": _TIER_4,
    "conversations.history": _TIER_3,
    "conversations.replies": _TIER_3,
    "conversations.info": _TIER_3,
    "usergroups.list": _TIER_2,
    "users.info": _TIER_4,
    "files.info": _TIER_4,
    "files.getUploadURLExternal": _TIER_4,
    "files.completeUploadExternal": _TIER_4,
}
_FREE = Rate(per_s=1000.0, burst=1000.0)  # of no account until a 429 says otherwise


def limit_key(method: str, channel: str) -> tuple[str, str]:
    """The scope of a rate limit: a 429 shuts one channel for posts, one method for the rest."""
    return (method, channel if method == "chat.postMessage" else "")


def limits_of_account() -> RateLimits[tuple[str, str]]:
    """By `limit_key`."""
    return RateLimits(lambda key: RATES.get(key[0], _FREE))


PATIENCE_S = 3.0  # waits for a free place in a bucket up to this long, rather than send delivery away for a blink
RECONNECTING = Backoff(first_s=0.5, longest_s=30.0, jitter=0.5)
LARGEST_ANSWER = 16 * 1024 * 1024  # bytes; a page of a history has less than one megabyte

_READS = frozenset(
    {
        "conversations.history",
        "conversations.replies",
        "conversations.info",
        "usergroups.list",
        "users.info",
        "files.info",
    }
)
_JSON = frozenset(  # the others take forms only
    {
        "chat.postMessage",
        "chat.postEphemeral",
        "chat.update",
        "chat.startStream",
        "chat.appendStream",
        "chat.stopStream",
        "assistant.threads.setStatus",
    }
)

# The library writes whole requests and answers at DEBUG, and builds those lines unless its logger says INFO.
_library_log = logging.getLogger("tieline.slack.sdk")


class BoundedResponse(aiohttp.ClientResponse):
    """An answer of which the library, too, takes no more than `LARGEST_ANSWER` bytes."""

    async def read(self) -> bytes:
        if self._body is not None:
            return await super().read()
        with ExitStack() as undone:
            undone.callback(self.close)
            try:
                self._body = await whole_body(self.content.iter_any(), LARGEST_ANSWER)
            except BodyTooLarge as error:
                raise aiohttp.ClientPayloadError(str(error)) from None
            undone.pop_all()
        return self._body


class SlackApi:
    """One account's way out. The HTTP session is opened at the first call, in the loop that makes it."""

    def __init__(self, settings: SlackSettings, adapter_context: AdapterContext) -> None:
        self._settings = settings
        self._clock = adapter_context.clock
        self._proxy = settings.proxy or adapter_context.proxy
        self._limits = limits_of_account()
        rates = adapter_context.shared_rates
        self._shared = rates(settings.channel_type) if rates is not None else None
        self._session: aiohttp.ClientSession | None = None
        self._client: AsyncWebClient | None = None
        self.granted: frozenset[str] | None = None  # scopes of the bot token, by the newest answer; None: never told
        _library_log.setLevel(logging.INFO)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    @property
    def session(self) -> aiohttp.ClientSession:
        """The session for requests that are no API method: files, response addresses, the socket."""
        if self._session is None or self._session.closed:
            timeout = aiohttp.ClientTimeout(total=self._settings.request_timeout_s, sock_connect=10)
            self._session = aiohttp.ClientSession(timeout=timeout, response_class=BoundedResponse)
        return self._session

    @property
    def proxy(self) -> str | None:
        return self._proxy

    @property
    def bot_token(self) -> str:
        return self._settings.bot_token.get_secret_value()

    async def call(
        self,
        method: str,
        body: Mapping[str, Any] | None = None,
        *,
        repeatable: bool = True,
        frame: bool = False,
        patient: bool = True,
        token: str | None = None,
    ) -> AsyncSlackResponse:
        """Make one call. Raises ChannelBusy, ChannelUnsure (not for `repeatable`), ChannelRejected, ChannelFatal.

        A `frame` of a preview leaves room in the rate limit for final texts. A call that is not `patient` is refused
        rather than made to wait for a free place.
        """
        fields = {name: value for name, value in (body or {}).items() if value is not None}
        channel = str(fields.get("channel") or fields.get("channel_id") or "")
        await self._take_turn(method, channel, frame=frame, patient=patient)
        if token is not None:
            fields["token"] = token
        try:
            if method in _READS:
                answer = await self._web().api_call(method, http_verb="GET", params=fields)
            elif method in _JSON:
                answer = await self._web().api_call(method, json=fields)
            else:
                answer = await self._web().api_call(method, params=fields)
        except SlackApiError as error:
            raise await self._refused(method, channel, error, repeatable=repeatable) from None
        except (aiohttp.ClientError, OSError) as error:  # a deadline is one of them
            raise transport_error(error, "Slack", method, creates=not repeatable) from None
        except (SlackClientError, AttributeError, ValueError) as error:
            # The library trips over an answer that is no JSON object, such as a captive portal's page.
            says = f"no Slack at the other end of {method}: {type(error).__name__}"
            raise cut(says, creates=not repeatable) from None
        if token is None and (told := header(answer.headers, "x-oauth-scopes")) is not None:
            self.granted = frozenset(scope.strip() for scope in told.split(","))
        return answer

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None
            self._client = None

    async def _take_turn(self, method: str, channel: str, *, frame: bool, patient: bool) -> None:
        waited, key = 0.0, limit_key(method, channel)
        for ask in (self._ask_here, self._ask_others):
            while (wait := await ask(key, frame=frame)) > 0:
                if not patient or waited + wait > PATIENCE_S:
                    raise ChannelBusy(f"the rate limit of {method} is used up", after_s=wait)
                await self._clock.sleep(wait)
                waited += wait

    async def _ask_here(self, key: tuple[str, str], *, frame: bool) -> float:
        return self._limits.ask(key, self._clock.monotonic(), frame=frame)

    async def _ask_others(self, key: tuple[str, str], *, frame: bool) -> float:
        """Ask the processes that have other threads of the channel, or other channels."""
        if self._shared is None:
            return 0.0
        return await self._shared.ask(" ".join(key), RATES.get(key[0], _FREE), frame=frame)

    def _web(self) -> AsyncWebClient:
        session = self.session
        if self._client is None or self._client.session is not session:
            # Without retry handlers: the library's own repeat of a broken post would send it twice.
            self._client = AsyncWebClient(
                token=self.bot_token,
                base_url=self._settings.api_base_url,
                session=session,
                retry_handlers=[],
                logger=_library_log,
            )
            self._client.proxy = self._proxy  # the operator's, not what the environment happens to say
        return self._client

    async def _refused(self, method: str, channel: str, error: SlackApiError, *, repeatable: bool) -> Exception:
        response = error.response
        if not isinstance(response, AsyncSlackResponse):  # an answer that is no JSON
            status = int(getattr(response, "status", 0))
            says = f"Slack answered {method} with HTTP {status} and no JSON"
            if status and 400 <= status < 500 and status != 429:
                return ChannelRejected(says)
            return refusal(method, "", status=status or 502, detail="no JSON", repeatable=repeatable)
        found = response.data if isinstance(response.data, dict) else {}
        retry_after = _seconds(response.headers.get("Retry-After"))
        code = str(found.get("error") or "")
        known = refusal(
            method,
            code,
            status=response.status_code,
            retry_after=retry_after,
            detail=_detail(found),
            repeatable=repeatable,
        )
        if isinstance(known, ChannelBusy) and (response.status_code == 429 or retry_after):
            key = limit_key(method, channel)
            self._limits.close(key, self._clock.monotonic(), known.after_s)
            if self._shared is not None:
                await self._shared.close(" ".join(key), known.after_s)
        return known


def header(headers: Mapping[str, str], name: str) -> str | None:
    """The value of a header, whatever the case of its name; `name` is lower case."""
    return next((value for key, value in headers.items() if key.lower() == name), None)


def _seconds(told: str | None) -> float | None:
    try:
        return float(told) if told else None
    except ValueError:
        return None


def _detail(found: Mapping[str, Any]) -> str:
    """Slack's own explanation; it names fields and scopes, never values or tokens."""
    if found.get("needed"):
        return f"needed: {found['needed']}"
    messages = (found.get("response_metadata") or {}).get("messages") or ()
    return "; ".join(str(message) for message in messages)[:300]
