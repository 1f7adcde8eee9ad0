"""Deliveries of webhooks as rows: words in the outbox of a chat, or a turn in its inbox. Each is stored once."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from sqlalchemy import Connection, Select, bindparam, func, select, update

from agent.core.clock import Clock
from agent.core.ids import ConversationId, PersonId
from agent.core.outbox import OutgoingMessage
from agent.inbox import Brought, Incoming
from agent.storage import conversation_rows, inbox_rows, outbox_rows
from agent.storage.database import Database
from agent.storage.inbox_rows import NEW, WEBHOOKS
from agent.storage.payloads import encode_incoming
from agent.storage.tables import inbox, outbox
from agent.storage.timestamps import from_timestamp, to_timestamp
from gateway.channels.keys import ConversationKey
from gateway.storage import webhook_rows
from gateway.webhooks.settings import WebhookSection

MOST_WAITING = 10_000  # deliveries of one chat; beyond it the sender is asked to try again later
LONGEST_ID = 200  # characters; of a longer one its digest
DROPPED = "an operator dropped it"
SAME_BODY = timedelta(days=1)  # without a name of its own a delivery is the same if its body came within that time

_IS_HOOK = inbox.c.dedup.startswith(WEBHOOKS)
_TURNS_WAITING = select(func.count()).where(inbox.c.conv == bindparam("conversation"), NEW, _IS_HOOK)
_WORDS_WAITING = select(func.count()).where(
    outbox.c.conv == bindparam("conversation"), outbox.c.status.in_(("new", "sending"))
)
_TURN_SINCE = select(inbox.c.id).where(inbox.c.dedup == bindparam("key"), inbox.c.created_at > bindparam("since"))
_WORDS_SINCE = select(outbox.c.id).where(outbox.c.dedup == bindparam("key"), outbox.c.created_at > bindparam("since"))


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookDelivery:
    """A request that was checked. `id` is the service's name of it, "" where there is none."""

    id: str
    body: bytes
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookOutcome:
    """`duplicate`: it was stored before, and nothing comes of it. `full`: it was not stored, as too much waits."""

    duplicate: bool = False
    full: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookStanding:
    """A webhook of the configuration: its newest delivery that is kept (UTC microseconds), and how many wait."""

    hook: WebhookSection
    newest_at: int | None
    waiting: int


