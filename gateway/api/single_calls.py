"""One call of a model for a program that keeps the history itself: without conversation or tools, within budgets."""

import secrets
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing

import anyio
from anyio.streams.memory import MemoryObjectSendStream

from agent.core.cancellation import first_error
from agent.core.errors import ContextTooLong, NoModelAllowed, RequestInvalid, Transient
from agent.core.ids import ConversationId, CostAttribution, PersonId
from agent.core.messages import FilePart, Message, Part, Role, TextPart
from agent.providers.encoding import NEWEST, TEXT_LIMIT, TEXTS
from agent.providers.models import DEFAULT_WINDOW
from agent.providers.provider import Provider, Request, SystemPrompt
from agent.providers.registry import LazyProvider, Registry
from agent.providers.routing import Attempt, Call, Models, Patterns, allowed
from agent.providers.usage import Unwatched
from agent.run.settings import TimeoutSettings
from agent.turn.model_call import ByBytes
from agent.turn.tokens import PER_DOCUMENT, PER_IMAGE, count_by_bytes
from gateway.access.policy import KEYS
from gateway.api.keys import Key
from gateway.api.openai.requests import Line
from gateway.api.refusals import BadRequest
from gateway.api.turns import Answer, Shown, Tokens
from gateway.api.uploads import Uploads
from gateway.channels.keys import ConversationKey
from gateway.delivery.egress import Guard

MOST_ANSWER = 8_192  # tokens, where the request names no limit and the window is large
OUTPUT_SHARE = 4  # a quarter of a small window at most is kept for the answer
PIECES = 1_000  # of an answer that wait for a slow reader
LARGEST_FILE = 3_900_000  # bytes, which the strictest model service takes in base64


