"""What the router speaks to, and what the configuration says about admission."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from agent.between_turns import Job
from agent.core.clock import Clock
from agent.core.ids import ConversationId
from agent.core.outbox import Buttons
from agent.storage.database import Database
from agent.tools.approvals import Approvals
from gateway.access.book import AccessBook
from gateway.access.decisions import Decisions
from gateway.access.settings import AccessSettings
from gateway.channels.channel import Channel
from gateway.channels.keys import ConversationKey
from gateway.commands.handler import CommandHandler
from gateway.delivery.outbox import ConversationOutbox
from gateway.delivery.questions import Questions
from gateway.dispatch.queue_modes import QueueMode
from gateway.phrases.catalogue import Catalogue
from gateway.router.attachments import Attachments
from gateway.router.notices import Notices


class Conversations(Protocol):
    """What is going on; `gateway.conversations.registry` keeps this promise."""

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
        """See `gateway.running.alerts.Alerts.tell`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Read anew for every message, so that they may change between two."""

    access: AccessSettings
    queue_depth: int
    catch_up_max_age_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterDeps:
    """Everything the router speaks to.

    `tell_owner` takes a key of the catalogue and its values; `met` is told where somebody who may be told such things
    talks to us directly, and in which language. `setting_changed` takes conversation, key and value. `learn_parent`
    takes a thread and the channel id of its place; `knows_parent` says whether that is known. `gives_way`: what runs in
    a conversation is a plan's or a goal's own turn. `expect` is told before a message of a person is stored (see
    `gateway.dispatch.dispatcher.Dispatcher.expect`). `later` runs a job beside everything else; one that a crash cuts
    off is not run again.
    """

    database: Database
    clock: Clock
    rules: Callable[[], Rules]
    book: AccessBook
    decisions: Decisions
    handler: CommandHandler
    notices: Notices
    questions: Questions
    approvals: Approvals
    conversations: Conversations
    outbox_for: Callable[[ConversationKey], ConversationOutbox]
    queue_mode: Callable[[ConversationId], QueueMode]
    preemptible: Callable[[ConversationId], bool]
    channel: Callable[[ConversationKey], Channel | None]
    expect: Callable[[ConversationId], None]
    wake: Wake
    attachments: Attachments
    phrase: Catalogue
    notify_owner: NotifyOwner
    met: Callable[[str, ConversationKey, str], None]
    setting_changed: Callable[[ConversationId, str, str], None]
    knows_parent: Callable[[ConversationKey, str], bool]
    learn_parent: Callable[[ConversationKey, str], Awaitable[None]]
    later: Callable[[Job], None]
