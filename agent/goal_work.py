"""An agent's work on a goal without a person: wake-ups from its own loop, checks in the background.

Turns run in the loop like any other, one after another and behind what people say; nothing here runs one.
"""

import logging
from dataclasses import replace
from functools import partial

from sqlalchemy import Connection

from agent.core.events import GoalCompleted, GoalMoved
from agent.core.failpoints import failpoint
from agent.features.goals import GoalState, spent_on
from agent.goals import store
from agent.goals.driver import (
    Failed,
    Found,
    Moved,
    Outcome,
    Tick,
    Turn,
    Verdict,
    Verify,
    after_check,
    after_turn,
    at_wake_up,
    tick_text,
)
from agent.goals.goal import Goal, Reason, SessionGoal, Used, is_worth_telling
from agent.goals.service import live_line
from agent.goals.store import short
from agent.inbox import HeldRoles, Work
from agent.ledger import rows
from agent.ledger.spending import Allowance
from agent.storage import conversation_rows, inbox_rows
from agent.storage.database import check_epoch
from agent.storage.errors import StorageTrouble
from agent.storage.timestamps import to_timestamp
from agent.supervisor import Supervisor
from agent.turn.states import States

UNSAVED_PAUSE_S = 5.0  # before a verdict that the disk refused is written again
RING_LATE_S = 0.01  # after the moment, so that the wake-up is surely due

log = logging.getLogger("tieline.goals")


