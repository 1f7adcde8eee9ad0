"""The dispatcher of this process, set up by the configuration, and what the router may ask of it."""

import secrets
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy import Connection

from agent.core.ids import ConversationId, random_uuid
from agent.core.outbox import OutgoingMessage
from agent.inbox import Incoming
from gateway.access.policy import KEYS
from gateway.channels.keys import ConversationKey
from gateway.commands.place.fields import MERGE_MS
from gateway.config.live import Live
from gateway.conversations.place_settings import PlaceSettings
from gateway.conversations.registry import Registry as Conversations
from gateway.delivery.outbox.delivery import Delivery
from gateway.dispatch.dispatcher import DeadLetter, DispatchDeps, RunningDispatcher, Timing
from gateway.dispatch.local import Drain, LocalDispatcher
from gateway.dispatch.source import Leases
from gateway.phrases.catalogue import Catalogue
from gateway.running.agents import AgentFactory
from gateway.running.basics import Basics
from gateway.running.events import EventRecording
from gateway.running.monitoring.alerts import Alerts
from gateway.running.rights import Rights
from gateway.scheduler import person_zones


def local_dispatcher(
    basics: Basics,
    rights: Rights,
    place_settings: PlaceSettings,
    conversations: Conversations,
    delivery: Delivery,
    alerts: Alerts,
    events: EventRecording,
    dead: Callable[[DeadLetter], None],
    process: str | None = None,
) -> LocalDispatcher:
    """One whose numbers are those of `[queue]` and `[lock]`. `dead` hears of each message that was given up.

    `process` is the name of this one among those that share the database; None: it owns the database alone.
    """
    live, database, clock, phrase = basics.live, basics.database, basics.clock, basics.phrase
    queue, lock = live.settings.queue, live.settings.lock
    timing = Timing(
        linger=queue.linger_ms / 1000,
        queue_timeout=lock.queue_timeout_ms / 1000,
        lock_timeout=lock.lock_timeout_ms / 1000,
    )
    deps = DispatchDeps(
        zone_of=partial(_zone_of, live, rights),
        notice=partial(_dead_letter_notice, phrase),
        locked=partial(_locked_notice, phrase, lock.lock_timeout_ms),
        deliver=lambda conversation: delivery.wake(ConversationKey.parse(conversation)),
        on_dead=partial(_on_dead, alerts, events, dead),
        buried=events.buried,
        merge_within=lambda conversation: merged_within_s(place_settings, ConversationKey.parse(conversation)),
    )
    worker = process or f"local-{secrets.token_hex(4)}"
    leases = Leases(database, clock=clock, new_id=random_uuid, worker=worker, timing=timing)
    drain = Drain(database=database, clock=clock, leases=leases, agents=conversations, deps=deps, timing=timing)
    return LocalDispatcher(
        drain,
        database=database,
        clock=clock,
        leases=leases,
        agents=conversations,
        deps=deps,
        timing=timing,
        is_alone=process is None,
    )


def merged_within_s(place_settings: PlaceSettings, key: ConversationKey) -> float:
    """Messages of a person that come within that time are one turn. A program waits for the answer to each."""
    return 0.0 if key.platform == KEYS else place_settings.get(MERGE_MS, key) / 1000


def wake_for_person(
    factory: AgentFactory, dispatcher: RunningDispatcher, conversation: ConversationId, row: int | None = None
) -> None:
    """Somebody has written there: what a goal does by itself gives way."""
    if dispatcher.is_running(conversation):
        factory.give_way(conversation)
    dispatcher.wake(conversation, row)


def _zone_of(live: Live, rights: Rights, conn: Connection, incoming: Incoming) -> str:
    accounts = rights.identities.accounts(incoming.person) if incoming.person else ()
    return person_zones.zone_of(conn, accounts, incoming.zone, assumed=live.settings.scheduler.zone).name


@dataclass(frozen=True, slots=True)
class Running:
    """The router's port to dispatcher and registry."""

    is_running: Callable[[ConversationId], bool]
    stop: Callable[[ConversationId, str], bool]
    forget: Callable[[ConversationId], Coroutine[Any, Any, None]]


def _on_dead(alerts: Alerts, events: EventRecording, dead: Callable[[DeadLetter], None], letter: DeadLetter) -> None:
    events.subscriptions.committed()
    alerts.tell("owner_dead", {"chat": letter.conversation})
    dead(letter)


def _dead_letter_notice(phrase: Catalogue, letter: DeadLetter) -> OutgoingMessage | None:
    incoming = letter.incoming
    told = phrase("dead_letter", incoming.language, attempts=letter.attempts)
    text = phrase("with_ref", incoming.language, text=told, ref=f"in-{letter.inbox_id}")
    return OutgoingMessage(
        text=text,
        kind="notice",
        reply_to=incoming.message_ref,
        answers=incoming.message_ref,
        interaction=incoming.interaction,
    )


def _locked_notice(phrase: Catalogue, lock_timeout_ms: int, incoming: Incoming) -> OutgoingMessage:
    text = phrase("locked", incoming.language, minutes=max(1, round(lock_timeout_ms / 60_000)))
    return OutgoingMessage(
        text=text,
        kind="notice",
        reply_to=incoming.message_ref,
        answers=incoming.message_ref,
        interaction=incoming.interaction,
    )