class SingleCalls:
    """Makes them, with the same failover, retries and ledger as turns."""

    def __init__(
        self,
        models: Models,
        providers: Registry,
        guard: Guard,
        timeouts: Callable[[], TimeoutSettings],
        models_allowed: Callable[[ConversationKey], Sequence[Patterns]],
        uploads: Uploads,
    ) -> None:
        self._models = models
        self._providers = providers
        self._guard = guard
        self._timeouts = timeouts
        self._models_allowed = models_allowed
        self._uploads = uploads

    async def check(self, lines: Sequence[Line], chosen: LazyProvider) -> None:
        """Refuse what the model would not be shown. Raises BadRequest and AgentError."""
        first = next(line for line in lines if _says(line))
        if first.role != "user":
            raise BadRequest("the first message must be a user's", param="messages")
        files = [one for line in lines for one in line.files]
        if not files:
            return
        if len(files) > NEWEST:
            raise BadRequest(
                f"without a conversation a request may have {NEWEST} files", param="messages", code="too_many_files"
            )
        for one in files:
            if len(one.data) > (most := TEXT_LIMIT if one.mime_type in TEXTS else LARGEST_FILE):
                raise BadRequest(
                    f"{one.name}: without a conversation it may have {most:,} bytes",
                    param="messages",
                    code="file_too_large",
                    status=413,
                )
        await chosen.warm_up()  # only then it is known what its model takes
        if missing := sorted({one.mime_type for one in files} - chosen.takes):
            raise BadRequest(
                f"{chosen.name}: its model takes no {', '.join(missing)} without a conversation",
                param="messages",
                code="unsupported_parameter",
            )

    async def words(
        self, key: Key, lines: Sequence[Line], chosen: LazyProvider, identity: str, most_tokens: int | None
    ) -> AsyncGenerator[str | Answer, None]:
        """Pieces of the answer, and at last all of it. Raises BadRequest and AgentError."""
        files = [one for line in lines for one in line.files]
        try:
            parts = await self._uploads.put(files) if files else ()
        except OSError as error:
            raise Transient(f"the files could not be stored: {error.strerror}") from error
        try:
            call = self._call(key, lines, parts, chosen, identity, most_tokens)
            del files, lines  # their bytes are on the disk
            async with aclosing(self._answered(call)) as words:
                async for one in words:
                    yield one
        finally:
            if parts:
                await self._uploads.remove(parts)

    async def _answered(self, call: Call) -> AsyncGenerator[str | Answer, None]:
        shown = Shown(self._guard)
        pieces, received = anyio.create_memory_object_stream[str](PIECES)
        answer: Answer | None = None

        async def ask() -> None:
            nonlocal answer
            with pieces:
                answered = await self._models.ask(call, _Following(pieces))
            usage, text = answered.reply.usage, self._guard.text(answered.reply.text)
            tokens = Tokens()
            if usage is not None:
                read = usage.prompt + usage.cache_creation + usage.cache_read
                tokens = Tokens(read=read, cached=usage.cache_read, written=usage.output)
            answer = Answer(id=0, text=text, ended="answered", tokens=tokens)

        with first_error():
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask)
                async with received:
                    async for piece in received:
                        if more := shown.grow(piece):
                            yield more
        assert answer is not None
        if rest := shown.rest(answer.text):
            yield rest
        yield answer

    def _call(
        self,
        key: Key,
        lines: Sequence[Line],
        files: Sequence[FilePart],
        chosen: LazyProvider,
        identity: str,
        most_tokens: int | None,
    ) -> Call:
        messages, types = _messages(lines, files), {part.mime_type for part in files}
        place = ConversationKey(KEYS, key.name)
        said = "\n\n".join(line.text for line in lines if line.role == "system")
        system = SystemPrompt(stable=identity, volatile=said)
        asked = count_by_bytes(identity + said) + sum(_tokens(part) for one in messages for part in one.parts)

        def route() -> Sequence[Provider]:
            lists = self._models_allowed(place)
            route = [one for one in self._providers.route(chosen) if allowed(one.name, one.model, lists)]
            if not route:
                raise NoModelAllowed(tuple(pattern for some in lists for pattern in some))
            return route

        def prepare(provider: Provider) -> Attempt:
            if missing := sorted(types - provider.takes):  # of one that stands in: the next is asked
                raise RequestInvalid(f"{provider.name}: its model takes no {', '.join(missing)}")
            window = provider.context_window or DEFAULT_WINDOW
            most = most_tokens or min(provider.max_tokens or MOST_ANSWER, window // OUTPUT_SHARE)
            if asked + most > window:
                raise ContextTooLong(f"{provider.name}: {asked} tokens and an answer of {most} do not fit {window}")
            return Attempt(Request(system=system, messages=messages, max_tokens=most), asked)

        timeouts = self._timeouts()
        return Call(
            route=route,
            prepare=prepare,
            attribution=CostAttribution(
                purpose="turn", conversation=ConversationId(str(place)), person=PersonId(key.person)
            ),
            counting=ByBytes(),
            silence_s=timeouts.llm,
            stream_s=timeouts.llm_stream,
            seed=secrets.token_hex(8),
        )


class _Following(Unwatched):
    """Hands the pieces on; a reader who is too slow gets the rest at the end."""

    def __init__(self, pieces: MemoryObjectSendStream[str]) -> None:
        self._pieces = pieces

    def delta(self, text: str) -> None:
        try:
            self._pieces.send_nowait(text)
        except (anyio.WouldBlock, anyio.BrokenResourceError):
            return


def _says(line: Line) -> bool:
    return line.role != "system" and bool(line.text.strip() or line.files)


def _messages(lines: Sequence[Line], files: Sequence[FilePart]) -> tuple[Message, ...]:
    """The lines, people and bot in turn, as model services want it; `files` are those of all lines in their order."""
    turns, left = list[tuple[Role, list[Part]]](), iter(files)
    for line in filter(_says, lines):
        said: list[Part] = [part for _, part in zip(line.files, left, strict=False)]
        if line.text.strip():
            said.append(TextPart(text=line.text))
        role: Role = "user" if line.role == "user" else "assistant"
        if turns and turns[-1][0] == role:
            turns[-1][1].extend(said)
        else:
            turns.append((role, said))
    return tuple(Message(role=role, parts=tuple(parts)) for role, parts in turns)


def _tokens(part: Part) -> int:
    match part:
        case FilePart(mime_type=mime_type, size=size):
            if mime_type in TEXTS:
                return count_by_bytes("x" * size)
            return PER_IMAGE if mime_type.startswith("image/") else PER_DOCUMENT
        case TextPart(text=text):
            return count_by_bytes(text, framed=True)
    return 0
