"""Sending: delivery, notices, and the alerts that the owners get."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import anyio

from agent.core.ids import ConversationId
from agent.core.outbox import Answer, Question
from gateway.access.changes import AccessChanges
from gateway.channels.adapter import Adapter, Ids
from gateway.channels.keys import ConversationKey
from gateway.commands.state.status import VERBOSITY
from gateway.config.settings import Settings
from gateway.conversations.place_settings import PlaceSettings
from gateway.delivery.egress import Guard
from gateway.delivery.outbox.call_journal import open_journal
from gateway.delivery.outbox.delivery import Delivery
from gateway.receivers.receivers import Outcome, Receivers
from gateway.router.ports import Notices
from gateway.running.accounts.accounts import Accounts
from gateway.running.basics import Basics
from gateway.running.monitoring.alerts import Alerts
from gateway.running.rights import Rights
from gateway.scheduler.process_scheduler import ProcessScheduler
from gateway.storage.queues.given_up import Buried
from gateway.telemetry.trouble import Troubles


class Reports:
    """Port of delivery to the alerts, which are sent by it and so are built after it."""

    def __init__(self, troubles: Troubles) -> None:
        self._troubles = troubles
        self._alerts: Alerts | None = None

    def connect(self, alerts: Alerts) -> None:
        self._alerts = alerts

    @property
    def _told(self) -> Alerts:
        assert self._alerts is not None, "something was sent before the alerts were built"
        return self._alerts

    def dead(self, key: ConversationKey, outbox_id: int, reason: str) -> None:
        self._told.undeliverable(key, outbox_id, reason)

    def gone(self, key: ConversationKey, reason: str) -> None:
        self._told.gone(key, reason)

    def login_refused(self, channel_type: str, reason: str) -> None:
        fix = "look at its token and its rights; it is tried again each minute, and `tieline doctor` tells more"
        self._troubles.report("delivery", channel_type, f"the login is refused: {reason}", fix=fix, blocking=True)
        self._told.login_refused_at_sending(channel_type)

    def login_accepted(self, channel_type: str) -> None:
        self._troubles.over("delivery", channel_type)
        self._told.sends_again(channel_type)


@dataclass(frozen=True, slots=True, kw_only=True)
class Messaging:
    """All ways to say something outside a turn. `ids` tells what those of a platform look like."""

    accounts: Accounts
    delivery: Delivery
    notices: Notices
    scheduler: ProcessScheduler
    alerts: Alerts
    receivers: Receivers
    ids: Callable[[str], Ids]

    def reachable(self, conversation: ConversationId) -> bool:
        """Whether what is said there can be sent, as far as the account's login goes."""
        name = ConversationKey.parse(conversation).channel_type
        return not (self.accounts.is_refused(name) or self.delivery.is_refused(name))

    async def test_alerts(self, by: str) -> Sequence[Outcome]:
        """Send a test alert by each way; what came of each. `by` is who asks, in words."""
        chats = self.alerts.test(by)
        told = [Outcome(where=f"chat of {one}", is_sent=True, text="on its way, as any message") for one in chats]
        if not chats:
            why = "nobody can be reached: name an owner in [access] admins, who writes to the bot directly once"
            told.append(Outcome(where="chats of the owners", is_sent=False, text=why))
        return [*told, *await self.receivers.test(by)]

    def hide_live(self, conversation: ConversationId) -> None:
        """Take away the message that follows work on a goal or plan."""
        self.delivery.show_live(ConversationKey.parse(conversation), "")

    async def ask(self, key: ConversationKey, question: Question, language: str) -> Answer:
        channel = await self.delivery.reachable(key, question.timeout_s)
        if channel is None:
            return Answer(None)
        return await self.delivery.questions.ask(channel, question, language)

    def opened(self, mount: Callable[[Adapter], None], adapter: Adapter) -> None:
        """Its routes are served, and what waited for the account is sent."""
        mount(adapter)
        self.delivery.look_again()

    def closed(self, unmount: Callable[[str, bool], None], channel_type: str, comes_back: bool) -> None:
        """Its routes are not served any more; nobody is told that it is deaf."""
        unmount(channel_type, comes_back)
        self.delivery.account_closed(channel_type)
        self.alerts.account_closed(channel_type)


async def install_messaging(
    basics: Basics,
    accounts: Accounts,
    rights: Rights,
    place_settings: PlaceSettings,
    ids: Callable[[str], Ids],
    is_busy: Callable[[], bool],
    buried: Buried,
) -> Messaging:
    """While the process `is_busy`, what may be left out is not sent. `buried` writes of messages that are given up."""
    database, clock = basics.database, basics.clock
    reports = Reports(basics.troubles)
    delivery = Delivery(
        database,
        accounts.channel,
        clock,
        home=basics.home,
        files=basics.files,
        journal=await anyio.to_thread.run_sync(open_journal, basics.home, database.dialect),
        phrase=basics.phrase,
        reports=reports,
        settings=basics.settings.delivery,
        verbosity=partial(place_settings.get, VERBOSITY),
        is_busy=is_busy,
        guard=Guard(basics.redact.found, basics.redact.begun),
        buried=buried,
        outlets=basics.cluster.outlets if basics.cluster is not None else None,
    )

    def renew(settings: Settings) -> None:
        delivery.settings = settings.delivery

    basics.live.listen(renew)
    notices = Notices(database, clock, delivery.wake)
    scheduler = ProcessScheduler(clock)
    receivers = Receivers(
        database=database,
        clock=clock,
        scheduler=scheduler,
        troubles=basics.troubles,
        settings=lambda: basics.settings,
        redact=basics.redact,
        phrase=basics.phrase,
    )
    basics.live.listen(receivers.reloaded)
    alerts = Alerts(
        database=database,
        clock=clock,
        scheduler=scheduler,
        troubles=basics.troubles,
        health=accounts.health,
        owners=rights.owners,
        ids=ids,
        notices=notices,
        phrase=basics.phrase,
        receivers=receivers,
    )
    reports.connect(alerts)
    return Messaging(
        accounts=accounts,
        delivery=delivery,
        notices=notices,
        scheduler=scheduler,
        alerts=alerts,
        receivers=receivers,
        ids=ids,
    )


def access_changes(basics: Basics, rights: Rights, messaging: Messaging) -> AccessChanges:
    """Changes of rights, told to those concerned."""
    return AccessChanges(
        database=basics.database,
        clock=basics.clock,
        book=rights.book,
        linked=rights.identities,
        phrase=basics.phrase,
        deliver=messaging.delivery.wake,
        pairing_settled=messaging.delivery.pairing_alerts.settled,
    )
