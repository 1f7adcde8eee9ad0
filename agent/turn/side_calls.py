"""Calls of a model that are no turn: summaries, subgoals, the shortening of results. The one place they are made."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import anyio

from agent.compaction.asking import Purpose, Question
from agent.core.errors import ContextTooLong, Permanent
from agent.core.ids import PersonId
from agent.core.messages import Message, SummaryPart, TextPart, text_message
from agent.providers.calling import Attempt, Call
from agent.providers.metering import CostAttribution
from agent.providers.provider import COMPACTING, Provider, Request, SystemPrompt
from agent.providers.watching import Unwatched
from agent.turn.settings import DEFAULT_WINDOW
from agent.turn.states import States
from agent.turn.tokens import count_by_bytes

SUMMARY_TIMEOUT_S = 300.0
MOST_SUMMARY = 8_000  # tokens of what a service writes itself
OUTPUT_SHARE = 4  # a quarter of a small window at most is kept for the answer


class NoAnswer(Permanent):
    """The model said nothing, or was cut before it was done."""


class ByBytes:
    """Close enough for a question, and no time is lost; a turn's calibration is not touched."""

    def text(self, text: str) -> int:
        return count_by_bytes(text)

    def scaled(self, raw: int) -> int:
        return raw

    def learn(self, raw: int, real: int) -> None:
        """Questions are not built like turns: nothing is learnt from them."""


class SideCalls:
    """Keeps the promise of `compaction.asking.Ask` for one conversation, on the account of `person` where it is their
    wish."""

    def __init__(self, states: States, *, person: PersonId | None = None) -> None:
        self._states = states
        self._person = person

    async def write_summary(self, messages: Sequence[Message]) -> SummaryPart | None:
        """Keeps the promise of `compaction.asking.WriteSummary`."""
        slot = self._states.provider.slot
        route = slot.route()
        if len(route) != 1 or route[0].family not in COMPACTING:
            return None

        def prepare(provider: Provider) -> Attempt:
            asked = sum(count_by_bytes(message.content) for message in messages)
            request = Request(
                system=SystemPrompt(stable=""), messages=_trimmed(messages), max_tokens=MOST_SUMMARY, compact=True
            )
            return Attempt(request, asked)

        call = self._call(prepare, slot.route, "compaction", SUMMARY_TIMEOUT_S)
        with anyio.fail_after(SUMMARY_TIMEOUT_S):
            answered = await self._states.provider.models.ask(call, Unwatched())
        summary = answered.reply.summary
        if summary is None:
            raise NoAnswer(f"{answered.provider.name}: no summary of its own")
        return replace(summary, sealed_by=answered.provider.name)

    async def __call__(self, question: Question) -> str:
        states = self._states
        slot = states.provider.slot
        asked = count_by_bytes(question.system) + count_by_bytes(question.text, framed=True)

        def prepare(provider: Provider) -> Attempt:
            window = provider.context_window or DEFAULT_WINDOW
            most = min(question.max_tokens, window // OUTPUT_SHARE)
            if asked + most > window:
                raise ContextTooLong(f"{provider.name}: {asked} tokens to ask about do not fit {window}")
            request = Request(
                system=SystemPrompt(stable=question.system),
                messages=(text_message("user", question.text),),
                max_tokens=most,
            )
            return Attempt(request, asked)

        route = (lambda: (slot.named(question.provider),)) if question.provider else slot.route
        call = self._call(prepare, route, question.purpose, question.timeout_s)
        with anyio.fail_after(question.timeout_s):
            answered = await states.provider.models.ask(call, Unwatched())
        reply = answered.reply
        text = reply.text.strip()
        if not text or reply.stop_reason == "max_tokens":
            raise NoAnswer(f"{answered.provider.name}: no whole answer to a question about {question.purpose}")
        self._dump(question, text)
        return text

    def _call(
        self,
        prepare: Callable[[Provider], Attempt],
        route: Callable[[], Sequence[Provider]],
        purpose: Purpose,
        timeout_s: float,
    ) -> Call:
        return Call(
            route=route,
            prepare=prepare,
            attribution=self._attribution(purpose),
            counting=ByBytes(),
            silence_s=timeout_s,
            stream_s=timeout_s,
            seed=f"{self._states.session.conversation}:{purpose}",
            once=True,
            policy=self._states.provider.policy,
        )

    def _attribution(self, purpose: str) -> CostAttribution:
        """What a goal's own turn asks beside it is the goal's as well."""
        session, goal = self._states.session, self._states.goal.working_on
        return CostAttribution(
            purpose=purpose,
            conversation=session.conversation,
            session=session.id,
            person=self._person,
            goal=str(goal) if goal is not None else None,
            unattended=goal is not None,
        )

    def _dump(self, question: Question, answer: str) -> None:
        dumps = self._states.context.dumps
        if dumps.on:
            dumps.write(f"{question.purpose}-request.txt", f"{question.system}\n\n{question.text}")
            dumps.write(f"{question.purpose}-response.txt", answer)


def _trimmed(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The messages; the last loses the blanks at its end, which the API refuses of an assistant's."""
    *others, last = messages
    if last.role != "assistant" or not last.parts or not isinstance(last.parts[-1], TextPart):
        return tuple(messages)
    text = replace(last.parts[-1], text=last.parts[-1].text.rstrip())
    return (*others, replace(last, parts=(*last.parts[:-1], text)))
