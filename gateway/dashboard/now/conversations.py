"""Conversations of all places: a list with a search, and each one's transcript with its costs and actions."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from urllib.parse import quote, urlencode

import anyio
from sqlalchemy import Connection
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from agent.core.clock import Clock
from agent.core.ids import ConversationId, PersonId, RunId, SessionId
from agent.core.messages import (
    CompactionPart,
    FilePart,
    RedactedThinking,
    SummaryPart,
    TextPart,
    Thinking,
    ToolResult,
    ToolUse,
)
from agent.ledger import rows as ledger_rows
from agent.ledger.spending import UsageTotals
from agent.sessions import export as session_export
from agent.sessions import runs as run_rows
from agent.sessions import store
from agent.sessions.store import Session, Stored, read_parts
from agent.storage import approval_rows
from agent.storage.database import Database
from agent.storage.timestamps import from_timestamp, to_timestamp
from agent.tools.approvals import canonical
from gateway.channels.document import Document
from gateway.dashboard.frame.listing import PAGE, Asked, asked, listing
from gateway.dashboard.frame.readings import Readings
from gateway.dashboard.frame.shell import Done, Page, Section, action, person_of, rights_of, view
from gateway.delivery.rendering.markdown import parse
from gateway.operations.operator_commands import OperatorCommands
from gateway.running.models import ModelAccess
from gateway.running.turns import TurnServices
from gateway.storage import conversation_list
from gateway.storage.conversation_list import ConversationEntry, Spent
from gateway.traces import rows as traces
from gateway.web.control import OperationError

MESSAGES = 100  # of a page of a transcript
SESSIONS = 30  # that can be chosen
AROUND = 160  # characters around a word that was found
MOST_FORMATTED = 200_000  # characters of answers that one page formats: about two seconds of the densest Markdown
LONGEST_PART = 20_000  # characters of a result or of arguments that a page shows, and of an answer that it formats

Kind = Literal["text", "thinking", "call", "result", "file", "summary", "compaction"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownPart:
    """A piece of a message as the page shows it: `title` above it, `text` in it, folded or not.

    `document` is the text of the model as its Markdown means it.
    """

    kind: Kind
    title: str
    text: str
    document: Document = ()
    is_folded: bool = False
    is_error: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownMessage:
    """A message. `run` is that of the turn which it begins, with what that cost."""

    id: int
    role: str
    name: str
    at: datetime | None
    parts: Sequence[ShownPart]
    hidden: str
    run: RunId | None = None
    cost: UsageTotals | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """The costs and the runs of turns, by their inbox rows."""

    costs: Mapping[int, UsageTotals]
    runs: Mapping[int, RunId]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A place in a transcript with the words that were looked for."""

    key: ConversationId
    session: SessionId
    id: int
    before: int
    role: str
    text: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationPages:
    """The list, a transcript, and what may be done to a conversation."""

    database: Database
    clock: Clock
    turns: TurnServices
    models: ModelAccess
    commands: OperatorCommands
    readings: Readings

    def section(self) -> Section:
        """The section."""
        return Section(
            title="Conversations",
            group="Now",
            entries=(
                view("/conversations", self.all),
                view("/conversations/{key:path}", self.one, needs="transcripts"),
                view("/conversation-window/{key:path}", self.window, needs="transcripts"),
                view("/conversation-export/{key:path}", self.export, needs="transcripts"),
                action("/conversation/stop/{key:path}", self.stop, name="conversations.stop"),
                action("/conversation/new/{key:path}", self.new, name="conversations.new"),
                action("/conversation/clear/{key:path}", self.clear, name="conversations.clear"),
                action("/conversation/provider/{key:path}", self.provider, name="conversations.provider"),
            ),
        )

    async def all(self, request: Request) -> Page:
        """The list, the one used last first."""
        on = await self.database.read(conversation_list.platforms)
        look = asked(request.query_params, filters={"on": on} if on else {"on": ("",)})
        month = self.clock.now().replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        may_read = "transcripts" in rights_of(request)

        def read(conn: Connection) -> tuple[list[ConversationEntry], Mapping[ConversationId, Spent]]:
            found = conversation_list.newest(
                conn, find=look.find, in_words=may_read, on=look.chosen["on"], most=PAGE + 1, skip=look.skip
            )
            return found, conversation_list.spent(conn, [one.key for one in found], since=to_timestamp(month))

        entries, spent = await self.database.read(read)
        values = {
            "listing": listing(entries, look),
            "spent": spent,
            "running": {one.key for one in entries if self.turns.is_running(one.key)},
            "asking": await self.database.read(approval_rows.asking),
            "platforms": [(name, name) for name in on],
            "found": await self._with_words(request, look) if may_read and len(look.find) > 2 else (),
            "may_read": may_read,
            "at": from_timestamp,
        }
        return Page(template="conversations.html", values=values, live=True)

    async def _with_words(self, request: Request, look: Asked) -> Sequence[Found]:
        """Places in transcripts with the words; that somebody read them is noted."""
        messages = await self.database.read(lambda conn: conversation_list.with_words(conn, look.find))
        if messages:
            await self.readings.note(request, "conversations.search", "all conversations")
        return [
            Found(
                key=one.key,
                session=one.session,
                id=one.id,
                before=one.id + MESSAGES // 2,
                role=one.role,
                text=text,
                at=from_timestamp(one.created_at),
            )
            for one in messages
            if (text := _around(one.parts, one.id, look.find))
        ]

    async def one(self, request: Request) -> Page:
        """A transcript, the newest messages last; reading another's words is noted once for each page."""
        key = ConversationId(request.path_params["key"])
        wanted, before = request.query_params.get("session", ""), _number(request.query_params.get("before"))
        raw = request.query_params.get("raw") == "1"

        def read(
            conn: Connection,
        ) -> tuple[ConversationEntry, Sequence[Session], SessionId | None, Sequence[Stored], Turns]:
            entry = conversation_list.find(conn, key)
            if entry is None:
                raise LookupError(f"There is no conversation {key}.")
            sessions = _sessions(conn, key, wanted)
            chosen = next((one.id for one in sessions if one.id == wanted), None)
            shown = chosen or entry.session or (sessions[0].id if sessions else None)
            stored = store.page_before(conn, shown, before=before, most=MESSAGES + 1) if shown else ()
            runs = {one.inbox_id for one in stored if one.inbox_id is not None}
            times = [one.message.created_at for one in stored if one.message.created_at]
            first, last = min(times, default=None), max(times, default=None)
            since = to_timestamp(first) - 3_600_000_000 if first is not None else 0  # a call begins before its words
            # The last turn of an older page may go on behind it.
            until = None if before is None or last is None else to_timestamp(last) + 86_400_000_000
            costs = ledger_rows.by_run(conn, key, runs, since=since, until=until)
            ids = run_rows.run_ids(conn, runs)
            traced = traces.with_traces(conn, ids.values())  # the others have no page that a link could lead to
            turns = Turns(costs=costs, runs={one: id for one, id in ids.items() if id in traced})
            return entry, sessions, shown, stored, turns

        entry, sessions, shown, stored, turns = await self.database.read(read)
        month = to_timestamp(self.clock.now().replace(day=1, hour=0, minute=0, second=0, microsecond=0))
        spent = await self.database.read(lambda conn: conversation_list.spent(conn, [key], since=month))
        await self.readings.note(request, "conversations.read", key, f"session {shown or 'none'}")
        page = stored[-MESSAGES:]
        # There is Markdown that takes long to read, and a page has a hundred texts of it.
        formatted = frozenset[int]() if raw else _formatted(page)
        messages = await anyio.to_thread.run_sync(lambda: list(_shown(page, turns, entry, formatted)))
        place: dict[str, object] = {"session": shown or "", "before": before or ""}
        values = {
            "title": _titled(entry),
            "entry": entry,
            "spent": spent.get(key),
            "key": quote(key, safe=""),
            "sessions": sessions,
            "shown": shown,
            "messages": messages,
            "raw": raw,
            "older": _address(place, raw=raw, before=page[0].message.id) if len(stored) > MESSAGES and page else "",
            "newest": _address(place, raw=raw, before=""),
            "other_look": _address(place, raw=not raw),
            "is_newest": before is None,
            "is_running": self.turns.is_running(key),
            "asks": key in await self.database.read(approval_rows.asking),
            "in_use": self.turns.factory.in_use(key),
            "providers": self.models.providers.names,
            "at": from_timestamp,
        }
        return Page(template="conversation.html", values=values, live=before is None)

    async def window(self, request: Request) -> Page:
        """The content of the model's window there now."""
        key = ConversationId(request.path_params["key"])
        entry = await self._entry(key)
        operations = await self.turns.factory.operations(key)
        seen, focus = await operations.window.context(), await operations.window.focus()
        status = await operations.status()
        await self.readings.note(request, "conversations.read", key, "window")
        values = {
            "title": f"Window of {_titled(entry)}",
            "key": quote(key, safe=""),
            "seen": seen,
            "focus": focus,
            "status": status,
        }
        return Page(template="conversation_window.html", values=values)

    async def export(self, request: Request) -> Response:
        """A session as JSON lines."""
        key, wanted = ConversationId(request.path_params["key"]), request.query_params.get("session", "")

        def read(conn: Connection) -> str:
            found = [one.id for one in _sessions(conn, key, wanted) if one.id == wanted or not wanted]
            if not found:
                raise LookupError("There is no such session.")
            return "".join(session_export.exported(conn, found[0]))

        lines = await self.database.read(read)
        await self.readings.note(request, "conversations.export", key, f"session {wanted or 'newest'}")
        headers = {"content-disposition": 'attachment; filename="conversation.jsonl"'}
        return PlainTextResponse(lines, media_type="application/x-ndjson", headers=headers)

    async def stop(self, request: Request) -> Done:
        """Stops the turn that runs there."""
        key = ConversationId(request.path_params["key"])
        await self._entry(key)
        if not self.turns.stop(key, "an operator stopped it", self.clock.now()):
            raise OperationError("nothing runs there now")
        return Done(text="The turn is being stopped.", subject=key)

    async def new(self, request: Request) -> Done:
        """The next message there begins a session."""
        return await self._give(request, "/new", "The next message there begins a new session.")

    async def clear(self, request: Request) -> Done:
        """Hides the history there from the model."""
        return await self._give(request, "/clear", "The history there is hidden from the model.")

    async def provider(self, request: Request) -> Done:
        """Another provider answers there."""
        form = await request.form()
        name = str(form.get("provider") or "")
        if name not in self.models.providers.names:
            raise OperationError(f"there is no provider {name!r}")
        return await self._give(request, f"/provider {name}", f"{name} answers there from its next call on.")

    async def _give(self, request: Request, command: str, text: str) -> Done:
        key = ConversationId(request.path_params["key"])
        entry, person = await self._entry(key), person_of(request)
        account = PersonId(f"web:{person.id}")
        await self.commands.give(key, command, person=account, display=person.display, language=entry.language)
        return Done(text=text, subject=key, detail=command)

    async def _entry(self, key: ConversationId) -> ConversationEntry:
        entry = await self.database.read(lambda conn: conversation_list.find(conn, key))
        if entry is None:
            raise LookupError(f"There is no conversation {key}.")
        return entry


