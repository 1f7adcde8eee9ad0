"""Makes a plan within a run: asks the planner, and proposes what it made to the person (SPEC §13.3, §13.4)."""

from dataclasses import replace

from sqlalchemy import Connection

from agent.core.errors import AgentError, Fenced, Refused
from agent.core.messages import text_message
from agent.core.phrases import english
from agent.goals.stored import Reason
from agent.plans import store
from agent.plans.estimating import estimated
from agent.plans.graph import Impossible
from agent.plans.planner import made
from agent.plans.stored import Plan
from agent.plans.telling import proposal
from agent.storage import outbox_rows
from agent.storage.errors import StorageTrouble
from agent.turn.run import Run
from agent.turn.side_calls import SideCalls
from agent.turn.states import States


class NotMade(Exception):
    """There is no plan. `why` is for people."""

    def __init__(self, why: Reason, error: str = "") -> None:
        super().__init__(error or why.key)
        self.why = why


async def synthesised(plan: Plan, run: Run, states: States, *, timeout_s: float) -> Plan | None:
    """The plan with its tasks and what it may cost; None: the run was stopped meanwhile. Raises NotMade."""
    settings = run.settings.plans
    ask = SideCalls(states, person=plan.owner.person)
    tasks = None
    try:
        with run.interrupts.scope():
            tasks = await made(plan.goal, ask, settings, timeout_s=timeout_s)
    except Impossible as error:
        values = {name: str(value) for name, value in error.values.items()}
        raise NotMade(Reason(key=error.key, values=values), english(error.key, "en", **values)) from error
    except (Fenced, StorageTrouble):
        raise
    except Refused as error:
        raise NotMade(Reason(key="goal_why_budget", values={"reason": str(error)})) from error
    except (AgentError, TimeoutError) as error:
        raise NotMade(Reason(key="plan_why_no_planner"), f"{type(error).__name__}: {error}") from error
    if run.token.fired or tasks is None:
        return None
    slot, name = states.provider.slot, settings.provider
    prices = (slot.named(name) if name else slot.current()).prices
    return replace(plan, status="proposed", tasks=tasks, estimate=estimated(tasks, prices))


def write_proposal(conn: Connection, made: Plan, states: States, at: int) -> bool:
    """Keep it as proposed and ask the person; False: it was put down while it was made."""
    now = store.find(conn, made.id)
    if now is None or now.status != "drafting":
        return False
    store.save(conn, replace(made, ticks=now.ticks), at)
    store.set_screen(conn, made.id, "open")
    outbox_rows.add(
        conn,
        conversation=made.conversation,
        inbox_id=None,
        part=0,
        dedup=plan_prompt_key(made.id),
        say=proposal(made, states.runtime.phrases, states.runtime.plan_buttons),
        at=at,
    )
    return True


def plan_prompt_key(id: int) -> str:
    """What the outbox row of a proposal is known by."""
    return f"plan:{id}:proposal"


def note(text: str, run: Run, states: States) -> None:
    """Keep it in the transcript as said by the assistant: later turns know of it."""
    run.hidden_from_history = False
    run.messages.append(text_message("assistant", text, created_at=states.runtime.clock.now()))
