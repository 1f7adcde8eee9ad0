"""One chat or topic of Telegram: sends, edits and takes away, as rich as the server allows."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

import anyio

from adapters.telegram import rich
from adapters.telegram.account import Account
from adapters.telegram.files import UPLOAD_LIMIT, AccountFiles, upload_as
from adapters.telegram.render import (
    TEXT_LIMIT,
    Rendered,
    clipped,
    envelope,
    is_caption,
    keyboard,
    measure,
    plain,
    render,
)
from adapters.telegram.request import BadRequest, Unknown, Upload, in_channel_words, is_gone, speaks_of
from gateway.channels.channel import Capabilities, Files, History, Interactions, Presence, Streams
from gateway.channels.document import Document, Plain, is_blank
from gateway.channels.errors import ChannelBusy, ChannelRejected, ChannelUnsure
from gateway.channels.keys import ConversationKey, UserId
from gateway.channels.outbound import File, Outbound, SentRef

# Typing, reactions and answers to buttons in one chat.

ANSWER_LIMIT = 200  # characters of an answer to a button


@dataclass(frozen=True, slots=True)
class ChatPresence:
    account: Account
    chat: int
    topic: int | None

    async def typing(self, status: str = "") -> None:
        """Telegram has no line for `status`; the sign fades after 5 s."""
        await self.account.limiter.aside(self.chat)
        topic = {} if self.topic is None else {"message_thread_id": self.topic}
        with in_channel_words():
            await self.account.ask("sendChatAction", self.chat, action="typing", **topic)

    async def react(self, message_id: str, emoji: str, *, on: bool = True) -> None:
        """A bot has one reaction a message; which emoji it may use, the chat's owners and Telegram decide."""
        if not message_id.isdigit():
            raise ChannelRejected(f"not a message of Telegram: {message_id!r}")
        await self.account.limiter.aside(self.chat)
        reaction = [{"type": "emoji", "emoji": emoji}] if on else []
        with in_channel_words():
            await self.account.ask("setMessageReaction", self.chat, message_id=int(message_id), reaction=reaction)


@dataclass(frozen=True, slots=True)
class ButtonAnswers:
    account: Account

    async def acknowledge(self, interaction: str, text: str = "", *, visible: bool = False) -> None:
        """Shown to the one who pressed: as a passing line, or with `visible` as a box to close."""
        shown: dict[str, Any] = {"text": text[:ANSWER_LIMIT], "show_alert": visible} if text else {}
        with in_channel_words():
            try:
                await self.account.api.call("answerCallbackQuery", callback_query_id=interaction, **shown)
            except BadRequest as error:
                # Too old: the waiting sign is gone by itself. Only words that nobody saw are a loss.
                if text or not speaks_of(error, "query is too old", "query_id_invalid"):
                    raise


# A growing answer in a private chat, by `sendMessageDraft`: animated, silent, gone when the message comes.

DRAFT = "draft"


@dataclass(frozen=True, slots=True)
class ChatDrafts:
    account: Account
    chat: int
    topic: int | None
    takes_rich: bool
    send: Callable[[Outbound, bool], Awaitable[SentRef]]  # the channel's own, with "is it final"
    edit: Callable[[SentRef, Outbound], Awaitable[None]]
    delete: Callable[[SentRef], Awaitable[None]]

    async def open(self, document: Document, *, reply_to: str | None, to: UserId | None) -> SentRef:
        if await self.account.takes(self.account.drafts):
            draft = self.account.next_draft()
            try:
                await self._show(draft, document)
            except ChannelRejected:
                if await self.account.takes(self.account.drafts):
                    raise
            else:
                return SentRef(str(draft), DRAFT)
        return await self.send(Outbound(document=document, reply_to=reply_to), False)

    async def update(self, sent: SentRef, document: Document) -> None:
        if sent.kind == DRAFT:
            await self._show(int(sent.id), document)
        else:
            await self.edit(sent, Outbound(document=document))

    async def finish(self, sent: SentRef, message: Outbound) -> SentRef:
        if sent.kind == DRAFT:
            return await self.send(message, True)
        if message.files:
            final = await self.send(message, True)
            await self.delete(sent)
            return final
        await self.edit(sent, message)
        return sent

    async def drop(self, sent: SentRef) -> None:
        """A message clears the draft, so one is sent silently and taken away; without room for it the draft fades."""
        if sent.kind != DRAFT:
            await self.delete(sent)
            return
        if self.account.is_cleared(self.chat, int(sent.id)):
            return
        try:
            clearing = await self.send(Outbound(document=(Plain("…"),), silent=True), False)
        except (ChannelBusy, ChannelUnsure):
            return
        await self.delete(clearing)

    async def _show(self, draft: int, document: Document) -> None:
        if is_blank(document):
            return
        account = self.account
        await account.limiter.turn(self.chat, final=False, in_topic=self.topic is not None and self.chat < 0)
        common = {"draft_id": draft} | ({} if self.topic is None else {"message_thread_id": self.topic})
        with in_channel_words():
            is_rich = self.takes_rich and rich.gains(document) and rich.fits(document)
            if is_rich and await account.takes(account.rich):
                try:
                    html = {"html": rich.html(document)}
                    await account.ask("sendRichMessageDraft", self.chat, rich_message=html, **common)
                except (BadRequest, Unknown) as error:
                    if is_gone(error.message):
                        raise
                    await account.refused(account.rich, error)
                else:
                    account.rich.worked()
                    return
            shown = clipped(render(document), TEXT_LIMIT)
            try:
                await account.ask(
                    "sendMessageDraft", self.chat, text=shown.text, entities=list(shown.entities) or None, **common
                )
            except (BadRequest, Unknown) as error:
                if not is_gone(error.message):
                    await account.refused(account.drafts, error)
                raise
            account.drafts.worked()


TEXT, MEDIA = "message", "media"  # kinds of `SentRef`: a media message has a caption to edit
LATE_ANSWER_S = 60.0
NO_PREVIEW = {"is_disabled": True}


class TelegramChannel:
    """A channel on Telegram. A final waits its turn; a frame never waits (see `limits`)."""

    def __init__(self, account: Account, key: ConversationKey, chat: int, topic: int | None) -> None:
        settings = account.settings
        private = chat > 0  # groups and channels have negative ids
        edit_every_s = settings.stream_interval_ms / 1000 if private else settings.group_interval_s
        self._account = account
        self._chat = chat
        self._topic = topic
        self._in_topic = topic is not None and not private  # another process may have another topic of the group
        self._takes_rich = str(chat) not in settings.rich_off_in
        self.key = key
        self._editing = Capabilities(
            measure=measure,
            text_limit=TEXT_LIMIT,
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
        await self._account.limiter.turn(self._chat, final=not message.is_frame, in_topic=self._in_topic)
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
        await self._account.limiter.turn(self._chat, final=final, in_topic=self._in_topic)
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
        await self._account.limiter.turn(self._chat, final=final, in_topic=self._in_topic)
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
