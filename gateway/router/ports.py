"""Ports of the router, and its settings of admission."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from sqlalchemy import Connection

from agent.between_turns import Job
from agent.core.clock import Clock
from agent.core.ids import ConversationId, PersonId
from agent.core.outbox import Buttons, OutgoingMessage
from agent.inbox import Incoming
from agent.storage import conversation_rows, inbox_rows, outbox_rows
from agent.storage.database import Database
from agent.storage.files.kept import in_one_place
from agent.storage.timestamps import to_timestamp
from agent.tools.approvals import Approvals
from gateway.access.grants import AccessBook
from gateway.access.policy import Decisions, Role
from gateway.access.roles import roles_of_sender
from gateway.channels.channel import Channel
from gateway.channels.inbound import MessageReceived, Received
from gateway.channels.keys import ConversationKey
from gateway.commands.handler import CommandHandler
from gateway.config.live import Live
from gateway.conversations.place_settings import PlaceSettings
from gateway.delivery.conversation_outbox import ConversationOutbox
from gateway.delivery.ephemeral.questions import Questions
from gateway.phrases.catalogue import Catalogue
from gateway.router.attachments import Attachments
from gateway.router.messages import incoming_from, person_of
from gateway.storage.queues.given_up import Buried, untold

# Arrival: a message whose sender may be answered.


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A message, as whose it is taken (`roles` are named ones), and what makes it the same when it comes again."""

    said: MessageReceived
    role: Role
    roles: tuple[str, ...] = ()
    dedup: str
    event: str | None
    conversation: ConversationId = field(init=False)
    person: PersonId = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "conversation", ConversationId(str(self.said.key)))
        object.__setattr__(self, "person", person_of(self.said))

    @property
    def incoming(self) -> Incoming:
        """The message as the agent gets it, without the content of its files."""
        return incoming_from(self.said, self.role, roles=self.roles)

    def is_known(self, conn: Connection) -> bool:
        """It came before and was stored."""
        return inbox_rows.is_known(conn, dedup=self.dedup, event_dedup=self.event)


# Remarks of the gateway itself: short rows in the outbox, each once, whatever is repeated.


class Notices:
    """Writes rows and wakes delivery."""

    def __init__(self, database: Database, clock: Clock, wake: Callable[[ConversationKey], None]) -> None:
        self._database = database
        self._clock = clock
        self._wake = wake

    async def say(self, key: ConversationKey, say: OutgoingMessage, *, dedup: str) -> None:
        """Say it there; a second time with the same `dedup` does nothing."""
        await self._database.write(lambda conn: self.add(conn, key, say, dedup=dedup))
        self._wake(key)

    def add(
        self, conn: Connection, key: ConversationKey, say: OutgoingMessage, *, dedup: str, inbox_id: int | None = None
    ) -> None:
        """The same within a transaction of the caller, who calls `committed` afterwards."""
        conversation, at = ConversationId(str(key)), to_timestamp(self._clock.now())
        conversation_rows.ensure(conn, conversation, at)
        outbox_rows.add(
            conn, conversation=conversation, inbox_id=inbox_id, part=0, dedup=f"notice:{dedup}", say=say, at=at
        )

    def committed(self, key: ConversationKey) -> None:
        self._wake(key)


class Conversations(Protocol):
    """The conversations under way; `gateway.conversations.registry` keeps this promise."""

    def is_running(self, conversation: ConversationId) -> bool: ...
    def stop(self, conversation: ConversationId, reason: str) -> bool: ...
    async def forget(self, conversation: ConversationId) -> None:
        """Drop the agent, if one is awake: its state is in the database."""


class Wake(Protocol):
    def __call__(self, conversation: ConversationId, row: int | None = None) -> None:
        """See `gateway.dispatch.dispatcher.Dispatcher.wake`."""


class NotifyOwner(Protocol):
    def __call__(
        self,
        key: str,
        values: dict[str, object],
        buttons: Callable[[str], Buttons] = ...,
        *,
        told: str = "",
    ) -> None:
        """See `gateway.running.monitoring.alerts.Alerts.tell`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterDeps:
    """Everything the router speaks to.

    `tell_owner` takes a key of the catalogue and its values; `met` is told where somebody who may be told such things
    talks to us directly, and in which language. `live` holds the configuration, read anew for every message, `settings`
    are those of single places. `preemptible`: what runs in a conversation is a plan's or a goal's own turn. `expect` is
    told before a message of a person is stored (see `gateway.dispatch.dispatcher.Dispatcher.expect`). `later` runs a
    job beside everything else; one that a crash cuts off is not run again. `renamed` is told the old and the new name
    of a place once all rows have followed. `buried` writes of a message that no try could take in. `sync_notes`
    brings the notes of a place to what other processes know. `workers` tells how many processes take messages in.
    """

    database: Database
    clock: Clock
    live: Live
    book: AccessBook
    decisions: Decisions
    handler: CommandHandler
    notices: Notices
    questions: Questions
    approvals: Approvals
    conversations: Conversations
    outbox_for: Callable[[ConversationKey], ConversationOutbox]
    settings: PlaceSettings
    preemptible: Callable[[ConversationId], bool]
    channel: Callable[[ConversationKey], Channel | None]
    expect: Callable[[ConversationId], None]
    wake: Wake
    attachments: Attachments
    phrase: Catalogue
    notify_owner: NotifyOwner
    met: Callable[[str, ConversationKey, str], None]
    later: Callable[[Job], None]
    renamed: Callable[[str, str], None]
    buried: Buried = untold
    sync_notes: Callable[[ConversationId], Awaitable[None]] = in_one_place
    workers: Callable[[], int] = lambda: 1

    def roles_of(self, inbound: Received) -> tuple[str, ...]:
        """The operator's named roles that the sender has in this place now."""
        settings = self.live.settings
        return roles_of_sender(inbound, settings.roles, settings.access, self.book.grants)
