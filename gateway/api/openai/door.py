"""The doors in OpenAI's form, below `/v1`: chat completions, responses and models.

With a conversation the gateway keeps the history, and the newest message alone is said there; without one the history
that was sent is all there is.
"""

import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from urllib.parse import quote

import anyio
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse
from starlette.responses import Response as HttpResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from agent.core.clock import Clock
from agent.core.errors import AgentError
from agent.storage.errors import StorageError
from gateway.access.policy import KEYS
from gateway.api.entrance import Entrance
from gateway.api.keys import Key
from gateway.api.openai.answers import ALIVE, Completion, Response
from gateway.api.openai.names import ModelNames, Named
from gateway.api.openai.parts import Limits
from gateway.api.openai.requests import Asked, chat_request, response_request
from gateway.api.refusals import BadRequest, error_of, of_agent
from gateway.api.single_calls import SingleCalls
from gateway.api.turns import Answer, Begun, Turns
from gateway.channels.keys import ConversationKey
from gateway.commands.place.provider import PERSONA_SETTING, PROVIDER_SETTING
from gateway.conversations.place_settings import PlaceSettings

CONVERSATION, ONCE, TRACE = "x-tieline-conversation", "idempotency-key", "traceparent"
LONGEST_ONCE = 255  # characters of an Idempotency-Key
ALIVE_EVERY_S = 15.0
RESPONSE, COMPLETION = "resp_", "chatcmpl-"
LARGE = 64 * 1024  # bytes of a body; such ones are read in a thread
LARGE_AT_ONCE = 8  # that come in, with up to `[web] max_upload_mb` each
PARSED_AT_ONCE = 2  # a body takes many times its size while it is read

