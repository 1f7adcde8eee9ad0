"""The contract of a channel over a chat session: everything is on the page at once, and on disk when `send` returns."""

import shutil
from dataclasses import replace
from pathlib import Path

from anyio import to_thread

from adapters.web.attachment_store import AttachmentStore
from adapters.web.chat_session import ChatSession
from adapters.web.chat_sessions import ChatSessions, split
from adapters.web.messages import Choice, Shown, ShownFile
from adapters.web.render import blocks_as_html, text_length
from agent.core.files.store import FileStore
from gateway.channels.adapter import whole_or_nothing
from gateway.channels.channel import Capabilities, Files, History, Interactions, Presence, Streams
from gateway.channels.document import Document
from gateway.channels.errors import ChannelBusy, ChannelRejected
from gateway.channels.inbound import Attachment
from gateway.channels.keys import ConversationKey, UserId
from gateway.channels.outbound import Outbound, SentRef

MARK = "mark"  # the kind of what is a sign on a message
TEXT_LIMIT = 100_000  # characters; a page could hold more, but nobody reads it

CAPABILITIES = Capabilities(
    measure=text_length,
    text_limit=TEXT_LIMIT,
    ephemeral=True,
    reactions=True,
    typing=True,
    typing_every_s=2.0,
    stream_every_s=0.08,
    upload_limit=100 << 20,
    idempotent_send="nonce",
)


class WebChannel:
    """One conversation of one signed-in person. Also its streams, presence, files and interactions."""

    capabilities = CAPABILITIES
    # Posts are admitted before the browser is answered: there is nothing to catch up with.
    history: History | None = None

    def __init__(self, key: ConversationKey, sessions: ChatSessions, shelves: "Shelves") -> None:
        self.key = key
        self._sessions = sessions
        self._shelves = shelves
        self.streams: Streams | None = _Streams(self)
        self.presence: Presence | None = _Presence(self)
        self.files: Files | None = _Files(self)
        self.interactions: Interactions | None = _Interactions(self)

    async def session(self) -> ChatSession:
        try:
            return await self._sessions.open(self.key.channel_id)
        except OSError as error:
            raise _no_disk(error) from error

    @property
    def store(self) -> AttachmentStore:
        return self._shelves.of(split(self.key.channel_id)[0])

    async def send(self, message: Outbound) -> SentRef:
        return await self.show(message, draft=None)

    async def show(self, message: Outbound, *, draft: str | None) -> SentRef:
        """Show it for good, in the place of a draft if there is one."""
        session = await self.session()
        known = session.by_key(message.key)
        if known is not None:
            if draft is not None:
                session.drop_draft(draft)
            return SentRef(known.id)
        if message.tone == "stopped" and message.answers is not None:
            stopped = session.stopped_by(message.answers)
            if stopped is not None:
                return await self._mark(session, stopped, draft)
        files = await self._kept_files(message)
        shown = session.appear(
            id=session.new_id("m"),
            who="bot",
            document=message.document,
            buttons=_choices(message),
            files=files,
            key=message.key,
            reply_to=message.reply_to,
            answers=message.answers,
            tone=message.tone,
            replaces=draft,
        )
        try:
            await session.keep(shown)
        except OSError as error:
            session.vanish(shown.id)  # it will be sent again
            raise _no_disk(error) from error
        self._sessions.notify_elsewhere(self.key.channel_id, shown)
        return SentRef(shown.id)

    async def _mark(self, session: ChatSession, stopped: Shown, draft: str | None) -> SentRef:
        """A sign on what was stopped; a message of its own would tell nothing more."""
        if draft is not None:
            session.drop_draft(draft)
        await self._changed(session, replace(stopped, tone="stopped"))
        return SentRef(stopped.id, MARK)

    async def edit(self, sent: SentRef, message: Outbound) -> None:
        session = await self.session()
        before = session.get(sent.id)
        if before is None or before.who != "bot":
            raise ChannelRejected(f"message {sent.id} is gone")
        blocks = blocks_as_html(message.document)
        after = replace(before, blocks=blocks, buttons=_choices(message))
        if after == before:
            return
        await self._changed(session, after if before.private else replace(after, edited=before.blocks != blocks))

    async def delete(self, sent: SentRef) -> None:
        session = await self.session()
        if sent.kind == MARK:  # the message below it is not ours to take away
            if (marked := session.get(sent.id)) is not None:
                await self._changed(session, replace(marked, tone=""))
            return
        try:
            await session.take_away(sent.id)
        except OSError as error:
            raise _no_disk(error) from error

    async def send_ephemeral(self, message: Outbound, to: UserId | None) -> SentRef:
        session = await self.session()
        shown = session.appear(
            id=session.new_id("w"),
            who="bot",
            document=message.document,
            buttons=_choices(message),
            files=await self._kept_files(message),
            reply_to=message.reply_to,
            private=True,
            silent=message.silent,
        )
        return SentRef(shown.id, "whisper")

    async def _changed(self, session: ChatSession, shown: Shown) -> None:
        try:
            await session.change(shown)
        except OSError as error:
            raise _no_disk(error) from error

    async def _kept_files(self, message: Outbound) -> tuple[ShownFile, ...]:
        try:
            return tuple(
                [
                    await self.store.keep(file.path, name=file.name, mime_type=file.mime_type)
                    for file in message.files
                ]
            )  # fmt: skip
        except FileNotFoundError as error:
            raise ChannelRejected(f"the file to send is gone: {Path(error.filename).name}") from error
        except OSError as error:
            raise ChannelBusy(f"the file cannot be kept: {error.strerror}", after_s=5.0) from error


