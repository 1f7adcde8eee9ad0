"""Turns that a program asks for: given to its conversation once, waited for, and read from what was committed.

Whoever waits reads the database, not the process that works: a program that asks again with the same id, after a crash
or at another process, gets the answer of the same turn.
"""

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal
from weakref import WeakValueDictionary

import anyio
from sqlalchemy import Connection, bindparam, func, select

from agent.core.events import (
    DecisionCompleted,
    Event,
    EventBus,
    LoopEnded,
    LoopFailed,
    LoopStarted,
    Published,
    StreamDelta,
)
from agent.core.ids import RunId
from agent.core.outbox import OutgoingMessage
from agent.core.untrusted_text import whole
from agent.inbox import Incoming
from agent.storage.database import Database
from agent.storage.payloads import decode_incoming, decode_outgoing
from agent.storage.statements import CompiledStatement
from agent.storage.tables import inbox, outbox, usage
from gateway.access.policy import KEYS
from gateway.api.keys import Key
from gateway.api.uploads import SentFile, Uploads
from gateway.channels.inbound import Attachment, Inbound, Mention, MessageReceived, Outcome, Receipt, Sender
from gateway.channels.keys import ConversationKey, UserId
from gateway.channels.media import kind_of
from gateway.delivery.egress import Guard
from gateway.router.messages import with_notes

LOOK_EVERY_S = 1.0  # at what another process may have done
MOST_WAIT_S = 3600.0  # for an answer; the turn goes on without the one who asked
TAKEN_IN_WITHIN_S = 30.0  # by a worker that is busy; another process has stored what came
MERGED = re.compile(r"merged into (\d+)")

_COLUMNS = (inbox.c.id, inbox.c.conv, inbox.c.status, inbox.c.note, inbox.c.payload, inbox.c.created_at)
_ROW = CompiledStatement(select(*_COLUMNS).where(inbox.c.dedup == bindparam("key")))
_BY_ID = CompiledStatement(select(*_COLUMNS).where(inbox.c.id == bindparam("row")))
# By the index of the conversation, from the row that was the newest when the message came: what was said before costs
# nothing.
_SAID = CompiledStatement(
    select(outbox.c.payload)
    .where(
        outbox.c.conv == bindparam("conversation"),
        outbox.c.id > bindparam("after"),
        outbox.c.inbox_id == bindparam("row"),
    )
    .order_by(outbox.c.id)
)
_NEWEST = CompiledStatement(select(func.coalesce(func.max(outbox.c.id), 0)))
_SPENT = CompiledStatement(
    select(
        func.coalesce(func.sum(usage.c.prompt + usage.c.cache_creation + usage.c.cache_read), 0).label("read"),
        func.coalesce(func.sum(usage.c.cache_read), 0).label("cached"),
        func.coalesce(func.sum(usage.c.output), 0).label("written"),
    ).where(
        usage.c.conv == bindparam("conversation"),
        usage.c.created_at >= bindparam("since"),  # by the index: not all that the conversation ever spent
        usage.c.inbox_id == bindparam("row"),
    )
)
_LATEST = (
    select(outbox.c.inbox_id, outbox.c.payload)
    .where(outbox.c.conv == bindparam("conversation"), outbox.c.inbox_id.is_not(None))
    .order_by(outbox.c.id.desc())
    .limit(bindparam("most"))
)
_DONE = select(inbox.c.id, inbox.c.payload).where(
    inbox.c.id.in_(bindparam("ids", expanding=True)), inbox.c.kind == "message", inbox.c.status == "done"
)
ROWS_OF_A_TURN = 4  # of the outbox, at most, in what is compared with a sent history


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """Question and answer of a turn that is over, with MIME types and sizes of the files that came along."""

    said: str
    files: tuple[tuple[str, int], ...]
    told: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """Tokens of all calls of a turn; `read` has those in it that came from a cache."""

    read: int = 0
    cached: int = 0
    written: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """How a turn ended. `text` is the answer in Markdown, or the sentence about why there is none.

    `id` is that of the message in the inbox: the same turn has it wherever and however often it is asked for.
    """

    id: int
    text: str
    ended: Literal["answered", "stopped", "failed", "gone"]
    files: tuple[str, ...] = ()
    tokens: Tokens = Tokens()


