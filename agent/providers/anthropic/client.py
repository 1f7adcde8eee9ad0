"""Claude, through Anthropic's own SDK: its client, authentication and errors, our bytes in and our reader out.

The SDK's typed layer costs 9 ms for a reply of 30 tokens and grows with the history (36 ms at 2,000 messages); handing
it the finished body and reading the raw stream over its aiohttp transport costs 1.5 ms and does not grow.
"""

import copy
import logging
import re
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterator, Mapping
from typing import Any, Self

import aiohttp
import anthropic
import anyio
import httpx2

from agent.core.errors import AgentError, ProviderRefused
from agent.core.httpx_limits import limited_to
from agent.providers.anthropic.requests import Encoder, Thought, budget_for, longest
from agent.providers.anthropic.stream import Reading
from agent.providers.encoding import IMAGES, TEXTS, Bytes, load, wanted
from agent.providers.endpoints import host_of, is_local
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
from agent.providers.openai.requests import COMPLAINT
from agent.providers.openai.stream import EventReader
from agent.providers.provider import CacheTier, Chunk, Request
from agent.providers.registry import ProviderDeps
from agent.providers.replies import joined_text
from agent.providers.settings import ProviderSettings

PATH = "/v1/messages"
HEADERS = {"content-type": "application/json"}
OURS = frozenset(
    {"ttl", "repeats", "compaction", "thinking", "budgets", "effort"}
)  # what a request can do without, besides headers
BETA = "anthropic-beta"
KEY_HEADER = "X-Api-Key"  # as the SDK spells it, whose own value it takes the place of
COMPACTION_BETA = "compact-2026-09-04"  # platform.claude.com/docs, build-with-claude/compaction-on-demand
LARGEST_ANSWER = 16 * 1024 * 1024  # bytes of an error, or of one line of a stream
CONNECT_S = 15.0
DRAIN_S = 0.2
MOST_OUTPUT = 16_384  # tokens of one reply, unless the configuration says otherwise: the API wants a number
SMALL_OUTPUT = 8192  # the same for a model nothing is known of
LARGEST_FILE = 3_900_000  # bytes: an image may have 5 MB as base64

log = logging.getLogger("tieline.providers")


CONCESSIONS = 2  # in one call: a model may take neither budget nor effort
_NO_THINKING = re.compile(r"\bthinking\b[^\n]{0,80}\b(?:not|unsupported)\b|not support [^\n]{0,20}thinking")
_NO_EFFORT = re.compile(r"output_config|\beffort\b")


