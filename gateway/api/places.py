"""Words into chats of people: `send` says something there as the bot, `ask` has the agent of a chat answer there."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal

import anyio
from sqlalchemy import Connection, bindparam, select

from agent.core.clock import Clock
from agent.core.files.store import FileStore
from agent.core.ids import ConversationId, PersonId
from agent.core.outbox import SENT, FileRef, OutgoingMessage
from agent.core.untrusted_text import whole
from agent.inbox import AccessRole, Incoming
from agent.storage import conversation_rows, inbox_rows, outbox_rows
from agent.storage.database import Database
from agent.storage.payloads import decode_incoming, decode_outgoing, encode_incoming
from agent.storage.statements import CompiledStatement
from agent.storage.tables import outbox
from agent.storage.timestamps import to_timestamp
from gateway.api.refusals import BadRequest
from gateway.api.turns import Begun, newest_said, row_by_key
from gateway.channels.channel import Channel
from gateway.channels.keys import ConversationKey
from gateway.router.attachments import safe_name

LONGEST = 100_000  # characters
MOST_FILES = 10
DELIVERED_WITHIN_S = 20.0  # a platform that takes longer is not waited for
LOOK_EVERY_S = 0.1

_SENT = CompiledStatement(
    select(outbox.c.id, outbox.c.conv, outbox.c.status, outbox.c.note, outbox.c.payload).where(
        outbox.c.dedup == bindparam("key")
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """A key, or an operator on the machine. `id` is their name in logs and grants."""

    id: str
    display: str
    role: AccessRole


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """The state of a message: `waiting` ones are tried until they arrive or are given up."""

    id: int
    state: Literal["sent", "waiting", "failed"]
    reason: str = ""


class Places:
    """Everything raises BadRequest for what cannot be done, and StorageError."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        home: Path,
        file_store: FileStore,
        channel: Callable[[ConversationKey], Channel | None],
        deliver: Callable[[ConversationKey], object],
        work: Callable[[ConversationId], object],
        language_of: Callable[[ConversationKey], str],
    ) -> None:
        self._database = database
        self._clock = clock
        self._home = home
        self._file_store = file_store
        self._channel = channel
        self._deliver = deliver
        self._work = work
        self._language_of = language_of

    def place(self, name: object) -> ConversationKey:
        """A place that an account reaches."""
        name = str(name or "")
        try:
            key = ConversationKey.parse(name)
            channel = self._channel(key)  # its platform may refuse the form, too
        except ValueError:
            raise BadRequest(f'{name!r} is no place; write it as "telegram:77"', param="place") from None
        if channel is None:
            raise BadRequest(
                f"no account here is called {key.channel_type!r}", param="place", code="place_not_found", status=404
            )
        return key

    async def send(
        self, place: ConversationKey, text: str, files: Sequence[tuple[str, str, Path]], *, caller: Caller, once: str
    ) -> Sent:
        """Say it there, once for each `once`; files are name, MIME type and where they lie. Waits a while for it."""
        text = _sound(text, may_be_empty=bool(files))
        if len(files) > MOST_FILES:
            raise BadRequest(f"at most {MOST_FILES} files go with a message", param="files")
        dedup = f"sent:{caller.id}:{once}"
        kept = [await self._kept(dedup, number, *file) for number, file in enumerate(files)]
        say = OutgoingMessage(text=text, kind="notice", files=tuple(kept))

        def write(conn: Connection) -> None:
            at = to_timestamp(self._clock.now())
            conversation_rows.ensure(conn, ConversationId(str(place)), at)
            outbox_rows.add(
                conn, conversation=ConversationId(str(place)), inbox_id=None, part=0, dedup=dedup, say=say, at=at
            )
            (row,) = _SENT.rows(conn, {"key": dedup})
            if row.conv != str(place) or decode_outgoing(row.payload).text != text:
                raise _used_before()

        await self._database.write(write)
        self._deliver(place)
        return await self._delivered(dedup)

    async def ask(self, place: ConversationKey, text: str, *, caller: Caller, once: str) -> Begun:
        """Have it answered there, once for each `once`."""
        text = _sound(text)
        now, conversation = self._clock.now(), ConversationId(str(place))
        incoming = Incoming(
            text=text,
            person=PersonId(caller.id),
            display=caller.display,
            language=self._language_of(place),
            role=caller.role,
            received_at=now,
        )
        dedup = f"{inbox_rows.ASKED}{caller.id}:{once}"

        def write(conn: Connection) -> Begun:
            after = newest_said(conn)
            admitted = inbox_rows.admit(
                conn,
                conversation=conversation,
                kind="message",
                dedup=dedup,
                payload=encode_incoming(incoming),
                at=to_timestamp(now),
            )
            if admitted.refused:
                raise BadRequest("too much waits there already; try again later", code="busy", status=429)
            if admitted.id is not None:
                return Begun(id=admitted.id, conversation=place, repeated=False, after=after)
            known = row_by_key(conn, dedup)
            if known.conv != conversation or decode_incoming(known.payload).text != text:
                raise _used_before()
            return Begun(id=known.id, conversation=place, repeated=True)

        begun = await self._database.write(write)
        self._work(conversation)
        return begun

    async def _delivered(self, dedup: str) -> Sent:
        until = anyio.current_time() + DELIVERED_WITHIN_S
        while True:
            row, is_gone = await self._database.read(partial(_state, dedup=dedup))
            if row.status == "sent":
                return Sent(id=row.id, state="sent")
            if row.status in ("dead", "dropped"):
                return Sent(id=row.id, state="failed", reason=row.note or row.status)
            if is_gone:
                told = "the bot was removed from this chat or blocked there; it is sent when they let it back"
                return Sent(id=row.id, state="waiting", reason=told)
            if anyio.current_time() > until:
                return Sent(id=row.id, state="waiting", reason=row.note or "")
            await anyio.sleep(LOOK_EVERY_S)

    async def _kept(self, dedup: str, number: int, name: str, mime_type: str, path: Path) -> FileRef:
        """A copy of the file that stays until it was sent."""
        folder = blake2b(f"{dedup}:{number}".encode(), digest_size=8).hexdigest()
        to = Path(SENT, folder, safe_name(name))
        await anyio.to_thread.run_sync(partial(_copy, path, self._home / to))
        await self._file_store.put(str(to))
        return FileRef(path=str(to), name=safe_name(name), mime_type=mime_type)


def _state(conn: Connection, dedup: str) -> tuple[Any, bool]:
    """The row, and whether its chat is closed to the bot."""
    (row,) = _SENT.rows(conn, {"key": dedup})
    return row, conversation_rows.is_gone(conn, ConversationId(row.conv))


def _sound(text: str, *, may_be_empty: bool = False) -> str:
    text = whole(text)
    if len(text) > LONGEST:
        raise BadRequest(f"text: at most {LONGEST:,} characters", param="text")
    if not text.strip() and not may_be_empty:
        raise BadRequest("text: is empty", param="text")
    return text


def _used_before() -> BadRequest:
    return BadRequest(
        "this Idempotency-Key was used with something else before", code="idempotency_key_reused", status=422
    )


def _copy(path: Path, to: Path) -> None:
    if to.exists():  # the same message once more
        return
    to.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    part = to.with_name(f".{to.name}.part")
    shutil.copyfile(path, part)
    part.replace(to)
