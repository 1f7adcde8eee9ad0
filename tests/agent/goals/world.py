"""An agent with a goal, and an inbox that is emptied as a drain would: people first, wake-ups when they are due."""

import json
from dataclasses import replace
from typing import Any

import anyio
from sqlalchemy import Connection

from agent.core.events import GoalMoved
from agent.core.outbox import OutgoingMessage
from agent.goals import store
from agent.goals.goal import Auto, Goal, Owner
from agent.goals.service import GoalService
from agent.goals.settings import GoalSettings
from agent.inbox import Work
from agent.run.settings import AgentSettings, Settings
from agent.storage import inbox_rows, outbox_rows
from agent.storage.inbox_rows import InboxRow
from agent.storage.timestamps import to_timestamp
from tests.agent.world import ANN, World
from tests.fakes.provider import Script, ScriptedProvider, says

OWNER = Owner(person=ANN, display="Ann")


def verdict(achieved: bool, reason: str = "seen") -> Script:
    """The supervisor's answer."""
    return says(json.dumps({"achieved": achieved, "reason": reason}))


def allowed(**goal: Any) -> Settings:
    """Settings with work by itself allowed, and checked by a provider of its own."""
    values: dict[str, Any] = {"autonomous_enabled": True, "supervisor_provider": "supervisor"} | goal
    return Settings(agent=AgentSettings(goal=GoalSettings(**values)))


class GoalWorld(World):
    """`worker` does the work, `supervisor` checks it. Each step of `live` is one piece of work or one wait."""

    def __init__(self, *args: Any, settings: Settings | None = None, **more: Any) -> None:
        self.worker = ScriptedProvider(name="worker")
        self.supervisor = ScriptedProvider(name="supervisor", otherwise=verdict(False), sorts=False)
        super().__init__(*args, self.worker, self.supervisor, settings=settings or allowed(), **more)
        self.stage: list[str] = []
        self.goals = GoalService(
            self.database, self.clock, settings=lambda: self.settings.agent.goal, wake=self.stage.append
        )

    async def start(self, text: str = "tidy up the wiki", **more: Any) -> Goal:
        """Ask for a goal that is worked on by itself."""
        return await self.goals.create(self.key, OWNER, text, autonomous=True, **more)

    async def live(self, *, turns: int | None = None) -> Goal:
        """Do what is due, and what becomes due, until nothing does any more, or for so many turns; gives the goal."""
        if not self.epoch:
            await self.own()
        async with anyio.create_task_group() as group:
            group.start_soon(self.background.run)
            await anyio.lowlevel.checkpoint()
            with anyio.fail_after(20):
                while turns is None or len(self.worker.requests) < turns:
                    if not await self.step():
                        break
            group.cancel_scope.cancel()
        return await self.goal()

    async def step(self) -> bool:
        """One piece of work, or one wait for it; False when nothing more will come."""
        row = await self.due()
        if row is not None:
            await self.run_through(await self.work(row))
            return True
        goal = await self.goal()
        if goal.is_autonomous and self._auto(goal).state == "verifying" and not await self._next():
            await anyio.sleep(0.001)  # the supervisor is being asked
            return True
        next_at = await self._next()
        if next_at is None:
            return False
        self.clock.advance((next_at - to_timestamp(self.clock.now())) / 1_000_000 + 0.001)
        return True

    async def goal(self, id: int | None = None) -> Goal:
        """The goal of that id, or the newest."""
        found = await self.goals.all_of(self.key)
        return next(goal for goal in found if id in (None, goal.id))

    async def auto(self) -> Auto:
        return self._auto(await self.goal())

    def _auto(self, goal: Goal) -> Auto:
        assert goal.auto is not None
        return goal.auto

    @property
    def states(self) -> list[str]:
        """States of the work, one for each change."""
        moves = [event.state for event in self.events if isinstance(event, GoalMoved)]
        return [state for index, state in enumerate(moves) if index == 0 or moves[index - 1] != state]

    async def told(self) -> list[OutgoingMessage]:
        """Messages to people, oldest first."""
        rows = await self.database.read(lambda conn: outbox_rows.open_rows(conn, self.key))
        return [row.say for row in rows]

    async def put(self, goal: Goal, **auto: Any) -> None:
        """Set the goal's session of work by itself to that."""
        changed = replace(goal, auto=replace(self._auto(goal), **auto))
        await self.database.write(lambda conn: store.save(conn, changed, to_timestamp(self.clock.now())))

    async def due(self) -> InboxRow | None:
        now = to_timestamp(self.clock.now())
        rows = await self.database.write(lambda conn: inbox_rows.due(conn, self.key, now=now))
        return rows[0] if rows else None

    async def _next(self) -> int | None:
        now = to_timestamp(self.clock.now())
        return await self.database.read(lambda conn: inbox_rows.next_due(conn, now))

    async def work(self, row: InboxRow) -> Work:
        def begin(conn: Connection) -> int:
            return inbox_rows.begin(conn, row, row.incoming)

        attempt = await self.database.write(begin)
        return Work(inbox_ids=(row.id,), kind=row.kind, incoming=row.incoming, attempt=attempt, epoch=self.epoch)