def _sessions(conn: Connection, key: ConversationId, wanted: str) -> Sequence[Session]:
    """The newest sessions there; behind them the one that is `wanted`, as a search finds words in older ones too."""
    newest = store.sessions_of(conn, key, most=SESSIONS)
    if not wanted or any(one.id == wanted for one in newest):
        return newest
    return [*newest, *(one for one in store.by_prefix(conn, key, wanted) if one.id == wanted)]


def _titled(entry: ConversationEntry) -> str:
    return entry.place or entry.name or entry.key


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 16 else None


def _address(place: Mapping[str, object], *, raw: bool, **changed: object) -> str:
    """The query string of a transcript: formatted, or as it was written."""
    values = {**place, "raw": "1" if raw else "", **changed}
    return "?" + urlencode({name: value for name, value in values.items() if value != ""})


def _formatted(stored: Sequence[Stored]) -> frozenset[int]:
    """Places of the newest answers, as many as a page may take the time to format."""
    left, found = MOST_FORMATTED, set[int]()
    for number in reversed(range(len(stored))):
        message = stored[number].message
        if message.role == "assistant":
            left -= sum(len(part.text) for part in message.parts if isinstance(part, TextPart))
            if left < 0:
                break
            found.add(number)
    return frozenset(found)


def _shown(
    stored: Sequence[Stored], turns: Turns, entry: ConversationEntry, formatted: frozenset[int]
) -> Iterator[ShownMessage]:
    """The messages; the first of each turn carries what the turn cost."""
    last: int | None = None
    for number, one in enumerate(stored):
        message, run = one.message, one.inbox_id
        begins, last = run is not None and run != last, run
        names = {"assistant": "Tieline", "system": "System"}
        yield ShownMessage(
            id=message.id or 0,
            role=message.role,
            name=names.get(message.role) or _person(one, entry),
            at=message.created_at,
            parts=list(_parts(one, is_formatted=number in formatted)),
            hidden="" if message.agent_visible else "taken back" if not message.user_visible else "not in the window",
            run=turns.runs.get(run) if begins and run is not None else None,
            cost=turns.costs.get(run) if begins and run is not None else None,
        )


