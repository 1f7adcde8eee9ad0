"""Operations from a second shell: through the running gateway, or on the database when none runs.

Each operation takes plain JSON and gives plain JSON; `gateway.web.control` serves them, `gateway.cli` calls them.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import anyio.to_thread
from sqlalchemy import Connection

from agent.core.clock import Clock
from agent.core.ids import ConversationId, SessionId
from agent.memory import misses
from agent.sessions import export as session_export
from agent.sessions import store
from agent.skills.folders import compared, load, roots_of, text_of
from agent.skills.skill import Skill, slug
from agent.storage import audit_rows, conversation_rows
from agent.storage.copies.sqlite import back_up
from agent.storage.database import Database
from agent.storage.errors import StorageError
from agent.storage.timestamps import from_timestamp, to_timestamp
from gateway.access.policy import LENGTH, WRONG_TRIES, digest, normalised
from gateway.access.settings import PersonSettings
from gateway.api.keys import ApiKeys
from gateway.backup.outcome import recorded
from gateway.backup.request import Wanted, archive, name_of
from gateway.channels.keys import ConversationKey
from gateway.config.live import SHIPPED_SKILLS
from gateway.operations.callbacks import OperationCallbacks
from gateway.operations.dead_letters import DeadLetters
from gateway.operations.event_deliveries import EventOperations
from gateway.operations.operator_commands import OperatorCommands
from gateway.operations.references import Finding
from gateway.operations.remarks import Remarks
from gateway.operations.sign_ins import SignIns
from gateway.operations.usage import Usage
from gateway.operations.web_people import WebPeople
from gateway.phrases.catalogue import Catalogue
from gateway.storage import grants, identities, pairings, settings_rows
from gateway.storage.grants import Grant
from gateway.web.control import OperationError as Refusal

SHOWN = 10  # conversations that an error names

Json = Any
Operation = Callable[[Mapping[str, Json]], Awaitable[Json]]


class _Locked(Exception):
    """Too many wrong codes of late."""


class Operations:
    """Over one open database."""

    def __init__(
        self,
        database: Database,
        *,
        clock: Clock,
        home: Path,
        phrase: Catalogue,
        callbacks: OperationCallbacks | None = None,
        admins: Callable[[], Sequence[str]] = lambda: (),
        people: Callable[[], Sequence[PersonSettings]] = lambda: (),
        sign_ins: SignIns | None = None,
        wanted: Callable[[str | None, bool], Wanted],
    ) -> None:
        """`admins` are those that the configuration names, `people` those whose accounts it links.

        `wanted` gives what a backup holds, by its passphrase and by whether files of people are wanted.
        """
        self._wanted = wanted
        self._configured_admins = admins
        self._database = database
        self._clock = clock
        self._home = home
        self._phrase = phrase
        self._callbacks = callbacks or OperationCallbacks()
        self._web_people = WebPeople(sign_ins or SignIns(database, clock))
        self.usage = Usage(database, clock, people, self._callbacks.settle)
        self.dead_letters = DeadLetters(database, self._callbacks)
        self.events = EventOperations(database, clock, self._callbacks)
        self.commands = OperatorCommands(database, clock, self._callbacks)

    def table(self) -> Mapping[str, Operation]:
        """By the names that `tieline` uses."""
        return {
            "pair.list": self.pair_list,
            "pair.approve": self.pair_approve,
            "pair.deny": self.pair_deny,
            **self.dead_letters.table(),
            **Finding(self._database).table(),
            **self._web_people.table(),
            **ApiKeys(self._database, self._clock).table(),
            "access.grants": self.access_grants,
            "access.links": self.access_links,
            "access.settings": self.access_settings,
            "export": self.export,
            "usage": self.usage.sums,
            "usage.export": self.usage.export,
            "backup": self.backup,
            "audit": self.audit,
            "misses": self.misses,
            "feedback": Remarks(self._database, self._clock).list,
            "mcp.reconnect": self.reconnect,
            "skills.diff": self.skill_difference,
            "alerts.test": self.try_alerts,
            **self.events.table(),
        }

    async def try_alerts(self, _: Mapping[str, Json]) -> Json:
        """Send a test alert by each way; what came of each."""
        if self._callbacks.test_alerts is None:
            raise Refusal("no gateway runs, and it is the gateway that sends alerts", fix="start it with `tieline run`")
        return [asdict(outcome) for outcome in await self._callbacks.test_alerts("an operator on the machine")]

    async def reconnect(self, arguments: Mapping[str, Json]) -> Json:
        name = str(arguments["name"])
        if not self._callbacks.reconnect(name):
            raise Refusal(f"it knows no MCP server called {name!r}")

    async def pair_list(self, _: Mapping[str, Json]) -> Json:
        now = to_timestamp(self._clock.now())
        found = await self._database.read(lambda conn: pairings.open_requests(conn, now))
        return [
            {
                "id": str(request.id),
                "person": request.subject,
                "display": request.display,
                "channel": ConversationKey.parse(request.conversation).channel_type,
                "asked_at": from_timestamp(request.created_at).isoformat(),
                "seconds_left": int((from_timestamp(request.expires_at) - self._clock.now()).total_seconds()),
            }
            for request in found
        ]

    async def pair_approve(self, arguments: Mapping[str, Json]) -> Json:
        return await self._decide(arguments, approve=True)

    async def pair_deny(self, arguments: Mapping[str, Json]) -> Json:
        return await self._decide(arguments, approve=False)

    async def _decide(self, arguments: Mapping[str, Json], *, approve: bool) -> Json:
        """By the code that the person was given, or by the number in the list. Guessing codes is counted."""
        given, now = str(arguments.get("code", "")).strip(), self._clock.now()
        role: Literal["admin", "member"] = "admin" if arguments.get("admin") else "member"
        if approve and role == "admin" and ":" in given:
            return await self._make_admin(given, to_timestamp(now))
        code = normalised(given)
        at, hour_ago = to_timestamp(now), to_timestamp(now - timedelta(hours=1))

        def work(conn: Connection) -> pairings.Pairing | None:
            """None: there is none. Raises _Locked."""
            if _is_number(code):
                hashed = pairings.hash_of(conn, int(code), at)
            else:
                if pairings.wrong_codes_since(conn, hour_ago, by="operator") >= WRONG_TRIES:
                    raise _Locked
                hashed = digest(code)
            ending: Literal["approved", "denied"] = "approved" if approve else "denied"
            ended = pairings.end(conn, hashed, ending=ending, by="operator", now=at) if hashed else None
            if ended is None:
                if not _is_number(code):
                    pairings.note_wrong_code(conn, by="operator", at=at)
            elif approve:
                grants.give(conn, self._grant(ended.subject, at, role))
                text = self._phrase("paired_admin" if role == "admin" else "paired", ended.language)
                pairings.tell(conn, ended, text, at=at)
            return ended

        try:
            found = await self._database.write(work)
        except _Locked:
            raise Refusal(
                "too many wrong codes were tried",
                fix="wait an hour, or choose by number: `tieline pair list` shows who waits",
            ) from None
        if found is None:
            raise Refusal(
                f"there is no open pairing with the code {code}",
                fix="codes are good for 10 minutes and for one use; `tieline pair list` shows who waits",
            )
        self._callbacks.pairing_settled(found.subject, "approved" if approve else "denied")
        if approve:
            self._callbacks.granted(self._grant(found.subject, at, role))
            self._callbacks.deliver(ConversationKey.parse(found.conversation))
        return {"person": found.subject, "display": found.display, "role": role, **await self._admins()}

    async def _make_admin(self, person: str, at: int) -> Json:
        """Somebody who was let in before. Raises Refusal for anybody else: a slip of the pen is no admin."""
        grant = self._grant(person, at, "admin")

        def work(conn: Connection) -> bool:
            known = {one.subject for one in grants.all_grants(conn) if one.kind == "person" and not one.place}
            if person in known:
                grants.give(conn, grant)
            return person in known

        if not await self._database.write(work):
            raise Refusal(
                f"{person} has not been let in",
                fix="give the code that they were told, or the number that `tieline pair list` shows",
            )
        self._callbacks.granted(grant)
        return {"person": person, "display": "", "role": "admin", **await self._admins()}

    async def _admins(self) -> dict[str, Json]:
        """Whether any chat platform knows an admin of the whole bot."""
        given = await self._database.read(grants.all_grants)
        is_given = any(one.role in ("admin", "owner") and not one.place for one in given)
        return {"has_admin": is_given or bool(self._configured_admins())}

    def _grant(self, subject: str, at: int, role: Literal["admin", "member"]) -> Grant:
        return Grant(subject=subject, kind="person", role=role, granted_by="operator", at=at)

    async def access_grants(self, _: Mapping[str, Json]) -> Json:
        """The grants given while running."""
        found = await self._database.read(grants.all_grants)
        return [
            {"subject": one.subject, "kind": one.kind, "role": one.role, "place": one.place, "at": one.at}
            for one in found
        ]

    async def access_links(self, _: Mapping[str, Json]) -> Json:
        """The accounts that people linked."""
        found = await self._database.read(identities.all_accounts)
        return [{"person": one.person, "identity": one.identity, "rights": one.rights} for one in found]

    async def access_settings(self, arguments: Mapping[str, Json]) -> Json:
        """Rows of these settings: place, name and text."""
        names = [str(name) for name in arguments["names"]]
        found = await self._database.read(lambda conn: settings_rows.all_of(conn, names))
        return [
            {"place": conversation, "name": name, "text": row.value}
            for conversation, rows in found.items()
            for name, row in rows.items()
        ]

    async def export(self, arguments: Mapping[str, Json]) -> Json:
        """A session's transcript as JSON lines; of the current session where none is named."""
        conversation, wanted = ConversationId(str(arguments.get("conversation", ""))), arguments.get("session")

        def read(conn: Connection) -> list[str]:
            session = _named(conn, conversation, str(wanted)) if wanted else _latest(conn, conversation)
            return list(session_export.exported(conn, session))

        return {"lines": await self._database.read(read)}

    async def audit(self, arguments: Mapping[str, Json]) -> Json:
        """The last tool calls as JSON lines, oldest first; of one conversation where it is named."""
        named, most = arguments.get("conversation"), int(arguments.get("most") or 100)
        conversation = ConversationId(str(named)) if named else None

        def read(conn: Connection) -> Sequence[audit_rows.Record]:
            rows = audit_rows.newest(conn, conversation=conversation, most=most)
            if not rows and conversation is not None:
                _latest(conn, conversation)  # a name that nobody bears is told
            return rows

        found = await self._database.read(read)
        lines = [
            json.dumps({**asdict(record), "at": from_timestamp(record.at).isoformat()}, ensure_ascii=False) + "\n"
            for record in reversed(found)
        ]
        return {"lines": lines}

    async def skill_difference(self, arguments: Mapping[str, Json]) -> Json:
        """The present text of the skill compared with the one that was decided on last."""
        given = str(arguments["name"])
        skill, text = await anyio.to_thread.run_sync(_skill_and_text, self._home, slug(given))
        if skill is None:
            raise Refusal(f"there is no skill called {given!r}", fix="/skills in a chat lists them")
        found = await compared(self._database, skill, text)
        return {"name": skill.name, **(asdict(found) if found is not None else {"decided": None})}

    async def misses(self, arguments: Mapping[str, Json]) -> Json:
        """Searches of the memory that found nothing in the last `days`, newest first."""
        days, most = int(arguments.get("days") or 7), int(arguments.get("most") or 100)
        since = int((self._clock.now() - timedelta(days=days)).timestamp())
        found = await self._database.read(lambda conn: misses.since(conn, since, most=most))
        return [
            {
                "at": datetime.fromtimestamp(miss.ts, UTC).isoformat(),
                "conversation": miss.conversation,
                "query": miss.query,
                "strategy": miss.strategy,
                "error": miss.error,
            }
            for miss in found
        ]

    async def backup(self, arguments: Mapping[str, Json]) -> Json:
        """An archive of everything as it is now; a file `*.db` gets a copy of the database alone."""
        passphrase = str(arguments.get("passphrase") or "") or None
        path = self._backup_path(arguments.get("path"), is_encrypted=passphrase is not None)
        try:
            if path.suffix == ".db":
                if passphrase is not None:
                    raise Refusal(
                        "a copy of the database alone is not encrypted", fix=f"name {path.stem}.tar.encrypted"
                    )
                return {"path": str(path), "bytes": await back_up(self._database, path), "left_out": []}
            wanted = self._wanted(passphrase, bool(arguments.get("files", True)))
            made = await recorded(
                self._database,
                self._clock,
                lambda: archive(self._database, path, wanted, at=self._clock.now()),
                by="tieline backup",
                to=path,
                keeps_failure=False,
            )
        except StorageError as error:
            raise Refusal(str(error)) from error
        return {"path": str(path), "bytes": made.size, "files": made.files, "left_out": list(made.left_out)}

    def _backup_path(self, named: Json, *, is_encrypted: bool) -> Path:
        """The file that is named, else a new one among the backups. Raises Refusal."""
        if named:
            path = Path(str(named))
        else:
            path = self._home / "backups" / name_of(self._clock.now(), is_encrypted=is_encrypted)
            path.parent.mkdir(exist_ok=True, mode=0o700)
        if not path.is_absolute():
            raise Refusal(f"{path} is no full path", fix="name the file with its whole path")
        return path


