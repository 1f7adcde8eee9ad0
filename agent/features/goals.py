"""Goals in a turn: what a finished one means for the session's own goal, and for the kept one that it worked on.

All of it is written in the turn's commit, so it happens once; what follows is done afterwards.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from agent.between_turns import Jobs
from agent.core.ids import ConversationId, SessionId
from agent.core.phrases import Phrases
from agent.goals import goal as lifecycle
from agent.goals import store
from agent.goals.driver import Came, Moved, Outcome, Tick, after_person, after_turn, goal_block, goal_tag
from agent.goals.goal import IDLE, Goal, Reason, SessionGoal, Used, claims
from agent.goals.service import GoalDeps, ending
from agent.goals.settings import GoalSettings
from agent.inbox import Work
from agent.ledger import rows
from agent.run.features import Additions, Ended, Feature, OnOpened
from agent.run.run import Executed, Run, StagedChanges
from agent.storage import conversation_rows, outbox_rows
from agent.storage.database import Database

NO_GOAL = Additions()

# Ends that are the end of one turn and not of the work: the next turn goes on.
BOUNDS = frozenset({"max_tool_iterations", "max_turns", "step_budget"})
# Ends that may be another time: the network, the service, the clock.
PASSING = frozenset(
    {"provider_busy", "no_providers", "model_slow", "model_cut", "execution_timeout", "empty_answer", "recovery_budget"}
)
# A call was not made, for a limit would not have allowed it.
BARRED = ("over_budget_", "goal_why_", "unpriced")


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """Changes of goals by the commit of a turn; None: there was none, or nothing changed."""

    session: SessionId | None = None  # whose goal was looked at
    of_session: SessionGoal | None = None
    completed: bool = False
    by_phrase: bool = False
    moved: Moved | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class GoalState(Feature):
    """Goals of the conversation. `of_session` holds for the session `known_for`; kept goals are in the database.

    `completed` and `moved` are what the last commit made of goals, for the agent to act on; `by_phrase`: completed by
    what an answer said, and not by a plan or a person.
    """

    conversation: ConversationId
    database: Database
    phrases: Phrases
    settings: Callable[[], GoalSettings]
    background: Jobs
    deps: GoalDeps
    of_session: SessionGoal = IDLE
    known_for: SessionId | None = None
    completed: SessionGoal | None = None
    by_phrase: bool = False
    moved: Moved | None = None

    def opened(self, conn: Connection, work: Work, *, new: bool) -> OnOpened | None:
        """Count a person's message for the active goal."""
        if work.kind != "message" or not self.settings().enabled:
            return None
        id = store.active_id(conn, self.conversation)

        def counted(run: Run) -> None:
            run.goal = id

        return counted if id is not None else None

    async def context(self, run: Run) -> None:
        """Know what the session is after."""
        if run.settings.agent.goal.follows_session and self.known_for != run.session:
            await self.look_up(run.session)

    async def look_up(self, session: SessionId) -> None:
        """Ask the store what that session is after."""
        self.of_session = await self.database.read(lambda conn: store.of_session(conn, session))
        self.known_for = session

    def prompt(self, run: Run) -> Additions:
        """The goal as it is with the words that this run answers, where that is wanted; never how it stands (Z-88)."""
        if not run.settings.agent.goal.follows_session:
            return NO_GOAL
        goal = self.of_session
        if run.work.kind == "message":
            goal = lifecycle.after_message(goal, run.work.incoming.text)
        if goal.state != "active" or not goal.text:
            return NO_GOAL
        return Additions(goal=goal_block(goal.text), named_goal=goal_tag(goal.text))

    def changing(self, conn: Connection, staged: StagedChanges, session: SessionId, at: int) -> None:
        """A cleared session and one that was left for a fresh one are after nothing any more (Z-87)."""
        if staged.clears or (staged.switch_session and staged.session is None):
            store.put_of_session(conn, session, IDLE, at)
        elif staged.complete_goal:
            store.put_of_session(conn, session, lifecycle.completed(store.of_session(conn, session)), at)

    def changed(self, staged: StagedChanges, session: SessionId | None) -> None:
        """Follow a command's change of the session, which is on disk now."""
        if staged.complete_goal:
            self.of_session = self.completed = lifecycle.completed(self.of_session)
        elif staged.any:
            self.of_session, self.known_for = IDLE, None

    def forgotten(self) -> None:
        """Ask the store again."""
        self.known_for = None

    def committing(self, conn: Connection, ended: Ended) -> Callable[[], None]:
        """Write what the turn means, after the end of its run was noted."""
        closed = self._close(conn, ended)

        def settled() -> None:
            if closed.session is not None and closed.of_session is not None:
                self.known_for, self.of_session = closed.session, closed.of_session
            if closed.completed:
                self.completed, self.by_phrase = closed.of_session, closed.by_phrase
            self.moved = closed.moved

        return settled

    def _close(self, conn: Connection, ended: Ended) -> Closed:
        run, executed, at = ended.run, ended.executed, ended.at
        work, settings, closed = run.work, run.settings.agent.goal, Closed()
        if not settings.enabled or (not run.opened and work.incoming.wake_up is None):
            return closed
        if run.opened and run.ending.reaches_goal and executed.verdict == "answered":
            return _complete_session(conn, run, at) if settings.follows_session else closed
        if run.opened and work.kind == "message" and settings.follows_session:
            closed = self._close_session(conn, executed, run, at)
        if run.goal is not None and (work.kind == "message" or work.incoming.wake_up is not None):
            closed = replace(closed, moved=self._close_kept(conn, run.goal, ended))
        return closed

    def _close_session(self, conn: Connection, executed: Executed, run: Run, at: int) -> Closed:
        settings = run.settings.agent.goal
        before = self.of_session if self.known_for == run.session else store.of_session(conn, run.session)
        after = lifecycle.after_message(before, run.work.incoming.text)
        if executed.verdict == "answered":
            pattern = lifecycle.completion_pattern(settings.completion_phrases)
            after = lifecycle.after_reply(after, executed.text, tool_calls=bool(actions_of(run)), completion=pattern)
        if after != before:
            store.put_of_session(conn, run.session, after, at)
        done = after != before and after.state == "completed"
        return Closed(session=run.session, of_session=after, completed=done, by_phrase=done)

    def _close_kept(self, conn: Connection, id: int, ended: Ended) -> Moved | None:
        run, at = ended.run, ended.at
        wake_up = run.work.incoming.wake_up
        conversation_rows.lock_row(conn, self.conversation)
        goal = store.find(conn, id)
        if goal is None:
            return None
        settings, spent = run.settings.agent.goal, spent_on(conn, goal, turns=1)
        if wake_up is None:
            if goal.status != "active":  # put down while the turn ran
                store.save(conn, replace(goal, used=goal.used.plus(spent)), at)
                return None
            moved = after_person(goal, spent, settings)
        elif goal.auto is None or goal.auto.round != wake_up.round:
            return None  # a newer session has begun; this turn belongs to the one before
        else:
            moved = after_turn(goal, outcome_of(ended.executed, run, ended.said), spent, settings)
        self.write_move(conn, moved, at, answer=wake_up is not None)
        return moved

    def write_move(self, conn: Connection, moved: Moved, at: int, *, answer: bool) -> None:
        """Write a goal as it is now, its next wake-up, and what its person is told when it is over.

        With `answer` the last answer is said too: those of turns by itself have been shown to nobody.
        """
        goal = moved.goal
        store.save(conn, goal, at)
        if isinstance(moved.next, Tick):
            store.schedule_wake_up(conn, goal, after_s=moved.next.after_s, at=at)
        if moved.ended:
            store.cancel_wake_ups(conn, goal)
            says = ending(goal, self.phrases, self.deps.buttons, answer=answer)
            dedup = f"goal:{goal.id}:{goal.auto.round if goal.auto else 0}:{goal.used.turns}:end"
            outbox_rows.add_parts(conn, says, conversation=goal.conversation, inbox_id=None, dedup=dedup, at=at)


