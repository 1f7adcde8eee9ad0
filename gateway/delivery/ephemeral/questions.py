"""Short questions with buttons: who may answer, how, and until when. Silence is a no.

An answer reaches a question past the conversation's queue: by a button that carries an unguessable token, or by text.
"""

import logging
import secrets
from dataclasses import dataclass, field
from enum import StrEnum

import anyio

from agent.core.clock import Clock
from agent.core.failpoints import failpoint
from agent.core.ids import PersonId
from agent.core.outbox import Answer, Question
from agent.core.phrases import Phrases
from agent.core.untrusted_text import worked_on
from agent.tools.approvals import is_same
from gateway.channels.channel import Channel
from gateway.channels.document import Document, Plain
from gateway.channels.errors import ChannelBusy, ChannelError, ChannelUnsure
from gateway.channels.keys import ConversationKey
from gateway.channels.outbound import Button, Outbound
from gateway.delivery.ephemeral.messages import CALL_DEADLINE_S, Showing, Shown, Spawn
from gateway.delivery.rendering.markdown import LONG_TEXT, parse
from gateway.delivery.rendering.splitting import split
from gateway.delivery.sleep import InterruptibleSleep

log = logging.getLogger("tieline.delivery")

PREFIX = "q:"


class Finding(StrEnum):
    ANSWERED = "answered"
    NOT_YOURS = "not_yours"  # somebody else was asked
    OVER = "over"  # answered, expired, or asked before a restart
    NO_QUESTION = "no_question"  # the button belongs to something else


@dataclass(frozen=True, slots=True)
class Verdict:
    """The meaning of a press; `text` is to be shown to the presser alone."""

    finding: Finding
    text: str = ""


@dataclass(slots=True)
class _Open:
    conversation: ConversationKey
    question: Question
    rest: InterruptibleSleep
    answer: Answer = field(default_factory=lambda: Answer(None))


