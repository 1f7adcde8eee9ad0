"""Events for other programs: who writes their rows, each in the transaction of what it tells of, and who sends them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from sqlalchemy import Connection

from agent.core.events import ApprovalRequired, BudgetReached, Published
from agent.core.ids import ConversationId
from agent.run.features import Feature
from agent.storage.approval_rows import Approval
from gateway.channels.keys import ConversationKey
from gateway.conversations.place_settings import PlaceSettings, account_of
from gateway.events.budgets import BudgetEvents
from gateway.events.deliveries import DAYS, Deliveries
from gateway.events.event import approval_wanted, dead_letter
from gateway.events.feature import EventFeature
from gateway.events.subscriptions import Subscriptions
from gateway.running.basics import Basics
from gateway.running.messaging import Messaging
from gateway.storage.queues.given_up import GivenUp


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRecording:
    """Writers of rows. Without a subscription none of them writes anything."""

    subscriptions: Subscriptions
    budgets: BudgetEvents
    feature: EventFeature

    def features(self, _: ConversationId) -> Sequence[Feature]:
        """The part of events in a conversation's turns."""
        return (self.feature,)

    def buried(self, conn: Connection, letter: GivenUp) -> None:
        """A message or answer is being given up."""
        if self.subscriptions.hear("dead_letter"):
            self.subscriptions.add(conn, dead_letter(letter))

    def stored(self, conn: Connection, one: Approval) -> None:
        """A person is asked. A call's own question asks for no approval."""
        if not one.choices and self.subscriptions.hear("approval.wanted"):
            self.subscriptions.add(conn, approval_wanted(one))


async def install_events(basics: Basics, place_settings: PlaceSettings) -> EventRecording:
    """Before anything that there are events of."""
    subscriptions = Subscriptions(lambda: basics.settings.events, partial(_around, place_settings), basics.redact)
    await subscriptions.load(basics.database)
    budgets = BudgetEvents(subscriptions, basics.database, basics.clock)
    basics.bus.listen(budgets.heard, [BudgetReached])

    def asked(_: Published) -> None:
        subscriptions.committed()

    basics.bus.listen(asked, [ApprovalRequired])
    feature = EventFeature(subscriptions, budgets)
    return EventRecording(subscriptions=subscriptions, budgets=budgets, feature=feature)


def install_deliveries(basics: Basics, events: EventRecording, messaging: Messaging) -> Deliveries:
    """Nothing is sent before it runs."""
    deliveries = Deliveries(
        database=basics.database,
        clock=basics.clock,
        scheduler=messaging.scheduler,
        troubles=basics.troubles,
        subscriptions=events.subscriptions,
        proxy=lambda: basics.settings.network.proxy,
        redact=basics.redact,
        tell=messaging.alerts.tell,
        days=lambda: basics.settings.retention.within(DAYS),
    )
    basics.live.listen(deliveries.reloaded)
    return deliveries


def _around(place_settings: PlaceSettings, conversation: ConversationId) -> Sequence[ConversationKey]:
    """The conversation's place, those around it, and its account."""
    if ":" not in conversation:
        return ()
    key = ConversationKey.parse(conversation)
    return (key, *place_settings.around(key), account_of(key))
