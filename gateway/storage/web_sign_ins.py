"""Rows of people who sign in to the web server, of their sign-ins, one-time codes and tries. Moments: UTC microseconds.

The owner has sign-ins and codes, and no row as a person. Ids of sessions and codes are known by their hash alone.
"""

from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, func, insert, or_, select, update

from agent.storage.database import wait_for_names
from agent.storage.statements import CompiledStatement, or_ignore
from gateway.storage.tables import web_attempt, web_code, web_key, web_person, web_session

OWNER = "operator"
SESSION_KEPT_US = 31 * 86_400_000_000  # longer than a cookie lives that was renewed when the session was last seen
TRY_KEPT_US = 2 * 3_600_000_000  # longer than any limit looks back
AGENT_MOST = 200  # characters


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonRow:
    """Somebody who may sign in; `disabled_at` None: still."""

    id: str
    display: str
    subject: str | None
    password_hash: str | None
    created_at: int
    disabled_at: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSession:
    """A sign-in as far as a request needs it. `display` is "" where the person has no row."""

    person: str
    display: str
    method: str
    seen_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRow:
    """A sign-in by the hash of its id."""

    id: str
    person: str
    display: str
    method: str
    created_at: int
    seen_at: int
    address: str
    agent: str
    ended_at: int | None


_KNOWN = or_(web_session.c.person == OWNER, web_person.c.id.is_not(None) & web_person.c.disabled_at.is_(None))
_WITH_PERSON = web_session.outerjoin(web_person, web_person.c.id == web_session.c.person)
_SHOWN = (web_session, func.coalesce(web_person.c.display, web_session.c.person).label("display"))
_FIND = CompiledStatement(
    select(
        web_session.c.person,
        web_session.c.method,
        web_session.c.seen_at,
        func.coalesce(web_person.c.display, "").label("display"),
    )
    .select_from(_WITH_PERSON)
    .where(web_session.c.id_hash == bindparam("session"), web_session.c.ended_at.is_(None), _KNOWN)
)
_OPEN = (
    select(*_SHOWN)
    .select_from(_WITH_PERSON)
    .where(web_session.c.ended_at.is_(None), web_session.c.seen_at > bindparam("since"), _KNOWN)
    .order_by(web_session.c.seen_at.desc(), web_session.c.id_hash)
)
_BEGIN = insert(web_session)
_SEE = update(web_session).where(web_session.c.id_hash == bindparam("session")).values(seen_at=bindparam("now"))
_STILL_OPEN = web_session.c.ended_at.is_(None)
_END = (
    update(web_session)
    .where(web_session.c.id_hash == bindparam("session"), _STILL_OPEN)
    .values(ended_at=bindparam("now"))
)
_END_OF = (
    update(web_session).where(web_session.c.person == bindparam("who"), _STILL_OPEN).values(ended_at=bindparam("now"))
)
_PERSON = select(web_person).where(web_person.c.id == bindparam("who"))
_BY_SUBJECT = select(web_person).where(web_person.c.subject == bindparam("who"))
_PERSONS = select(web_person).order_by(web_person.c.id)
_ADD = or_ignore(insert(web_person)).returning(web_person.c.id)
_SET_DISABLED = update(web_person).where(web_person.c.id == bindparam("who")).values(disabled_at=bindparam("moment"))
_SET_PASSWORD = update(web_person).where(web_person.c.id == bindparam("who")).values(password_hash=bindparam("hashed"))
_REHASH = _SET_PASSWORD.where(web_person.c.password_hash == bindparam("former"))
_ANY_PASSWORD = (
    select(web_person.c.id).where(web_person.c.password_hash.is_not(None), web_person.c.disabled_at.is_(None)).limit(1)
)
_ADD_CODE = insert(web_code)
_UNUSED = (web_code.c.used_at.is_(None), web_code.c.expires_at > bindparam("now"))
_OPEN_CODES = select(web_code.c.hash).where(*_UNUSED).order_by(web_code.c.expires_at.desc(), web_code.c.hash)
_REMOVE_CODE = delete(web_code).where(web_code.c.hash == bindparam("code"))
_USE_CODE = (
    update(web_code)
    .where(web_code.c.hash == bindparam("code"), *_UNUSED)
    .values(used_at=bindparam("now"))
    .returning(web_code.c.person)
)
_END_CODES_OF = update(web_code).where(web_code.c.person == bindparam("who"), *_UNUSED).values(used_at=bindparam("now"))
_TRIES = (
    select(func.count())
    .select_from(web_attempt)
    .where(web_attempt.c.by == bindparam("name"), web_attempt.c.at > bindparam("since"))
)
_SIGNING = "session"  # the name of the key
_KEEP_KEY = or_ignore(insert(web_key))
_KEY = select(web_key.c.value).where(web_key.c.name == _SIGNING)
_TRY = insert(web_attempt).returning(web_attempt.c.id)
_FORGIVE = delete(web_attempt).where(web_attempt.c.id.in_(bindparam("tries", expanding=True)))
_PRUNE_TRIES = delete(web_attempt).where(web_attempt.c.at <= bindparam("before"))
_PRUNE_CODES = delete(web_code).where(web_code.c.expires_at <= bindparam("now"))
_PRUNE_SESSIONS = delete(web_session).where(web_session.c.seen_at <= bindparam("before"))


