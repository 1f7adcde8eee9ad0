"""Alerts on the first page of the dashboard: where they go, which went lately, and a test of each way."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from starlette.requests import Request

from agent.storage.timestamps import from_timestamp
from gateway.dashboard.frame.shell import Done, person_of
from gateway.receivers.receivers import NAMES, Outcome, shown
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
    """The card and its button. Tests are kept as long as the process runs: they are no alerts, which are rows."""

    def __init__(self, messaging: Messaging, now: Callable[[], datetime]) -> None:
        self._messaging = messaging
        self._now = now
        self._tested: Sequence[AlertLine] = ()

    async def lines(self) -> Sequence[AlertLine]:
        """The newest alerts beyond the chats, and what came of the newest test; the newest first."""
        rows = [_line(row) for row in await self._messaging.receivers.newest()]
        return sorted((*rows, *self._tested), key=lambda one: one.at, reverse=True)

    @property
    def ways(self) -> Sequence[str]:
        """Where alerts go beyond the chats, in words."""
        return [NAMES[name] for name in self._messaging.receivers.alert_settings.receivers]

    @property
    def in_chats_alone(self) -> str:
        """The doctor's words on alerts that go no further than the chats; "" where they do."""
        return self._messaging.receivers.alert_settings.in_chats_alone

    async def test(self, request: Request) -> Done:
        """Send a test by each way. Raises OperationError where one did not go."""
        outcomes = await self._messaging.test_alerts(person_of(request).display)
        at = self._now()
        self._tested = [_tested(one, at) for one in outcomes]
        told = " ".join(f"{one.where[:1].upper()}{one.where[1:]}: {one.text}." for one in outcomes)
        if not all(one.is_sent for one in outcomes):
            raise OperationError(told)
        return Done(text=told, subject="alerts", detail="a test, sent by each way")


def _tested(one: Outcome, at: datetime) -> AlertLine:
    state = "sent" if one.is_sent else "failed"
    return AlertLine(
        text="A test", receiver=one.where, state=state, trouble="" if one.is_sent else one.text, attempts=1, at=at
    )


def _line(row: AlertRow) -> AlertLine:
    return AlertLine(
        text=row.text,
        receiver=shown(row.receiver),
        state=row.state,
        trouble=row.error,
        attempts=row.attempts,
        at=from_timestamp(row.created_at),
    )
