"""What an operator may do from a second shell: through the running gateway, or on the database when none runs.

Each operation takes plain JSON and gives plain JSON; `gateway.web.control` serves them, `gateway.cli` calls them.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from agent.core.clock import Clock
from agent.core.ids import ConversationId, SessionId
from agent.core.outbox import Say
from agent.sessions import export as session_export
from agent.sessions import store
from agent.storage import backup, conversation_rows, outbox_rows
from agent.storage.database import Database
from agent.storage.errors import StorageError
from agent.storage.moments import from_us, to_us
from agent.storage.payloads import decode_incoming
from gateway.access.pairing import WRONG_TRIES, digest, normalised
from gateway.channels.keys import ConversationKey
from gateway.phrases.catalogue import Catalogue
from gateway.storage import grants, inbox_view, pairings
from gateway.storage.grants import Grant
from gateway.web.control import OperationError as Refusal

Json = Any
Operation = Callable[[Mapping[str, Json]], Awaitable[Json]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bystanders:
    """Who must hear of a change while the gateway runs; without one nobody need."""

    granted: Callable[[Grant], object] = lambda grant: None
    deliver: Callable[[ConversationKey], object] = lambda key: None
    work: Callable[[ConversationId], object] = lambda conversation: None


class Operations:
    """Over one open database."""

    def __init__(
        self,
        database: Database,
        *,
        clock: Clock,
        home: Path,
        phrase: Catalogue,
        bystanders: Bystanders | None = None,
    ) -> None:
        self._database = database
        self._clock = clock
        self._home = home
        self._phrase = phrase
        self._bystanders = bystanders or Bystanders()

    def table(self) -> Mapping[str, Operation]:
        """By the names that `tieline` uses."""
        return {
            "pair.list": self.pair_list,
            "pair.approve": self.pair_approve,
            "pair.deny": self.pair_deny,
            "inbox.list": self.inbox_list,
            "inbox.retry": self.inbox_retry,
            "export": self.export,
            "backup": self.backup,
        }

    async def pair_list(self, _: Mapping[str, Json]) -> Json:
        now = to_us(self._clock.now())
        found = await self._database.read(lambda conn: pairings.open_requests(conn, now))
        return [
            {
                "id": str(request.id),
                "person": request.subject,
                "display": request.display,
                "channel": ConversationKey.parse(request.conversation).channel_type,
                "asked_at": from_us(request.created_at).isoformat(),
                "seconds_left": int((from_us(request.expires_at) - self._clock.now()).total_seconds()),
            }
            for request in found
        ]

    async def pair_approve(self, arguments: Mapping[str, Json]) -> Json:
        return await self._decide(arguments, approve=True)

    async def pair_deny(self, arguments: Mapping[str, Json]) -> Json:
        return await self._decide(arguments, approve=False)

    async def _decide(self, arguments: Mapping[str, Json], *, approve: bool) -> Json:
        """By the code the person was given, or by the number in the list; guessing is counted."""
        code, now = normalised(str(arguments.get("code", ""))), self._clock.now()
        at, hour_ago = to_us(now), to_us(now - timedelta(hours=1))

        def work(conn: Connection) -> pairings.Pairing | str | None:
            if pairings.wrong_codes_since(conn, hour_ago) >= WRONG_TRIES:
                return "locked"
            ended = pairings.end(conn, digest(code), ending="approved" if approve else "denied", by="operator", now=at)
            if ended is None:
                pairings.note_wrong_code(conn, by="operator", at=at)
                return None
            if approve:
                grants.give(conn, self._grant(ended.subject, at))
                self._tell_paired(conn, ended, at)
            return ended

        found = await self._database.write(work)
        if found == "locked":
            raise Refusal(
                "too many wrong codes were tried", fix="wait an hour; the person can write again for a new code"
            )
        if not isinstance(found, pairings.Pairing):
            raise Refusal(
                f"there is no open pairing with the code {code}",
                fix="codes are good for 10 minutes and for one use; `tieline pair list` shows who waits",
            )
        if approve:
            self._bystanders.granted(self._grant(found.subject, at))
            self._bystanders.deliver(ConversationKey.parse(found.conversation))
        return {"person": found.subject, "display": found.display}

    def _grant(self, subject: str, at: int) -> Grant:
        return Grant(subject=subject, kind="person", role="member", granted_by="operator", at=at)

    def _tell_paired(self, conn: Connection, request: pairings.Pairing, at: int) -> None:
        say = Say(text=self._phrase("paired", request.language), kind="notice", verbatim=True)
        conversation_rows.ensure(conn, request.conversation, at)
        outbox_rows.add(
            conn,
            conversation=request.conversation,
            inbox_id=None,
            part=0,
            dedup=f"notice:paired:{request.id}",
            say=say,
            at=at,
        )

    async def inbox_list(self, _: Mapping[str, Json]) -> Json:
        letters = await self._database.read(inbox_view.dead_letters)
        return [
            {
                "id": letter.id,
                "conversation": letter.conversation,
                "at": from_us(letter.created_at).isoformat(),
                "attempts": letter.attempts,
                "why": letter.why,
                "text": _text_of(letter.payload),
            }
            for letter in letters
        ]

    async def inbox_retry(self, arguments: Mapping[str, Json]) -> Json:
        row = arguments.get("id")
        if not isinstance(row, int):
            raise Refusal("which one?", fix="give the number that `tieline inbox` shows")
        conversation = await self._database.write(lambda conn: inbox_view.revive(conn, row))
        if conversation is None:
            raise Refusal(f"there is no dead letter {row}", fix="`tieline inbox` lists them")
        self._bystanders.work(conversation)
        return {"conversation": conversation}

    async def export(self, arguments: Mapping[str, Json]) -> Json:
        """A session's transcript as JSON lines; of the current session where none is named."""
        conversation, wanted = ConversationId(str(arguments.get("conversation", ""))), arguments.get("session")

        def read(conn: Connection) -> list[str] | None:
            if wanted:
                matches = store.by_prefix(conn, conversation, str(wanted))
                session = matches[0].id if len(matches) == 1 else None
            else:
                session = store.current(conn, conversation) or _latest(conn, conversation)
            return list(session_export.exported(conn, session)) if session else None

        lines = await self._database.read(read)
        if lines is None:
            known = await self._database.read(_known_conversations)
            shown = ", ".join(known[:10]) + ("…" if len(known) > 10 else "")
            raise Refusal(f"there is nothing of {conversation!r}", fix=f"conversations: {shown or 'none yet'}")
        return {"lines": lines}

    async def backup(self, arguments: Mapping[str, Json]) -> Json:
        """A copy of the database as it is now, while it is in use."""
        named = arguments.get("path")
        default = self._home / "backups" / f"tieline-{self._clock.now():%Y%m%d-%H%M%S}.db"
        path = Path(str(named)) if named else default
        if not path.is_absolute():
            raise Refusal(f"{path} is no full path", fix="name the file with its whole path")
        try:
            size = await backup.back_up(self._database, path)
        except StorageError as error:
            raise Refusal(str(error)) from error
        return {"path": str(path), "bytes": size}


def _text_of(payload: str) -> str:
    try:
        return decode_incoming(payload).text
    except ValueError:
        return "(unreadable)"


def _latest(conn: Connection, conversation: ConversationId) -> SessionId | None:
    found = store.sessions_of(conn, conversation, most=1)
    return found[0].id if found else None


def _known_conversations(conn: Connection) -> list[str]:
    return [str(key) for key in conversation_rows.all_keys(conn, most=50)]