class Autonomy:
    """One agent's. A goal's state is in the database; what is shown of it may vanish."""

    def __init__(self, states: States, goal: GoalState) -> None:
        self._states = states
        self._goal = goal
        self._supervisor = Supervisor(states)

    # -- in the agent's loop

    async def take(self, work: Work) -> Work | None:
        """The turn that a wake-up leads to; None: it led to something else, or to nothing, and is done.

        Raises Fenced or StorageTrouble.
        """
        states, wake_up = self._states, work.incoming.wake_up
        assert wake_up is not None
        settings = states.runtime.settings.agent.goal
        conversation, at = states.session.conversation, self._at()

        def begin(conn: Connection) -> Moved | None:
            check_epoch(conn, conversation, work.epoch)
            conversation_rows.lock_row(conn, conversation)
            goal = found = store.find(conn, wake_up.goal)
            if found is not None:  # also what a killed process left in its journal, and side calls
                goal = replace(found, used=found.used.plus(spent_on(conn, found)))
            bar = None
            if goal is not None and self._goal.deps.role_of(goal) is None:
                bar = Reason(key="goal_why_blocked")
            elif conversation_rows.is_gone(conn, conversation):
                bar = Reason(key="goal_why_gone")
            elif not self._goal.deps.reachable(conversation):
                bar = Reason(key="goal_why_login")
            moved = at_wake_up(goal, settings, round=wake_up.round, tick=wake_up.tick, bar=bar)
            if moved is not None and moved.goal != found:
                self._goal.write_move(conn, moved, at, answer=True)
            if moved is None or not isinstance(moved.next, Turn):
                inbox_rows.finish(conn, work.inbox_ids, "done", work.epoch)
            return moved

        moved = await states.runtime.services.database.write(begin)
        if moved is None:
            return None
        self._follow(moved)
        if not isinstance(moved.next, Turn):
            return None
        self._allow(moved.goal)
        today = self._goal.deps.role_of(moved.goal) or HeldRoles(work.incoming.role, work.incoming.roles)
        return replace(
            work, incoming=replace(work.incoming, text=tick_text(moved.goal), role=today.role, roles=today.roles)
        )

    async def give_up(self, work: Work, why: Reason) -> None:
        """Its turn cannot even begin. Raises Fenced or StorageTrouble."""
        states, wake_up = self._states, work.incoming.wake_up
        assert wake_up is not None
        settings, conversation, at = states.runtime.settings.agent.goal, states.session.conversation, self._at()

        def work_(conn: Connection) -> Moved | None:
            check_epoch(conn, conversation, work.epoch)
            conversation_rows.lock_row(conn, conversation)
            inbox_rows.finish(conn, work.inbox_ids, "refused", work.epoch, why.key)
            goal = store.find(conn, wake_up.goal)
            if goal is None or not goal.is_autonomous:
                return None
            moved = after_turn(goal, Outcome(came="gave_up", why=why), Used(), settings)
            self._goal.write_move(conn, moved, at, answer=True)
            return moved

        moved = await states.runtime.services.database.write(work_)
        if moved is not None:
            self._follow(moved)

    async def after_turn(self, work: Work) -> None:
        """Do what the commit of a turn made of goals: tell, wait, or have it checked."""
        states, wake_up = self._states, work.incoming.wake_up
        completed, moved, by_phrase = self._goal.completed, self._goal.moved, self._goal.by_phrase
        self._goal.completed, self._goal.moved, self._goal.by_phrase = None, None, False
        if moved is not None:
            self._follow(moved)
        elif wake_up is not None:  # its commit was written twice, or the goal was put down meanwhile
            goal = await states.runtime.services.database.read(lambda conn: store.find(conn, wake_up.goal))
            if goal is not None and goal.auto is not None and goal.auto.round == wake_up.round:
                checking = goal.is_autonomous and goal.auto.state == "verifying"
                self._follow(Moved(goal=goal, next=Verify() if checking else Tick(0.0)))
        if completed is not None:
            self._tell_completed(completed, work.incoming.language, by_phrase=by_phrase)

    def _tell_completed(self, goal: SessionGoal, language: str, *, by_phrase: bool) -> None:
        """An event, and where it tells people something a status line that does not stay (Z-93)."""
        services, conversation = self._states.runtime.services, self._states.session.conversation
        services.bus.publish(GoalCompleted(conversation=conversation))
        if not by_phrase or is_worth_telling(goal):
            self._states.runtime.outbox.status(services.phrases("goal_reached", language, goal=short(goal.text)))

    # -- what follows

    def _follow(self, moved: Moved) -> None:
        states, goal = self._states, moved.goal
        conversation = goal.conversation
        if goal.auto is not None:
            event = GoalMoved(conversation=conversation, goal=goal.id, state=goal.auto.state, turns=goal.auto.turns)
            states.runtime.services.bus.publish(event)
        if goal.is_autonomous:
            states.runtime.outbox.live(
                live_line(goal, states.runtime.services.phrases), self._goal.deps.buttons("stop", goal)
            )
        else:
            states.runtime.outbox.live("")
            states.runtime.services.ledger.budgets.spending_caps.close(str(goal.id))
        if moved.ended:
            with states.runtime.outbox.committing():
                pass  # what is said of its end was committed with it
            if goal.status == "completed":
                states.runtime.services.bus.publish(GoalCompleted(conversation=conversation, goal=goal.id))
        match moved.next:
            case Tick() if goal.is_autonomous:
                self._goal.background.start(partial(self._ring, moved.next.after_s))
            case Verify():
                self._goal.background.start(partial(self._check, goal))

    async def _ring(self, after_s: float) -> None:
        """A sleeping conversation is woken at the moment; the row itself would be found a little later (Z-118)."""
        await self._states.runtime.services.clock.sleep(after_s + RING_LATE_S)
        self._goal.deps.ring(self._states.session.conversation)

    # -- in the background

    async def _check(self, goal: Goal) -> None:
        """Ask the supervisor and write what it found; no turn waits for it (Z-132)."""
        states = self._states
        try:
            found: Found = await self._supervisor.ask(goal)
        except Exception as error:  # the seam of background work: a defect must not leave the goal unchecked for ever
            log.exception("the check of goal %d broke", goal.id, extra={"conversation": goal.conversation})
            found = Failed(type(error).__name__)
        if not isinstance(found, Verdict):
            log.warning("goal %d was not checked: %s", goal.id, found)
        settings, ledger = states.runtime.settings.agent.goal, states.runtime.services.ledger
        calls = [entry for entry in ledger.unwritten(None) if entry.attribution.goal == str(goal.id)]

        def write(conn: Connection) -> Moved | None:
            at = self._at()
            rows.add(conn, calls)
            conversation_rows.lock_row(conn, goal.conversation)
            now = store.find(conn, goal.id)
            if now is None or now.auto is None or goal.auto is None or now.auto.round != goal.auto.round:
                return None
            moved = after_check(now, found, spent_on(conn, now), settings)
            self._goal.write_move(conn, moved, at, answer=True)
            failpoint("goal.within")
            return moved

        failpoint("goal.judged")
        while True:
            try:
                moved = await states.runtime.services.database.write(write)
                break
            except StorageTrouble as error:
                log.warning("what the check of goal %d found cannot be written yet: %s", goal.id, error)
                await states.runtime.services.clock.sleep(UNSAVED_PAUSE_S)
        failpoint("goal.after")
        ledger.written(calls)
        if moved is not None:
            self._follow(moved)

    def _allow(self, goal: Goal) -> None:
        """Its own limits, else the gateway's, hold before each call that it makes by itself."""
        settings, own = self._states.runtime.settings.agent.goal, goal.limits
        allowance = Allowance(
            usd=own.usd if own.usd is not None else settings.autonomous_max_cost_usd,
            tokens=own.tokens if own.tokens is not None else settings.autonomous_max_tokens,
            priced=own.usd is not None,
        )
        spending_caps = self._states.runtime.services.ledger.budgets.spending_caps
        spending_caps.open(str(goal.id), allowance, usd=goal.used.usd, tokens=goal.used.tokens)

    def _at(self) -> int:
        return to_timestamp(self._states.runtime.services.clock.now())