def _person(one: Stored, entry: ConversationEntry) -> str:
    if one.message.tool_results:
        return "Results"
    return entry.name if entry.chat_type == "direct" and entry.name else one.person or "Person"


def _parts(one: Stored, *, is_formatted: bool) -> Iterator[ShownPart]:
    for part in one.message.parts:
        match part:
            case TextPart():
                document = parse(part.text) if is_formatted and len(part.text) <= LONGEST_PART else ()
                yield ShownPart(kind="text", title="", text=part.text, document=document)
            case Thinking():
                yield ShownPart(kind="thinking", title="Thinking", text=part.thinking, is_folded=True)
            case RedactedThinking():
                yield ShownPart(kind="thinking", title="Thinking that the provider keeps to itself", text="")
            case ToolUse():
                yield ShownPart(kind="call", title=part.name, text=_cut(canonical(part.input)), is_folded=True)
            case ToolResult():
                title = "Error" if part.is_error else "Result"
                text = _cut(part.content)
                yield ShownPart(kind="result", title=title, text=text, is_folded=True, is_error=part.is_error)
            case FilePart():
                yield ShownPart(kind="file", title=part.name, text=f"{part.mime_type}, {part.size:,} bytes")
            case SummaryPart():
                yield ShownPart(kind="summary", title="Summary of what left the window", text=part.text, is_folded=True)
            case CompactionPart():
                title = f"Compaction ({part.stage}): {part.messages} messages of {part.tokens_before:,} tokens gave way"
                yield ShownPart(kind="compaction", title=title, text="")


def _cut(text: str) -> str:
    left = len(text) - LONGEST_PART
    return text if left <= 0 else f"{text[:LONGEST_PART]}\n[… {left:,} characters more; the export holds them]"


def _around(written: str, id: int, words: str) -> str:
    """The place in the message's own words; "" where they stand only in the form in which it is stored."""
    sought = words.casefold()
    for part in read_parts(written, id):
        text = part.text if isinstance(part, TextPart) else part.content if isinstance(part, ToolResult) else ""
        at = text.casefold().find(sought)
        if at >= 0:
            begin = max(0, at - AROUND // 2)
            return f"{'…' if begin else ''}{text[begin : at + AROUND]}{'…' if at + AROUND < len(text) else ''}"
    return ""
