"""Alerts beyond the owners' chats: kept as rows, sent by e-mail and webhook, tried again until a day is over."""

import logging
import socket
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from importlib import import_module
from typing import Protocol

import anyio
from sqlalchemy import Connection

from agent.core.clock import Clock
from agent.core.phrases import counted
from agent.core.untrusted_text import whole
from agent.storage.database import Database
from agent.storage.errors import StorageTrouble
from agent.storage.timestamps import to_timestamp
from gateway.config.alerts import AlertSettings, Format
from gateway.config.settings import Settings
from gateway.phrases.catalogue import Catalogue, spelled
from gateway.receivers.email import Email, NotSent, tls_context
from gateway.receivers.message import AlertMessage, Taken, as_fits
from gateway.scheduler.process_scheduler import PeriodicWakeEvent, ProcessScheduler
from gateway.storage import alert_rows
from gateway.storage.alert_rows import AlertRow, Severity
from gateway.telemetry.trouble import Troubles

LOOK_EVERY_S = 10.0
SEND_WITHIN_S = 90.0  # of one attempt
CLAIM_FOR = timedelta(seconds=SEND_WITHIN_S + 30)
TOGETHER = 20  # alerts in one message
FIRST_RETRY_S, LONGEST_RETRY_S = 30.0, 3600.0
GIVEN_UP_AFTER = timedelta(days=1)
SHOWN = 10

# Not said beyond the chats: what asks an owner for a decision, and what holds words of a person.
ONLY_IN_CHATS = frozenset({"owner_pairing", "owner_linked", "owner_schedule_off", "owner_test"})
NAMES = {"email": "e-mail", "webhook": "webhook"}

_log = logging.getLogger("tieline.receivers")


class Receiver(Protocol):
    """One way out."""

    @property
    def where(self) -> str:
        """The receiver in words, without secrets."""

    async def send(self, message: AlertMessage, at: datetime) -> Taken:
        """Send it. Raises NotSent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of a test: `where` it went, and the other side's answer or the reason why it did not go."""

    where: str
    is_sent: bool
    text: str


def retry_after_s(attempts: int) -> float:
    """The wait after so many attempts that failed: it doubles, up to an hour."""
    return min(LONGEST_RETRY_S, FIRST_RETRY_S * 2.0 ** min(attempts - 1, 20))


