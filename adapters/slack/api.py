"""Calls to Slack's Web API: paced, with a deadline, never repeated, every failure one of the gateway's errors."""

import logging
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import aiohttp
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from adapters.slack.limits import Buckets
from adapters.slack.refusals import cut, refusal
from adapters.slack.settings import SlackSettings
from agent.core.bodies import BodyTooLarge, whole_body
from gateway.channels.adapter import AdapterContext
from gateway.channels.errors import ChannelBusy, ChannelRejected

PATIENCE_S = 3.0  # waits for a free place in a bucket up to this long, rather than send delivery away for a blink
REFUSED_PAUSE_S = 2.0
LARGEST_ANSWER = 16 * 1024 * 1024  # bytes; a page of a history has less than one megabyte

_READS = frozenset({"conversations.history", "conversations.replies", "conversations.info", "users.info", "files.info"})
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
        try:
            self._body = await whole_body(self.content.iter_any(), LARGEST_ANSWER)
        except BaseException as error:
            self.close()
            if isinstance(error, BodyTooLarge):
                raise aiohttp.ClientPayloadError(str(error)) from None
            raise
        return self._body


class SlackApi:
    """One account's way out. The HTTP session is opened at the first call, in the loop that makes it."""

    def __init__(self, settings: SlackSettings, adapter_context: AdapterContext) -> None:
        self._settings = settings
        self._clock = adapter_context.clock
        self._proxy = settings.proxy or adapter_context.proxy
        self._buckets = Buckets()
        self._session: aiohttp.ClientSession | None = None
        self._client: AsyncWebClient | None = None
        _library_log.setLevel(logging.INFO)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    @property
    def session(self) -> aiohttp.ClientSession:
        """For what is no API method: files, response addresses, the socket."""
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
                return await self._web().api_call(method, http_verb="GET", params=fields)
            if method in _JSON:
                return await self._web().api_call(method, json=fields)
            return await self._web().api_call(method, params=fields)
        except SlackApiError as error:
            raise self._refused(method, channel, error, repeatable=repeatable) from None
        except aiohttp.ClientConnectorError as error:  # also a name that does not resolve, a certificate that is wrong
            raise ChannelBusy(f"cannot reach Slack for {method}: {error}", after_s=REFUSED_PAUSE_S) from None
        except aiohttp.ConnectionTimeoutError:
            raise ChannelBusy(f"cannot reach Slack for {method} in time", after_s=REFUSED_PAUSE_S) from None
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            says = f"no answer from Slack to {method}: {type(error).__name__}"
            raise cut(method, says, repeatable=repeatable) from None
        except (SlackClientError, AttributeError, ValueError) as error:
            # The library trips over an answer that is no JSON object, such as a captive portal's page.
            says = f"no Slack at the other end of {method}: {type(error).__name__}"
            raise cut(method, says, repeatable=repeatable) from None

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None
            self._client = None

    async def _take_turn(self, method: str, channel: str, *, frame: bool, patient: bool) -> None:
        waited = 0.0
        while (wait := self._buckets.ask(method, channel, self._clock.monotonic(), frame=frame)) > 0:
            if not patient or waited + wait > PATIENCE_S:
                raise ChannelBusy(f"the rate limit of {method} is used up", after_s=wait)
            await self._clock.sleep(wait)
            waited += wait

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

    def _refused(self, method: str, channel: str, error: SlackApiError, *, repeatable: bool) -> Exception:
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
            self._buckets.shut(method, channel, self._clock.monotonic(), known.after_s)
        return known


def _seconds(header: str | None) -> float | None:
    try:
        return float(header) if header else None
    except ValueError:
        return None


def _detail(found: Mapping[str, Any]) -> str:
    """Slack's own explanation; it names fields and scopes, never values or tokens."""
    if found.get("needed"):
        return f"needed: {found['needed']}"
    messages = (found.get("response_metadata") or {}).get("messages") or ()
    return "; ".join(str(message) for message in messages)[:300]
