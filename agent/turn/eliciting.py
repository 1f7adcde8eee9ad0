"""What a call asks people in the middle of its work: written down, so that the answer may come after a restart (G-18).

A call that a crash cut off is not gone on with; the model is told what was asked, what was answered, and that the call
did not end.
"""

import json
from collections.abc import Callable

import anyio
from sqlalchemy import Connection

from agent.core.failpoints import failpoint
from agent.core.messages import ToolUse
from agent.core.outbox import Answer, Button, OutgoingMessage, Question
from agent.storage import approval_rows, inbox_rows, outbox_rows
from agent.storage.approval_rows import TAKES_WORDS, Approval
from agent.storage.fence import check_epoch
from agent.storage.timestamps import to_timestamp
from agent.tools.gate import digest_of
from agent.turn.approving import ID_DIGITS, PRESS, LeftForLater, prompt_key
from agent.turn.interim_text import commit_before_question
from agent.turn.run import SHUTDOWN, Run
from agent.turn.states import States
from agent.turn.waiting import waiting_for_approval

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
    buttons = tuple(
        Button(
            label=phrase(choice, language) if choice in WORDED else choice,
            action=f"{PRESS}{one.id}:{number}",
            style="primary" if choice == "yes" else "danger" if choice == "no" else "plain",
        )
        for number, choice in enumerate(one.choices)
    )
    answers = len(buttons) - asides
    by_text = "answer_in_words" if one.takes_words else "answer_by_text"
    return OutgoingMessage(
        text=one.shown,
        kind="notice",
        reply_to=run.audience.reply_to,
        answers=run.audience.message,
        buttons=tuple(row for row in (buttons[:answers], buttons[answers:]) if row),
        without_buttons=phrase(by_text, language, choices=" / ".join(one.choices)),
        verbatim=True,
    )


def _answer_in(one: Approval) -> Answer:
    return Answer(one.answer, one.requester) if one.status == "answered" else Answer(None)
