"""Approvals in a turn: asks people to allow a call or to answer its question, and waits, also across restarts."""

import json
from collections.abc import Callable
from itertools import groupby

import anyio
from sqlalchemy import Connection

from agent.core.events import ApprovalRequired, ApprovalResumed, Suspended
from agent.core.failpoints import failpoint
from agent.core.messages import ToolUse
from agent.core.outbox import Answer, Button, OutgoingMessage, Question
from agent.core.tools import ToolContext
from agent.run.run import SHUTDOWN, Run
from agent.storage import approval_rows, inbox_rows, outbox_rows
from agent.storage.approval_rows import TAKES_WORDS, Approval
from agent.storage.database import check_epoch
from agent.storage.timestamps import to_timestamp
from agent.tools.approvals import anyone_may_decide, canonical, covers_of, digest_of, extent_of, shown_of
from agent.tools.executor import Cleared, Outcome
from agent.turn.interim_text import commit_before_question
from agent.turn.requests import scope_of
from agent.turn.states import States, announce, waiting_for_approval

PRESS = "a:"  # begins the action of a button that answers an approval: `a:<id>:<y, n or a>`
ID_DIGITS = 10  # of a random UUID: 40 bits; who presses is checked as well

NOBODY = "{name} was not run: it needs a person's approval, and there is nobody here who could give it."
NO_WAY = "{name} was not run: it needs a person's approval, and people cannot answer here while you wait."
REJECTED = "{name} was not run: the person said no. Do not try it again in another way; ask what they want instead."
EXPIRED = "{name} was not run: nobody approved it in time. Say so, and ask again only if the person still wants it."
CANCELLED = "{name} was not run: the run was stopped while it waited for approval."
CHANGED = "{name} was not run: what it would do is no longer what was approved. Ask again if it is still needed."


class LeftForLater(Exception):
    """The process ends: the run stays as it is stored, and the next owner goes on with it."""