class Listening:
    """Hears the events of one conversation from before its message is taken in: the turn may begin at once."""

    def __init__(self, bus: EventBus, conversation: ConversationKey) -> None:
        self._conversation = str(conversation)
        self._changed = anyio.Event()
        self._events: list[Event] = []
        self._started: dict[int, RunId] = {}  # by the message that is worked on
        self.ended = False  # a turn there has, since this was set to False
        kinds = (LoopStarted, LoopEnded, LoopFailed, StreamDelta, DecisionCompleted)
        self.stop = bus.listen(self._hear, kinds)

    def _hear(self, published: Published) -> None:
        event = published.event
        if event.conversation != self._conversation:
            return
        match event:
            case LoopStarted(inbox_id=inbox_id, run=run) if run is not None:
                self._started[inbox_id] = run
            case LoopEnded() | LoopFailed():
                self.ended = True
                self._changed.set()
            case StreamDelta() | DecisionCompleted():
                self._events.append(event)
                self._changed.set()

    def taken(self, inbox_id: int) -> list[Event]:
        """Events of the turn about that message which have come since."""
        events, self._events = self._events, []
        return [event for event in events if event.run is not None and event.run == self._started.get(inbox_id)]

    async def changes(self) -> bool:
        """Return once something came."""
        await self._changed.wait()
        self._changed = anyio.Event()
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A message that is stored: its row, and whether it was there before. What answers it stands `after` that row."""

    id: int
    conversation: ConversationKey
    repeated: bool
    after: int = 0
    listening: Listening | None = None

    def close(self) -> None:
        """Listen no more; whoever waits for the answer calls it in the end."""
        if self.listening is not None:
            self.listening.stop()


class NotTaken(Exception):
    """The message was not taken in; the text says why."""

    def __init__(self, text: str, *, status: int, code: str, retry_after_s: int | None = None) -> None:
        super().__init__(text)
        self.status, self.code, self.retry_after_s = status, code, retry_after_s


class _NotYetTakenIn(NotTaken):
    """It is stored, and whoever takes it in still needs what came with it."""

    def __init__(self) -> None:
        super().__init__(
            "it is stored and nobody has begun with it yet; ask again with the same Idempotency-Key",
            status=503,
            code="unavailable",
            retry_after_s=5,
        )


class Turns:
    """One for all doors. Everything raises StorageError."""

    def __init__(
        self,
        database: Database,
        bus: EventBus,
        admit: Callable[[Inbound], Awaitable[Receipt]],
        guard: Guard,
        settle: Callable[[], Awaitable[None]],
        uploads: Uploads,
    ) -> None:
        """`guard` keeps secrets from leaving with the words, `settle` writes the usage that waits to be written."""
        self._database = database
        self._bus = bus
        self._admit = admit
        self._guard = guard
        self._settle = settle
        self._uploads = uploads
        self._alone: WeakValueDictionary[str, anyio.Lock] = WeakValueDictionary()

    async def begin(
        self,
        key: Key,
        conversation: str,
        text: str,
        *,
        id: str,
        files: Sequence[SentFile] = (),
        traceparent: str = "",
    ) -> Begun:
        """Say it in a conversation of the key, once for each `id`; `traceparent` is the caller's. Raises NotTaken."""
        where = ConversationKey(KEYS, f"{key.name}:{conversation}")
        if not files:
            return await self._begin(key, where, text, id, (), traceparent)
        # One after the other: where two requests have one id, the files of the later one may not replace those of the
        # earlier.
        async with self._alone.setdefault(_dedup(where, where.channel_id, id), anyio.Lock()):
            if (known := await self.known(where, id, text, files)) is not None:
                return known
            try:
                parts = await self._uploads.put(files)
            except OSError as error:
                raise NotTaken(
                    f"its files could not be stored: {error.strerror}", status=503, code="unavailable", retry_after_s=30
                ) from error
            attachments = tuple(
                Attachment(
                    kind=kind_of(part.mime_type),
                    handle=part.path,
                    name=part.name,
                    mime_type=part.mime_type,
                    size=part.size,
                )
                for part in parts
            )
            # Where anything else ends it, somebody may still take the message in; then housekeeping removes the files.
            try:
                begun = await self._begin(key, where, text, id, attachments, traceparent)
            except _NotYetTakenIn:
                raise
            except NotTaken:
                await self._uploads.remove(parts)
                raise
            await self._uploads.remove(parts)
            return begun

    async def _begin(
        self,
        key: Key,
        where: ConversationKey,
        text: str,
        id: str,
        attachments: tuple[Attachment, ...],
        traceparent: str,
    ) -> Begun:
        now = datetime.now(UTC)
        said = MessageReceived(
            key=where,
            place=where.channel_id,
            message_id=id,
            sender=Sender(id=UserId(key.name), display=key.name),
            received_at=now,
            sent_at=now,
            text=text,
            attachments=attachments,
            mention=Mention.DIRECT,
            traceparent=traceparent,
        )
        return await self.say(said)

    async def say(self, said: MessageReceived) -> Begun:
        """Hand it over, once for each message id. Raises NotTaken."""
        listening = Listening(self._bus, said.key)
        with ExitStack() as undone:
            undone.callback(listening.stop)
            begun = await self._say(said, listening)
            undone.pop_all()
        return begun

    async def _say(self, said: MessageReceived, listening: Listening) -> Begun:
        after = await self._database.read(newest_said)
        receipt = await self._admit(said)
        row = await self._taken_in(_dedup(said.key, said.place, said.message_id), receipt)
        repeated = receipt.outcome is Outcome.DUPLICATE
        if repeated:
            self._check_same(decode_incoming(row.payload), said.text)
            after = 0
        if row.status == "refused":
            words = " ".join(one.text for one in await self._database.read(partial(_said, row=row, after=after)))
            raise NotTaken(
                words or f"it was refused: {row.note or receipt.reason}",
                status=429,
                code="refused",
                retry_after_s=10,
            )
        return Begun(id=row.id, conversation=said.key, repeated=repeated, after=after, listening=listening)

    async def _taken_in(self, key: str, receipt: Receipt) -> Any:
        """The row of the inbox, which is there a moment later where processes share the work. Raises NotTaken."""
        until = anyio.current_time() + TAKEN_IN_WITHIN_S
        while (row := await self._database.read(partial(row_by_key, key=key))) is None:
            if receipt.outcome is not Outcome.ACCEPTED:
                raise NotTaken(
                    f"it was not taken in: {receipt.reason or receipt.outcome}", status=403, code="not_allowed"
                )
            if anyio.current_time() > until:
                raise _NotYetTakenIn
            await anyio.sleep(LOOK_EVERY_S)
        return row

    async def known(self, where: ConversationKey, id: str, text: str, files: Sequence[SentFile] = ()) -> Begun | None:
        """The message of that id, if it was said before. Raises NotTaken where it said something else."""
        row = await self._database.read(partial(row_by_key, key=_dedup(where, where.channel_id, id)))
        if row is None:
            return None
        incoming = decode_incoming(row.payload)
        self._check_same(incoming, text)
        if not incoming.notes:  # else not all of them could be stored, and the text says which
            pairs = zip(incoming.files, files, strict=False)
            same = [await self._uploads.holds(part, one) for part, one in pairs]
            if len(incoming.files) != len(files) or not all(same):
                raise _used_before()
        return Begun(id=row.id, conversation=where, repeated=True)

    async def conversation_of(self, id: int) -> ConversationKey | None:
        """Where the message stands."""
        rows = await self._database.read(lambda conn: _BY_ID.rows(conn, {"row": id}))
        return ConversationKey.parse(rows[0].conv) if rows else None

    def _check_same(self, incoming: Incoming, text: str) -> None:
        if incoming.text != with_notes(whole(text), incoming.notes):
            raise _used_before()

    async def answer(self, begun: Begun, *, within_s: float = MOST_WAIT_S) -> Answer:
        """The answer, once it is committed. Raises TimeoutError; the turn goes on."""
        async for one in self.words(begun, within_s=within_s):
            if isinstance(one, Answer):
                return one
        raise AssertionError("words without an end")

    async def words(self, begun: Begun, *, within_s: float = MOST_WAIT_S) -> AsyncGenerator[str | Answer, None]:
        """Pieces of the answer as the model says them, and at last how it ended.

        The pieces together are the text of the answer. Words that came before a call of a tool, or before a model
        that failed was replaced, cannot be taken back: then the whole answer follows behind a blank line.
        """
        shown, until = Shown(self._guard), anyio.current_time() + within_s
        listening = begun.listening or Listening(self._bus, begun.conversation)
        try:
            may_be_there = True
            while True:
                if may_be_there:
                    listening.ended = False
                    if (answer := await self._found(begun)) is not None:
                        break
                if anyio.current_time() > until:
                    raise TimeoutError
                changed = False
                with anyio.move_on_after(LOOK_EVERY_S):
                    changed = await listening.changes()
                for event in listening.taken(begun.id):
                    if piece := shown.next(event):
                        yield piece
                may_be_there = listening.ended or not changed
        finally:
            listening.stop()
        if answer.ended == "answered" and (rest := shown.rest(answer.text)):
            yield rest
        yield answer

    async def latest(self, conversation: ConversationKey, most: int) -> Sequence[Exchange]:
        """The newest turns of a conversation that are over, oldest first."""

        def read(conn: Connection) -> list[Exchange]:
            limit = {"conversation": str(conversation), "most": most * ROWS_OF_A_TURN}
            told: dict[int, list[OutgoingMessage]] = {}
            for row in conn.execute(_LATEST, limit):
                told.setdefault(row.inbox_id, []).insert(0, decode_outgoing(row.payload))
            rows = sorted(conn.execute(_DONE, {"ids": list(told)}).all())[-most:]
            return [_exchange(decode_incoming(payload), _answer(told[id])) for id, payload in rows]

        return await self._database.read(read)

    async def _found(self, begun: Begun) -> Answer | None:
        row, said = await self._database.read(partial(_ended, row=begun.id, after=begun.after))
        if row is None:
            return Answer(id=begun.id, text="what was said there has been deleted", ended="gone")
        if row.status == "new":
            return None
        await self._settle()
        tokens = await self._database.read(partial(_tokens, row=row))
        files = tuple(file.name for one in said for file in one.files)
        problems = [one.text for one in said if one.tone == "problem"]
        text = self._guard.text(_answer(said))
        if row.status == "dead" or (problems and not text):
            return Answer(id=begun.id, text=" ".join(problems) or "no answer came", ended="failed", tokens=tokens)
        if any(one.tone == "stopped" for one in said):
            return Answer(id=begun.id, text=text, ended="stopped", files=files, tokens=tokens)
        if not said:
            silent = "the answer is kept no longer" if begun.repeated else "there is no answer"
            return Answer(id=begun.id, text=silent, ended="gone", tokens=tokens)
        return Answer(id=begun.id, text=text, ended="answered", files=files, tokens=tokens)