class Shelves:
    """Everybody's files."""

    def __init__(self, home: Path, folder: Path, max_total: int, files: FileStore) -> None:
        self._home = home
        self._folder = folder
        self._max_total = max_total
        self._files = files

    def of(self, person: str) -> AttachmentStore:
        return AttachmentStore(self._home, self._folder / person / "files", self._max_total, self._files)


class _Streams:
    def __init__(self, channel: WebChannel) -> None:
        self._channel = channel

    async def open(self, document: Document, *, reply_to: str | None, to: UserId | None) -> SentRef:
        draft = (await self._channel.session()).open_draft(document, reply_to)
        return SentRef(draft.id, "draft")

    async def update(self, sent: SentRef, document: Document) -> None:
        (await self._channel.session()).grow(sent.id, document)

    async def finish(self, sent: SentRef, message: Outbound) -> SentRef:
        return await self._channel.show(message, draft=sent.id)

    async def drop(self, sent: SentRef) -> None:
        (await self._channel.session()).drop_draft(sent.id)


class _Presence:
    def __init__(self, channel: WebChannel) -> None:
        self._channel = channel

    async def typing(self, status: str = "") -> None:
        (await self._channel.session()).typing(status)

    async def react(self, message_id: str, emoji: str, *, on: bool = True) -> None:
        (await self._channel.session()).react(message_id, emoji, on=on)


class _Files:
    def __init__(self, channel: WebChannel) -> None:
        self._channel = channel

    async def fetch(self, attachment: Attachment, to: Path, *, limit: int) -> int:
        found = await self._channel.store.find(attachment.handle)
        if found is None:
            raise ChannelRejected(f"{attachment.name} is no longer there")
        file, path = found
        if file.size > limit:
            raise ChannelRejected(f"{attachment.name} is larger than {limit >> 20} MB")
        async with whole_or_nothing(to):
            await to_thread.run_sync(shutil.copyfile, path, to)
        return file.size


class _Interactions:
    def __init__(self, channel: WebChannel) -> None:
        self._channel = channel

    async def acknowledge(self, interaction: str, text: str = "", *, visible: bool = False) -> None:
        if text:
            (await self._channel.session()).toast(text)


def _no_disk(error: OSError) -> ChannelBusy:
    return ChannelBusy(f"the web chat's journal cannot be used: {error.strerror}", after_s=5.0)


def _choices(message: Outbound) -> tuple[tuple[Choice, ...], ...]:
    return tuple(
        tuple(Choice(label=button.label, action=button.action, style=button.style) for button in row)
        for row in message.buttons
    )