async def ask_person(cleared: Cleared, reason: str, run: Run, states: States) -> Approval | Outcome:
    """The approval of exactly this call, ready to be executed; an Outcome where there is none.

    Raises LeftForLater, Fenced or StorageTrouble.
    """
    toolset, settings = states.runtime.approvals, run.settings.approvals
    name, requester = cleared.call.name, run.work.incoming.person
    if not anyone_may_decide(requester, settings.approvers, requester_may=settings.requester):
        return _denied(NOBODY.format(name=name))
    if not states.runtime.outbox.suspends:
        return _denied(NO_WAY.format(name=name))
    one = await _asked(cleared, reason, run, states)
    announce(states, _required(one, states))
    announce(states, Suspended(conversation=one.conversation, run=run.id, correlation=one.id))
    failpoint("approval.asked")
    began = states.runtime.clock.monotonic()
    decided: Approval | None = None
    with run.interrupts.scope():
        decided = await toolset.decided(one.id)
    if decided is not None and decided.status == "pending":  # the service has closed: whoever is next asks on
        run.token.fire(SHUTDOWN)
    if run.token.fired:
        if run.token.reason == SHUTDOWN:
            raise LeftForLater
        await (toolset.withdraw(one.id) if decided is not None else toolset.end(one.id, "cancelled"))
        return Outcome(content=CANCELLED.format(name=name), is_error=True, verdict="stopped")
    assert decided is not None
    waited_ms = round((states.runtime.clock.monotonic() - began) * 1000)
    announce(
        states,
        ApprovalResumed(
            conversation=one.conversation,
            run=run.id,
            correlation=one.id,
            status=decided.status,
            waited_ms=waited_ms,
        ),
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


async def still_the_same(
    one: Approval, call: ToolUse, context: ToolContext, run: Run, states: States
) -> Cleared | Outcome:
    """The approved call as it would run now: grounded anew, and the very same (R-30); else it is withdrawn."""
    executor = states.tool.executor
    found = await executor.look(call, context, allowed=scope_of(run, states))
    if isinstance(found, Cleared):
        arguments = canonical(found.appraisal.arguments)
        same = digest_of(call.name, arguments) == one.digest == digest_of(one.tool, one.arguments)
        if same and found.appraisal.gate != "deny":
            return found
        found = _denied(CHANGED.format(name=call.name))
    await states.runtime.approvals.withdraw(one.id)
    return found


async def _asked(cleared: Cleared, reason: str, run: Run, states: States) -> Approval:
    """Freeze the call and ask, in one transaction; after a crash the question that stands already."""
    runtime, conversation, work = states.runtime, states.session.conversation, run.work
    incoming, name, at = work.incoming, cleared.call.name, to_timestamp(runtime.clock.now())
    arguments = canonical(cleared.appraisal.arguments)
    fresh = Approval(
        id=runtime.new_id().replace("-", "")[-ID_DIGITS:],
        conversation=conversation,
        inbox_id=work.inbox_id,
        call_id=cleared.call.id,
        position=run.next_position - 1,
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

    def write(conn: Connection) -> Approval:
        check_epoch(conn, conversation, work.epoch)
        one = approval_rows.ask(conn, fresh)
        if one.status == "pending":
            inbox_rows.forgive(conn, work.inbox_id)
        if one is fresh:
            outbox_rows.add(
                conn,
                conversation=conversation,
                inbox_id=None,
                part=0,
                dedup=prompt_key(one.id),
                say=_prompt(one, run, states),
                at=at,
            )
        take_first(conn)
        return one

    with runtime.outbox.committing() as take_first:
        one = await runtime.database.write(write)
        runtime.approvals.expect(one)  # before it can be read
        return one


def prompt_key(id: str) -> str:
    """The key of the outbox row that asks."""
    return f"approval:{id}"


def _prompt(one: Approval, run: Run, states: States) -> OutgoingMessage:
    phrase, language, incoming = states.runtime.phrases, one.language, run.work.incoming
    minutes, extent = max(1, round((one.expires_at - one.created_at) / 60e6)), extent_of(one.covers)
    shown = states.tool.executor.redact(one.shown)
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
        phrase("approval_terms_group" if _is_shared(run) else "approval_terms", language, minutes=minutes),
        *([phrase("approval_covers", language, tool=one.tool, covers=plain(extent))] if extent else []),
        *(
            [phrase("approval_who", language, who=plain(str(incoming.display or incoming.person)))]
            if _is_shared(run)
            else []
        ),
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


def plain(text: str) -> str:
    """Words of a command or of a person, as text that no sign of Markdown in them changes."""
    return "".join(f"\\{sign}" if sign in "\\`*_~[]<>#|" else sign for sign in " ".join(text.split()))


def longest_run(text: str, sign: str = "`") -> int:
    """How many of these signs stand in a row at most."""
    return max((len(list(run)) for one, run in groupby(text) if one == sign), default=0)


def _is_shared(run: Run) -> bool:
    return run.work.incoming.chat_type != "direct"


def _required(one: Approval, states: States) -> ApprovalRequired:
    left_s = (one.expires_at - to_timestamp(states.runtime.clock.now())) / 1e6
    return ApprovalRequired(
        conversation=one.conversation,
        run=states.lifecycle.run,
        tool_name=one.tool,
        tool_call_id=one.call_id,
        correlation=one.id,
        reason=one.reason,
        expires_in_s=max(0, round(left_s)),
    )


def _denied(why: str) -> Outcome:
    return Outcome(content=why, is_error=True, verdict="denied")


# Elicitation: a call's question to people, stored, so that the answer may come after a restart (G-18).

WORDED = frozenset({"yes", "no"})  # choices that have a word of their own in each language
CUT_OFF = (
    "Interrupted by a restart after it had asked the person; it is not known whether this call took effect.\n{asked}\n"
    "Check before repeating it; where it is safe to repeat, repeat it with what they answered."
)
ASKED, NO_ANSWER = "Asked: {prompt}\nAnswered: {answer}", "nothing, in time"


async def elicit(question: Question, use: ToolUse, run: Run, states: States) -> Answer:
    """Ask and wait; no answer in time is none. A call that is run again is given the answers it had.

    Does not return when the process ends: the question stands for the next one.
    """
    number = run.asked[use.id] = run.asked.get(use.id, 0) + 1
    await _commit_text(run, states)
    one = await _asked_person(question, approval_rows.question_key(use.id, number), use, run, states)
    decided = await _decided(one, run, states)
    if decided is None:
        await anyio.sleep_forever()
    assert decided is not None
    return _answer_in(decided)


async def cut_off(use: ToolUse, run: Run, states: States) -> str | None:
    """For the model: what a call that a crash cut off had asked, and the answer, for which this waits; None: nothing.

    Raises LeftForLater.
    """
    inbox_id, call = run.work.inbox_id, use.id
    asked = await states.runtime.database.read(lambda conn: approval_rows.questions_of(conn, inbox_id, call))
    lines = []
    for one in asked:
        decided = one
        if one.status == "pending":
            await states.runtime.database.write(lambda conn: inbox_rows.forgive(conn, inbox_id))
            waited = await _decided(one, run, states)
            if waited is None:
                raise LeftForLater
            decided = waited
        answer = _answer_in(decided).choice
        lines.append(ASKED.format(prompt=one.shown, answer=json.dumps(answer) if answer else NO_ANSWER))
    return CUT_OFF.format(asked="\n".join(lines)) if lines else None


async def _commit_text(run: Run, states: States) -> None:
    """The text that leads up to the question stands above it, as with an approval."""
    conversation, epoch = states.session.conversation, run.work.epoch

    async def write(also: Callable[[Connection], None]) -> None:
        def fenced(conn: Connection) -> None:
            check_epoch(conn, conversation, epoch)
            also(conn)

        await states.runtime.database.write(fenced)

    await commit_before_question(run, states, write)


async def _decided(one: Approval, run: Run, states: States) -> Approval | None:
    """The question with its answer, or withdrawn; None: the process ends, and it stands."""
    toolset = states.runtime.approvals
    failpoint("question.open")
    decided: Approval | None = None
    try:
        async with waiting_for_approval(run, states):
            with run.interrupts.scope():
                decided = await toolset.decided(one.id)
    except anyio.get_cancelled_exc_class():  # the call is over: its time, its server
        if run.token.reason != SHUTDOWN:
            with anyio.CancelScope(shield=True):
                await toolset.end(one.id, "cancelled")
        raise
    if decided is not None and decided.status == "pending":  # the service has closed
        run.token.fire(SHUTDOWN)
    if run.token.fired and run.token.reason == SHUTDOWN:
        return None
    if decided is None or decided.status == "pending":
        await toolset.end(one.id, "cancelled")
        return one
    return decided


async def _asked_person(question: Question, key: str, use: ToolUse, run: Run, states: States) -> Approval:
    """Ask, in one transaction; after a crash the question that was asked already."""
    runtime, conversation, work = states.runtime, states.session.conversation, run.work
    at, prompt = to_timestamp(runtime.clock.now()), states.tool.executor.redact(question.prompt)
    fresh = Approval(
        id=runtime.new_id().replace("-", "")[-ID_DIGITS:],
        conversation=conversation,
        inbox_id=work.inbox_id,
        call_id=key,
        position=run.next_position - 1,
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

    def write(conn: Connection) -> Approval:
        check_epoch(conn, conversation, work.epoch)
        one = approval_rows.ask(conn, fresh)
        if one is fresh:
            inbox_rows.forgive(conn, work.inbox_id)
            outbox_rows.add(
                conn,
                conversation=conversation,
                inbox_id=None,
                part=0,
                dedup=prompt_key(one.id),
                say=_question_prompt(one, question.asides, run, states),
                at=at,
            )
        take_first(conn)
        return one

    with runtime.outbox.committing() as take_first:
        one = await runtime.database.write(write)
        runtime.approvals.expect(one)  # before it can be read
        return one


def _question_prompt(one: Approval, asides: int, run: Run, states: States) -> OutgoingMessage:
    """The last `asides` of the choices stand in a row of their own."""
    phrase, language = states.runtime.phrases, one.language
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


def _answer_in(one: Approval) -> Answer:
    return Answer(one.answer, one.requester) if one.status == "answered" else Answer(None)