class Receivers:
    """The receivers of the configuration in force. `add` writes rows in the caller's transaction, `run` sends them."""

    def __init__(
        self,
        *,
        database: Database,
        clock: Clock,
        scheduler: ProcessScheduler,
        troubles: Troubles,
        settings: Callable[[], Settings],
        redact: Callable[[str], str],
        phrase: Catalogue,
        tls: Callable[[], ssl.SSLContext] = tls_context,
    ) -> None:
        """`redact` takes secrets out of what servers answer."""
        self._database = database
        self._clock = clock
        self._scheduler = scheduler
        self._troubles = troubles
        self._settings = settings
        self._redact = redact
        self._phrase = phrase
        self._tls = tls
        self._changed = set[str]()  # receivers that the configuration may have corrected
        self._wake_events: dict[str, PeriodicWakeEvent] = {}  # of each receiver, while it runs

    @property
    def alert_settings(self) -> AlertSettings:
        return self._settings().alerts

    def add(self, conn: Connection, key: str, values: dict[str, object], *, subject: str = "") -> None:
        """Keep a sentence of the catalogue for every receiver; call `committed` afterwards."""
        settings = self.alert_settings
        if key in ONLY_IN_CHATS or not settings.receivers:
            return
        severity: Severity = "resolved" if key.endswith("_back") else "warning"
        # A text that no database or mail takes would hold up all that come after it.
        text = whole(self._redact(spelled(self._phrase(key, settings.language, **values))))
        at = to_timestamp(self._clock.now())
        for receiver in settings.receivers:
            alert_rows.add(conn, receiver, subject=subject, severity=severity, text=text, at=at)

    def committed(self) -> None:
        """Rows were written: send them now."""
        for wake_event in self._wake_events.values():
            wake_event.set()

    def reloaded(self, _: Settings) -> None:
        """The configuration has changed: what could not be sent is tried at once."""
        self._changed |= set(NAMES)
        self.committed()

    async def run(self) -> None:
        """Send what is due, until cancelled; a slow receiver holds up no other."""
        async with anyio.create_task_group() as tasks:
            for name in NAMES:
                tasks.start_soon(self._keep_sending, name)

    async def _keep_sending(self, name: str) -> None:
        """Loop of one receiver; a write that the disk refuses is tried again."""
        with self._scheduler.wake_event(_subject(name), every_s=LOOK_EVERY_S) as wake_event:
            self._wake_events[name] = wake_event
            try:
                while True:
                    try:
                        await self._send_due(name)
                    except StorageTrouble as error:
                        _log.warning("alerts cannot be sent now: %s", error)
                    await wake_event.wait()
            finally:
                del self._wake_events[name]

    async def send_due(self) -> None:
        """Try every receiver once that has something due; give up what is too old. Raises StorageTrouble."""
        for name in NAMES:
            await self._send_due(name)

    async def _send_due(self, name: str) -> None:
        """Send what is due for the receiver, and for its addresses that did not take something before."""
        now = to_timestamp(self._clock.now())
        receivers = [name, *await self._database.read(lambda conn: alert_rows.parts(conn, name))]
        if name in self._changed:
            self._changed.discard(name)

            def due_now(conn: Connection) -> None:
                for receiver in receivers:
                    alert_rows.due_now(conn, receiver, now)

            try:
                await self._database.write(due_now)
            except StorageTrouble:
                self._changed.add(name)
                raise
        for receiver in receivers:
            due = await self._database.read(partial(alert_rows.next_due, receiver=receiver))
            if due is None:
                continue
            await self._give_up(receiver)
            if due > now or not self._is_in_use(receiver):
                continue
            while await self._send_batch(receiver):  # until nothing is due, or one fails
                pass

    def _is_in_use(self, receiver: str) -> bool:
        name, _, address = receiver.partition(":")
        settings = self.alert_settings
        return name in settings.receivers and (not address or address in settings.email.to)

    async def test(self, by: str) -> Sequence[Outcome]:
        """Send a test to every receiver now, once; what came of each."""
        settings, now = self.alert_settings, self._clock.now()
        text = spelled(self._phrase("owner_test", settings.language, by=by))
        outcomes = []
        for name in settings.receivers:
            row = AlertRow(
                id=0,
                receiver=name,
                subject="test",
                severity="test",
                text=text,
                created_at=to_timestamp(now),
                due_at=0,
                attempts=1,
                error="",
                state="open",
                ended_at=None,
            )
            receiver = await self._receiver(name)
            try:
                said = await self._sent(receiver, self._message((row,)))
                outcomes.append(Outcome(where=receiver.where, is_sent=True, text=self._redact(said.text)))
                self._works(name, said)
            except NotSent as error:
                outcomes.append(Outcome(where=receiver.where, is_sent=False, text=self._redact(str(error))))
        return outcomes

    async def newest(self) -> Sequence[AlertRow]:
        """The newest rows, for the dashboard."""
        return await self._database.read(lambda conn: alert_rows.newest(conn, SHOWN))

    async def _send_batch(self, receiver: str) -> bool:
        """Whether one was sent."""
        name = receiver.partition(":")[0]
        now = self._clock.now()
        at, until = to_timestamp(now), to_timestamp(now + CLAIM_FOR)
        rows = await self._database.write(
            lambda conn: alert_rows.claim(conn, receiver, now=at, until=until, most=TOGETHER)
        )
        if not rows:
            return False
        message = as_fits(self._message(rows), self._format(name))
        ids = [row.id for row in message.rows]
        if rest := [row.id for row in rows[len(ids) :]]:
            await self._database.write(lambda conn: alert_rows.leave(conn, rest, until=until))
        try:
            said = await self._sent(await self._receiver(receiver), message)
        except NotSent as error:
            why = self._redact(str(error))
            after_s = retry_after_s(max(row.attempts for row in message.rows))
            due = to_timestamp(self._clock.now() + timedelta(seconds=after_s))
            await self._database.write(lambda conn: alert_rows.failed(conn, ids, until=until, due=due, why=why))
            _log.warning(
                "%s could not be sent by %s, tried again in %.0f s: %s",
                counted(len(ids), "alert"),
                shown(receiver),
                after_s,
                why,
            )
            fix = f"look at [alerts.{name}]; `tieline alerts test` tries it"
            self._troubles.report("delivery", _subject(name), f"alerts are not sent: {why}", fix=fix)
            return False
        ended = to_timestamp(self._clock.now())
        with anyio.CancelScope(shield=True):  # unmarked it would be sent once more after the next start
            await self._database.write(lambda conn: _left(conn, message.rows, name, said, until=until, now=ended))
        self._works(name, said)
        return True

    async def _sent(self, receiver: Receiver, message: AlertMessage) -> Taken:
        with anyio.move_on_after(SEND_WITHIN_S):
            return await receiver.send(message, self._clock.now())
        raise NotSent(f"not done within {SEND_WITHIN_S:g} s")

    def _message(self, rows: Sequence[AlertRow]) -> AlertMessage:
        host = self._settings().web.public_url or socket.gethostname()
        return AlertMessage(rows=rows, host=host.partition("://")[2] or host)

    def _format(self, name: str) -> Format:
        return self.alert_settings.webhook.format if name == "webhook" else "json"

    async def _receiver(self, receiver: str) -> Receiver:
        settings = self._settings()
        name, _, address = receiver.partition(":")
        if name == "email":
            return Email(settings.alerts.email, self._tls, only=address)
        module = await anyio.to_thread.run_sync(import_module, "gateway.receivers.webhook")
        webhook: Receiver = module.Webhook(settings.alerts.webhook, proxy=settings.network.proxy)
        return webhook

    async def _give_up(self, receiver: str) -> None:
        """End what could not be sent for a day, with an entry in the log."""
        now = self._clock.now()
        before, at = to_timestamp(now - GIVEN_UP_AFTER), to_timestamp(now)
        if not await self._database.read(lambda conn: alert_rows.is_any_open(conn, receiver, before=before)):
            return
        for row in await self._database.write(lambda conn: alert_rows.give_up(conn, receiver, before=before, now=at)):
            why = row.error or "nothing was sent to this receiver since"
            _log.error("alert %d was given up for %s after a day (%s): %s", row.id, shown(row.receiver), why, row.text)
            self._troubles.note("delivery", _subject(receiver), f"an alert was given up after a day: {why}")

    def _works(self, name: str, said: Taken) -> None:
        """It works, but for those who were refused."""
        if not said.missed:
            self._troubles.over("delivery", _subject(name))
            return
        missed = self._redact(said.missed)
        _log.warning("alerts by %s do not reach everybody: %s", name, missed)
        fix = f"correct [alerts.{name}]; `tieline alerts test` tries it"
        self._troubles.report("delivery", _subject(name), f"alerts do not reach everybody: {missed}", fix=fix)


def _left(conn: Connection, rows: Sequence[AlertRow], name: str, said: Taken, *, until: int, now: int) -> None:
    """They have left; what an address did not take yet waits for that address alone."""
    if not alert_rows.sent(conn, [row.id for row in rows], until=until, now=now):
        return
    due = now + round(retry_after_s(max(row.attempts for row in rows)) * 1_000_000)
    for address in said.later:
        alert_rows.again(conn, rows, f"{name}:{address}", due=due)


def shown(receiver: str) -> str:
    """The receiver in words."""
    name, _, address = receiver.partition(":")
    return f"{NAMES.get(name, name)} to {address}" if address else NAMES.get(name, name)


def _subject(receiver: str) -> str:
    return f"alerts by {NAMES[receiver.partition(':')[0]]}"
