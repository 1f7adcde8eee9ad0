"""The model that looks whether a goal is reached: an own call, no tools, no part in the work (SPEC §10.4)."""

from contextlib import aclosing
from dataclasses import dataclass

import anyio

from agent.core.errors import AgentError, ProviderBusy
from agent.core.messages import Message, text_message
from agent.goals.driver import Busy, Failed, Verdict
from agent.goals.stored import Goal
from agent.goals.verdicts import ANSWER_TOKENS, MOST_MESSAGES, REPAIR, SYSTEM, NoVerdict, question, read_verdict
from agent.providers.provider import Provider, Request, SystemPrompt, Usage
from agent.sessions import store
from agent.sessions.records import CallUsage
from agent.turn.costs import cost_of
from agent.turn.states import States
from agent.turn.stream import Accumulator
from agent.turn.tokens import count_by_bytes

PURPOSE = "supervisor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a check found, and what it took."""

    found: Verdict | Busy | Failed
    calls: tuple[CallUsage, ...] = ()


class Supervisor:
    """Asks for one conversation; `[agent.goal] supervisor_provider` keeps it apart from the one that works (Z-122)."""

    def __init__(self, states: States) -> None:
        self._states = states

    async def ask(self, goal: Goal) -> Asked:
        """One call, and one more where the answer is no verdict (SPEC §10.4)."""
        states = self._states
        settings = states.runtime.settings.agent.goal
        calls: list[CallUsage] = []
        try:
            slot = states.provider.slot
            provider = slot.named(settings.supervisor_provider) if settings.supervisor_provider else slot.current()
            asked = question(goal.text, await self._messages(), goal.auto.recent if goal.auto is not None else ())
            messages = [text_message("user", asked)]
            for _ in range(2):
                with anyio.fail_after(settings.supervisor_timeout_secs):
                    text = await self._call(provider, messages, calls)
                try:
                    return Asked(found=read_verdict(text), calls=tuple(calls))
                except NoVerdict as error:
                    said = text_message("assistant", text or "…")
                    messages += [said, text_message("user", REPAIR)]
                    mistake = str(error)
            return Asked(found=Failed(f"no verdict: {mistake}"), calls=tuple(calls))
        except ProviderBusy as error:
            found = Busy(error.after_s) if error.limited else Failed(str(error))
            return Asked(found=found, calls=tuple(calls))
        except (AgentError, TimeoutError) as error:
            return Asked(found=Failed(str(error) or "too slow"), calls=tuple(calls))

    async def _call(self, provider: Provider, messages: list[Message], calls: list[CallUsage]) -> str:
        """What the provider says, without tools; what it took is noted in `calls`, however the call ends."""
        request = Request(system=SystemPrompt(stable=SYSTEM), messages=tuple(messages), max_tokens=ANSWER_TOKENS)
        accumulator = Accumulator(provider.family)
        try:
            async with aclosing(provider.stream(request)) as chunks:
                async for chunk in chunks:
                    accumulator.take(chunk)
        finally:
            if accumulator.begun:
                reply = accumulator.reply()
                estimated = reply.usage is None or reply.usage == Usage()
                read = sum(count_by_bytes(message.content) for message in messages) + count_by_bytes(SYSTEM)
                spent = Usage(prompt=read, output=count_by_bytes(reply.text)) if estimated else reply.usage
                assert spent is not None
                calls.append(
                    CallUsage(
                        provider=provider.name,
                        model=provider.model,
                        prompt=spent.prompt,
                        output=spent.output,
                        cache_creation=spent.cache_creation,
                        cache_read=spent.cache_read,
                        cost_usd=cost_of(spent, provider.prices),
                        estimated=estimated,
                        purpose=PURPOSE,
                    )
                )
        if not accumulator.done:
            raise ProviderBusy(f"{provider.name}: the stream ended without its closing event")
        return accumulator.reply().text.strip()

    async def _messages(self) -> tuple[Message, ...]:
        """The newest of the session, as its model may see them."""
        session = self._states.session.id
        if session is None:
            return ()
        read = await self._states.runtime.database.read(lambda conn: store.history(conn, session, most=MOST_MESSAGES))
        return read.messages
