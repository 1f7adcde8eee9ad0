"""Every other model, through litellm: slow to load and slow to call, but it knows them all."""

import copy
import importlib
import json
import logging
import os
from collections.abc import AsyncGenerator
from typing import Any, Self

import anyio
import anyio.to_thread

from agent.core.errors import AgentError, ContextTooLong
from agent.providers.anthropic.requests import thinking_for
from agent.providers.encoding import IMAGES, TEXTS, load, wanted
from agent.providers.failures import Answer, busy, classify, clean, refused, retry_after
from agent.providers.litellm.stream import SignedReading, plain
from agent.providers.models import DEFAULT_WINDOW, Card
from agent.providers.openai.requests import Dialect, Encoder, conceded, differing, speaking
from agent.providers.provider import Chunk, Request
from agent.providers.registry import ProviderDeps
from agent.providers.settings import ProviderSettings

ANSWER_ROOM = 4096  # tokens of the answer beside what is thought
LARGEST_FILE = 3_900_000  # bytes: the strictest service behind it takes 5 MB as base64

# Errors that litellm's many parsers raise on odd answers of a server, besides its own classes.
PARSER_ERRORS = (ValueError, KeyError, TypeError, AttributeError, IndexError)

log = logging.getLogger("tieline.providers")


class LitellmProvider:
    """One model by litellm's name for it, `vendor/model`."""

    family = "litellm"
    output_ceiling: int | None = None  # every vendor has a limit of its own

    def __init__(self, settings: ProviderSettings, card: Card, deps: ProviderDeps) -> None:
        self.name = settings.name
        self._home = deps.home
        self._files = deps.files
        self._models = deps.models
        self._clock = deps.clock
        self._encoder = Encoder(self.family, signed=True)
        self._litellm = _library()
        # litellm's errors descend from openai's; below them lies httpx.
        self._errors = (
            importlib.import_module("openai").OpenAIError,
            importlib.import_module("httpx").HTTPError,
            OSError,
            TimeoutError,
            *PARSER_ERRORS,
        )
        self._become(settings, card)

    def for_model(self, settings: ProviderSettings, card: Card) -> Self:
        """The same account with another model."""
        other = copy.copy(self)
        other._become(settings, card)
        return other

    def _become(self, settings: ProviderSettings, card: Card) -> None:
        self._settings = settings
        self.model = settings.model
        self.context_window = settings.context_window or card.window or DEFAULT_WINDOW
        self.prices = settings.prices or card.prices
        self.max_tokens = settings.max_tokens
        if isinstance(settings.thinking, int):
            self.max_tokens = max(settings.max_tokens or 0, settings.thinking + ANSWER_ROOM)
        images = () if card.sees is False else IMAGES
        self.takes = frozenset(settings.takes if settings.takes is not None else (*images, *card.documents, *TEXTS))
        self._max_output = card.max_output
        self._known = self._models.of(settings)
        self._dialect = speaking(Dialect(), self._known.facts.dialect)
        self.is_warm = False

    async def warm_up(self) -> None:
        """The first call loads another second's worth of modules: make one that stays inside the library.

        With the model's own name: another vendor's would load what is never used, up to 70 MB of it.
        """
        await anyio.to_thread.run_sync(self._rehearse, abandon_on_cancel=True)
        self.is_warm = True

    def _rehearse(self) -> None:
        messages = [{"role": "user", "content": "hello"}]
        for _ in self._litellm.completion(model=self.model, messages=messages, mock_response="hello", stream=True):
            pass

    async def aclose(self) -> None:
        await self._litellm.close_litellm_async_clients()

    async def stream(self, request: Request, key: str = "") -> AsyncGenerator[Chunk, None]:
        deadline = self._clock.monotonic() + self._settings.stream_timeout_s
        reading = SignedReading(self.name, self._settings.secrets)
        stream: Any = None
        begun = False
        try:
            stream = await self._respond(request, deadline, key)
            pieces = aiter(stream)
            while True:
                with anyio.fail_after(self._wait_s(deadline)):
                    piece = await anext(pieces, None)
                if piece is None:
                    break
                begun = True
                for chunk in reading.body(plain(piece)):
                    yield chunk
            # litellm makes up a reason for stopping where the server gave none.
            if stream.received_finish_reason is None and stream.intermittent_finish_reason is None:
                raise busy(self.name, "the stream was cut before its end")
            for chunk in reading.end():
                yield chunk
        except (AgentError, *self._errors) as error:
            raise self._failure(error, unanswered=not begun) from None
        finally:
            if stream is not None:
                with anyio.CancelScope(shield=True), anyio.move_on_after(5):
                    await stream.aclose()

    async def _respond(self, request: Request, deadline: float, key: str) -> Any:
        """The stream, after conceding what the server does not understand: two messages of one role, or an effort."""
        used = {"repeats"} | ({"effort"} if request.reasoning else set())
        if request.reasoning == "off":
            used.add("effort_none")
        for _ in used:
            try:
                return await self._post(request, deadline, key)
            except self._errors as error:
                corrected = conceded(self._dialect, str(error), frozenset(used))
                if corrected is None:
                    raise
                log.info("%s does not understand a feature and is spared it", self.name)
                self._dialect = corrected
                self._known.speaks(differing(corrected, Dialect()))
        return await self._post(request, deadline, key)

    async def _post(self, request: Request, deadline: float, key: str) -> Any:
        arguments = await self._arguments(request, key)
        with anyio.fail_after(self._wait_s(deadline)):
            return await self._litellm.acompletion(**arguments)

    def _wait_s(self, deadline: float) -> float:
        return max(0.0, min(self._settings.timeout_s, deadline - self._clock.monotonic()))

    async def _arguments(self, request: Request, key: str) -> dict[str, Any]:
        settings = self._settings
        files = await load(self._home, wanted(request.messages, self.takes), LARGEST_FILE, self._files)
        body = self._encoder.body(
            request,
            model=self.model,
            dialect=self._dialect,
            max_tokens=settings.max_tokens,
            temperature=settings.temperature,
            effort=settings.reasoning_effort,
            files=files,
        )
        arguments: dict[str, Any] = json.loads(body)
        thinking = settings.thinking if request.reasoning is None else "off"  # the library makes it of the effort
        thought = thinking_for(request, thinking, arguments.get("max_tokens") or 0, self.family)
        if isinstance(thought, int):
            arguments["thinking"] = {"type": "enabled", "budget_tokens": thought}
            if not request.max_tokens:
                arguments["max_tokens"] = max(arguments.get("max_tokens", 0), thought + ANSWER_ROOM)
        elif thought == "adaptive":
            arguments["thinking"] = {"type": "adaptive"}
        return arguments | {
            "api_key": key or (settings.keys[0].get_secret_value() if settings.keys else None),
            "api_base": settings.base_url or None,
            "extra_headers": {name: value.get_secret_value() for name, value in settings.extra_headers.items()},
            "timeout": settings.timeout_s,
            "num_retries": 0,  # one retry policy for all providers, ours
            "max_retries": 0,
            "drop_params": True,
            # Without it a call with tools imports litellm's own MCP proxy, whose dependencies are not installed.
            "_skip_mcp_handler": True,
        }

    def _failure(self, error: Exception, *, unanswered: bool) -> AgentError:
        """The error for the caller. `unanswered`: no byte of an answer has come."""
        secrets = self._settings.secrets
        kinds = self._litellm.exceptions
        if isinstance(error, AgentError):
            return error
        while isinstance(error, kinds.MidStreamFallbackError) and error.original_exception is not None:
            error = error.original_exception
        message = str(getattr(error, "message", "") or error).partition("Traceback (most recent call last)")[0]
        if isinstance(error, kinds.ContextWindowExceededError):  # before its parent, BadRequestError
            return ContextTooLong(
                f"{self.name}: the request is larger than the model's context window: {clean(message, secrets)}"
            )
        if isinstance(error, TimeoutError | kinds.Timeout):
            return busy(self.name, "no answer in time", secrets)
        status = getattr(error, "status_code", None)
        if isinstance(error, kinds.APIConnectionError) or not isinstance(status, int):
            if isinstance(error, PARSER_ERRORS):
                return busy(self.name, f"malformed data ({type(error).__name__})", secrets)
            return busy(self.name, f"the connection failed: {message}", secrets, unanswered=unanswered)
        if isinstance(error, kinds.UnsupportedParamsError):
            return refused(self.name, message, secrets)
        code = getattr(error, "code", None)
        kind = getattr(error, "type", None)
        answer = Answer(
            status=status,
            kind=kind if isinstance(kind, str) else "",
            code=code if isinstance(code, str) else "",
            message=message,
            after_s=_after_s(error),
        )
        return classify(self.name, answer, secrets)


def _library() -> Any:
    """litellm, made quiet. Without the variable it fetches a price list from the internet while it is imported."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    litellm: Any = importlib.import_module("litellm")
    litellm.suppress_debug_info = True
    litellm.telemetry = False
    litellm.disable_streaming_logging = True  # it rebuilds each reply for callbacks we do not have
    litellm.modify_params = True  # a history with calls but no tools is made acceptable
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logger = logging.getLogger(name)
        logger.handlers.clear()  # they print to the terminal, requests included
        logger.setLevel(logging.ERROR)
    return litellm


def _after_s(error: Exception) -> float | None:
    headers = getattr(error, "litellm_response_headers", None)
    return retry_after(headers) if headers is not None else None
