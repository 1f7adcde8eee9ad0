"""Alerts on the first page of the dashboard: where they go, which went lately, and a test of each way."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from starlette.requests import Request

from agent.storage.timestamps import from_timestamp
from gateway.dashboard.frame.shell import Done, person_of
from gateway.receivers.receivers import NAMES
from gateway.running.messaging import Messaging
from gateway.storage.alert_rows import AlertRow
from gateway.web.control import OperationError


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertLine:
    """An alert as the page shows it. `trouble` is the reason why it did not go at the last attempt."""

    text: str
    receiver: str
    state: str
    trouble: str
    attempts: int
    at: datetime


class AlertCard:
    """The card and its button."""

    def __init__(self, messaging: Messaging) -> None:
        self._messaging = messaging

    async def lines(self) -> Sequence[AlertLine]:
        """The newest alerts beyond the chats."""
        return [_line(row) for row in await self._messaging.receivers.newest()]

    @property
    def ways(self) -> Sequence[str]:
        """Where alerts go beyond the chats, in words."""
        return [NAMES[name] for name in self._messaging.receivers.alert_settings.receivers]

    async def test(self, request: Request) -> Done:
        """Send a test by each way. Raises OperationError where one did not go."""
        outcomes = await self._messaging.test_alerts(person_of(request).display)
        told = " ".join(f"{one.where[:1].upper()}{one.where[1:]}: {one.text}." for one in outcomes)
        if not all(one.is_sent for one in outcomes):
            raise OperationError(told)
        return Done(text=told, subject="alerts", detail="a test, sent by each way")


def _line(row: AlertRow) -> AlertLine:
    return AlertLine(
        text=row.text,
        receiver=NAMES.get(row.receiver, row.receiver),
        state=row.state,
        trouble=row.error,
        attempts=row.attempts,
        at=from_timestamp(row.created_at),
    )