class Questions:
    """All questions that are open in this process."""

    def __init__(self, showing: Showing, clock: Clock, phrase: Phrases, spawn: Spawn) -> None:
        self._showing = showing
        self._clock = clock
        self._phrase = phrase
        self._spawn = spawn
        self._open: dict[str, _Open] = {}

    async def ask(self, channel: Channel, question: Question, language: str) -> Answer:
        """Ask and wait. A question that could not be shown, or was not answered in time, is denied; never raises."""
        token = secrets.token_urlsafe(18)
        entry = _Open(channel.key, question, InterruptibleSleep(self._clock))
        parts = await self._parts(channel, f"{question.prompt}\n\n{self._terms(channel, question, language)}")
        # How it ended replaces the terms; where these have a message of their own, all of it.
        asked = await self._parts(channel, question.prompt)
        closed = asked[-1] if len(asked) == len(parts) else ()
        shown: Shown | None = None
        closed_by_others = True
        self._open[token] = entry
        try:
            shown = await self._show_soon(channel, question, parts, self._buttons(question, token, language))
            if entry.answer.choice is None:
                failpoint("question.open")
                await entry.rest.sleep(question.timeout_s)
        except (ChannelError, TimeoutError) as error:
            log.warning("a question could not be asked: %s", error, extra={"conversation": str(channel.key)})
        finally:
            del self._open[token]
            if shown is not None:
                choice, at = entry.answer.choice, shown
                closed_by_others = self._spawn(lambda: self._close(channel, at, closed, choice, language))
        if shown is not None and not closed_by_others:  # answered before delivery runs: nobody else would do it
            await self._close(channel, shown, closed, entry.answer.choice, language)
        return entry.answer

    def press(self, action: str, person: PersonId, language: str = "en") -> Verdict:
        """A button was pressed."""
        if not action.startswith(PREFIX):
            return Verdict(Finding.NO_QUESTION)
        token, _, number = action.removeprefix(PREFIX).rpartition(":")
        entry = self._open.get(token)
        if entry is None or not number.isdecimal() or int(number) >= len(entry.question.choices):
            return Verdict(Finding.OVER, self._phrase("question_over", language))
        if entry.question.asked_of not in (None, person):
            return Verdict(Finding.NOT_YOURS, self._phrase("not_yours", language))
        choice = entry.question.choices[int(number)]
        self._answer(entry, Answer(choice, person))
        return Verdict(Finding.ANSWERED, self._label(choice, language))

    def waits(self, conversation: ConversationKey) -> bool:
        """Is a question open there?"""
        return any(entry.conversation == conversation for entry in self._open.values())

    def text(self, conversation: ConversationKey, person: PersonId, text: str) -> bool:
        """Somebody wrote: does it answer a question? "yes", "ja" and so on of the person asked; else it is none."""
        for entry in self._open.values():
            if entry.conversation != conversation or entry.question.asked_of not in (None, person):
                continue
            if (choice := _choice_of(entry.question, text)) is not None:
                self._answer(entry, Answer(choice, person))
                return True
        return False

    def expects(self, conversation: ConversationKey, person: PersonId, text: str) -> bool:
        """Do these words answer a question there that was put to exactly this person?"""
        return any(
            entry.conversation == conversation
            and entry.question.asked_of == person
            and _choice_of(entry.question, text) is not None
            for entry in self._open.values()
        )

    async def _show_soon(
        self, channel: Channel, question: Question, parts: tuple[Document, ...], buttons: tuple[tuple[Button, ...], ...]
    ) -> Shown:
        """Show the question as soon as the platform allows it: after a start an account may sign in late."""
        gives_up = self._clock.monotonic() + question.timeout_s
        while True:
            try:
                return await self._show(channel, question, parts, buttons)
            except ChannelBusy as error:
                if len(parts) > 1 or self._clock.monotonic() + error.after_s >= gives_up:  # no piece comes twice
                    raise
                await self._clock.sleep(error.after_s)

    def _answer(self, entry: _Open, answer: Answer) -> None:
        if entry.answer.choice is None:  # the first one counts
            entry.answer = answer
            entry.rest.end()

    def _label(self, choice: str, language: str) -> str:
        return self._phrase(choice, language) if choice in ("yes", "no") else choice

    def _buttons(self, question: Question, token: str, language: str) -> tuple[tuple[Button, ...], ...]:
        row = tuple(
            Button(
                label=self._label(choice, language),
                action=f"{PREFIX}{token}:{number}",
                style=("danger" if question.grave else "primary") if choice == "yes" else "plain",
            )
            for number, choice in enumerate(question.choices)
        )
        return (row,)

    def _terms(self, channel: Channel, question: Question, language: str) -> str:
        """Until when it stands, and how to answer where there are no buttons."""
        terms = self._phrase("question_terms", language, minutes=max(1, round(question.timeout_s / 60)))
        if channel.capabilities.buttons:
            return terms
        choices = " / ".join(self._label(choice, language) for choice in question.choices)
        return f"{terms}\n\n{self._phrase('answer_by_text', language, choices=choices)}"

    async def _parts(self, channel: Channel, text: str) -> tuple[Document, ...]:
        capabilities = channel.capabilities
        parts = await worked_on(
            text, lambda text: split(parse(text), capabilities.text_limit, capabilities.measure), long=LONG_TEXT
        )
        return parts or ((Plain("?"),),)

    async def _show(
        self, channel: Channel, question: Question, parts: tuple[Document, ...], buttons: tuple[tuple[Button, ...], ...]
    ) -> Shown:
        interaction = question.interaction
        for part in parts[:-1]:
            with anyio.fail_after(CALL_DEADLINE_S):
                await channel.send(Outbound(document=part, interaction=interaction))
            interaction = None
        last = Outbound(
            document=parts[-1], buttons=buttons if channel.capabilities.buttons else (), interaction=interaction
        )
        shown = await self._showing.show(channel, "question", last, channel.send)
        if shown is None or shown.by == "key":
            if shown is not None:
                self._showing.discard(channel.key, "question", shown)
            raise ChannelUnsure("nobody knows whether it arrived")
        return shown

    async def _close(self, channel: Channel, shown: Shown, asked: Document, choice: str | None, language: str) -> None:
        """Take the buttons away and leave what came of it."""
        if channel.capabilities.edits:
            try:
                with anyio.fail_after(CALL_DEADLINE_S):
                    await channel.edit(shown.sent, Outbound(document=self._closed(channel, asked, choice, language)))
            except (ChannelError, TimeoutError) as error:
                log.info("a question's buttons stay: %s", error, extra={"conversation": str(channel.key)})
        await self._showing.forget(channel.key, "question", shown)

    def _closed(self, channel: Channel, asked: Document, choice: str | None, language: str) -> Document:
        label = "" if choice is None else self._label(choice, language)
        outcome = (
            self._phrase("expired", language) if choice is None else self._phrase("answered", language, choice=label)
        )
        whole = (*asked, Plain(outcome))
        return whole if channel.capabilities.measure(whole) <= channel.capabilities.text_limit else (Plain(outcome),)


def _choice_of(question: Question, text: str) -> str | None:
    """The choice that somebody has written."""
    word = text.strip().casefold()
    return next((choice for choice in question.choices if word == choice.casefold() or is_same(word, choice)), None)
