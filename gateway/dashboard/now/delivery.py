"""Delivery: messages and answers put aside, tried again or dropped; what is on its way, and what waits by place."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from pydantic import ValidationError
from sqlalchemy import Connection
from starlette.requests import Request

from agent.core.ids import ConversationId
from agent.core.phrases import counted
from agent.storage import approval_rows, outbox_rows
from agent.storage.database import Database
from agent.storage.payloads import decode_incoming, decode_outgoing
from agent.storage.timestamps import from_timestamp
from gateway.dashboard.frame.listing import PAGE, Asked, asked, listing
from gateway.dashboard.frame.readings import Readings
from gateway.dashboard.frame.shell import Done, Page, Section, action, rights_of, view
from gateway.operations.dead_letters import IN, OUT, DeadLetters
from gateway.storage import conversation_list
from gateway.storage.queues import inbox_entries, outbox_entries
from gateway.storage.queues.inbox_entries import InboxEntry, PlaceQueue
from gateway.storage.queues.outbox_entries import OutboxEntry
from gateway.web.control import OperationError

Box = Literal["messages", "answers", "sending", "waiting"]
BOXES: Mapping[Box, str] = {
    "messages": "Messages put aside",
    "answers": "Answers put aside",
    "sending": "On their way",
    "waiting": "Waiting",
}
LONGEST_TEXT = 2_000  # characters of a letter that a page shows
DEEDS: Mapping[str, str] = {"retry": "is tried again", "drop": "is dropped"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownLetter:
    """A message or answer as the page shows it. `id` is the name that actions know; `text` is "" for whom words of
    others are not. `next_at` is when it is tried again; None: it is due, or given up.
    """

    id: str
    conversation: ConversationId
    place: str
    kind: str
    text: str
    why: str
    attempts: int
    at: datetime
    next_at: datetime | None
    is_under_way: bool = False
    is_held: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownQueue:
    """Messages of a place that wait, as the page shows them."""

    queue: PlaceQueue
    place: str
    since: datetime
    next_at: datetime | None
    is_running: bool
    asks: bool


Places = Mapping[ConversationId, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryPages:
    """The page of the queues, and what may be done to what is in them."""

    database: Database
    letters: DeadLetters
    is_running: Callable[[ConversationId], bool]
    redact: Callable[[str], str]
    readings: Readings

    def section(self) -> Section:
        """The section."""
        return Section(
            title="Delivery",
            group="Now",
            entries=(
                view("/delivery", self.page),
                action("/delivery/all/{deed}", self.do_all, name="delivery.all"),
                action("/delivery/sending/{id:int}/{deed}", self.do_open, name="delivery.open"),
                action("/delivery/{id}/{deed}", self.do_one, name="delivery.letter"),
            ),
            waiting=self.waiting,
        )

    async def waiting(self) -> int:
        """How many messages and answers were put aside, or wait for the bot to be let back in."""

        def count(conn: Connection) -> int:
            return inbox_entries.counts(conn)[1] + outbox_rows.counts(conn)[1] + outbox_entries.held(conn)

        return await self.database.read(count)

    async def page(self, request: Request) -> Page:
        """One of the four queues by pages; without a choice the first in which somebody waits for an operator."""
        look = asked(request.query_params, filters={"box": tuple(BOXES)})
        may_read = "transcripts" in rights_of(request)

        def read(conn: Connection) -> tuple[Box, Mapping[Box, int], Sequence[ShownLetter] | Sequence[ShownQueue]]:
            counts = _counts(conn)
            box = next((name for name in BOXES if name == look.chosen["box"]), None) or _first(counts)
            return box, counts, self._rows(conn, box, look, readable=may_read)

        box, counts, rows = await self.database.read(read)
        if rows and may_read and box != "waiting":
            await self.readings.note(request, "delivery.read", BOXES[box].lower())
        values = {"box": box, "boxes": BOXES, "counts": counts, "listing": listing(list(rows), look)}
        return Page(template="delivery.html", values=values, live=True)

    async def do_one(self, request: Request) -> Done:
        """A message or answer that was put aside is tried again, or dropped."""
        id, deed = request.path_params["id"], _deed(request)
        key = await self._settle(id, deed)
        return Done(text=f"{await self._named(id, key)} {DEEDS[deed]}.", subject=key, detail=f"{deed} {id}")

    async def do_all(self, request: Request) -> Done:
        """All that the page showed are tried again, or dropped; one that was settled meanwhile is left out."""
        deed, form = _deed(request), await request.form()
        ids = [str(id) for id in form.getlist("id")][:PAGE]
        done: list[str] = []
        for id in ids:
            try:
                await self._settle(id, deed)
            except OperationError:
                continue  # it was settled already
            done.append(id)
        if not done:
            raise OperationError("none of these is put aside any more")
        is_answer = done[0].startswith(OUT)
        some = counted(len(done), "answer" if is_answer else "message")
        verb = {"retry": "tried again", "drop": "dropped"}[deed]
        text = f"{some} {'is' if len(done) == 1 else 'are'} {verb}."
        return Done(text=text, subject="all conversations", detail=f"{deed} {' '.join(done)}")

    async def do_open(self, request: Request) -> Done:
        """Something that is on its way is sent now, or given up."""
        id, deed = request.path_params["id"], _deed(request)
        do = self.letters.outbox_retry if deed == "retry" else self.letters.outbox_drop
        try:
            key = ConversationId((await do({"id": id}))["conversation"])
        except OperationError:
            raise OperationError("it is not on its way any more") from None
        text = "is sent now" if deed == "retry" else "is not sent any more"
        return Done(text=f"{await self._named(OUT, key)} {text}.", subject=key, detail=f"{deed} {id}")

    async def _settle(self, id: str, deed: str) -> ConversationId:
        """Raises OperationError for what is not put aside any more."""
        do = self.letters.dead_retry if deed == "retry" else self.letters.dead_drop
        try:
            return ConversationId((await do({"id": id}))["conversation"])
        except OperationError:
            raise OperationError("it is not put aside any more; somebody has settled it") from None

    async def _named(self, id: str, key: ConversationId) -> str:
        """The letter in a sentence, with whose it is."""
        names = await self.database.read(lambda conn: conversation_list.names(conn, (key,)))
        return f"The answer to {names[key]}" if id.startswith(OUT) else f"The message of {names[key]}"

    def _rows(
        self, conn: Connection, box: Box, look: Asked, *, readable: bool
    ) -> Sequence[ShownLetter] | Sequence[ShownQueue]:
        bounds = {"most": PAGE + 1, "skip": look.skip}
        if box == "waiting":
            queues = inbox_entries.by_place(conn, **bounds)
            places = conversation_list.names(conn, (one.conversation for one in queues))
            asking = approval_rows.asking(conn)
            return [self._queue(one, places, asks=one.conversation in asking) for one in queues]
        if box == "messages":
            incoming = inbox_entries.dead(conn, **bounds)
            places = conversation_list.names(conn, (one.conversation for one in incoming))
            return [self._incoming(one, places, readable=readable) for one in incoming]
        listed = outbox_entries.dead if box == "answers" else outbox_entries.still_open
        outgoing = listed(conn, **bounds)
        places = conversation_list.names(conn, (one.conversation for one in outgoing))
        return [self._outgoing(one, places, box, readable=readable) for one in outgoing]

    def _queue(self, one: PlaceQueue, places: Places, *, asks: bool) -> ShownQueue:
        return ShownQueue(
            queue=one,
            place=places[one.conversation],
            since=from_timestamp(one.since),
            next_at=from_timestamp(one.next_at) if one.next_at is not None and one.later == one.waiting else None,
            is_running=self.is_running(one.conversation),
            asks=asks,
        )

    def _incoming(self, one: InboxEntry, places: Places, *, readable: bool) -> ShownLetter:
        name, text = "", "(unreadable)"
        try:
            incoming = decode_incoming(one.payload)
        except ValidationError:
            pass  # a damaged row can be dropped all the same
        else:
            name, text = incoming.place or incoming.display, incoming.text
        return ShownLetter(
            id=f"{IN}{one.id}",
            conversation=one.conversation,
            place=name or places[one.conversation],
            kind=one.kind,
            text=self._cut(text) if readable else "",
            why=self.redact(one.why),
            attempts=one.attempts,
            at=from_timestamp(one.created_at),
            next_at=None,
        )

    def _outgoing(self, one: OutboxEntry, places: Places, box: Box, *, readable: bool) -> ShownLetter:
        kind, text = "", "(unreadable)"
        try:
            say = decode_outgoing(one.payload)
        except ValidationError:
            pass
        else:
            kind, text = say.kind, say.text if say.spoken is None else say.spoken.text
        return ShownLetter(
            id=f"{OUT}{one.id}" if box == "answers" else str(one.id),
            conversation=one.conversation,
            place=places[one.conversation],
            kind=kind,
            text=self._cut(text) if readable else "",
            why=self.redact(one.why),
            attempts=one.attempts,
            at=from_timestamp(one.created_at),
            next_at=from_timestamp(one.not_before) if one.not_before is not None else None,
            is_under_way=one.status == "sending" and one.not_before is None and not one.is_held,
            is_held=one.is_held,
        )

    def _cut(self, text: str) -> str:
        shown = self.redact(text)
        return shown if len(shown) <= LONGEST_TEXT else f"{shown[:LONGEST_TEXT]}…"


def _counts(conn: Connection) -> Mapping[Box, int]:
    (waiting, messages), (sending, answers) = inbox_entries.counts(conn), outbox_rows.counts(conn)
    return {"messages": messages, "answers": answers, "sending": sending, "waiting": waiting}


def _first(counts: Mapping[Box, int]) -> Box:
    return next((box for box in BOXES if counts[box]), "messages")


def _deed(request: Request) -> str:
    deed = str(request.path_params["deed"])
    if deed not in DEEDS:
        raise LookupError("A letter can be tried again or dropped.")
    return deed
