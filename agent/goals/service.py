"""Operations on goals from beside the agent's loop: set, pause, resume, complete, clear, look.

It never runs a turn: to start work by itself it leaves a start pending, which the conversation's own loop takes up.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from sqlalchemy import Connection

from agent.core.clock import Clock
from agent.core.errors import Permanent
from agent.core.ids import ConversationId
from agent.core.outbox import Button, OutgoingMessage, answer_of
from agent.core.phrases import Phrases, money
from agent.goals import store
from agent.goals.driver import is_held
from agent.goals.goal import LONGEST_TEXT, MOVES, Auto, Goal, Limits, Owner, Reason, Status, rested, spent_limit
from agent.goals.settings import GoalSettings
from agent.goals.store import short
from agent.inbox import HeldRoles
from agent.sessions import runs
from agent.storage import conversation_rows, outbox_rows
from agent.storage.database import Database
from agent.storage.timestamps import to_timestamp

# Owners of goals: their role of today, and whether they can be told.


class Owned(Protocol):
    """A goal or a plan."""

    @property
    def conversation(self) -> ConversationId: ...

    @property
    def owner(self) -> Owner: ...


Reachable = Callable[[ConversationId], bool]  # False: the platform refuses the account's login

RoleOf = Callable[[Owned], HeldRoles | None]  # None: the owner may not have it worked on any more


def role_then(goal: Owned) -> HeldRoles | None:
    """Where nobody knows better: the role that they had when they set it."""
    return HeldRoles(goal.owner.role, goal.owner.roles)


def always_reachable(conversation: ConversationId) -> bool:
    """Where nobody knows better: what is said there arrives."""
    return True


# Messages about a goal: the line that follows the work, and the result.

# The buttons below a goal's line ("stop") and below what is said when it rests ("go_on"); who hands them in knows how
# a press comes back.
Offer = Literal["stop", "go_on"]
Buttons = tuple[tuple[Button, ...], ...]
Buttoned = Callable[[Offer, Goal], Buttons]


def no_buttons(_: Offer, __: Goal) -> Buttons:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalDeps:
    """Parts of the gateway that goals at work need.

    `ring` says that a conversation has work; `buttons` stand below what is told of goals; `role_of` is the role in
    which an owner has turns run today, None when they may not any more; `reachable` says whether what is said in a
    conversation can be sent.
    """

    ring: Callable[[ConversationId], None] = lambda conversation: None
    buttons: Buttoned = no_buttons
    role_of: RoleOf = role_then
    reachable: Reachable = always_reachable


def live_line(goal: Goal, phrases: Phrases) -> str:
    """The one message that stays while work goes on: what for, how far, what it took, what the last check found."""
    auto, language = goal.auto, goal.owner.language
    assert auto is not None
    lines = [phrases("goal_live", language, goal=short(goal.text)), progress(goal, phrases)]
    if auto.state == "verifying":
        lines.append(phrases("goal_live_checking", language))
    elif auto.state == "waiting":
        lines.append(phrases("goal_live_waiting", language))
    elif auto.verdict:
        lines.append(phrases("goal_live_verdict", language, turn=auto.verified_at, reason=short(auto.verdict, 160)))
    return "\n".join(lines)


def progress(goal: Goal, phrases: Phrases, language: str | None = None) -> str:
    """Turns, tokens and money."""
    auto = goal.auto
    turns = f"{auto.turns}/{auto.most}" if auto is not None else str(goal.used.turns)
    language, usd = language or goal.owner.language, money(goal.used.usd, unpriced=bool(goal.used.unpriced))
    cost = phrases("goal_cost", language, money=usd) if usd else ""
    return phrases("goal_progress", language, turns=turns, tokens=f"{goal.used.tokens:,}", cost=cost)


def why_of(reason: Reason | None, phrases: Phrases, language: str) -> str:
    return phrases(reason.key, language, **reason.values) if reason is not None else "–"


def ending(goal: Goal, phrases: Phrases, buttons: Buttoned, *, answer: bool) -> tuple[OutgoingMessage, ...]:
    """The message at the end: the last answer of work without a person, then the result and what can be done."""
    auto, language = goal.auto, goal.owner.language
    says = answer_of(auto.said) if answer and auto is not None else ()
    key = "goal_over_reached" if goal.status == "completed" else "goal_over_paused"
    lines = [phrases(key, language, goal=short(goal.text), id=goal.id)]
    if goal.status == "completed":
        lines += [auto.verdict] if auto is not None and auto.verdict else []
    else:
        lines.append(why_of(goal.why, phrases, language))
    lines.append(progress(goal, phrases))
    offered = buttons("go_on", goal) if goal.status == "paused" else ()
    return (*says, OutgoingMessage(text="\n".join(lines), kind="notice", buttons=offered, verbatim=True))


log = logging.getLogger("tieline.goals")


class GoalRefused(Permanent):
    """Nothing was changed. `key` names the sentence that says so, `why` the limit behind it."""

    def __init__(self, key: str, *, why: Reason | None = None, **values: object) -> None:
        super().__init__(key)
        self.key = key
        self.why = why
        self.values = values


class GoalService:
    """One for the process. `settings` are asked each time, `wake` is told that a conversation has work."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        *,
        settings: Callable[[], GoalSettings],
        wake: Callable[[ConversationId], None],
    ) -> None:
        self._database = database
        self._clock = clock
        self._settings = settings
        self._wake = wake

    # -- setting

    async def create(
        self,
        conversation: ConversationId,
        owner: Owner,
        text: str,
        limits: Limits = Limits(),  # noqa: B008 - frozen
        *,
        autonomous: bool = False,
        turns: int | None = None,
        origin: str | None = None,
    ) -> Goal:
        """Keep a goal and make it the active one; the one before is paused in the same transaction.

        `autonomous` leaves a start pending; `turns` are those it may take by itself. Raises GoalRefused.
        """
        text = text.strip()
        if not self._settings().enabled:
            raise GoalRefused("goal_off")
        if not text:
            raise GoalRefused("goal_usage")
        if len(text) > LONGEST_TEXT:
            raise GoalRefused("goal_long", length=len(text), limit=LONGEST_TEXT)
        auto = Auto(most=self._most(turns)) if autonomous else None
        at = self._at()

        def work(conn: Connection) -> Goal:
            conversation_rows.ensure(conn, conversation, at)
            conversation_rows.lock_row(conn, conversation)
            known = store.by_origin(conn, origin) if origin is not None else None
            if known is not None:
                return known
            before = store.active(conn, conversation)
            if before is not None:
                self._pause(conn, before, "paused", Reason(key="goal_why_replaced"), at)
            if auto is not None:
                self._check_room(conn)
            added = store.add(
                conn, conversation=conversation, origin=origin, owner=owner, text=text, limits=limits, auto=auto, at=at
            )
            assert added is not None
            if auto is not None:
                store.schedule_wake_up(conn, added, after_s=0.0, at=at)
            return added

        goal = await self._database.write(work)
        if goal.auto is not None:
            self._wake(conversation)
        return goal

    async def resume(
        self,
        conversation: ConversationId,
        id: int | None,
        *,
        limits: Limits = Limits(),  # noqa: B008 - frozen
        autonomous: bool = False,
        turns: int | None = None,
    ) -> Goal:
        """Go on with a paused goal, the last one where none is named; given limits take the place of its own.

        `autonomous` starts another session of work by itself, also of a goal that is active. Raises GoalRefused.
        """
        at = self._at()

        def work(conn: Connection) -> Goal:
            conversation_rows.lock_row(conn, conversation)
            goal = self._pick(conn, conversation, id, "active" if autonomous and id is None else None, "paused")
            if goal.is_autonomous:
                raise GoalRefused("goal_runs_already", id=goal.id)
            if goal.status != "active":
                self._check_move(goal, "active")
                before = store.active(conn, conversation)
                if before is not None:
                    self._pause(conn, before, "paused", Reason(key="goal_why_replaced"), at)
            kept = goal.limits
            goal = replace(
                goal,
                status="active",
                why=None,
                limits=Limits(
                    turns=limits.turns if limits.turns is not None else kept.turns,
                    tokens=limits.tokens if limits.tokens is not None else kept.tokens,
                    usd=limits.usd if limits.usd is not None else kept.usd,
                ),
            )
            over = spent_limit(goal.limits, goal.used)
            if over is not None:
                raise GoalRefused("goal_limit_reached", id=goal.id, why=over, goal=goal)
            if autonomous:
                self._check_room(conn)
                last = goal.auto
                most = self._most(turns if turns is not None else min(last.most, self._cap) if last else None)
                goal = replace(goal, auto=Auto(most=most, round=last.round + 1 if last else 1))
                store.save(conn, goal, at)
                store.schedule_wake_up(conn, goal, after_s=0.0, at=at)
            else:
                store.save(conn, goal, at)
            return goal

        goal = await self._database.write(work)
        if autonomous:
            self._wake(conversation)
        return goal

    async def pause(self, conversation: ConversationId, id: int | None = None) -> Goal:
        """Put the active goal down, with its work by itself. Raises GoalRefused."""
        return await self._end(conversation, id, "paused", Reason(key="goal_why_person"))

    async def complete(self, conversation: ConversationId, id: int | None = None) -> Goal:
        """It is reached. Raises GoalRefused."""
        return await self._end(conversation, id, "completed", None)

    async def clear(self, conversation: ConversationId, id: int | None = None) -> Goal:
        """It is not wanted any more. Raises GoalRefused."""
        return await self._end(conversation, id, "cleared", None)

    async def abandon(self, id: int, phrases: Phrases, buttons: Buttoned) -> Goal | None:
        """Its wake-up was given up as a dead letter: nothing would ever wake it again, so it is put down and told."""
        at = self._at()

        def work(conn: Connection) -> Goal | None:
            goal = store.find(conn, id)
            if goal is None or not goal.is_autonomous:
                return None
            conversation_rows.lock_row(conn, goal.conversation)
            ended = rested(goal, "paused", "failed", Reason(key="goal_why_broken"))
            store.save(conn, ended, at)
            store.cancel_wake_ups(conn, goal)
            self._tell(conn, ended, "abandoned", phrases, buttons, at)
            return ended

        return await self._database.write(work)

    # -- looking

    async def active(self, conversation: ConversationId) -> Goal | None:
        return await self._database.read(lambda conn: store.active(conn, conversation))

    async def find(self, conversation: ConversationId, id: int) -> Goal | None:
        """The goal of that number, if it belongs there."""
        goal = await self._database.read(lambda conn: store.find(conn, id))
        return goal if goal is not None and goal.conversation == conversation else None

    async def all_of(self, conversation: ConversationId) -> tuple[Goal, ...]:
        """The newest 50."""
        return await self._database.read(lambda conn: store.all_of(conn, conversation))

    async def worked_alone(self, conversation: ConversationId | None) -> tuple[Goal, ...]:
        """The goals that are or were worked on by themselves, of one conversation or (None) of all (Z-129)."""
        return await self._database.read(lambda conn: store.worked_alone(conn, conversation))

    # -- at the start

    async def reconcile_orphans(self, phrases: Phrases, buttons: Buttoned) -> int:
        """Put down what an earlier process was working on by itself, and tell each owner once (Z-130).

        Call it once, before any agent runs, as the sole owner: nothing goes on by itself after a death or a restart.
        """
        at = self._at()

        def work(conn: Connection) -> int:
            left = store.running(conn)
            for goal in left:
                orphan = rested(goal, "paused", "orphaned", Reason(key="goal_why_restart"))
                store.save(conn, orphan, at)
                for inbox_id in store.cancel_wake_ups(conn, goal, begun=True):
                    runs.end_run(conn, inbox_id, "cancelled", at)
                self._tell(conn, orphan, "orphan", phrases, buttons, at)
            return len(left)

        count = await self._database.write(work)
        if count:
            log.warning("%d goals were being worked on when the last process ended; they are paused", count)
        return count

    def working_state(self, goal: Goal) -> str:
        """The state of its own work, `held` where it would go on by itself but is switched off."""
        assert goal.auto is not None
        return "held" if is_held(goal, self._settings()) else goal.auto.state

    # -- inside

    @property
    def _cap(self) -> int:
        return self._settings().autonomous_max_turns

    def _most(self, turns: int | None) -> int:
        """The turns that it may take by itself. Refused before anything is changed (Z-128)."""
        if not self._settings().autonomous_enabled:
            raise GoalRefused("goal_auto_off")
        if turns is not None and not 1 <= turns <= self._cap:
            raise GoalRefused("goal_turns", limit=self._cap)
        return turns or self._cap

    def _check_room(self, conn: Connection) -> None:
        most = self._settings().autonomous_max_running
        if store.count_running(conn) >= most:
            raise GoalRefused("goal_too_many", limit=most)

    async def _end(self, conversation: ConversationId, id: int | None, status: Status, why: Reason | None) -> Goal:
        at = self._at()

        def work(conn: Connection) -> Goal:
            conversation_rows.lock_row(conn, conversation)
            goal = self._pick(conn, conversation, id, "active", "paused")
            self._check_move(goal, status)
            return self._pause(conn, goal, status, why, at)

        return await self._database.write(work)

    def _pause(self, conn: Connection, goal: Goal, status: Status, why: Reason | None, at: int) -> Goal:
        ended = rested(goal, status, "achieved" if status == "completed" else "aborted", why)
        store.save(conn, ended, at)
        store.cancel_wake_ups(conn, goal)
        return ended

    def _tell(self, conn: Connection, goal: Goal, what: str, phrases: Phrases, buttons: Buttoned, at: int) -> None:
        """Say that it rests, once for its session of work by itself."""
        session = goal.auto.round if goal.auto is not None else 0
        says, dedup = ending(goal, phrases, buttons, answer=False), f"goal:{goal.id}:{session}:{what}"
        outbox_rows.add_parts(conn, says, conversation=goal.conversation, inbox_id=None, dedup=dedup, at=at)

    def _pick(self, conn: Connection, conversation: ConversationId, id: int | None, *wanted: Status | None) -> Goal:
        """The goal that is meant: by number, else the newest with the first of these statuses that there is."""
        if id is not None:
            goal = store.find(conn, id)
            if goal is None or goal.conversation != conversation:
                raise GoalRefused("goal_unknown", id=id)
            return goal
        every = store.all_of(conn, conversation)
        for status in filter(None, wanted):
            found = next((goal for goal in every if goal.status == status), None)
            if found is not None:
                return found
        raise GoalRefused("goal_none")

    def _check_move(self, goal: Goal, status: Status) -> None:
        if status in MOVES[goal.status]:
            return
        if goal.status == "paused":
            raise GoalRefused("goal_rests", id=goal.id)
        raise GoalRefused("goal_no_move", id=goal.id, status=goal.status)

    def _at(self) -> int:
        return to_timestamp(self._clock.now())
