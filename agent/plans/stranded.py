"""Plans that nobody would go on with: left by an earlier process, by a message or wake-up given up, by a silent person.

One at work rests, and its owner is told; one that waits for a word, or is made before one, is cancelled (SPEC §13.3).
"""

import logging
from dataclasses import replace

from sqlalchemy import Connection

from agent.core.phrases import Phrases
from agent.goals.stored import Reason
from agent.plans import store, wakes
from agent.plans.service import PlanService
from agent.plans.stored import AT_WORK, GATE, Plan, paused
from agent.plans.telling import Buttoned, ending
from agent.sessions import runs
from agent.storage import conversation_rows, inbox_rows, outbox_rows
from agent.storage.timestamps import to_timestamp

log = logging.getLogger("tieline.plans")


async def reconcile(plans: PlanService, phrases: Phrases, buttons: Buttoned) -> int:
    """Put down what an earlier process was carrying out, and tell each owner once: nothing runs twice unseen.

    Call it once, before any agent runs, as the sole owner. Plans that were being made are made again; what the gate
    offered ends where its message is not taken up again.
    """
    at, settings = to_timestamp(plans.clock.now()), plans.settings()
    live = settings.enabled and settings.workflow.mode == "live"

    def work(conn: Connection) -> int:
        for plan in store.offered(conn):
            if not (live and inbox_rows.is_new(conn, int(plan.origin.removeprefix(GATE)))):
                store.save(conn, _expired(plan), at)
        left = store.running(conn)
        for plan in left:
            rests = paused(plan, Reason(key="plan_why_restart"))
            store.save(conn, rests, at)
            for inbox_id in wakes.cancel_wake_ups(conn, plan, begun=True):
                runs.end_run(conn, inbox_id, "cancelled", at)
            _say(conn, rests, "restart", phrases, buttons, at)
        return len(left)

    count = await plans.database.write(work)
    if count:
        log.warning("%d plans were being carried out when the last process ended; they wait for a word", count)
    return count


async def abandon(plans: PlanService, id: int, phrases: Phrases, buttons: Buttoned) -> Plan | None:
    """Its wake-up was given up as a dead letter: nothing would ever wake it again, so it is put down and told."""

    def work(conn: Connection) -> Plan | None:
        plan = _locked(conn, id)
        if plan is None or plan.status not in AT_WORK:
            return None
        rests, at = paused(plan, Reason(key="plan_why_broken")), to_timestamp(plans.clock.now())
        store.save(conn, rests, at)
        wakes.cancel_wake_ups(conn, rests)
        _say(conn, rests, "abandoned", phrases, buttons, at)
        return rests

    return await plans.database.write(work)


async def expire(plans: PlanService, id: int) -> None:
    """Nobody has decided in time, or nobody is asked any more."""

    def work(conn: Connection) -> None:
        plan = _locked(conn, id)
        if plan is not None and plan.status in ("proposed", "drafting"):
            store.save(conn, _expired(plan), to_timestamp(plans.clock.now()))

    await plans.database.write(work)
    plans.tell(id)


async def withdraw(plans: PlanService, inbox_id: int) -> None:
    """The message that the gate made a plan of was given up: nobody waits for a word about it any more."""
    offered = await plans.database.read(lambda conn: store.by_origin(conn, f"{GATE}{inbox_id}"))
    if offered is not None:
        await expire(plans, offered.id)


def _say(conn: Connection, plan: Plan, what: str, phrases: Phrases, buttons: Buttoned, at: int) -> None:
    outbox_rows.add(
        conn,
        conversation=plan.conversation,
        inbox_id=None,
        part=0,
        dedup=f"plan:{plan.id}:{plan.ticks}:{what}",
        say=ending(plan, phrases, buttons),
        at=at,
    )


def _locked(conn: Connection, id: int) -> Plan | None:
    """As it stands once nobody else can change it."""
    plan = store.find(conn, id)
    if plan is None:
        return None
    conversation_rows.lock_row(conn, plan.conversation)
    return store.find(conn, id)


def _expired(plan: Plan) -> Plan:
    return replace(plan, status="cancelled", why=Reason(key="plan_why_expired"))