Shape = Completion | Response
Read = Callable[[bytes, str, Limits], Asked]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAiDoor:
    """Its routes check the key themselves."""

    entrance: Entrance
    turns: Turns
    single: SingleCalls
    names: ModelNames
    settings: PlaceSettings
    clock: Clock
    started_s: int  # seconds since 1970, as the age of all models
    limits: Callable[[], Limits]
    _coming_in: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(LARGE_AT_ONCE))
    _parsing: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(PARSED_AT_ONCE))

    @property
    def routes(self) -> Sequence[Route]:
        return [
            Route("/chat/completions", self.entrance.door("chat", self.chat), methods=["POST"]),
            Route("/responses", self.entrance.door("chat", self.respond), methods=["POST"]),
            Route("/models", self.entrance.door("chat", self.list_models), methods=["GET"]),
            Route("/models/{name:path}", self.entrance.door("chat", self.show_model), methods=["GET"]),
        ]

    async def list_models(self, request: Request, key: Key) -> HttpResponse:
        return JSONResponse({"object": "list", "data": [self._model(name) for name in self.names.all()]})

    async def show_model(self, request: Request, key: Key) -> HttpResponse:
        name = request.path_params["name"]
        self.names.read(name)
        return JSONResponse(self._model(name))

    async def chat(self, request: Request, key: Key) -> HttpResponse:
        return await self._answer(request, key, await self._asked(request, chat_request), self._completion)

    async def respond(self, request: Request, key: Key) -> HttpResponse:
        return await self._answer(request, key, await self._following(request, key), self._response)

    async def _following(self, request: Request, key: Key) -> Asked:
        asked = await self._asked(request, response_request)
        return replace(asked, conversation=await self._followed(key, asked)) if asked.follows else asked

    async def _asked(self, request: Request, read: Read) -> Asked:
        """The request as it was read. Its bytes are kept by nobody: it may wait for its answer for an hour."""
        announced = request.headers.get("content-length", "")
        if announced.isdecimal() and int(announced) <= LARGE:
            return read(await _whole_body(request), request.headers.get(CONVERSATION, ""), self.limits())
        async with self._coming_in:
            return await anyio.to_thread.run_sync(
                read,
                await _whole_body(request),
                request.headers.get(CONVERSATION, ""),
                self.limits(),
                limiter=self._parsing,
            )

    def _model(self, name: str) -> dict[str, object]:
        return {"id": name, "object": "model", "created": self.started_s, "owned_by": "tieline"}

    def _completion(self, asked: Asked, id: str) -> Completion:
        return Completion(id=COMPLETION + id, model=asked.model, created=self._now_s())

    def _response(self, asked: Asked, id: str) -> Response:
        return Response(
            id=RESPONSE + id,
            model=asked.model,
            created=self._now_s(),
            follows=asked.follows,
            conversation=asked.conversation,
        )

    def _now_s(self) -> int:
        return int(self.clock.now().timestamp())

    async def _answer(
        self, request: Request, key: Key, asked: Asked, shape: Callable[[Asked, str], Shape]
    ) -> HttpResponse:
        once = request.headers.get(ONCE, "")
        if len(once) > LONGEST_ONCE or not once.isprintable():
            raise BadRequest(f"Idempotency-Key: at most {LONGEST_ONCE} printable characters")
        named = self.names.read(asked.model)
        if asked.conversation:
            begun = await self._begin(key, asked, named, once, request.headers.get(TRACE, ""))
            asked = replace(asked, lines=())  # the files in it are stored by now
            words, shaped, close = self.turns.words(begun), shape(asked, str(begun.id)), begun.close
        elif once:
            raise BadRequest(
                "an Idempotency-Key needs a conversation: name one by the header X-Tieline-Conversation or by `user`",
                code="conversation_required",
            )
        else:
            identity = self.names.persona(named.persona or self.settings.get(PERSONA_SETTING, _home(key))).identity
            provider = self.names.provider(named)
            await self.single.check(asked.lines, provider)
            words = self.single.words(key, asked.lines, provider, identity, asked.most_tokens)
            asked = replace(asked, lines=())
            shaped, close = shape(asked, secrets.token_hex(12)), _nothing
        if asked.stream:
            return _Stream(_stream(words, shaped, with_usage=asked.with_usage), close)
        return _whole(await _last(words), shaped)

    async def _followed(self, key: Key, asked: Asked) -> str:
        """The conversation of an earlier response."""
        id = asked.follows.removeprefix(RESPONSE)
        found = await self.turns.conversation_of(int(id)) if id.isdecimal() and len(id) < 19 else None
        mine = f"{KEYS}:{key.name}:"
        if found is None or not str(found).startswith(mine):
            raise BadRequest(
                f"there is no response {asked.follows!r} in a conversation of this key",
                param="previous_response_id",
                code="previous_response_not_found",
                status=404,
            )
        return str(found).removeprefix(mine)

    async def _begin(self, key: Key, asked: Asked, named: Named, once: str, traceparent: str) -> Begun:
        name = quote(asked.conversation, safe="")
        where = ConversationKey(KEYS, f"{key.name}:{name}")
        if asked.most_tokens is not None:
            raise BadRequest(
                "in a conversation the length of answers is the gateway's own; leave it out",
                param="max_tokens",
                code="unsupported_parameter",
            )
        if any(line.role == "system" for line in asked.lines):
            raise BadRequest(
                "in a conversation the instructions are those of its persona: choose one as the model, persona/<name>",
                param="messages",
                code="unsupported_parameter",
            )
        id = f"k:{once}" if once else f"r:{secrets.token_hex(16)}"
        newest = asked.newest
        if once and (known := await self.turns.known(where, id, newest.text, newest.files)) is not None:
            return known
        await self._agree(where, asked)
        await self._choose(key, name, where, named)
        return await self.turns.begin(key, name, newest.text, id=id, files=newest.files, traceparent=traceparent)

    async def _agree(self, where: ConversationKey, asked: Asked) -> None:
        """The sent history must be the end of what the conversation holds, as far as that is kept."""
        sent = [
            (line.role, line.text.strip(), tuple((one.mime_type, len(one.data)) for one in line.files))
            for line in asked.lines[:-1]
        ]
        if not sent:
            return
        held = list[tuple[str, str, tuple[tuple[str, int], ...]]]()
        for one in await self.turns.latest(where, len(sent)):
            held += [("user", one.said.strip(), one.files), ("assistant", one.told.strip(), ())]
        if sent != held[-len(sent) :]:
            raise BadRequest(
                "the sent history is not that of the conversation; send the newest message alone, or another "
                "conversation",
                param="messages",
                code="history_mismatch",
                status=409,
            )

    async def _choose(self, key: Key, name: str, where: ConversationKey, named: Named) -> None:
        """Provider and persona of the conversation, chosen as people choose them: by a command, with their rights."""
        wanted = (
            (PROVIDER_SETTING, named.provider, "/provider"),
            (PERSONA_SETTING, named.persona, "/persona"),
        )
        for setting, value, command in wanted:
            if not value or self.settings.get(setting, where) == value:
                continue
            begun = await self.turns.begin(key, name, f"{command} {value}", id=f"c:{secrets.token_hex(16)}")
            answer = await self.turns.answer(begun)
            if self.settings.get(setting, where) != value:
                raise BadRequest(answer.text, param="model", code="model_not_allowed", status=403)


