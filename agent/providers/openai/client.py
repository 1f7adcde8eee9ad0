"""Every endpoint that speaks Chat Completions, by a thin streaming client of our own over aiohttp.

A library's client takes 3 to 20 ms a call and hundreds at 2,000 messages; this one joins bytes it already has.
"""

import copy
import io
import json
import logging
from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from typing import Self

import aiohttp
import anyio

from agent.core.bounded_body import beginning_of
from agent.core.errors import AgentError, ProviderBusy, ProviderRefused
from agent.providers.encoding import IMAGES, TEXTS, Bytes, load, wanted
from agent.providers.endpoints import host_of, is_local, joined
from agent.providers.failures import (
    Answer,
    busy,
    classify,
    read_error,
    refused,
    request_id,
    retry_after,
    without_markup,
)
from agent.providers.models import DEFAULT_WINDOW, Card
from agent.providers.openai.requests import Dialect, Encoder, conceded, dialect_for, differing, speaking
from agent.providers.openai.stream import Body, Reading
from agent.providers.provider import Chunk, Request, Spared
from agent.providers.registry import ProviderDeps
from agent.providers.replies import joined_text
from agent.providers.settings import ProviderSettings

OPENAI = "https://api.openai.com/v1"
CONNECT_S = 15.0
DRAIN_S = 0.2  # a server that keeps the body open after [DONE] costs its connection, not our time
LARGEST_ERROR = 64 * 1024  # bytes of an error body that are read
LARGEST_FILE = 15 * 1024 * 1024  # bytes of one attachment
LARGE_BODY = 1024 * 1024  # bytes; above it the body is written in pieces, so that the event loop stays free
CONCESSIONS = 6  # features an endpoint may refuse one after another within one call

log = logging.getLogger("tieline.providers")


