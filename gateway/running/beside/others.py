"""Ties this process to the others that share its database: what they tell it, and what it tells them (G-137)."""

import json
from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from agent.core.events import EventBus
from agent.memory.records import Forgotten
from gateway.access.policy import ACCOUNTS, KEYS
from gateway.channels.adapter import Fullness
from gateway.channels.inbound import Inbound, Receipt
from gateway.channels.keys import ConversationKey
from gateway.conversations.place_settings import PlaceSettings
from gateway.running.basics import Basics
from gateway.running.beside.told import ERASURES, EVENTS, STOPS, WINDOWS, Erasures, EventFeed, Windows
from gateway.running.mcp.added_servers import AddedServers, is_row
from gateway.running.messaging import Messaging
from gateway.running.rights import Rights
from gateway.running.schedules import Scheduling
from gateway.running.tools import ToolServices
from gateway.running.turns import TurnServices
from gateway.storage import grants, identities

if TYPE_CHECKING:  # loaded only where a database is shared
    from gateway.cluster.cluster import Cluster


def connect_to_others(
    cluster: "Cluster",
    basics: Basics,
    rights: Rights,
    place_settings: PlaceSettings,
    messaging: Messaging,
    scheduling: Scheduling,
    tools: ToolServices,
    turns: TurnServices,
    forgotten: Forgotten,
    admit: Callable[[Inbound], Awaitable[Receipt]],
) -> None:
    """Connect it. `admit` is the router's."""
    conversations = turns.conversations
    cluster.connect(
        admit=admit,
        delivery=messaging.delivery,
        is_awake=conversations.is_awake,
    )
    cluster.hear(STOPS, partial(_stop, turns))
    erasures = Erasures(forgotten, basics.database, cluster.words.tell)
    cluster.hear(ERASURES, erasures.hear)
    # Not watched, since its notices are words: read again where some were lost.
    cluster.when_changed("memory_erasure", lambda _: erasures.look_for_missed())
    cluster.when_changed("channel_setting", partial(_read_settings, place_settings, tools.added_servers))
    cluster.when_changed("access_grant", partial(_read_grants, basics, rights))
    cluster.when_changed("approval", lambda _: tools.approvals.look_again())
    cluster.when_changed("schedule", partial(_look_at_schedules, scheduling))
    cluster.when_changed("identity", partial(_read_links, basics, rights))


def connect_pages(
    cluster: "Cluster", bus: EventBus, messaging: Messaging, turns: TurnServices
) -> tuple[EventBus, Callable[[ConversationKey], Fullness | None]]:
    """The events of turns that programs wait for, and the windows that pages show, whichever process has them."""
    feed = EventFeed(bus, KEYS, cluster.words.tell)
    windows = Windows(turns.factory.fullness, ACCOUNTS, cluster.words.tell)
    messaging.delivery.hear_settled(windows.settled)
    cluster.hear(EVENTS, feed.hear)
    cluster.hear(WINDOWS, windows.hear)
    return feed.bus, windows


def _stop(turns: TurnServices, told: str) -> None:
    """Another process was told to end a turn that runs here."""
    conversation, reason, said_at = json.loads(told)
    if turns.factory.is_meant(conversation, datetime.fromisoformat(said_at)):
        turns.conversations.stop(conversation, reason)


async def _read_settings(place_settings: PlaceSettings, added_servers: AddedServers, place: str) -> None:
    if not place or is_row(place):
        await added_servers.recover()
    if place:
        await place_settings.refresh(ConversationKey.parse(place))
    else:
        await place_settings.load()


async def _look_at_schedules(scheduling: Scheduling, _: str) -> None:
    scheduling.runner.look()


async def _read_grants(basics: Basics, rights: Rights, _: str) -> None:
    book, changes = rights.book, None
    while changes != book.changes:  # what is given here meanwhile may not be among the rows
        changes = book.changes
        given = await basics.database.read(grants.all_grants)
    book.replace(given)


async def _read_links(basics: Basics, rights: Rights, _: str) -> None:
    rights.identities.relink(await basics.database.read(identities.all_accounts))
