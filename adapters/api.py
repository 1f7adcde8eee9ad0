"""Conversations of other programs as a channel: what is said to them is read from the outbox by `gateway.api`."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import anyio
from starlette.routing import BaseRoute

from agent.core.files.store import FileStore
from gateway.channels.adapter import AdapterContext, Admit, ChannelSettings, Diagnosis, Entrance, Health, Ids, State
from gateway.channels.channel import Capabilities, Files, History, Interactions, Presence, Streams
from gateway.channels.errors import ChannelRejected
from gateway.channels.inbound import Attachment
from gateway.channels.keys import ConversationKey, UserId
from gateway.channels.outbound import CommandSpec, Outbound, SentRef
from gateway.channels.plain_text import as_text

CAPABILITIES = Capabilities(
    measure=lambda document: len(as_text(document)),
    text_limit=1_000_000,  # the whole answer is one
    edits=False,
    buttons=False,
    upload_limit=1 << 40,
    idempotent_send="nonce",
)


class ApiSettings(ChannelSettings):
    """Nothing to set: who may come in stands in the keys."""

    adapter: ClassVar[str] = "adapters.api:Api"
    entrance: ClassVar[Entrance] = "key"
    ids: ClassVar[Ids] = Ids()

    type: str = "api"


class Api:
    """The adapter. `channel_id` is `<name of the key>:<conversation>`."""

    routes: Sequence[BaseRoute] = ()

    def __init__(self, settings: ApiSettings, adapter_context: AdapterContext) -> None:
        self.channel_type = settings.channel_type
        self._clock = adapter_context.clock
        self._files = UploadedFiles(adapter_context.home, adapter_context.files)
        self._hears = False

    async def run(self, admit: Admit) -> None:
        self._hears = True
        try:
            await anyio.sleep_forever()
        finally:
            self._hears = False

    def channel(self, channel_id: str) -> "ApiChannel":
        return ApiChannel(ConversationKey(self.channel_type, channel_id), self._files)

    def health(self) -> Health:
        return Health(state=State.CONNECTED if self._hears else State.STARTING, last_event_at=self._clock.now())

    async def publish(self, commands: Sequence[CommandSpec]) -> None:
        """Programs know no menu."""

    async def diagnose(self) -> Sequence[Diagnosis]:
        return [Diagnosis(subject="api", level="ok", finding="served below /v1 and /api to who has a key")]

    async def aclose(self) -> None: ...


class ApiChannel:
    """One conversation of one key. The program reads the row itself, so sending has no more to do than to end it."""

    capabilities = CAPABILITIES
    streams: Streams | None = None
    presence: Presence | None = None
    history: History | None = None
    interactions: Interactions | None = None

    def __init__(self, key: ConversationKey, files: Files) -> None:
        self.key = key
        self.files: Files | None = files

    async def send(self, message: Outbound) -> SentRef:
        return SentRef(message.key or "shown")

    async def edit(self, sent: SentRef, message: Outbound) -> None: ...

    async def delete(self, sent: SentRef) -> None: ...

    async def send_ephemeral(self, message: Outbound, to: UserId | None) -> SentRef | None:
        return None


class UploadedFiles:
    """Files that came with requests: `gateway.api` stores them before it hands the message over."""

    def __init__(self, home: Path, files: FileStore) -> None:
        self._home = home
        self._files = files

    async def fetch(self, attachment: Attachment, to: Path, *, limit: int) -> int:
        """Copy it. Raises ChannelRejected."""
        await self._files.need(attachment.handle)
        if attachment.size is None or attachment.size > limit:
            raise ChannelRejected(f"{attachment.name} is larger than {limit >> 20} MB")
        try:
            await anyio.to_thread.run_sync(shutil.copyfile, self._home / attachment.handle, to)
        except FileNotFoundError:
            raise ChannelRejected(f"{attachment.name} is no longer there") from None
        return attachment.size
