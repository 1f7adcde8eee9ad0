"""The workflow gate: a message that sounds like work in many steps is offered as a plan first (SPEC §13.4).

Off unless the operator switches it on. Whatever does not come to an approved plan is a normal turn (W-19).
"""

import logging

import anyio
from sqlalchemy import Connection

from agent.core.plan_events import WorkflowOffered
from agent.goals.stored import Owner
from agent.plans import stranded
from agent.plans.likely import judged, may_ask
from agent.plans.service import PlanRefused
from agent.plans.stored import GATE, Plan
from agent.plans.telling import as_written, view
from agent.storage import inbox_rows
from agent.storage.fence import check_epoch
from agent.storage.timestamps import to_timestamp
from agent.turn.notes import read_notes, says_terminated
from agent.turn.run import SHUTDOWN, Executed, Notice, Run
from agent.turn.states import States
from agent.turn.synthesis import NotMade, note, synthesised, write_proposal
from agent.turn.waiting import waiting_for_approval

log = logging.getLogger("tieline.plans")


async def offer_plan(run: Run, states: States) -> Executed | None:
    """The end of the run, where a person has approved a plan in place of an answer, or stopped it; else None.

    Called when the person's words are on disk, before the loop (W-16). Raises Fenced or StorageTrouble.
    """
    settings, incoming = run.settings.plans, run.work.incoming
    if settings.workflow.mode != "live" or not settings.enabled:
        return None
    if run.work.kind != "message" or run.work.by_hand is not None or run.loop is not None or run.progress.model_calls:
        return None
    approver, writer = incoming.person is not None, not (incoming.may_be_silent or run.audience.silent)
    if not may_ask(settings.workflow.mode, approver=approver, writer=writer, words=incoming.text):
        return None
    notes = await read_notes(states.memory, run.settings.context.memory_chars, states.runtime.clock.now())
    if says_terminated(notes):
        return None  # the normal turn says so
    plan = await _drafted(run, states)
    if plan is not None:
        run.offered = plan.id
    if plan is not None and plan.status == "drafting":
        plan = await _proposed(plan, run, states)
    if plan is not None and plan.status == "proposed" and not run.token.fired:
        plan = await _decided(plan, run, states)
    if run.token.fired:
        return Executed(verdict="cancelled", notice=Notice("stopped"))
    if plan is None or not plan.ticks:  # nobody has ever let it run
        return None
    phrases, language = states.runtime.phrases, run.audience.language
    begins = plan.status == "running"  # else a restart or a stop came between the word and this answer to it
    text = phrases("plan_begins", language, id=plan.id) if begins else view(plan, phrases, language)
    note(f"{as_written(plan)}\n\n{text}", run, states)
    return Executed(verdict="answered", text=text)


async def take_back_offer(run: Run, states: States) -> None:
    """However the turn came to its end: nobody is asked any more about what it offered. Raises StorageTrouble."""
    if run.offered is not None:
        with anyio.CancelScope(shield=True):
            await stranded.expire(states.runtime.plans, run.offered)


async def _drafted(run: Run, states: States) -> Plan | None:
    """The plan of this message, also the one that was made before a restart; None where there can be none."""
    incoming = run.work.incoming
    owner = Owner(
        person=incoming.person,
        display=incoming.display,
        language=incoming.language,
        role=incoming.role,
        chat_type=incoming.chat_type,
    )
    try:
        return await states.runtime.plans.draft(
            states.session.conversation, owner, incoming.text, origin=f"{GATE}{run.work.inbox_id}"
        )
    except PlanRefused as refusal:
        log.info("no plan is offered: %s", refusal.key, extra={"run": run.id})
        return None


async def _proposed(plan: Plan, run: Run, states: States) -> Plan | None:
    """The plan once its proposal is on its way; None where none could be made."""
    runtime = states.runtime
    runtime.outbox.status(runtime.phrases("plan_making", run.audience.language))
    found = judged(run.work.incoming.text)
    runtime.bus.publish(
        WorkflowOffered(conversation=plan.conversation, run=run.id, plan=plan.id, confidence=found.confidence)
    )
    made: Plan | None = None
    try:
        made = await synthesised(plan, run, states, timeout_s=run.settings.plans.workflow.synthesis_timeout_secs)
    except NotMade as error:
        log.info("no plan is offered: %s", error, extra={"run": run.id})
    finally:
        runtime.outbox.status("")
    if made is None:
        if run.token.reason != SHUTDOWN:
            await stranded.expire(runtime.plans, plan.id)
        return None

    def write(conn: Connection) -> bool:
        check_epoch(conn, plan.conversation, run.work.epoch)
        kept = write_proposal(conn, made, states, to_timestamp(runtime.clock.now()))
        take_first(conn)
        return kept

    with runtime.outbox.committing() as take_first:
        return made if await runtime.database.write(write) else None


async def _decided(plan: Plan, run: Run, states: States) -> Plan | None:
    """The plan with a person's word about it; without one in time it is none (W-19)."""
    toolset, within_s = states.runtime.plans, run.settings.plans.workflow.approval_secs
    decided: Plan | None = None

    def waits(conn: Connection) -> None:
        check_epoch(conn, plan.conversation, run.work.epoch)
        inbox_rows.forgive(conn, run.work.inbox_id)

    await states.runtime.database.write(waits)
    async with waiting_for_approval(run, states):
        with run.interrupts.scope():
            decided = await toolset.decided(plan, within_s)
    if toolset.closing and decided is not None and decided.status == "proposed":
        run.token.fire(SHUTDOWN)
    if run.token.reason == SHUTDOWN:
        return decided
    if run.token.fired or decided is None or decided.status == "proposed":
        await stranded.expire(toolset, plan.id)
        return None
    return decided
