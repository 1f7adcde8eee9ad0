"""A growing answer in a private chat, by `sendMessageDraft`: animated, silent, gone when the message comes.

Telegram shows a draft for 30 s after its last frame and has no call to take it away. On a server without drafts it is a
message that is edited.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from adapters.telegram import rich
from adapters.telegram.account import Account
from adapters.telegram.errors import BadRequest, Unknown, in_channel_words, is_gone
from adapters.telegram.render import TEXT_LIMIT, clipped, render
from gateway.channels.document import Document, Plain, is_blank
from gateway.channels.errors import ChannelBusy, ChannelRejected, ChannelUnsure
from gateway.channels.keys import UserId
from gateway.channels.outbound import Outbound, SentRef

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
        await account.limiter.turn(self.chat, final=False)
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
