"""One call of a model for a program that keeps the history itself: without conversation or tools, within budgets."""

import secrets
from collections.abc import AsyncIterator, Callable, Sequence

import anyio
from anyio.streams.memory import MemoryObjectSendStream

from agent.core.cancellation import first_error
from agent.core.errors import ContextTooLong, NoModelAllowed
from agent.core.ids import ConversationId, CostAttribution, PersonId
from agent.core.messages import Message, text_message
from agent.providers.models import DEFAULT_WINDOW
from agent.providers.provider import Provider, Request, SystemPrompt
from agent.providers.registry import LazyProvider, Registry
from agent.providers.routing import Attempt, Call, Models, Patterns, allowed
from agent.providers.usage import Unwatched
from agent.run.settings import TimeoutSettings
from agent.turn.model_call import ByBytes
from agent.turn.tokens import count_by_bytes
from gateway.access.policy import KEYS
from gateway.api.keys import Key
from gateway.api.openai.requests import Line
from gateway.api.refusals import BadRequest
from gateway.api.turns import Answer, Shown, Tokens
from gateway.channels.keys import ConversationKey
from gateway.delivery.egress import Guard

MOST_ANSWER = 8_192  # tokens, where the request names no limit and the window is large
OUTPUT_SHARE = 4  # a quarter of a small window at most is kept for the answer
PIECES = 1_000  # of an answer that wait for a slow reader


class SingleCalls:
    """Makes them, with the same failover, retries and ledger as turns."""

    def __init__(
        self,
        models: Models,
        providers: Registry,
        guard: Guard,
        timeouts: Callable[[], TimeoutSettings],
        models_allowed: Callable[[ConversationKey], Sequence[Patterns]],
    ) -> None:
        self._models = models
        self._providers = providers
        self._guard = guard
        self._timeouts = timeouts
        self._models_allowed = models_allowed

    async def words(
        self, key: Key, lines: Sequence[Line], chosen: LazyProvider, identity: str, most_tokens: int | None
    ) -> AsyncIterator[str | Answer]:
        """Pieces of the answer, and at last all of it. Raises BadRequest and AgentError."""
        call = self._call(key, lines, chosen, identity, most_tokens)
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
        self, key: Key, lines: Sequence[Line], chosen: LazyProvider, identity: str, most_tokens: int | None
    ) -> Call:
        messages = _messages(lines)
        place = ConversationKey(KEYS, key.name)
        said = "\n\n".join(line.text for line in lines if line.role == "system")
        system = SystemPrompt(stable=identity, volatile=said)
        asked = count_by_bytes(identity + said) + sum(count_by_bytes(one.content, framed=True) for one in messages)

        def route() -> Sequence[Provider]:
            lists = self._models_allowed(place)
            route = [one for one in self._providers.route(chosen) if allowed(one.name, one.model, lists)]
            if not route:
                raise NoModelAllowed(tuple(pattern for some in lists for pattern in some))
            return route

        def prepare(provider: Provider) -> Attempt:
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


def _messages(lines: Sequence[Line]) -> tuple[Message, ...]:
    """The lines, people and bot in turn, as model services want it. Raises BadRequest."""
    turns: list[tuple[str, str]] = []
    for line in lines:
        if line.role == "system" or not line.text.strip():
            continue
        if turns and turns[-1][0] == line.role:
            turns[-1] = (line.role, f"{turns[-1][1]}\n\n{line.text}")
        else:
            turns.append((line.role, line.text))
    if turns[0][0] != "user":
        raise BadRequest("the first message must be a user's", param="messages")
    return tuple(text_message("user" if role == "user" else "assistant", text) for role, text in turns)
