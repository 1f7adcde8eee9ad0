"""What rooms ask of each other through the house: a few lines each, handed out as callables by `gateway.building`."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from agent.between_turns import BetweenTurns
from agent.core.clock import Clock
from agent.core.ids import ConversationId
from agent.core.outbox import Answer, Question
from agent.providers.known_models import USEFUL_WINDOW
from agent.providers.registry import Registry as Providers
from agent.storage.database import Database
from agent.storage.errors import StorageError
from agent.storage.moments import from_us, to_us
from agent.style.user_model import UserModel
from gateway.access.book import AccessBook
from gateway.channels.adapter import STORED_MOST, Adapter, Place
from gateway.channels.errors import HouseTrouble
from gateway.channels.keys import ConversationKey
from gateway.config.live import Live
from gateway.config.settings import Settings
from gateway.conversations.choices import Configured, Held, configured_only
from gateway.conversations.choices import held as held_by
from gateway.conversations.registry import Registry as Conversations
from gateway.delivery.delivery import Delivery
from gateway.dispatch.local import LocalDispatcher
from gateway.running.agents import Waking
from gateway.running.alerts import Alerts
from gateway.running.chosen import Chosen
from gateway.storage import adapter_store, places
from gateway.telemetry.trouble import Troubles

_log = logging.getLogger("tieline.house")

KNOWN_FOR = timedelta(days=7)  # conversations that catch-up looks at (DESIGN §13.15)


def held(live: Live, chosen: Chosen, conn: Connection, key: ConversationKey) -> Held:
    """What holds for the place; without persistence only what the configuration says (Z-68)."""
    channels = live.settings.channels
    configured = next((Configured(provider=one.provider, locked=one.provider_locked) for one in channels
                       if one.channel_type == key.channel_type), Configured())  # fmt: skip
    if not live.settings.session.provider_persistence:
        return configured_only(configured)
    return held_by(conn, key, chosen.around(key), configured)


def opened(adapter: Adapter, mount: Callable[[Adapter], None], delivery: Delivery) -> None:
    """Its routes are served, and what waited for the account is sent."""
    mount(adapter)
    delivery.look_again()


@dataclass(frozen=True, slots=True)
class Reports:
    """What delivery tells the owner; the alerts are built after it."""

    alerts: Callable[[], Alerts]
    troubles: Troubles

    def dead(self, key: ConversationKey, outbox_id: int, reason: str) -> None:
        self.alerts().undeliverable(key, outbox_id, reason)

    def gone(self, key: ConversationKey, reason: str) -> None:
        self.alerts().tell("owner_gone", {"chat": str(key)})

    def login_refused(self, channel_type: str, reason: str) -> None:
        fix = "look at its token and its rights; it is tried again each minute, and `tieline doctor` tells more"
        self.troubles.report("delivery", channel_type, f"the login is refused: {reason}", fix=fix, blocking=True)
        self.alerts().tell("owner_mute", {"channel": channel_type})

    def login_accepted(self, channel_type: str) -> None:
        self.troubles.over("delivery", channel_type)


async def known_places(database: Database, clock: Clock, channel_type: str) -> Sequence[Place]:
    """Conversations of the last seven days, newest first. Raises HouseTrouble."""
    since = to_us(clock.now() - KNOWN_FOR)
    with _lent():
        found = await database.read(lambda conn: places.known_places(conn, channel_type, since=since))
    return [
        Place(
            key=ConversationKey.parse(place.conversation),
            last_message_id=place.last_message_id,
            last_at=from_us(place.last_at),
        )
        for place in found
    ]


@dataclass(frozen=True, slots=True)
class Kept:
    """The `AdapterStore` of one scope."""

    database: Database
    clock: Clock
    scope: str

    async def get(self, key: str) -> str | None:
        now = to_us(self.clock.now())
        with _lent():
            return await self.database.read(partial(adapter_store.get, scope=self.scope, key=key, now=now))

    async def put(self, key: str, value: str, *, until: datetime) -> None:
        if len(key) + len(value) > STORED_MOST:
            raise ValueError(f"{len(key) + len(value)} characters are too many to keep for {key[:80]!r}")
        ends, now = to_us(until), to_us(self.clock.now())
        work = partial(adapter_store.put, scope=self.scope, key=key, value=value, until=ends, now=now)
        with _lent():
            await self.database.write(work)


@contextmanager
def _lent() -> Iterator[None]:
    """Trouble of the database, as adapters know it."""
    try:
        yield
    except (StorageError, SQLAlchemyError) as error:
        raise HouseTrouble(str(error).partition("\n")[0]) from error


def stop(
    conversations: Conversations,
    is_meant: Callable[[ConversationId, datetime], bool],
    conversation: ConversationId,
    reason: str,
    said_at: datetime,
) -> bool:
    """End the run of that conversation, if it was meant when the word came."""
    return is_meant(conversation, said_at) and conversations.stop(conversation, reason)


def stop_within(
    conversations: Conversations,
    is_meant: Callable[[ConversationId, datetime], bool],
    place: ConversationId,
    reason: str,
    said_at: datetime,
) -> bool:
    """The same in the topics and threads of a place: a Slack command cannot be given in one."""
    return conversations.stop_within(place, reason, lambda key: is_meant(key, said_at))


def wake_for_person(
    waking: Waking, dispatcher: LocalDispatcher, conversation: ConversationId, row: int | None = None
) -> None:
    """Somebody has written there: what a goal does by itself gives way (SPEC §10.3)."""
    waking.give_way(conversation)
    dispatcher.wake(conversation, row)


async def ask(delivery: Delivery, key: ConversationKey, question: Question, language: str) -> Answer:
    channel = await delivery.reachable(key, question.timeout_s)
    return await delivery.questions.ask(channel, question, language) if channel is not None else Answer(None)


def owners(live: Live, book: AccessBook) -> Sequence[str]:
    return (*live.settings.access.admins, *book.owners)


def providers_changed(live: Live, providers: Providers, fresh: Settings) -> None:
    providers.reload(live.provider_settings(), failover=fresh.llm.failover, aliases=fresh.llm.aliases)


def provider_health(troubles: Troubles, name: str, trouble: str | None) -> None:
    if trouble is None:
        troubles.over("provider", name)
    else:
        fix = "look at the provider's status page and at its key; others answer meanwhile if [llm] failover names them"
        troubles.report("provider", name, trouble, fix=fix)


def model_window(troubles: Troubles, provider: str, model: str, tokens: int) -> None:
    """A window became known: one that is too small to be of much use is worth a word."""
    subject = f"{provider}/{model}"
    if tokens >= USEFUL_WINDOW:
        troubles.over("window", subject)
        return
    text = f"holds {tokens:,} tokens; below {USEFUL_WINDOW:,} little is left beside instructions and tools"
    fix = "start its server with a larger context (-c, --max-model-len, num_ctx), or choose another model"
    _log.warning("the window of %s %s; %s", subject, text, fix)
    troubles.report("window", subject, text, fix=fix)


def mcp_health(troubles: Troubles, name: str, trouble: str | None, *, added: bool = False) -> None:
    """`added`: in a chat, and left out; else it is in the configuration."""
    if trouble is None:
        troubles.over("mcp", name)
        return
    fix = f"look at its [[mcp.servers]] entry and at logs/mcp-{name}.log in the data directory; it is tried again"
    if added:
        fix = f"in a chat: `/mcp remove {name}`, then `/mcp add {name}` with its address anew"
    troubles.report("mcp", name, trouble, fix=fix)


def storage_trouble(troubles: Troubles, reason: str | None) -> None:
    if reason is None:
        troubles.over("storage", "database")
    else:
        fix = "free some disk space, or look whether the database server runs"
        troubles.report("storage", "database", reason, fix=fix, blocking=True)


def user_model(live: Live, kept: UserModel) -> UserModel | None:
    """Who keeps how people write: nobody, where the operator wants none of it."""
    return kept if live.settings.memory.style.enabled else None


def forgotten(background: BetweenTurns, conversations: Conversations, conversation: ConversationId) -> None:
    """Words are gone from the store: who is awake there is put to sleep when it is free, with all that it had read.

    Nobody waits for that, least of all the command that forgets: two of them would wait for each other.
    """
    if conversation in conversations.awake:
        background.start(partial(conversations.forget, conversation))
