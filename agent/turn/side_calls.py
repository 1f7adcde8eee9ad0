"""Calls of a model that are no turn: summaries, subgoals, the shortening of results. The one place they are made."""

from contextlib import aclosing

import anyio
from sqlalchemy import Connection

from agent.compaction.asking import Question
from agent.core.errors import ContextTooLong, Permanent, ProviderBusy
from agent.core.messages import text_message
from agent.providers.provider import Provider, Request, SystemPrompt, Usage
from agent.sessions import usage
from agent.sessions.records import CallUsage
from agent.storage.moments import to_us
from agent.turn.costs import cost_of
from agent.turn.settings import DEFAULT_WINDOW
from agent.turn.states import States
from agent.turn.stream import Accumulator, Reply
from agent.turn.tokens import count_by_bytes

OUTPUT_SHARE = 4  # a quarter of a small window at most is kept for the answer


class NoAnswer(Permanent):
    """The model said nothing, or was cut before it was done."""


class SideCalls:
    """Keeps the promise of `compaction.asking.Ask` for one conversation."""

    def __init__(self, states: States) -> None:
        self._states = states

    async def __call__(self, question: Question) -> str:
        slot = self._states.provider.slot
        provider = slot.named(question.provider) if question.provider else slot.current()
        window = provider.context_window or DEFAULT_WINDOW
        asked = count_by_bytes(question.system) + count_by_bytes(question.text)  # close enough, and no time is lost
        most = min(question.max_tokens, window // OUTPUT_SHARE)
        if asked + most > window:
            raise ContextTooLong(f"{provider.name}: {asked} tokens to ask about do not fit {window}")
        request = Request(
            system=SystemPrompt(stable=question.system),
            messages=(text_message("user", question.text),),
            max_tokens=most,
        )
        accumulator = Accumulator(provider.family)
        try:
            with anyio.fail_after(question.timeout_s):
                async with aclosing(provider.stream(request)) as chunks:
                    async for chunk in chunks:
                        accumulator.take(chunk)
        finally:
            if accumulator.begun:
                with anyio.CancelScope(shield=True):  # what was paid for is counted, also of a call cut off
                    await self._note(provider, question, asked, accumulator.reply())
        if not accumulator.done:
            raise ProviderBusy(f"{provider.name}: the stream ended without its closing event")
        reply = accumulator.reply()
        text = reply.text.strip()
        if not text or reply.stop_reason == "max_tokens":
            raise NoAnswer(f"{provider.name}: no whole answer to a question about {question.purpose}")
        self._dump(question, text)
        return text

    async def _note(self, provider: Provider, question: Question, asked: int, reply: Reply) -> None:
        """Money is spent whoever owns the conversation by now: this row is not fenced (DESIGN §13.10)."""
        states, reported = self._states, reply.usage
        estimated = reported is None or reported == Usage()
        spent = Usage(prompt=asked, output=count_by_bytes(reply.text)) if reported is None or estimated else reported
        call = CallUsage(
            provider=provider.name,
            model=provider.model,
            prompt=spent.prompt,
            output=spent.output,
            cache_creation=spent.cache_creation,
            cache_read=spent.cache_read,
            cost_usd=cost_of(spent, provider.prices),
            estimated=estimated,
            purpose=question.purpose,
        )
        conversation, session = states.session.conversation, states.session.id
        if session is None:
            return
        at = to_us(states.runtime.clock.now())

        def add(conn: Connection) -> None:
            usage.add(conn, call, conversation=conversation, session=session, inbox_id=None, person=None, at=at)

        await states.runtime.database.write(add)

    def _dump(self, question: Question, answer: str) -> None:
        dumps = self._states.context.dumps
        if dumps.on:
            dumps.write(f"{question.purpose}-request.txt", f"{question.system}\n\n{question.text}")
            dumps.write(f"{question.purpose}-response.txt", answer)