def _complete_session(conn: Connection, run: Run, at: int) -> Closed:
    """A plan is completed, and with it what the session is after (Z-91)."""
    before = store.of_session(conn, run.session)
    after = lifecycle.completed(before)
    if after != before:
        store.put_of_session(conn, run.session, after, at)
    return Closed(session=run.session, of_session=after, completed=after != before)


def spent_on(conn: Connection, goal: Goal, *, turns: int = 0) -> Used:
    """Entries in the ledger for the goal since it was looked at last."""
    totals, used = rows.totals(conn, goal=str(goal.id)), goal.used
    return Used(
        turns=turns,
        tokens=max(0, totals.tokens - used.tokens),
        usd=max(0.0, totals.cost_usd - used.usd),
        unpriced=max(0, totals.unpriced - used.unpriced),
    )


def outcome_of(executed: Executed, run: Run, said: str) -> Outcome:
    """The result of the turn, as the driver of its goal counts it; `said` are its words as people read them."""
    notice, came, why = executed.notice, _came(executed, run), None
    if notice is not None and came in ("broke", "gave_up", "barred"):
        why = Reason(key=notice.phrase, values={name: str(value) for name, value in notice.values.items()})
    elif came == "gave_up":
        why = Reason(key="goal_why_gave_up")
    pattern = lifecycle.completion_pattern(run.settings.agent.goal.completion_phrases)
    claimed = came == "went" and claims(executed.text, pattern)
    return Outcome(came=came, text=executed.text, said=said, actions=actions_of(run), claims=claimed, why=why)


def actions_of(run: Run) -> tuple[str, ...]:
    """The tools that the run called, with what they were given."""
    return tuple(
        f"{use.name} {json.dumps(dict(use.input), sort_keys=True, default=str)}"[:200]
        for message in run.messages
        for use in message.tool_uses
    )


def _came(executed: Executed, run: Run) -> Came:
    phrase = executed.notice.phrase if executed.notice is not None else ""
    match executed.verdict:
        case "waiting":
            return "waits"
        case "cancelled":
            return "gave_way"
        case "answered":
            return "gave_way" if run.ending.preempted else "went"
    if phrase in BOUNDS:
        return "went"
    if phrase.startswith(BARRED):
        return "barred"
    return "broke" if phrase in PASSING else "gave_up"
