"""One chat or topic of Telegram: sends, edits and takes away, as rich as the server allows."""

from dataclasses import replace
from typing import Any

import anyio

from adapters.telegram import rich
from adapters.telegram.account import Account
from adapters.telegram.drafts import DRAFT, ChatDrafts
from adapters.telegram.envelope import envelope, keyboard
from adapters.telegram.errors import BadRequest, Unknown, in_channel_words, is_gone, speaks_of
from adapters.telegram.files import UPLOAD_LIMIT, AccountFiles, upload_as
from adapters.telegram.presence import ButtonAnswers, ChatPresence
from adapters.telegram.render import TEXT_LIMIT, Rendered, is_caption, measure, plain, render
from adapters.telegram.request import Upload
from gateway.channels.channel import Capabilities, Files, History, Interactions, Presence, Streams
from gateway.channels.document import Document, is_blank
from gateway.channels.errors import ChannelRejected
from gateway.channels.keys import ConversationKey, UserId
from gateway.channels.outbound import File, Outbound, SentRef

TEXT, MEDIA = "message", "media"  # kinds of `SentRef`: a media message has a caption to edit
LATE_ANSWER_S = 60.0
NO_PREVIEW = {"is_disabled": True}


class TelegramChannel:
    """What is no frame is a final and waits its turn; a frame never waits (see `limits`)."""

    def __init__(self, account: Account, key: ConversationKey, chat: int, topic: int | None) -> None:
        settings = account.settings
        private = chat > 0  # groups and channels have negative ids
        edit_every_s = settings.stream_interval_ms / 1000 if private else settings.group_interval_s
        self._account = account
        self._chat = chat
        self._topic = topic
        self._takes_rich = str(chat) not in settings.rich_off_in
        self.key = key
        self._editing = Capabilities(
            measure=measure,
            text_limit=TEXT_LIMIT,
            threads=topic is not None,
            reactions=settings.reactions,
            typing=True,
            typing_every_s=4.0,
            stream_every_s=edit_every_s,
            upload_limit=UPLOAD_LIMIT,
            stop_button=True,
            command_dash="_",
        )
        self._drafting = replace(self._editing, stream_every_s=settings.draft_interval_ms / 1000)
        self.streams: Streams | None = (
            ChatDrafts(account, chat, topic, self._takes_rich, self._send, self.edit, self.delete)
            if private and settings.drafts
            else None
        )
        self.presence: Presence | None = ChatPresence(account, chat, topic)
        self.files: Files | None = AccountFiles(account)
        self.history: History | None = None  # the Bot API gives none; what came meanwhile waits as updates for a day
        self.interactions: Interactions | None = ButtonAnswers(account)

    @property
    def capabilities(self) -> Capabilities:
        """A server that refuses drafts is asked again later, so their pace is no property of the chat."""
        drafts = self.streams is not None and self._account.drafts.usable(self._now)
        return self._drafting if drafts else self._editing

    async def send(self, message: Outbound) -> SentRef:
        return await self._send(message, not message.is_frame)

    async def send_ephemeral(self, message: Outbound, to: UserId | None) -> SentRef:
        return await self._send(replace(message, silent=True), not message.is_frame)

    async def edit(self, sent: SentRef, message: Outbound) -> None:
        if sent.kind == DRAFT:
            raise ChannelRejected("a draft is no message; it is updated or finished")
        markup = keyboard(message.buttons)
        await self._account.limiter.turn(self._chat, final=not message.is_frame)
        parameters = {"message_id": int(sent.id), "reply_markup": markup}
        with in_channel_words():
            try:
                if sent.kind == MEDIA:
                    await self._put_caption(message.document, parameters)
                else:
                    await self._put_text("editMessageText", message.document, parameters)
            except BadRequest as error:
                if not speaks_of(error, "message is not modified"):
                    raise

    async def delete(self, sent: SentRef) -> None:
        if sent.kind == DRAFT:
            return  # it fades by itself
        with in_channel_words():
            try:
                await self._account.ask("deleteMessage", self._chat, message_id=int(sent.id))
            except BadRequest as error:
                if not speaks_of(error, "message to delete not found", "message_id_invalid"):
                    raise

    # -- sending

    async def _send(self, message: Outbound, final: bool) -> SentRef:
        if message.files:
            return await self._send_with_files(message, final)
        parameters = envelope(message, self._topic)
        if is_blank(message.document):
            raise ChannelRejected("a message without any text")
        await self._account.limiter.turn(self._chat, final=final)
        if not final:  # nobody waits for it so long, but its late answer names it, and it can be taken away
            parameters["read_s"] = LATE_ANSWER_S
        with in_channel_words():
            sent = _sent(await self._put_text(None, message.document, parameters), TEXT)
        self._account.clears_drafts(self._chat)
        return sent

    async def _put_text(self, edit: str | None, document: Document, parameters: dict[str, Any]) -> Any:
        """Rich if that gains something and the server takes it, else text with entities, else plain."""
        account = self._account
        is_rich = self._takes_rich and rich.gains(document) and rich.fits(document)
        if is_rich and await account.takes(account.rich):
            try:
                result = await account.ask(
                    edit or "sendRichMessage", self._chat, rich_message={"html": rich.html(document)}, **parameters
                )
            except (BadRequest, Unknown) as error:
                if is_gone(error.message) or (edit and speaks_of(error, "not modified", "message to edit not found")):
                    raise
                await account.refused(account.rich, error)
            else:
                account.rich.worked()
                return result
        shown = render(document)
        parameters = {"link_preview_options": NO_PREVIEW, **parameters}
        method = edit or "sendMessage"
        try:
            return await account.ask(method, self._chat, text=shown.text, **_entities(shown), **parameters)
        except BadRequest as error:
            if not (shown.entities and speaks_of(error, "entit", "can't parse")):
                raise
            return await account.ask(method, self._chat, text=plain(document), **parameters)

    async def _put_caption(self, document: Document, parameters: dict[str, Any]) -> None:
        shown = render(document)
        await self._account.ask(
            "editMessageCaption", self._chat, caption=shown.text, **_entities(shown, "caption_entities"), **parameters
        )

    async def _send_with_files(self, message: Outbound, final: bool) -> SentRef:
        """The text as caption of the first file if it is short enough, else before it. The first piece is the message
        that can be edited; a repeat with the same key goes on where the first try broke off.
        """
        arrived = self._account.delivered(message.key)
        alone = replace(message, files=(), buttons=(), reply_to=None)
        captioned = is_caption(render(message.document))
        pieces: list[tuple[Outbound, File | None]] = []
        if not captioned:
            pieces.append((replace(message, files=()), None))
        pieces += [(alone if pieces or number else message, file) for number, file in enumerate(message.files)]
        for number, (piece, attached) in enumerate(pieces[len(arrived) :], start=len(arrived)):
            if attached is None:
                arrived.append(await self._send(piece, final))
            else:
                arrived.append(await self._send_file(piece, attached, final, with_caption=not number))
        self._account.complete(message.key)
        return arrived[0]

    async def _send_file(self, message: Outbound, file: File, final: bool, *, with_caption: bool) -> SentRef:
        parameters = envelope(message, self._topic)
        if with_caption:
            shown = render(message.document)
            parameters |= {"caption": shown.text or None, **_entities(shown, "caption_entities")}
        try:
            size = (await anyio.Path(file.path).stat()).st_size
        except OSError as error:
            raise ChannelRejected(f"cannot read {file.name}: {error.strerror}") from error
        if size > UPLOAD_LIMIT:
            raise ChannelRejected(f"{file.name} has {size} bytes; Telegram takes up to {UPLOAD_LIMIT}")
        await self._account.limiter.turn(self._chat, final=final)
        method, field = upload_as(file, size)
        with in_channel_words():
            try:
                return await self._upload(method, field, file, parameters)
            except BadRequest as error:
                if field == "document" or is_gone(error.message):
                    raise
                return await self._upload("sendDocument", "document", file, parameters)

    async def _upload(self, method: str, field: str, file: File, parameters: dict[str, Any]) -> SentRef:
        name = "".join(sign for sign in file.name if sign.isprintable()) or "file"  # it stands in a header
        async with await anyio.open_file(file.path, "rb") as opened:
            upload = Upload(name, opened.wrapped, file.mime_type)
            result = await self._account.ask(method, self._chat, **{field: upload}, **parameters)
        return _sent(result, MEDIA)

    @property
    def _now(self) -> float:
        return self._account.clock.monotonic()


def _sent(result: Any, kind: str) -> SentRef:
    return SentRef(str(result["message_id"]), kind)


def _entities(shown: Rendered, field: str = "entities") -> dict[str, Any]:
    return {field: list(shown.entities)} if shown.entities else {}
