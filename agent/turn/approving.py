"""Asks a person to allow one call, and waits, across restarts if need be (SPEC §12.4). Runs nothing itself."""

from itertools import groupby

from sqlalchemy import Connection

from agent.core.failpoints import failpoint
from agent.core.gate_events import ApprovalRequired, ApprovalResumed, Suspended
from agent.core.messages import ToolUse
from agent.core.outbox import Button, OutgoingMessage
from agent.core.tools import ToolContext
from agent.storage import approval_rows, inbox_rows, outbox_rows
from agent.storage.approval_rows import Approval
from agent.storage.fence import check_epoch
from agent.storage.timestamps import to_timestamp
from agent.tools.executor import Cleared, Outcome
from agent.tools.gate import anyone_may_decide, canonical, covers_of, digest_of, extent_of, shown_of
from agent.turn.requests import scope_of
from agent.turn.run import SHUTDOWN, Run
from agent.turn.states import States, announce

PRESS = "a:"  # begins the action of a button that answers an approval: `a:<id>:<y, n or a>`
ID_DIGITS = 10  # of a random UUID: 40 bits; who presses is checked as well
FINGERPRINT = 8  # digits of the digest that people see

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
    """What the outbox row that asks is known by."""
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
        "",
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
