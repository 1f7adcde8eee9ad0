"""Approvals in a turn: asks people to allow a call or to answer its question, and waits, also across restarts."""

import json
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace

import anyio
from sqlalchemy import Connection

from agent.core.clock import Clock
from agent.core.events import ApprovalRequired, ApprovalResumed, Event, Suspended
from agent.core.failpoints import failpoint
from agent.core.ids import ConversationId, NewId, RunId
from agent.core.messages import ToolUse
from agent.core.outbox import Answer, Button, Outbox, OutgoingMessage, Question
from agent.core.phrases import Phrases
from agent.core.untrusted_text import longest_run, plain
from agent.inbox import Incoming
from agent.run.features import AskingFeature, Look, Permitted
from agent.run.run import SHUTDOWN, LeftForLater, Run
from agent.storage import approval_rows, inbox_rows, outbox_rows
from agent.storage.approval_rows import TAKES_WORDS, Approval
from agent.storage.database import Database, check_epoch
from agent.storage.timestamps import to_timestamp
from agent.tools.approvals import (
    PRESS,
    Approvals,
    anyone_may_decide,
    canonical,
    covers_of,
    digest_of,
    extent_of,
    named_deciders,
    prompt_key,
    shown_of,
)
from agent.tools.executor import Cleared, Outcome

ID_DIGITS = 10  # of a random UUID: 40 bits; who presses is checked as well

NOBODY = "{name} was not run: it needs a person's approval, and there is nobody here who could give it."
NO_WAY = "{name} was not run: it needs a person's approval, and people cannot answer here while you wait."
REJECTED = "{name} was not run: the person said no. Do not try it again in another way; ask what they want instead."
EXPIRED = "{name} was not run: nobody approved it in time. Say so, and ask again only if the person still wants it."
CANCELLED = "{name} was not run: the run was stopped while it waited for approval."
CHANGED = "{name} was not run: what it would do is no longer what was approved. Ask again if it is still needed."
CUT_OFF = (
    "Interrupted by a restart after it had asked the person; it is not known whether this call took effect.\n{asked}\n"
    "Check before repeating it; where it is safe to repeat, repeat it with what they answered."
)
ASKED, NO_ANSWER = "Asked: {prompt}\nAnswered: {answer}", "nothing, in time"
WORDED = frozenset({"yes", "no"})  # choices that have a word of their own in each language