# People.


def persons(conn: Connection) -> tuple[PersonRow, ...]:
    """Everybody, by id."""
    return tuple(_person(row) for row in conn.execute(_PERSONS))


def person(conn: Connection, id: str) -> PersonRow | None:
    """Somebody by their id, disabled or not."""
    row = conn.execute(_PERSON, {"who": id}).one_or_none()
    return None if row is None else _person(row)


def by_subject(conn: Connection, subject: str) -> PersonRow | None:
    """Somebody whose account an identity provider's word has made."""
    row = conn.execute(_BY_SUBJECT, {"who": subject}).one_or_none()
    return None if row is None else _person(row)


def add(conn: Connection, id: str, *, display: str, subject: str | None, now: int) -> bool:
    """Keep a new person; False when there is one with this id or subject."""
    values = {"id": id, "display": display, "subject": subject, "created_at": now}
    return conn.execute(_ADD, values).scalar_one_or_none() is not None


def set_disabled(conn: Connection, id: str, *, at: int | None) -> None:
    """Let the person in no more, or (None) again."""
    conn.execute(_SET_DISABLED, {"who": id, "moment": at})


def set_password(conn: Connection, id: str, hashed: str) -> None:
    conn.execute(_SET_PASSWORD, {"who": id, "hashed": hashed})


def rehash(conn: Connection, id: str, *, former: str, hashed: str) -> None:
    """Put a stronger hash of the same password in place of `former`, unless the password was changed since."""
    conn.execute(_REHASH, {"who": id, "former": former, "hashed": hashed})


def is_any_password(conn: Connection) -> bool:
    """Whether anybody can sign in with a password."""
    return conn.execute(_ANY_PASSWORD).first() is not None


# Sign-ins.


def find(conn: Connection, session: str) -> OpenSession | None:
    """An open sign-in of somebody who may sign in. One indexed read: every request asks."""
    for row in _FIND.rows(conn, {"session": session}):
        return OpenSession(person=row.person, display=row.display, method=row.method, seen_at=row.seen_at)
    return None


def open_sessions(conn: Connection, *, since: int) -> tuple[SessionRow, ...]:
    """All open sign-ins that were seen later than `since`, the last seen first."""
    return tuple(_session(row) for row in conn.execute(_OPEN, {"since": since}))


