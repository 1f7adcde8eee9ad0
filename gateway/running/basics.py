"""Parts of the process that nearly every package is built on, and the port to the dispatcher, which is built last."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agent.core.clock import Clock
from agent.core.events import EventBus
from agent.core.files.store import FileStore
from agent.core.ids import ConversationId
from agent.storage.database import Database
from gateway.config.live import Live
from gateway.config.settings import Settings
from gateway.phrases.catalogue import Catalogue
from gateway.telemetry.redaction import Redactor
from gateway.telemetry.trouble import Troubles

if TYPE_CHECKING:  # loaded only where a database is shared
    from gateway.cluster.cluster import Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Basics:
    """The configuration, the open database and the clock; who hears of events and troubles; words, and secrets.

    `files` keeps the files of the data directory where several processes need them.
    """

    live: Live
    database: Database
    files: FileStore
    clock: Clock
    bus: EventBus
    troubles: Troubles
    phrase: Catalogue
    redact: Redactor
    cluster: "Cluster | None" = None  # None: no other process works on the database

    @property
    def home(self) -> Path:
        return self.live.settings.home

    @property
    def settings(self) -> Settings:
        """The settings of now: ask again for what may change."""
        return self.live.settings


class WorkSignal:
    """Port to the dispatcher: work for a conversation was stored. Nothing runs before the dispatcher is connected."""

    def __init__(self) -> None:
        self._wake: Callable[[ConversationId], None] | None = None

    def connect(self, wake: Callable[[ConversationId], None]) -> None:
        self._wake = wake

    def __call__(self, conversation: ConversationId) -> None:
        assert self._wake is not None, "work was stored before the dispatcher was built"
        self._wake(conversation)
