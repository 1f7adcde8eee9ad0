"""One conversation as it stands: messages, growing answers, signs of life. Everybody who looks sees the same."""

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from adapters.web.chat_store import MessageJournal
from adapters.web.messages import (
    Choice,
    Gone,
    Put,
    Shown,
    ShownFile,
    as_json,
    asked_by,
    entry_as_line,
    entry_of_line,
)
from adapters.web.render import blocks_as_html
from adapters.web.stream import Event, Stream
from agent.core.clock import Clock
from agent.core.outbox import Tone
from gateway.channels.document import Document

PAGE = 60  # messages a page opens with; older ones on demand
TYPING_FADES_S = 3.5
PRIVATE_KEPT = 20
KEYS_KEPT = 5_000

log = logging.getLogger("tieline.web")


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A growing answer."""

    id: str
    document: Document
    blocks: tuple[str, ...]
    reply_to: str | None
    is_elsewhere: bool = False  # grows in another process


class ChatSession:
    """Made from its journal. Changes are seen at once; what is awaited returns when it is on the disk."""

    def __init__(
        self,
        id: str,
        journal: MessageJournal,
        kept: Sequence[Shown],
        clock: Clock,
        keep: int,
        tell: Callable[[Event], None] = lambda change: None,
    ) -> None:
        """`tell` hears of each change, for other processes that have the conversation open: see `apply`."""
        self.id = id
        self._tell = tell
        self._journal = journal
        self._clock = clock
        self._keep = keep
        self._messages = {shown.id: shown for shown in kept}
        self._keys = {shown.key: shown.id for shown in kept if shown.key}
        self._order = max((shown.order for shown in kept), default=0)
        self._drafts: dict[str, Draft] = {}
        self._private: dict[str, Shown] = {}
        self._typing: tuple[str, float] | None = None  # status and the moment it fades
        self._unkept: set[str] = set()  # messages that are shown and not yet in the journal
        self._made = 0
        self.stream = Stream(self._state)
        self.commands: Sequence[Event] = ()

    # -- looking

    def get(self, id: str) -> Shown | None:
        return self._messages.get(id) or self._private.get(id)

    def by_key(self, key: str) -> Shown | None:
        """The bot's message that carries this key."""
        return self._messages.get(self._keys.get(key, "")) if key else None

    def stopped_by(self, answers: str) -> Shown | None:
        """Where it shows that an answer was stopped: its last words, or the message that got none."""
        words = [shown for shown in self.standing if shown.who == "bot" and shown.answers == answers]
        asked = self._messages.get(asked_by(answers))
        return words[-1] if words else asked if asked is not None and asked.who == "person" else None

    @property
    def newest_answer(self) -> Shown | None:
        """The last answer, with a reminder or an alert below it perhaps; None when a person wrote after it."""
        exchanged = (shown for shown in self._messages.values() if shown.who == "person" or shown.answers)
        last = max(exchanged, key=lambda shown: shown.order, default=None)
        return last if last is not None and last.who == "bot" else None

    @property
    def standing(self) -> Sequence[Shown]:
        """The messages, oldest first."""
        return sorted(self._messages.values(), key=lambda shown: shown.order)

    @property
    def is_quiet(self) -> bool:
        """Nobody looks and nothing is under way: it may be read from its journal again later."""
        return not (self.stream.readers or self._drafts or self._private or self._is_typing)

    def older(self, before: int) -> tuple[list[dict[str, Any]], bool]:
        """The page of messages before that order, and whether there are still older ones."""
        found = [shown for shown in self.standing if shown.order < before]
        return [as_json(shown) for shown in found[-PAGE:]], len(found) > PAGE

    async def events(self, after: str | None) -> AsyncIterator[tuple[str, Event | None]]:
        async for event in self.stream.follow(after):
            yield event

    # -- messages

    def new_id(self, kind: str) -> str:
        """An id that no message of this conversation has, not even one of an earlier life."""
        self._made += 1
        return f"{kind}{self._order}-{self._made}-{int(self._clock.now().timestamp() * 1000):x}"

    def appear(
        self,
        *,
        id: str,
        who: Literal["person", "bot"],
        text: str = "",
        document: Document = (),
        blocks: tuple[str, ...] | None = None,
        buttons: tuple[tuple[Choice, ...], ...] = (),
        files: tuple[ShownFile, ...] = (),
        key: str = "",
        reply_to: str | None = None,
        answers: str | None = None,
        private: bool = False,
        silent: bool = False,
        tone: Tone = "",
        replaces: str | None = None,
    ) -> Shown:
        """Show a message; `replaces` names the draft it grew from. It is kept once `keep` was called."""
        self._order += 1
        shown = Shown(
            id=id,
            order=self._order,
            who=who,
            at=self._clock.now().isoformat(timespec="milliseconds"),
            text=text,
            blocks=blocks_as_html(document) if blocks is None else blocks,
            buttons=buttons,
            files=files,
            key=key,
            reply_to=reply_to,
            answers=answers,
            private=private,
            silent=silent,
            tone=tone,
        )
        if private:
            self._private[id] = shown
            for old in list(self._private)[:-PRIVATE_KEPT]:
                self.vanish(old)
        else:
            self._messages[id] = shown
            self._unkept.add(id)
        if key:
            self._keys[key] = id
            for old in list(self._keys)[:-KEYS_KEPT]:
                del self._keys[old]
        if replaces is not None:
            self._drafts.pop(replaces, None)
        if who == "bot" and not private:
            self._typing = None
        self._show(shown, replaces)
        return shown

    async def keep(self, shown: Shown) -> None:
        """Put it on the disk. Raises OSError; whether the message may stay on the page is the caller's to say."""
        await self._journal.write(Put(put=shown), self.standing)
        self._unkept.discard(shown.id)
        for old in self.standing[: -self._keep]:
            self._messages.pop(old.id, None)

    async def change(self, shown: Shown) -> None:
        """Replace a message that stands."""
        kept = self._private if shown.private else self._messages
        before = kept[shown.id]
        kept[shown.id] = shown
        if shown.tone != before.tone:  # nothing more comes
            self._typing = None
        self._show(shown)
        if shown.private or before == shown:
            return
        try:
            await self._journal.write(Put(put=shown), self.standing)
        except OSError:
            kept[shown.id] = before
            self._show(before)
            raise

    async def take_away(self, id: str) -> None:
        """Fine when it is gone already."""
        was_kept = id in self._messages
        self.vanish(id)
        if was_kept:
            await self._journal.write(Gone(gone=id), self.standing)

    @property
    def is_answering(self) -> bool:
        """Something would still be written here."""
        return bool(self._drafts) or self._is_typing

    async def remove(self) -> None:
        """Take everything away, from the disk as well; open pages are told and let go. Raises OSError."""
        await self._journal.remove()
        self._messages.clear()
        self._keys.clear()
        self._private.clear()
        self._publish({"type": "removed"})
        self.stream.close()

    def vanish(self, id: str) -> None:
        """Take it off the page."""
        self._unkept.discard(id)
        shown = self._messages.pop(id, None) or self._private.pop(id, None)
        if shown is not None:
            if shown.key:
                self._keys.pop(shown.key, None)
            self._publish({"type": "gone", "id": id})

    def react(self, id: str, emoji: str, *, on: bool) -> None:
        """A sign of life: not kept."""
        shown = self._messages.get(id)
        if shown is None or (emoji in shown.reactions) is on:
            return
        others = tuple(each for each in shown.reactions if each != emoji)
        self._messages[id] = replace(shown, reactions=(*others, emoji) if on else others)
        self._show(self._messages[id])

    # -- growing answers

    def open_draft(self, document: Document, reply_to: str | None) -> Draft:
        draft = Draft(
            id=self.new_id("d"), document=document, blocks=blocks_as_html(document), reply_to=reply_to
        )  # fmt: skip
        self._drafts[draft.id] = draft
        self._typing = None
        self._publish({"type": "draft", "id": draft.id, "from": 0, "blocks": draft.blocks, "reply_to": reply_to})
        return draft

    def grow(self, id: str, document: Document) -> None:
        """Show the text so far; only blocks that changed are rendered and sent."""
        draft = self._drafts.get(id)
        if draft is None:  # dropped, or of an earlier life: the final text comes in any case
            return
        blocks, first = grown(draft, document)
        if document == draft.document:
            return
        self._drafts[id] = replace(draft, document=document, blocks=blocks)
        self._publish({"type": "draft", "id": id, "from": first, "blocks": blocks[first:]})

    def draft(self, id: str) -> Draft | None:
        return self._drafts.get(id)

    def drop_draft(self, id: str) -> None:
        if self._drafts.pop(id, None) is not None:
            self._publish({"type": "gone", "id": id})

    # -- signs of life

    @property
    def _is_typing(self) -> bool:
        return self._typing is not None and self._typing[1] > self._clock.monotonic()

    def typing(self, status: str) -> None:
        self._typing = (status, self._clock.monotonic() + TYPING_FADES_S)
        self._publish({"type": "typing", "status": status, "for_ms": int(TYPING_FADES_S * 1000)})

    def toast(self, text: str) -> None:
        """A line that goes by itself."""
        self._publish({"type": "toast", "text": text})

    def use_commands(self, commands: Sequence[Event]) -> None:
        self.commands = commands
        self.stream.publish({"type": "commands", "commands": commands})

    # -- other processes

    def _publish(self, event: Event) -> None:
        self.stream.publish(event)
        self._tell(event)

    def _show(self, shown: Shown, replaces: str | None = None) -> None:
        self.stream.publish({"type": "shown", "message": as_json(shown), "replaces": replaces})
        self._tell({"type": "shown", "line": entry_as_line(Put(put=shown)).decode(), "replaces": replaces})

    def tell_drafts(self) -> None:
        """Tell the whole of what grows here: a process has just opened the conversation."""
        for draft in self._drafts.values():
            if not draft.is_elsewhere:
                self._tell(
                    {"type": "draft", "id": draft.id, "from": 0, "blocks": draft.blocks, "reply_to": draft.reply_to}
                )

    def apply(self, change: Event) -> Shown | None:
        """Make a change that another process has made and kept; the message that it shows, if it does."""
        match change["type"]:
            case "shown":
                return self._stand(shown_in(change), change["replaces"])
            case "draft":
                self._grow_elsewhere(change)
                return None
            case "gone":
                self._drafts.pop(change["id"], None)
                shown = self._messages.pop(change["id"], None) or self._private.pop(change["id"], None)
                if shown is not None and shown.key:
                    self._keys.pop(shown.key, None)
            case "typing":
                self._typing = (change["status"], self._clock.monotonic() + change["for_ms"] / 1000)
            case "removed":
                self._messages.clear()
                self._keys.clear()
                self._private.clear()
        self.stream.publish(change)
        if change["type"] == "removed":
            self.stream.close()
        return None

    async def read_again(self) -> None:
        """Words of other processes may have been lost: show what is kept, and what is shown here and not kept yet.

        Answers that grow elsewhere are left out: whoever writes them tells them again, see `tell_drafts`.
        """
        before = self._messages.copy()
        kept = {shown.id: shown for shown in await self._journal.read()}
        changed = {id: shown for id, shown in self._messages.items() if id in self._unkept or before.get(id) != shown}
        gone = before.keys() - self._messages.keys()
        self._messages = {id: shown for id, shown in (kept | changed).items() if id not in gone}
        self._keys = {shown.key: shown.id for shown in self._messages.values() if shown.key}
        self._order = max((self._order, *(shown.order for shown in self._messages.values())))
        self._drafts = {id: draft for id, draft in self._drafts.items() if not draft.is_elsewhere}
        self.stream.publish(self._state())

    def _stand(self, shown: Shown, replaces: str | None) -> Shown:
        (self._private if shown.private else self._messages)[shown.id] = shown
        if shown.key:
            self._keys[shown.key] = shown.id
        self._order = max(self._order, shown.order)
        if replaces is not None:
            self._drafts.pop(replaces, None)
        if shown.who == "bot" and not shown.private:
            self._typing = None
        self.stream.publish({"type": "shown", "message": as_json(shown), "replaces": replaces})
        return shown

    def _grow_elsewhere(self, change: Event) -> None:
        before = self._drafts.get(change["id"])
        kept = before.blocks[: change["from"]] if before is not None else ()
        if len(kept) < change["from"]:
            return  # its beginning was told before this process knew of it; all of it is on its way
        blocks = (*kept, *change["blocks"])
        reply_to = change.get("reply_to") or (before.reply_to if before is not None else None)
        self._drafts[change["id"]] = Draft(
            id=change["id"], document=(), blocks=blocks, reply_to=reply_to, is_elsewhere=True
        )
        self._typing = None
        self.stream.publish(change)

    def _state(self) -> Event:
        messages = self.standing
        drafts = [
            {"id": draft.id, "blocks": draft.blocks, "reply_to": draft.reply_to} for draft in self._drafts.values()
        ]
        typing: dict[str, Any] | None = None
        if self._typing is not None and self._is_typing:
            remaining = self._typing[1] - self._clock.monotonic()
            typing = {"status": self._typing[0], "for_ms": int(remaining * 1000)}
        return {
            "type": "state",
            "messages": [as_json(shown) for shown in messages[-PAGE:]],
            "has_older": len(messages) > PAGE,
            "private": [as_json(shown) for shown in self._private.values()],
            "drafts": drafts,
            "typing": typing,
            "commands": self.commands,
        }


def grown(draft: Draft, document: Document) -> tuple[tuple[str, ...], int]:
    """The blocks of a document that continues a draft, and the first one that differs."""
    same = 0
    for before, after in zip(draft.document, document, strict=False):
        if before != after:
            break
        same += 1
    return draft.blocks[:same] + blocks_as_html(document[same:]), same


def shown_in(change: Event) -> Shown:
    """The message that a change of another process shows."""
    entry = entry_of_line(change["line"].encode())
    assert isinstance(entry, Put)
    return entry.put