def _is_number(code: str) -> bool:
    """The number of a request; codes are longer."""
    return code.isdecimal() and len(code) < LENGTH


def _named(conn: Connection, conversation: ConversationId, prefix: str) -> SessionId:
    """The one session whose id begins so. Raises Refusal."""
    found = store.by_prefix(conn, conversation, prefix)
    if len(found) == 1:
        return found[0].id
    if found:
        raise Refusal(f"several sessions of {conversation} begin with {prefix!r}", fix="give more of the id")
    newest = ", ".join(session.id[:8] for session in store.sessions_of(conn, conversation, most=10))
    raise Refusal(f"{conversation} has no session {prefix!r}", fix=f"its newest sessions: {newest or 'none yet'}")


def _latest(conn: Connection, conversation: ConversationId) -> SessionId:
    """The current session, else the one used last. Raises Refusal."""
    current = store.current(conn, conversation)
    if current is not None:
        return current
    if found := store.sessions_of(conn, conversation, most=1):
        return found[0].id
    known = [str(key) for key in conversation_rows.all_keys(conn, most=SHOWN + 1)]
    shown = ", ".join(known[:SHOWN]) + ("…" if len(known) > SHOWN else "")
    raise Refusal(f"there is nothing of {conversation!r}", fix=f"conversations: {shown or 'none yet'}")


def _skill_and_text(home: Path, name: str) -> tuple[Skill, str] | tuple[None, str]:
    skill = load(roots_of(home, SHIPPED_SKILLS)).get(name)
    text = text_of(skill) if skill is not None else None
    return (skill, text) if skill is not None and text is not None else (None, "")