async def _whole_body(request: Request) -> bytes:
    """The body, which the request itself does not keep."""
    return b"".join([piece async for piece in request.stream()])


class _Stream(StreamingResponse):
    """Server-sent events. However it ends, and if it never begins, `close` is called."""

    def __init__(self, events: AsyncIterator[bytes], close: Callable[[], None]) -> None:
        super().__init__(events, media_type="text/event-stream")
        self._close = close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._close()


def _nothing() -> None:
    return


def _home(key: Key) -> ConversationKey:
    return ConversationKey(KEYS, key.name)


async def _last(words: AsyncGenerator[str | Answer, None]) -> Answer:
    async with aclosing(words):
        async for one in words:
            if isinstance(one, Answer):
                return one
    raise AssertionError("words without an end")


def _whole(answer: Answer, shaped: Shape) -> HttpResponse:
    if (refused := refused_by(answer)) is not None:
        raise refused
    return JSONResponse(shaped.whole(answer))


def refused_by(answer: Answer) -> BadRequest | None:
    """The error that an answer is which is none."""
    match answer.ended:
        case "failed":
            return BadRequest(answer.text, code="turn_failed", status=502)
        case "gone":
            return BadRequest(answer.text, code="answer_gone", status=410)
        case "stopped" if not answer.text:
            return BadRequest("the turn was stopped", code="stopped", status=409)
    return None


async def _stream(
    words: AsyncGenerator[str | Answer, None], shaped: Shape, *, with_usage: bool
) -> AsyncIterator[bytes]:
    for sent in shaped.begin():
        yield sent
    try:
        async for one in _with_signs_of_life(words):
            if one is None:
                yield ALIVE
            elif isinstance(one, str):
                for sent in shaped.piece(one):
                    yield sent
            elif (refused := refused_by(one)) is not None:
                for sent in shaped.failed(error_of(refused.status, str(refused), code=refused.code)):
                    yield sent
            else:
                for sent in shaped.end(one, with_usage=with_usage):
                    yield sent
    except (AgentError, StorageError, TimeoutError) as error:
        status, told, code = of_agent(error)
        for sent in shaped.failed(error_of(status, told, code=code)):
            yield sent


async def _with_signs_of_life(words: AsyncGenerator[str | Answer, None]) -> AsyncIterator[str | Answer | None]:
    """The same, with None where nothing came for a while."""
    send, receive = anyio.create_memory_object_stream[str | Answer | Exception](0)

    async def read() -> None:
        async with send:
            try:
                async with aclosing(words):
                    async for one in words:
                        await send.send(one)
            except (AgentError, StorageError, TimeoutError) as error:
                await send.send(error)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        async with receive:
            while True:
                one: str | Answer | Exception | None = None
                try:
                    with anyio.move_on_after(ALIVE_EVERY_S):
                        one = await receive.receive()
                except anyio.EndOfStream:
                    return
                if isinstance(one, Exception):
                    raise one
                yield one