class Shown:
    """The part of a growing answer that has left."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._step = ""  # of the model's words, those of the call under way
        self._left = ""  # of that step, as it left
        self._before = False  # words of an earlier step have left

    def next(self, event: Event) -> str:
        """The piece that may leave now; words that may be the beginning of a secret wait."""
        match event:
            case StreamDelta(content=content):
                return self.grow(content)
            case DecisionCompleted(tool_calls=calls) if calls:
                piece = self._more(self._guard.text(self._step))
                self._before = self._before or bool(self._left)
                self._step = self._left = ""
                return piece
        return ""

    def grow(self, content: str) -> str:
        """The same for more words of one call."""
        self._step += content
        return self._more(self._guard.text(self._guard.growing(self._step)))

    def _more(self, text: str) -> str:
        if not text.startswith(self._left) or (not self._left and not text.strip()):
            return ""
        piece, self._left = text[len(self._left) :], text
        if self._before and piece and piece == text:
            self._before = False
            return f"\n\n{piece}"
        return piece

    def rest(self, text: str) -> str:
        """The part of the answer that is still missing."""
        if text.startswith(self._left):
            return self._more(text)
        return f"\n\n{text}"


def _exchange(said: Incoming, told: str) -> Exchange:
    files = tuple((one.mime_type, one.size) for one in said.files)
    return Exchange(said=said.text, files=files, told=told)


def _used_before() -> NotTaken:
    return NotTaken(
        "this Idempotency-Key was used with another message before", status=422, code="idempotency_key_reused"
    )


def _dedup(where: ConversationKey, place: str, id: str) -> str:
    """The key under which the router stores such a message (`gateway.router.messages.dedup_key`)."""
    return f"{where.channel_type}:{place}:{id}"


def row_by_key(conn: Connection, key: str) -> Any:
    """The row of the inbox that was stored under that key; None where there is none."""
    rows = _ROW.rows(conn, {"key": key})
    return rows[0] if rows else None


def newest_said(conn: Connection) -> int:
    """The newest row of the outbox: what answers a message that comes now stands behind it."""
    return int(_NEWEST.scalar(conn, {}))


def _ended(conn: Connection, row: int, after: int) -> tuple[Any, Sequence[OutgoingMessage]]:
    """The row that was worked on in the end, and what was said about it."""
    for _ in range(10):
        rows = _BY_ID.rows(conn, {"row": row})
        if not rows:
            return None, ()
        merged = MERGED.fullmatch(rows[0].note or "") if rows[0].status == "merged" else None
        if merged is None:
            return rows[0], _said(conn, rows[0], after) if rows[0].status != "new" else ()
        row = int(merged[1])
    return None, ()


def _said(conn: Connection, row: Any, after: int) -> Sequence[OutgoingMessage]:
    given = {"conversation": row.conv, "row": row.id, "after": after}
    return [decode_outgoing(payload) for payload in _SAID.column(conn, given)]


def _tokens(conn: Connection, row: Any) -> Tokens:
    (found,) = _SPENT.rows(conn, {"row": row.id, "conversation": row.conv, "since": row.created_at})
    return Tokens(read=int(found.read), cached=int(found.cached), written=int(found.written))


def _answer(said: Sequence[OutgoingMessage]) -> str:
    answers = [one.text for one in said if one.kind == "answer" and one.text]
    return "\n\n".join(answers or [one.text for one in said if one.tone == "" and one.text])