class AnthropicProvider:
    """One Claude model. Safe for many calls at once; they share connections."""

    family = "anthropic"
    is_warm = True

    def __init__(self, settings: ProviderSettings, card: Card, deps: ProviderDeps) -> None:
        self.name = settings.name
        self._home = deps.home
        self._files = deps.files
        self._models = deps.models
        self._clock = deps.clock
        self._encoder = Encoder(self.family, self.name)
        self._client = _client(settings)
        self._become(settings, card)

    def for_model(self, settings: ProviderSettings, card: Card) -> Self:
        """The same account with another model, on the same connections."""
        other = copy.copy(self)
        other._become(settings, card)
        return other

    def _become(self, settings: ProviderSettings, card: Card) -> None:
        self._settings = settings
        self._known = self._models.of(settings)
        # "ttl", "repeats", and names of headers
        self._spared: frozenset[str] = _kept(self._known.facts.dialect, settings.extra_headers)
        if "compaction" in self._spared:
            self._encoder.write_summaries_out()
        self.model = settings.model
        self.context_window = settings.context_window or card.window or DEFAULT_WINDOW
        self.prices = settings.prices or card.prices
        self.takes = frozenset(settings.takes if settings.takes is not None else (*IMAGES, "application/pdf", *TEXTS))
        self._most_output, self._adapts = card.max_output, card.adapts
        self._max_tokens = settings.max_tokens or min(card.max_output or SMALL_OUTPUT, MOST_OUTPUT)
        self.max_tokens = longest(self._max_tokens, settings.thinking)
        roomier = settings.max_tokens is None and (card.max_output or 0) > self._max_tokens
        self.output_ceiling = card.max_output if roomier else None

    async def warm_up(self) -> None:
        """Nothing is left to do: opening has imported the SDK and built the client."""

    async def aclose(self) -> None:
        await self._client.close()

    async def stream(self, request: Request, key: str = "") -> AsyncGenerator[Chunk, None]:
        deadline = self._clock.monotonic() + self._settings.stream_timeout_s
        files = await load(self._home, wanted(request.messages, self.takes), LARGEST_FILE, self._files)
        response = await self._respond(request, files, deadline, key)
        reading = Reading(self.name, self._settings.secrets)
        events = EventReader()
        pieces = response.aiter_raw()
        begun = False
        try:
            while not reading.closed:
                with anyio.fail_after(max(0.0, deadline - self._clock.monotonic())):
                    piece = await anext(pieces, b"")
                begun = begun or bool(piece)
                complete = events.feed(piece) if piece else events.finish()
                for chunk in joined_text(chunk for data in complete for chunk in reading.event(data)):
                    yield chunk
                if not piece:
                    break
            if not reading.complete:
                raise busy(self.name, "the stream was cut before its end", unanswered=not begun)
            for chunk in reading.end():
                yield chunk
            await _drain(pieces)
        except (AgentError, ValueError, TimeoutError, httpx2.HTTPError, aiohttp.ClientError, OSError) as error:
            if not reading.complete and (usage := reading.usage) is not None:
                yield usage
            raise self._failure(error, unanswered=not begun) from None
        finally:
            with anyio.CancelScope(shield=True):
                await response.aclose()

    async def _respond(self, request: Request, files: Bytes, deadline: float, key: str) -> httpx2.Response:
        """The response whose body is the stream; asked again, twice at most, without what the server does not know."""
        if request.compact and "compaction" in self._spared:
            raise refused(self.name, "this service writes no summaries")
        for _ in range(CONCESSIONS):
            thought, effort = self._thinking(request)
            try:
                return await self._post(request, files, deadline, key)
            except ProviderRefused as error:
                spared = _complaint(str(error), self._settings.extra_headers)
                if request.reasoning is not None:
                    spared |= _thinking_complaint(str(error), thought, effort)
                spared -= self._spared
                if error.any_request or not spared:
                    raise
                log.info("%s does not know a feature and is spared it: %s", self.name, error)
                self._spared |= spared
                self._known.speaks({"spared": sorted(self._spared)})
                if "compaction" in spared:
                    self._encoder.write_summaries_out()
                if request.compact:
                    raise
        return await self._post(request, files, deadline, key)

    def _body(self, request: Request, files: Bytes) -> bytes:
        settings = self._settings
        tier = _tier(settings.prompt_cache_ttl, request.cache_tier)
        thinking, effort = self._thinking(request)
        max_tokens = self._max_tokens
        if request.reasoning is not None and isinstance(thinking, int):  # what is thought comes on top of the answer
            max_tokens = min(max_tokens + thinking, self._most_output or max_tokens + thinking)
        return self._encoder.body(
            request,
            model=self.model,
            max_tokens=max_tokens,
            thinking=thinking,
            effort=effort,
            temperature=settings.temperature,
            tier="5m" if tier == "1h" and "ttl" in self._spared else tier,
            files=files,
            in_turn="repeats" in self._spared,
        )

    def _thinking(self, request: Request) -> tuple[Thought, str]:
        """How to think, and with which effort where the model finds its budget itself."""
        configured, level = self._settings.thinking, request.reasoning
        if level is None:
            return configured, ""
        if level == "off" or "thinking" in self._spared:
            return "off", ""
        if configured == "adaptive" or self._adapts or "budgets" in self._spared:
            return "adaptive", "" if "effort" in self._spared else level
        return budget_for(level, request.max_tokens, self._most_output), ""

    def _headers(self, request: Request, key: str) -> dict[str, str | anthropic.Omit]:
        headers: dict[str, str | anthropic.Omit] = {**HEADERS}
        if key and not any(name.lower() == KEY_HEADER.lower() for name in self._settings.extra_headers):
            headers[KEY_HEADER] = key
        headers |= {name: anthropic.Omit() for name in self._spared - OURS}
        if "compaction" not in self._spared and (request.compact or self._encoder.gives_back(request.messages)):
            name = next((name for name in self._settings.extra_headers if name.lower() == BETA), BETA)
            more = self._settings.extra_headers.get(name) if name not in self._spared else None
            headers[name] = f"{more.get_secret_value()},{COMPACTION_BETA}" if more else COMPACTION_BETA
        return headers

    async def _post(self, request: Request, files: Bytes, deadline: float, key: str) -> httpx2.Response:
        """The response whose body is the stream."""
        body = self._body(request, files)
        try:
            with anyio.fail_after(max(0.0, deadline - self._clock.monotonic())):
                response: object = await self._client.post(
                    PATH,
                    cast_to=httpx2.Response,
                    content=body,
                    options={"headers": self._headers(request, key)},
                    stream=True,
                    stream_cls=anthropic.AsyncStream[httpx2.Response],
                )
        except (anthropic.AnthropicError, httpx2.HTTPError, aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._failure(error, unanswered=True) from None
        if not isinstance(response, httpx2.Response):  # what the SDK promises for this cast_to, against its annotation
            raise refused(self.name, f"the anthropic library answered with {type(response).__name__}")
        return response

    def _failure(self, error: Exception, *, unanswered: bool) -> AgentError:
        """The error for the caller. `unanswered`: no byte of an answer has come."""
        host = host_of(str(self._client.base_url))
        secrets = self._settings.secrets
        match error:
            case AgentError():
                return error
            case anthropic.APIStatusError():
                return classify(self.name, _answer(error), secrets)
            case TimeoutError() | anthropic.APITimeoutError() | httpx2.TimeoutException():
                return busy(self.name, f"no answer from {host} in time", secrets)
            case _ if any(isinstance(cause, aiohttp.ClientSSLError) for cause in _causes(error)):
                return refused(self.name, f"the TLS certificate of {host} was not accepted", secrets)
            case anthropic.APIConnectionError():
                return busy(self.name, f"{host} cannot be reached", secrets, sent=False, unanswered=unanswered)
            case httpx2.HTTPError() | aiohttp.ClientError() | OSError():
                what = f"the connection to {host} was cut ({type(error).__name__})"
                return busy(self.name, what, secrets, unanswered=unanswered)
            case anthropic.AnthropicError():
                return refused(self.name, str(error), secrets)
            case _:
                return busy(self.name, f"malformed data from {host}", secrets)


def _client(settings: ProviderSettings) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(
        api_key=settings.keys[0].get_secret_value()
        if settings.keys
        else "none",  # a gateway of one's own may want no key
        base_url=settings.base_url or None,
        max_retries=0,  # one retry policy for all providers, ours
        timeout=httpx2.Timeout(settings.timeout_s, connect=CONNECT_S),
        default_headers={name: value.get_secret_value() for name, value in settings.extra_headers.items()},
        http_client=anthropic.DefaultAioHttpClient(
            proxy=settings.proxy.get_secret_value() or None,
            trust_env=not is_local(settings.base_url),
            event_hooks={"response": [limited_to(LARGEST_ANSWER)]},
        ),
    )


def _tier(configured: str, asked: CacheTier) -> CacheTier:
    """The configuration may name the time to live, but not cache what is too small to be cached."""
    if asked == "none" or configured == "auto":
        return asked
    return "1h" if configured == "1h" else "5m" if configured == "5m" else "none"


def _complaint(words: str, headers: Collection[str]) -> frozenset[str]:
    """The complaint of a refusal, as far as the request can do without that feature.

    That is beta headers, a time to live, two messages of one role in a row (which Anthropic itself has long taken), and
    summaries of its own.
    """
    if "compact" in words:
        return frozenset({"compaction"})
    found = {name for name in headers if "beta" in name.lower()} if re.search(r"\bbeta\b", words) else set()
    found |= {"ttl"} if "ttl" in words else set()
    return frozenset(found | ({"repeats"} if COMPLAINT.search(words) else set()))


def _thinking_complaint(words: str, thought: Thought, effort: str) -> frozenset[str]:
    """The same of a level of thinking, by what was sent of it: some models take no budget and name what they take
    instead, others take no effort, most older ones do not think at all."""
    is_of_thinking = _NO_THINKING.search(words) is not None
    if isinstance(thought, int):
        return frozenset({"budgets" if "adaptive" in words else "thinking"} if is_of_thinking else ())
    if thought != "adaptive":
        return frozenset()
    if is_of_thinking:
        return frozenset({"thinking"})
    return frozenset({"effort"} if effort and _NO_EFFORT.search(words) else ())


def _kept(dialect: Mapping[str, Any], headers: Collection[str]) -> frozenset[str]:
    """Take up features that were found before to be refused."""
    spared = dialect.get("spared")
    return frozenset({*OURS, *headers} & {*spared}) if isinstance(spared, list) else frozenset()


def _answer(error: anthropic.APIStatusError) -> Answer:
    after_s, request = retry_after(error.response.headers), request_id(error.response.headers)
    if error.body is None or isinstance(error.body, str):
        message = without_markup(error.body or error.message)
        return Answer(status=error.status_code, message=message, after_s=after_s, request=request)
    return read_error(error.body, error.status_code, after_s, request)


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


async def _drain(pieces: AsyncIterator[bytes]) -> None:
    """Read to the end of the body, so that the connection can be used again."""
    with anyio.move_on_after(DRAIN_S):
        try:
            async for _ in pieces:
                pass
        except (TimeoutError, httpx2.HTTPError, aiohttp.ClientError, OSError):
            pass  # the answer is complete; only the connection is lost
