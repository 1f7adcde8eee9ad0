"""Events in a turn: the row of its end, and of a budget that refused it, are written with its commit."""

from collections.abc import Callable, Sequence
from functools import partial

from sqlalchemy import Connection

from agent.run.features import Ended, Feature
from agent.run.settings import Settings
from gateway.events.budgets import BudgetEvents
from gateway.events.event import turn_finished
from gateway.events.subscriptions import Subscriptions


class EventFeature(Feature):
    """Takes part where anybody is told of turns or budgets; else no turn asks it."""

    __slots__ = ("_budgets", "_subscriptions")

    def __init__(self, subscriptions: Subscriptions, budgets: BudgetEvents) -> None:
        self._subscriptions = subscriptions
        self._budgets = budgets

    def renew(self, settings: Settings) -> bool:
        """Whether any subscription is told of what turns lead to."""
        return self._subscriptions.hear("turn.finished", "budget.reached")

    def committing(self, conn: Connection, ended: Ended) -> Callable[[], None] | None:
        """Write what the run came to. One that never began is no turn."""
        keys = self._budgets.write(conn, ended.run.conversation)
        if ended.run.opened:
            self._subscriptions.add(conn, turn_finished(ended))
        return partial(self._committed, keys)

    def _committed(self, keys: Sequence[str]) -> None:
        self._budgets.written(keys)
        self._subscriptions.committed()