@dataclass(slots=True, kw_only=True, eq=False)
class ApprovalFeature(AskingFeature):
    """Asks the people of one conversation. `waiting` is entered while a run waits for them; `redact` hides secrets."""

    conversation: ConversationId
    database: Database
    clock: Clock
    new_id: NewId
    outbox: Outbox
    phrases: Phrases
    approvals: Approvals
    redact: Callable[[str], str]
    announce: Callable[[Event], None]
    waiting: Callable[[Run], AbstractAsyncContextManager[None]]
    _counted: tuple[RunId | None, Counter[str]] = field(default=(None, Counter()))  # questions of the run's calls

    async def permit(self, run: Run, cleared: Cleared, reason: str, look: Look) -> Permitted | Outcome:
        """The call as it would run now, approved as exactly this one; an Outcome where nobody allowed it.

        Raises LeftForLater, Fenced or StorageTrouble.
        """
        settings, name, requester = run.settings.approvals, cleared.call.name, run.work.incoming.person
        by_place = self.approvals.deciders(name, run.work.incoming.chat_type).by_place
        if run.work.incoming.granted_tools is not None:  # nobody has asked: somebody must be known who may decide
            requester, by_place = None, by_place and self.approvals.is_decider_known(self.conversation, name)
        if not anyone_may_decide(requester, settings.approvers, requester_may=settings.requester, by_place=by_place):
            return _denied(NOBODY.format(name=name))
        if not self.outbox.suspends:
            return _denied(NO_WAY.format(name=name))
        decided = await self._word_on(cleared, reason, run)
        if isinstance(decided, Outcome):
            return decided
        call = replace(cleared.call, input=cleared.appraisal.arguments)
        again = await self._still_the_same(decided, await look(call), name)
        return again if isinstance(again, Outcome) else Permitted(again, decided)

    async def _word_on(self, cleared: Cleared, reason: str, run: Run) -> Approval | Outcome:
        """The approval of exactly this call; an Outcome where there is none."""
        name = cleared.call.name
        one = await self._asked(cleared, reason, run)
        self.announce(self._required(one, run))
        self.announce(Suspended(conversation=one.conversation, run=run.id, correlation=one.id))
        failpoint("approval.asked")
        began = self.clock.monotonic()
        decided: Approval | None = None
        with run.interrupts.scope():
            decided = await self.approvals.decided(one.id)
        if decided is not None and decided.status == "pending":  # the service has closed: whoever is next asks on
            run.token.fire(SHUTDOWN)
        if run.token.fired:
            if run.token.reason == SHUTDOWN:
                raise LeftForLater
            await (self.approvals.withdraw(one.id) if decided is not None else self.approvals.end(one.id, "cancelled"))
            return Outcome(content=CANCELLED.format(name=name), is_error=True, verdict="stopped")
        assert decided is not None
        waited_ms = round((self.clock.monotonic() - began) * 1000)
        self.announce(
            ApprovalResumed(
                conversation=one.conversation,
                run=run.id,
                correlation=one.id,
                status=decided.status,
                waited_ms=waited_ms,
            )
        )
        failpoint("approval.decided")
        match decided.status:
            case "approved":
                return decided
            case "rejected":
                return _denied(REJECTED.format(name=name))
            case "expired":
                return _denied(EXPIRED.format(name=name))
            case _:
                return _denied(CANCELLED.format(name=name))

    async def _still_the_same(self, one: Approval, found: Cleared | Outcome, name: str) -> Cleared | Outcome:
        """The approved call, grounded anew and the very same (R-30); else the approval is withdrawn."""
        if isinstance(found, Cleared):
            arguments = canonical(found.appraisal.arguments)
            same = digest_of(name, arguments) == one.digest == digest_of(one.tool, one.arguments)
            if same and found.appraisal.gate != "deny":
                return found
            found = _denied(CHANGED.format(name=name))
        await self.approvals.withdraw(one.id)
        return found

    async def _asked(self, cleared: Cleared, reason: str, run: Run) -> Approval:
        """Freeze the call and ask, in one transaction; after a crash the question that stands already."""
        work = run.work
        incoming, name, at = work.incoming, cleared.call.name, to_timestamp(self.clock.now())
        arguments = canonical(cleared.appraisal.arguments)
        fresh = Approval(
            id=self.new_id().replace("-", "")[-ID_DIGITS:],
            conversation=self.conversation,
            inbox_id=work.inbox_id,
            call_id=cleared.call.id,
            position=run.stored.next_position - 1,
            run=run.id,
            tool=name,
            arguments=arguments,
            digest=digest_of(name, arguments),
            reason=reason,
            shown=shown_of(name, cleared.appraisal),
            covers=covers_of(cleared.appraisal),
            requester=incoming.person,
            language=run.audience.language,
            chat_type=incoming.chat_type,
            created_at=at,
            expires_at=at + int(run.settings.approvals.ttl_secs * 1e6),
        )
        return await self._store(fresh, run, lambda one: self._prompt(one, run), forgives_always=True)

    async def _store(
        self, fresh: Approval, run: Run, prompt: Callable[[Approval], OutgoingMessage], *, forgives_always: bool = False
    ) -> Approval:
        """Store the question and its prompt, unless it stands already. The attempt of a run that waits is forgiven."""
        work = run.work

        def write(conn: Connection) -> Approval:
            check_epoch(conn, self.conversation, work.epoch)
            one = approval_rows.ask(conn, fresh)
            if one is fresh or (forgives_always and one.status == "pending"):
                inbox_rows.forgive(conn, work.inbox_id)
            if one is fresh:
                outbox_rows.add(
                    conn,
                    conversation=self.conversation,
                    inbox_id=None,
                    part=0,
                    dedup=prompt_key(one.id),
                    say=prompt(one),
                    at=fresh.created_at,
                )
                self.approvals.stored(conn, one)
            take_first(conn)
            return one

        with self.outbox.committing() as take_first:
            one = await self.database.write(write)
            self.approvals.expect(one)  # before it can be read
            return one

    def _prompt(self, one: Approval, run: Run) -> OutgoingMessage:
        phrase, language, incoming = self.phrases, one.language, run.work.incoming
        minutes, extent = max(1, round((one.expires_at - one.created_at) / 60e6)), extent_of(one.covers)
        is_shared = incoming.chat_type != "direct"
        shown = self.redact(one.shown)
        fence = "`" * max(3, longest_run(shown) + 1)
        lines = [
            f"**{phrase('approval_asked', language, tool=one.tool)}**",
            "",
            *([plain(one.reason), ""] if one.reason else []),
            fence,
            shown,
            fence,
        ]
        terms = [
            phrase("approval_terms_group" if is_shared else "approval_terms", language, minutes=minutes),
            *([phrase("approval_covers", language, tool=one.tool, covers=plain(extent))] if extent else []),
            *(self._who_decides(one, incoming, language) if is_shared else []),
        ]
        return OutgoingMessage(
            text="\n".join(lines),
            kind="notice",
            reply_to=run.audience.reply_to,
            answers=run.audience.message,
            buttons=(
                (
                    Button(label=phrase("approve", language), action=f"{PRESS}{one.id}:y", style="primary"),
                    Button(label=phrase("deny", language), action=f"{PRESS}{one.id}:n", style="danger"),
                ),
                *(
                    ((Button(label=phrase("approve_always", language), action=f"{PRESS}{one.id}:a"),),)
                    if one.covers is not None
                    else ()
                ),
            ),
            without_buttons=phrase("approval_by_text", language, id=one.id),
            while_open="\n".join(terms),
        )

    def _who_decides(self, one: Approval, incoming: Incoming, language: str) -> list[str]:
        """The people whose word counts, and at once if none of them is known to be there."""
        phrase, deciders = self.phrases, self.approvals.deciders(one.tool, one.chat_type)
        if not deciders.by_place:
            return [phrase("approval_who", language, who=plain(str(incoming.display or incoming.person)))]
        lines = [phrase("approval_who_place", language, who=named_deciders(deciders, phrase, language))]
        if not self.approvals.is_decider_known(self.conversation, one.tool):
            lines.append(phrase("approval_nobody_known", language))
        return lines

    def _required(self, one: Approval, run: Run) -> ApprovalRequired:
        left_s = (one.expires_at - to_timestamp(self.clock.now())) / 1e6
        return ApprovalRequired(
            conversation=one.conversation,
            run=run.id,
            tool_name=one.tool,
            tool_call_id=one.call_id,
            correlation=one.id,
            reason=one.reason,
            expires_in_s=max(0, round(left_s)),
        )

    # Elicitation: a call's question to people, stored, so that the answer may come after a restart (G-18).

    async def elicit(self, run: Run, use: ToolUse, question: Question) -> Answer:
        """Ask and wait; no answer in time is none. A call that is run again is given the answers it had.

        Does not return when the process ends: the question stands for the next one.
        """
        if self._counted[0] != run.id:
            self._counted = (run.id, Counter())
        self._counted[1][use.id] += 1
        number = self._counted[1][use.id]
        one = await self._asked_question(question, approval_rows.question_key(use.id, number), use, run)
        decided = await self._decided(one, run)
        if decided is None:
            await anyio.sleep_forever()
        assert decided is not None
        return _answer_in(decided)

    async def elicited(self, run: Run, use: ToolUse) -> str | None:
        """The question and the answer of a call that a crash cut off, for the model; this waits for the answer."""
        inbox_id, call = run.work.inbox_id, use.id
        asked = await self.database.read(lambda conn: approval_rows.questions_of(conn, inbox_id, call))
        lines = []
        for one in asked:
            decided = one
            if one.status == "pending":
                await self.database.write(lambda conn: inbox_rows.forgive(conn, inbox_id))
                waited = await self._decided(one, run)
                if waited is None:
                    raise LeftForLater
                decided = waited
            answer = _answer_in(decided).choice
            lines.append(ASKED.format(prompt=one.shown, answer=json.dumps(answer) if answer else NO_ANSWER))
        return CUT_OFF.format(asked="\n".join(lines)) if lines else None

    async def _decided(self, one: Approval, run: Run) -> Approval | None:
        """The question with its answer, or withdrawn; None: the process ends, and it stands."""
        failpoint("question.open")
        decided: Approval | None = None
        try:
            async with self.waiting(run):
                with run.interrupts.scope():
                    decided = await self.approvals.decided(one.id)
        except anyio.get_cancelled_exc_class():  # the call is over: its time, its server
            if run.token.reason != SHUTDOWN:
                with anyio.CancelScope(shield=True):
                    await self.approvals.end(one.id, "cancelled")
            raise
        if decided is not None and decided.status == "pending":  # the service has closed
            run.token.fire(SHUTDOWN)
        if run.token.fired and run.token.reason == SHUTDOWN:
            return None
        if decided is None or decided.status == "pending":
            await self.approvals.end(one.id, "cancelled")
            return one
        return decided

    async def _asked_question(self, question: Question, key: str, use: ToolUse, run: Run) -> Approval:
        """Ask, in one transaction; after a crash the question that was asked already."""
        work, at, prompt = run.work, to_timestamp(self.clock.now()), self.redact(question.prompt)
        fresh = Approval(
            id=self.new_id().replace("-", "")[-ID_DIGITS:],
            conversation=self.conversation,
            inbox_id=work.inbox_id,
            call_id=key,
            position=run.stored.next_position - 1,
            run=run.id,
            tool=use.name,
            arguments=TAKES_WORDS if question.takes_words else "{}",
            digest=digest_of(use.name, prompt),
            reason="",
            shown=prompt,
            covers=None,
            requester=question.asked_of,
            language=run.audience.language,
            chat_type=work.incoming.chat_type,
            created_at=at,
            expires_at=at + int(question.timeout_s * 1e6),
            choices=question.choices,
        )
        return await self._store(fresh, run, lambda one: self._question_prompt(one, question.asides, run))

    def _question_prompt(self, one: Approval, asides: int, run: Run) -> OutgoingMessage:
        """The last `asides` of the choices stand in a row of their own."""
        phrase, language = self.phrases, one.language
        labels = [phrase(choice, language) if choice in WORDED else choice for choice in one.choices]
        buttons = tuple(
            Button(
                label=label,
                action=f"{PRESS}{one.id}:{number}",
                style="primary" if choice == "yes" else "danger" if choice == "no" else "plain",
            )
            for number, (choice, label) in enumerate(zip(one.choices, labels, strict=True))
        )
        answers = len(buttons) - asides
        minutes = max(1, round((one.expires_at - one.created_at) / 60e6))
        by_text = "answer_in_words" if one.takes_words else "answer_by_text"
        return OutgoingMessage(
            text=one.shown,
            kind="notice",
            reply_to=run.audience.reply_to,
            answers=run.audience.message,
            buttons=tuple(row for row in (buttons[:answers], buttons[answers:]) if row),
            without_buttons=phrase(by_text, language, choices=" / ".join(labels)),
            while_open=phrase("form_terms", language, minutes=minutes),
            verbatim=True,
        )


def _denied(why: str) -> Outcome:
    return Outcome(content=why, is_error=True, verdict="denied")


def _answer_in(one: Approval) -> Answer:
    return Answer(one.answer, one.requester) if one.status == "answered" else Answer(None)