def begin(
    conn: Connection, session: str, person: str, *, method: str, address: str, agent: str, now: int
) -> PersonRow | None:
    """Keep a new sign-in; None, and nothing is kept, when nobody may sign in by this id."""
    if person == OWNER:
        found = PersonRow(id=OWNER, display="", subject=None, password_hash=None, created_at=0, disabled_at=None)
    else:
        row = conn.execute(_PERSON.with_for_update(), {"who": person}).one_or_none()
        if row is None or row.disabled_at is not None:
            return None
        found = _person(row)
    values = {"id_hash": session, "person": person, "method": method, "created_at": now, "seen_at": now}
    conn.execute(_BEGIN, values | {"address": address, "agent": agent[:AGENT_MOST]})
    return found


def see(conn: Connection, session: str, now: int) -> None:
    """Note that the session is in use."""
    conn.execute(_SEE, {"session": session, "now": now})


def end(conn: Connection, session: str, now: int) -> bool:
    """End one sign-in; False when it is not open."""
    return conn.execute(_END, {"session": session, "now": now}).rowcount > 0


def end_all_of(conn: Connection, person: str, now: int) -> int:
    """End all sign-ins of a person and use up their codes; how many sign-ins that were."""
    conn.execute(_END_CODES_OF, {"who": person, "now": now})
    return conn.execute(_END_OF, {"who": person, "now": now}).rowcount


# One-time codes.


def add_code(conn: Connection, hash: str, person: str, *, expires: int, most_open: int, now: int) -> None:
    """Keep a new code; of more than `most_open` the oldest go."""
    conn.execute(_ADD_CODE, {"hash": hash, "person": person, "expires_at": expires})
    for old in conn.execute(_OPEN_CODES, {"now": now}).scalars().all()[most_open:]:
        conn.execute(_REMOVE_CODE, {"code": old})


def use_code(conn: Connection, hash: str, now: int) -> str | None:
    """The person of a code, which is used up by this; None when it is unknown, used or too old."""
    found: str | None = conn.execute(_USE_CODE, {"code": hash, "now": now}).scalar_one_or_none()
    return found


# Tries.


def one_at_a_time(conn: Connection, names: Sequence[str]) -> None:
    """Return when no other process is counting tries of these names."""
    wait_for_names(conn, (f"sign-in {name}" for name in names))


def tries(conn: Connection, name: str, *, since: int) -> int:
    """How many were counted under this name."""
    count: int = conn.execute(_TRIES, {"name": name, "since": since}).scalar_one()
    return count


def count_try(conn: Connection, name: str, *, at: int) -> int:
    """Count one; its number."""
    number: int = conn.execute(_TRY, {"by": name, "at": at}).scalar_one()
    return number


def forgive(conn: Connection, numbers: Sequence[int]) -> None:
    """Count these tries no more: they were right."""
    conn.execute(_FORGIVE, {"tries": list(numbers)})


def shared_key(conn: Connection, own: bytes, now: int) -> bytes:
    """The key that cookies are signed with; `own` becomes it where there is none."""
    conn.execute(_KEEP_KEY, {"name": _SIGNING, "value": b64encode(own).decode(), "created_at": now})
    return b64decode(conn.execute(_KEY).scalar_one())


def prune(conn: Connection, now: int) -> None:
    """Remove sign-ins whose cookie has ended by itself, codes whose time is over, and old tries."""
    conn.execute(_PRUNE_TRIES, {"before": now - TRY_KEPT_US})
    conn.execute(_PRUNE_CODES, {"now": now})
    conn.execute(_PRUNE_SESSIONS, {"before": now - SESSION_KEPT_US})


def _person(row: Row[Any]) -> PersonRow:
    return PersonRow(
        id=row.id,
        display=row.display,
        subject=row.subject,
        password_hash=row.password_hash,
        created_at=row.created_at,
        disabled_at=row.disabled_at,
    )


def _session(row: Row[Any]) -> SessionRow:
    return SessionRow(
        id=row.id_hash,
        person=row.person,
        display=row.display,
        method=row.method,
        created_at=row.created_at,
        seen_at=row.seen_at,
        address=row.address,
        agent=row.agent,
        ended_at=row.ended_at,
    )