class OpenAIProvider:
    """One model behind one endpoint. Safe for many calls at once; they share connections."""

    family = "openai"
    output_ceiling: int | None = None  # the server limits what it is not told to

    def __init__(self, settings: ProviderSettings, card: Card, deps: ProviderDeps) -> None:
        self.name = settings.name
        self._home = deps.home
        self._files = deps.files
        self._models = deps.models
        self._connections = _Connections(settings)
        self._encoder = Encoder(self.family)
        self._become(settings, card)

    def for_model(self, settings: ProviderSettings, card: Card) -> Self:
        """The same endpoint with another model, on the same connections."""
        other = copy.copy(self)
        other._become(settings, card)
        return other

    def _become(self, settings: ProviderSettings, card: Card) -> None:
        self._settings, self._secrets = settings, settings.secrets
        self.model = settings.model
        self._origin = f"{self.name}/{self.model}"
        self.context_window = settings.context_window or card.window or DEFAULT_WINDOW
        self.prices = settings.prices or card.prices
        self.max_tokens = settings.max_tokens
        # Of an unknown model the best is hoped; an endpoint that cannot see says so once (Dialect.media).
        images = () if card.sees is False else IMAGES
        self.takes = frozenset(settings.takes if settings.takes is not None else (*images, *card.documents, *TEXTS))
        self._known = self._models.of(settings)
        self._guess = dialect_for(settings.model, settings.base_url)
        self._dialect = speaking(self._guess, self._known.facts.dialect)
        self._closes: bool | None = None  # its streams, as far as that is known
        self._left_open = 0

    @property
    def is_warm(self) -> bool:
        return self._connections.are_open

    async def warm_up(self) -> None:
        self._connections.open()

    async def aclose(self) -> None:
        await self._connections.aclose()

    async def stream(self, request: Request, key: str = "") -> AsyncGenerator[Chunk, None]:
        had_tools = self._dialect.tools
        response = await self._respond(request, key)
        if had_tools and not self._dialect.tools and request.tools.specs:
            yield Spared("tools")
        dialect = self._dialect
        reading = Reading(self.name, self._secrets, origin=self._origin, thinks_first=dialect.thinks_first)
        body = Body()
        try:
            while not reading.closed:
                piece = await response.content.readany()
                for chunk in joined_text(reading.events(body.feed(piece))):
                    yield chunk
                if not piece:
                    break
            self._check_end(reading, body)
            for chunk in reading.end():
                yield chunk
            if reading.thought_unopened:
                self._learn(replace(self._dialect, thinks_first=True))
            await _drain(response)
        except (AgentError, ValueError, TimeoutError, aiohttp.ClientError, OSError) as error:
            if reading.usage is not None and not reading.complete:
                yield reading.usage
            raise self._failure(error, unanswered=not body.has_begun) from None
        finally:
            response.close()

    def _learn(self, dialect: Dialect) -> None:
        """Its server does not understand all that was hoped; kept for later starts."""
        self._dialect = dialect
        self._known.speaks(differing(dialect, self._guess))

    def _check_end(self, reading: Reading, body: Body) -> None:
        """Raises ProviderBusy for a stream that was cut (W-42).

        Some servers close none of theirs. That is believed of one that has closed none yet, at the second that ends so.
        """
        if reading.complete:
            self._closes = self._closes or not body.is_plain
        elif not body.is_plain:
            self._left_open += 1
            if self._closes or self._left_open < 2 or not reading.has_content:
                raise busy(self.name, "the stream was cut before its end", unanswered=not body.has_begun)

    async def _respond(self, request: Request, key: str) -> aiohttp.ClientResponse:
        """The response whose body is the stream, after conceding what the endpoint does not understand."""
        dialect = self._dialect
        files = await load(self._home, wanted(request.messages, self.takes), LARGEST_FILE, self._files)
        for _ in range(CONCESSIONS):
            response = await self._post(self._body(request, dialect, files), key)
            if response.status == 200:
                return self._streaming(response)
            answer = await self._answer(response)
            error = classify(self.name, answer, self._secrets)
            corrected = conceded(dialect, answer.message, self._used(request, dialect, files, error))
            if corrected is None:
                raise error
            log.info("%s does not understand a feature and is spared it: %s", self.name, error)
            dialect = corrected
            self._learn(dialect)
        raise error

    def _body(self, request: Request, dialect: Dialect, files: Bytes) -> bytes:
        settings = self._settings
        if not dialect.media:
            files = {part: data for part, data in files.items() if part.mime_type in TEXTS}
        return self._encoder.body(
            request,
            model=self.model,
            dialect=dialect,
            max_tokens=settings.max_tokens,
            temperature=settings.temperature,
            effort=settings.reasoning_effort,
            files=files,
            origin=self._origin,
        )

    def _used(self, request: Request, dialect: Dialect, files: Bytes, error: AgentError) -> frozenset[str]:
        """Possible complaints of such a refusal."""
        used = {"repeats", "system", "null_content"} | ({"tools"} if request.tools.specs else set())
        if dialect.media and any(part.mime_type not in TEXTS for part in files):
            used.add("media")
        if not isinstance(error, ProviderRefused):  # llama.cpp answers 500 where a template refuses the messages
            return frozenset(used if isinstance(error, ProviderBusy) and not error.limited else ())
        used |= {"usage", "completion_limit", "long_ids"}
        if self._settings.temperature is not None:
            used.add("temperature")
        if self._settings.reasoning_effort or request.reasoning:
            used.add("effort")
        if request.reasoning == "off":
            used.add("effort_none")
        return frozenset(used)

    async def _post(self, body: bytes, key: str) -> aiohttp.ClientResponse:
        data: bytes | io.BytesIO = body if len(body) < LARGE_BODY else io.BytesIO(body)
        try:
            return await self._connections.post(data, key)
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
            raise self._failure(error, unanswered=True) from None

    def _streaming(self, response: aiohttp.ClientResponse) -> aiohttp.ClientResponse:
        if response.content_type == "text/html":
            response.close()
            raise refused(self.name, f"{host_of(self._connections.url)} answered with a web page; check base_url")
        return response

    async def _answer(self, response: aiohttp.ClientResponse) -> Answer:
        """The error in a response that is no stream."""
        pieces = b""
        try:
            pieces = await beginning_of(response.content.iter_any(), LARGEST_ERROR)
        except (TimeoutError, aiohttp.ClientError, OSError):
            pass  # the status alone says enough
        finally:
            response.close()
        after_s, request = retry_after(response.headers), request_id(response.headers)
        try:
            return read_error(json.loads(pieces), response.status, after_s, request)
        except ValueError:
            message = without_markup(pieces[:4000].decode("utf-8", "replace"))
            return Answer(status=response.status, message=message, after_s=after_s, request=request)

    def _failure(self, error: Exception, *, unanswered: bool) -> AgentError:
        """The error for the caller. `unanswered`: no byte of an answer has come."""
        host = host_of(self._connections.url)
        secrets = self._secrets
        match error:
            case AgentError():
                return error
            case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientConnectorSSLError():
                return refused(self.name, f"the TLS certificate of {host} was not accepted", secrets)
            case aiohttp.InvalidURL():
                return refused(self.name, "base_url is no valid address", secrets)
            case aiohttp.ConnectionTimeoutError() | aiohttp.ClientConnectorError():
                return busy(self.name, f"{host} cannot be reached", secrets, sent=False)
            case TimeoutError():
                return busy(self.name, f"no answer from {host} in time", secrets)
            case aiohttp.ClientError() | OSError():
                what = f"the connection to {host} was cut ({type(error).__name__})"
                return busy(self.name, what, secrets, unanswered=unanswered)
            case _:
                return busy(self.name, f"malformed data from {host}", secrets)


