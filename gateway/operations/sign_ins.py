"""People who sign in to the web server, their sign-ins and passwords, over an open database.

The owner (`operator`) is nobody here: the owner's right is the data directory, and a one-time link proves it.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TypeVar, cast

import anyio
from anyio import to_thread
from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from sqlalchemy import Connection

from agent.core.clock import Clock
from agent.core.untrusted_text import one_line
from agent.storage.database import Database
from agent.storage.errors import StorageError
from agent.storage.timestamps import from_timestamp, to_timestamp
from gateway.channels.adapter import SignedIn
from gateway.channels.keys import UserId
from gateway.config.sections import PERSON_ID
from gateway.storage import web_sign_ins as rows
from gateway.storage.web_sign_ins import PersonRow
from gateway.web.control import OperationError as Refusal
from gateway.web.sessions import OPERATOR, SESSION_LIFE, Limit, Method, OpenSignIn, Visit, own_key

SEEN_EVERY = timedelta(hours=1)  # a sign-in in use is noted once in it
LEAST_PASSWORD, MOST_PASSWORD = 12, 1024  # characters
MOST_DISPLAY = 80  # characters
HASHED_AT_ONCE = 2  # each takes 64 MiB and a core for a moment

T = TypeVar("T")

_log = logging.getLogger("tieline.web")


@dataclass(frozen=True, slots=True, kw_only=True)
class WebPerson:
    """Somebody who may sign in: `web:<id>` in grants and roles."""

    id: str
    display: str
    has_password: bool
    by_provider: bool  # made at the first sign-in by an identity provider
    created_at: datetime
    disabled_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSignIn:
    """An open sign-in; `id` is no secret: it ends the sign-in and begins none."""

    id: str
    person: str
    display: str
    method: Method
    created_at: datetime
    seen_at: datetime  # within the hour
    address: str
    agent: str


class SignIns:
    """Everything raises StorageError; what an operator asks for raises Refusal with the fix."""

    def __init__(self, database: Database, clock: Clock, hasher: PasswordHasher | None = None) -> None:
        self._database = database
        self._clock = clock
        self._hasher = hasher or PasswordHasher()
        self._at_once = anyio.CapacityLimiter(HASHED_AT_ONCE)
        self._counting = anyio.Lock()
        self._nobodys = ""  # a hash that no password has, with the parameters of all others
        self.ends = 0  # sign-ins that this process has ended
        self.key: bytes | None = None  # of all processes on a PostgreSQL

    async def share_key(self, folder: Path) -> None:
        """On PostgreSQL sign with the key of the database, so that a browser is signed in at each process.

        The first process gives its own, from `folder`: who is signed in there stays so. Raises OSError.
        """
        if self._database.dialect == "postgresql":
            own = await to_thread.run_sync(own_key, folder)
            now = self._now()
            self.key = await self._database.write(lambda conn: rows.shared_key(conn, own, now))

    # For the dashboard and the command line.

    async def list_all(self) -> Sequence[WebSignIn]:
        """The open sign-ins of everybody, the last seen first."""
        since = self._now() - int(SESSION_LIFE / timedelta(microseconds=1))
        found = await self._database.read(lambda conn: rows.open_sessions(conn, since=since))
        return [
            WebSignIn(
                id=row.id,
                person=row.person,
                display=row.display,
                method=cast(Method, row.method),
                created_at=from_timestamp(row.created_at),
                seen_at=from_timestamp(row.seen_at),
                address=row.address,
                agent=row.agent,
            )
            for row in found
        ]

    async def revoke(self, id: str) -> bool:
        """End a sign-in of the list; False when it is over already."""
        now = self._now()
        ended = await self._database.write(lambda conn: rows.end(conn, id, now))
        self.ends += 1
        return ended

    async def persons(self) -> Sequence[WebPerson]:
        """Everybody but the owner, by id; disabled people too."""
        return [_shown(row) for row in await self._database.read(rows.persons)]

    async def add(self, id: str, display: str = "") -> WebPerson:
        """Make an account. Raises Refusal for an id that is taken or none."""
        if id == rows.OWNER:
            raise Refusal('"operator" is the owner', fix="`tieline sign-in` prints a link for the owner")
        if not PERSON_ID.fullmatch(id):
            raise Refusal(f"{id!r} is no id", fix="use up to 32 small letters, digits, - and _, such as anna")
        shown = one_line(display).strip()[:MOST_DISPLAY] or id
        now = self._now()

        def work(conn: Connection) -> PersonRow | None:
            is_new = rows.add(conn, id, display=shown, subject=None, now=now)
            return rows.person(conn, id) if is_new else None

        found = await self._database.write(work)
        if found is None:
            raise Refusal(f"there is a person {id!r} already", fix="`tieline people list` shows everybody")
        return _shown(found)

    async def disable(self, id: str) -> WebPerson:
        """Let somebody in no more: every sign-in and open link of theirs ends. Raises Refusal for nobody."""
        now = self._now()

        def work(conn: Connection) -> PersonRow:
            _known(conn, id)
            rows.set_disabled(conn, id, at=now)
            rows.end_all_of(conn, id, now)
            return _known(conn, id)

        found = await self._database.write(work)
        self.ends += 1
        return _shown(found)

    async def enable(self, id: str) -> WebPerson:
        """Let somebody in again who was disabled; what was ended stays ended. Raises Refusal for nobody."""

        def work(conn: Connection) -> PersonRow:
            _known(conn, id)
            rows.set_disabled(conn, id, at=None)
            return _known(conn, id)

        return _shown(await self._database.write(work))

    def check_length(self, password: str) -> None:
        """Raises Refusal for a password that is too short, or so long that it costs."""
        if not LEAST_PASSWORD <= len(password) <= MOST_PASSWORD:
            raise Refusal(
                f"the password has {len(password)} characters", fix=f"use {LEAST_PASSWORD} to {MOST_PASSWORD} of them"
            )

    async def set_password(self, id: str, password: str) -> WebPerson:
        """Give somebody a password; whoever is signed in as them signs in again. Raises Refusal."""
        self.check_length(password)
        await self._database.read(lambda conn: _known(conn, id))
        hashed = await self._in_thread(partial(self._hasher.hash, password))
        now = self._now()

        def work(conn: Connection) -> PersonRow:
            _known(conn, id)
            rows.set_password(conn, id, hashed)
            rows.end_all_of(conn, id, now)
            return _known(conn, id)

        found = await self._database.write(work)
        self.ends += 1
        return _shown(found)

    # For the web server: `gateway.web.sessions.SignInSource`.

    async def add_code(self, code: str, person: UserId, *, until: datetime, most_open: int) -> None:
        now, expires = self._now(), to_timestamp(until)

        def work(conn: Connection) -> None:
            if person != rows.OWNER:
                found = rows.person(conn, person)
                if found is None or found.disabled_at is not None:
                    raise ValueError(f"{person!r} may not sign in")
            rows.add_code(conn, code, person, expires=expires, most_open=most_open, now=now)

        await self._database.write(work)

    async def redeem(self, code: str, session: str, visit: Visit, *, former: str | None) -> SignedIn | None:
        now = self._now()

        def work(conn: Connection) -> PersonRow | None:
            person = rows.use_code(conn, code, now)
            if person is None:
                return None
            return _begin(conn, session, person, "link", visit, former=former, now=now)

        return self._began(await self._database.write(work))

    async def begin(
        self, session: str, person: UserId, method: Method, visit: Visit, *, former: str | None
    ) -> SignedIn | None:
        work = partial(
            _begin, session=session, person=person, method=method, visit=visit, former=former, now=self._now()
        )
        return self._began(await self._database.write(work))

    async def find(self, session: str) -> OpenSignIn | None:
        found = await self._database.read(lambda conn: rows.find(conn, session))
        if found is None:
            return None
        now = self._now()
        if found.seen_at + SEEN_EVERY // timedelta(microseconds=1) <= now:
            try:
                await self._database.write(lambda conn: rows.see(conn, session, now))
            except StorageError as error:  # on a full disk people can still look
                _log.warning("when a sign-in was last seen cannot be noted: %s", error)
        return OpenSignIn(person=_signed_in(found.person, found.display), method=cast(Method, found.method))

    async def end(self, session: str) -> None:
        await self.revoke(session)

    async def count_try(self, limits: Sequence[Limit]) -> Sequence[int] | None:
        now = self._now()

        def work(conn: Connection) -> list[int] | None:
            rows.one_at_a_time(conn, [limit.name for limit in limits])  # nor does another process
            for limit in limits:
                if rows.tries(conn, limit.name, since=now - int(limit.within_s * 1_000_000)) >= limit.most:
                    return None
            return [rows.count_try(conn, name, at=now) for name in dict.fromkeys(limit.name for limit in limits)]

        async with self._counting:  # PostgreSQL would let several at once see the same number
            return await self._database.write(work)

    async def forgive(self, tries: Sequence[int]) -> None:
        await self._database.write(lambda conn: rows.forgive(conn, tries))

    async def has_passwords(self) -> bool:
        return await self._database.read(rows.is_any_password)

    async def is_password(self, person: str, password: str) -> bool:
        found = await self._database.read(lambda conn: rows.person(conn, person))
        if not self._nobodys:
            self._nobodys = await self._in_thread(partial(self._hasher.hash, "nobody's"))
        known = found.password_hash if found is not None and found.disabled_at is None else None
        matches = await self._in_thread(partial(self._matches, known or self._nobodys, password))
        if not matches or known is None:
            return False
        if self._hasher.check_needs_rehash(known):
            hashed = await self._in_thread(partial(self._hasher.hash, password))
            await self._database.write(lambda conn: rows.rehash(conn, person, former=known, hashed=hashed))
        return True

    async def person_of(self, subject: str, id: str, display: str) -> UserId:
        now = self._now()
        shown = one_line(display).strip()[:MOST_DISPLAY] or id

        def work(conn: Connection) -> str | None:
            found = rows.by_subject(conn, subject)
            if found is None and rows.add(conn, id, display=shown, subject=subject, now=now):
                return id
            return None if found is None else found.id

        person = await self._database.write(work)
        if person is None:
            raise ValueError(f"the account {id!r} is somebody else's")
        return UserId(person)

    def _began(self, found: PersonRow | None) -> SignedIn | None:
        self.ends += 1  # the browser's former one
        return None if found is None else _signed_in(found.id, found.display)

    def _matches(self, hashed: str, password: str) -> bool:
        try:
            return self._hasher.verify(hashed, password)
        except (VerificationError, InvalidHashError):
            return False

    async def _in_thread(self, work: Callable[[], T]) -> T:
        """Hashing takes a tenth of a second on purpose: never in the event loop, and few at once."""
        return await to_thread.run_sync(work, limiter=self._at_once)

    def _now(self) -> int:
        return to_timestamp(self._clock.now())


def _begin(
    conn: Connection, session: str, person: str, method: Method, visit: Visit, *, former: str | None, now: int
) -> PersonRow | None:
    address, agent = one_line(visit.address), one_line(visit.agent)
    found = rows.begin(conn, session, person, method=method, address=address, agent=agent, now=now)
    if found is not None and former is not None:
        rows.end(conn, former, now)
    return found


def _known(conn: Connection, id: str) -> PersonRow:
    """Raises Refusal for nobody."""
    found = rows.person(conn, id)
    if found is None:
        fix = "`tieline sign-in` prints a link for the owner" if id == rows.OWNER else "`tieline people list` shows all"
        raise Refusal(f"there is no person {id!r}", fix=fix)
    return found


def _signed_in(id: str, display: str) -> SignedIn:
    return OPERATOR if id == rows.OWNER else SignedIn(id=UserId(id), display=display)


def _shown(row: PersonRow) -> WebPerson:
    return WebPerson(
        id=row.id,
        display=row.display,
        has_password=row.password_hash is not None,
        by_provider=row.subject is not None,
        created_at=from_timestamp(row.created_at),
        disabled_at=None if row.disabled_at is None else from_timestamp(row.disabled_at),
    )