class WebhookDeliveries:
    """Everything raises StorageError."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        *,
        deliver: Callable[[ConversationKey], object],
        work: Callable[[ConversationId], object],
        language_of: Callable[[ConversationKey], str],
    ) -> None:
        self._database = database
        self._clock = clock
        self._deliver = deliver
        self._work = work
        self._language_of = language_of

    async def store(self, hook: WebhookSection, delivery: WebhookDelivery) -> WebhookOutcome:
        """Write it down, and have it worked on. It was committed when this returns."""
        place = ConversationKey.parse(hook.place)
        now = self._clock.now()
        if hook.mode == "say":
            stored = await self._database.write(partial(_said, hook=hook, delivery=delivery, now=now))
            self._deliver(place)
            return stored
        incoming = Incoming(
            text=hook.task,
            person=PersonId(hook.person),
            display=hook.name,
            language=self._language_of(place),
            role="guest",
            # Nobody of the chat has said it: it must not reach what only they may.
            chat_type="group",
            brought=Brought(delivery.text, hook.person),
            granted_tools=hook.tools,
            job=hook.person,
            received_at=now,
        )
        payload = encode_incoming(incoming)
        stored = await self._database.write(partial(_asked, hook=hook, delivery=delivery, payload=payload, now=now))
        self._work(ConversationId(hook.place))
        return stored

    async def standings(self, hooks: Sequence[WebhookSection]) -> Sequence[WebhookStanding]:
        """Each webhook with how it stands."""

        def read(conn: Connection) -> Sequence[WebhookStanding]:
            waiting = webhook_rows.waiting(conn, [hook.name for hook in hooks])
            return [
                WebhookStanding(
                    hook=hook,
                    newest_at=webhook_rows.newest_at(conn, hook.name),
                    waiting=waiting.get(hook.name, 0),
                )
                for hook in hooks
            ]

        return await self._database.read(read)

    async def listed(self, hooks: Sequence[WebhookSection]) -> Sequence[Mapping[str, object]]:
        """Each webhook with its newest delivery (ISO 8601, "" for none that is kept) and how many wait."""
        return [
            {
                "name": one.hook.name,
                "style": one.hook.style,
                "mode": one.hook.mode,
                "place": one.hook.place,
                "newest": from_timestamp(one.newest_at).isoformat() if one.newest_at is not None else "",
                "waiting": one.waiting,
            }
            for one in await self.standings(hooks)
        ]

    async def drop(self, name: str) -> int:
        """Let the turns of a webhook that wait never begin; returns how many there were."""
        return await self._database.write(partial(_dropped, name=name))


def _dropped(conn: Connection, name: str) -> int:
    """End the turns of the webhook that no run has begun, in whatever chat they wait; returns how many."""
    prefix = f"{WEBHOOKS}{name}:"
    waiting = (inbox.c.dedup.startswith(prefix, autoescape=True), NEW, inbox.c.attempts == 0)
    for conversation in conn.execute(select(inbox.c.conv).where(*waiting).distinct()).scalars().all():
        conversation_rows.lock_row(conn, ConversationId(conversation))  # no run begins meanwhile
    return conn.execute(update(inbox).where(*waiting).values(status="refused", note=DROPPED)).rowcount


def _said(conn: Connection, hook: WebhookSection, delivery: WebhookDelivery, now: datetime) -> WebhookOutcome:
    conversation, at = ConversationId(hook.place), to_timestamp(now)
    key = _new_key(conn, hook, delivery, now, _WORDS_SINCE)
    conversation_rows.ensure(conn, conversation, at)
    full = conn.execute(_WORDS_WAITING, {"conversation": conversation}).scalar_one() >= MOST_WAITING
    if key is None or (full and outbox_rows.known(conn, [key])):
        return WebhookOutcome(duplicate=True)
    if full:
        return WebhookOutcome(full=True)
    say = OutgoingMessage(text=delivery.text, kind="notice")
    added = outbox_rows.add(conn, conversation=conversation, inbox_id=None, part=0, dedup=key, say=say, at=at)
    return WebhookOutcome(duplicate=added is None)


def _asked(
    conn: Connection, hook: WebhookSection, delivery: WebhookDelivery, payload: str, now: datetime
) -> WebhookOutcome:
    """As work that was put off: people of the chat come first, and what they write is not counted together with it."""
    conversation, at = ConversationId(hook.place), to_timestamp(now)
    key = _new_key(conn, hook, delivery, now, _TURN_SINCE)
    full = conn.execute(_TURNS_WAITING, {"conversation": conversation}).scalar_one() >= MOST_WAITING
    if key is None or (full and inbox_rows.is_known(conn, dedup=key, event_dedup=None)):
        return WebhookOutcome(duplicate=True)
    if full:
        return WebhookOutcome(full=True)
    admitted = inbox_rows.admit(
        conn, conversation=conversation, kind="system", dedup=key, payload=payload, at=at, not_before=at, limit=None
    )
    return WebhookOutcome(duplicate=admitted.duplicate)


def _new_key(
    conn: Connection, hook: WebhookSection, delivery: WebhookDelivery, now: datetime, known_since: Select[tuple[int]]
) -> str | None:
    """The key under which the delivery is stored once; None where the same body has come within a day."""
    if delivery.id:
        id = delivery.id if len(delivery.id) <= LONGEST_ID else _digest(delivery.id.encode())
        return f"{WEBHOOKS}{hook.name}:{id}"
    today, before = (f"{WEBHOOKS}{hook.name}:{at:%Y-%m-%d}:{_digest(delivery.body)}" for at in (now, now - SAME_BODY))
    since = {"key": before, "since": to_timestamp(now - SAME_BODY)}
    return None if conn.execute(known_since, since).first() is not None else today


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