class _Connections:
    """The pool of one endpoint, made when first needed: aiohttp wants a running event loop."""

    def __init__(self, settings: ProviderSettings) -> None:
        self.url = joined(settings.base_url or OPENAI, "chat/completions")
        self._settings = settings
        self._session: aiohttp.ClientSession | None = None

    @property
    def are_open(self) -> bool:
        return self._session is not None and not self._session.closed

    def open(self) -> aiohttp.ClientSession:
        if self._session is None or self._session.closed:
            settings = self._settings
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),  # how many turns run at once is decided elsewhere
                timeout=aiohttp.ClientTimeout(
                    total=settings.stream_timeout_s, sock_connect=CONNECT_S, sock_read=settings.timeout_s
                ),
                headers=_headers(settings),
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=not is_local(self.url),
            )
        return self._session

    async def post(self, data: bytes | io.BytesIO, key: str) -> aiohttp.ClientResponse:
        proxy = self._settings.proxy.get_secret_value() or None
        # A header of the operator's own goes before any key.
        own = any(name.lower() == "authorization" for name in self._settings.extra_headers)
        headers = {"Authorization": f"Bearer {key}"} if key and not own else None
        return await self.open().post(self.url, data=data, headers=headers, proxy=proxy, allow_redirects=False)

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()


def _headers(settings: ProviderSettings) -> Mapping[str, str]:
    headers = {"Content-Type": "application/json", "Accept": "text/event-stream", "User-Agent": "tieline"}
    if settings.keys:
        headers["Authorization"] = f"Bearer {settings.keys[0].get_secret_value()}"
    return headers | {name: value.get_secret_value() for name, value in settings.extra_headers.items()}


async def _drain(response: aiohttp.ClientResponse) -> None:
    """Read to the end of the body, so that the connection can be used again."""
    if response.content.at_eof():
        return
    with anyio.move_on_after(DRAIN_S):
        try:
            while await response.content.readany():
                pass
        except (TimeoutError, aiohttp.ClientError, OSError):
            pass  # the answer is complete; only the connection is lost
