"""Sessions of the web server: one-time codes, signed cookies, and the tokens of pages.

A cookie carries its session under a signature whose key lies in the data directory with mode 0600, and on PostgreSQL in
the database, for all processes there. It is good as long as the database has the sign-in too: signing out, revoking and
disabling a person end it in every copy.
"""

import base64
import binascii
import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal, Protocol

from starlette.requests import HTTPConnection

from agent.core.clock import Clock
from agent.storage.errors import StorageError
from gateway.channels.adapter import SignedIn
from gateway.channels.keys import UserId

CODE_LIFE = timedelta(minutes=10)
SESSION_LIFE = timedelta(days=30)
RENEW_AFTER = timedelta(days=1)
OPEN_CODES = 20  # more than that are not open at once; the oldest goes
LOOK_EVERY_S = 2.0  # at a session that something long, such as an event stream, follows

Method = Literal["link", "password", "oidc", "proxy"]

OPERATOR = SignedIn(id=UserId("operator"), display="Operator")


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """The address and the browser that a sign-in comes from, as they were told."""

    address: str
    agent: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A sign-in. `id` is a secret: only its hash leaves the cookie."""

    id: str
    person: SignedIn
    ends_at: datetime
    method: Method = "link"

    @property
    def hash(self) -> str:
        """The id by which the database and lists of sign-ins know it."""
        return hashed(self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSignIn:
    """A sign-in as the database has it."""

    person: SignedIn
    method: Method


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """At most `most` tries under a name within a time."""

    name: str
    most: int
    within_s: float


class SignInStore(Protocol):
    """Sign-ins and one-time codes in the database; `code` and `session` are hashes. Everything raises StorageError."""

    @property
    def key(self) -> bytes | None:
        """The key that all processes sign with; None: each has its own."""

    @property
    def ends(self) -> int:
        """How often this process has ended sign-ins: where it has changed, ask again."""

    async def add_code(self, code: str, person: UserId, *, until: datetime, most_open: int) -> None:
        """Keep a code for one sign-in. Raises ValueError when nobody may sign in by this id."""

    async def redeem(self, code: str, session: str, visit: Visit, *, former: str | None) -> SignedIn | None:
        """Use a code up and begin the session, in one step; None when the code is unknown, used or too old."""

    async def begin(
        self, session: str, person: UserId, method: Method, visit: Visit, *, former: str | None
    ) -> SignedIn | None:
        """Begin a session of somebody known and end the browser's `former` one; None when they may not sign in."""

    async def find(self, session: str) -> OpenSignIn | None:
        """The sign-in, if it is open; notes that it is in use."""

    async def end(self, session: str) -> None: ...


class KnownPeople(Protocol):
    """Tries and passwords of people, and their names at an identity provider. Everything raises StorageError."""

    async def count_try(self, limits: Sequence[Limit]) -> Sequence[int] | None:
        """Count a try; None, uncounted, when one of the limits is reached."""

    async def forgive(self, tries: Sequence[int]) -> None:
        """Count these no more: they were right."""

    async def has_passwords(self) -> bool:
        """Whether anybody can sign in with one."""

    async def is_password(self, person: str, password: str) -> bool:
        """Whether it is the person's; takes the same time for a person that there is not."""

    async def person_of(self, subject: str, id: str, display: str) -> UserId:
        """The account of the identity provider's `subject`; a new one is made under `id`."""


class SignInSource(SignInStore, KnownPeople, Protocol):
    """The database's side of signing in, as the web server needs it."""


class Sessions:
    """Gives out codes and cookies and checks them; from `open` on."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        """Keeps its key in `folder`. Raises OSError when it cannot."""
        self._clock = clock
        self._key = own_key(folder)
        (folder / "signed-out.json").unlink(missing_ok=True)  # of versions that kept no sign-ins in the database
        self._store: SignInStore | None = None

    def open(self, store: SignInStore) -> None:
        """The database is open."""
        self._key = store.key or self._key
        self._store = store

    @property
    def is_open(self) -> bool:
        """Whether the database is open; before that everybody is told to wait."""
        return self._store is not None

    async def new_code(self, person: SignedIn) -> str:
        """A code for one sign-in within ten minutes. Raises StorageError; ValueError for who may not sign in."""
        code = secrets.token_urlsafe(24)
        until = self._clock.now() + CODE_LIFE
        await self._opened.add_code(hashed(code), person.id, until=until, most_open=OPEN_CODES)
        return code

    async def redeem(self, code: str, visit: Visit, *, former: str | None = None) -> Session | None:
        """The session a code opens; None when it is unknown, used or too old. Raises StorageError.

        `former` is the hash of the browser's session until now, which ends.
        """
        id = _new_id()
        person = await self._opened.redeem(hashed(code), hashed(id), visit, former=former)
        return self._session(id, person, "link")

    async def begin(self, person: UserId, method: Method, visit: Visit, *, former: str | None = None) -> Session | None:
        """A new session of somebody who has shown who they are; None when they may not sign in. Raises StorageError.

        Nobody else's word makes an owner: the owner comes by a link alone.
        """
        if person == OPERATOR.id:
            return None
        id = _new_id()
        found = await self._opened.begin(hashed(id), person, method, visit, former=former)
        return self._session(id, found, method)

    def cookie(self, session: Session) -> str:
        """The browser's cookie."""
        payload = json.dumps([session.id, session.person.id, int(session.ends_at.timestamp())]).encode()
        return self.signed(payload, "session")

    async def read(self, cookie: str) -> Session | None:
        """The session in a cookie; None when it is not ours, has ended, or is in no row. Raises StorageError."""
        payload = self.verified(cookie, "session")
        if payload is None:
            return None
        session_id, person, ends = json.loads(payload)  # ours: the signature says so
        ends_at = datetime.fromtimestamp(ends, self._clock.now().tzinfo)
        if ends_at <= self._clock.now():
            return None
        found = await self._opened.find(hashed(session_id))
        if found is None or found.person.id != person:
            return None
        return Session(id=session_id, person=found.person, ends_at=ends_at, method=found.method)

    def following(self, session: Session) -> "Following":
        """For what lasts longer than a request: tells whether the session is over."""
        return Following(session, self._opened, self._clock)

    def renewed(self, session: Session) -> Session | None:
        """The session with its full life again, when a day of it is used up; None when that is not due."""
        ends_at = self._clock.now() + SESSION_LIFE
        return None if ends_at - session.ends_at < RENEW_AFTER else replace(session, ends_at=ends_at)

    def token(self, session: Session) -> str:
        """The token that a page must send back with everything that changes state (CSRF)."""
        return _encoded(hmac.digest(self._key, b"csrf:" + session.id.encode(), "sha256"))

    def token_matches(self, session: Session, token: str) -> bool:
        return hmac.compare_digest(self.token(session).encode(), token.encode())

    async def sign_out(self, session: Session) -> None:
        """End it, in this browser and in any copy of its cookie. Raises StorageError."""
        await self._opened.end(session.hash)

    def signed(self, payload: bytes, purpose: str) -> str:
        """The payload as a cookie holds it; one signed for another purpose is none."""
        return f"{_encoded(payload)}.{_encoded(self._signature(payload, purpose))}"

    def verified(self, cookie: str, purpose: str) -> bytes | None:
        """The payload of a cookie; None when we did not sign it for this purpose."""
        payload_text, _, signature_text = cookie.partition(".")
        try:
            payload, signature = _decoded(payload_text), _decoded(signature_text)
        except (binascii.Error, ValueError):
            return None
        return payload if hmac.compare_digest(signature, self._signature(payload, purpose)) else None

    def derived(self, name: str) -> str:
        """A secret of 43 letters that nobody else can make, always the same for a name."""
        return _encoded(self._signature(name.encode(), "derived"))

    @property
    def _opened(self) -> SignInStore:
        assert self._store is not None, "the database is not open"
        return self._store

    def _session(self, id: str, person: SignedIn | None, method: Method) -> Session | None:
        if person is None:
            return None
        return Session(id=id, person=person, ends_at=self._clock.now() + SESSION_LIFE, method=method)

    def _signature(self, payload: bytes, purpose: str) -> bytes:
        return hmac.digest(self._key, f"{purpose}:".encode() + payload, "sha256")


class Following:
    """Whether a session is over. The database is asked every two seconds, and at once when this process ended one."""

    def __init__(self, session: Session, store: SignInStore, clock: Clock) -> None:
        self._session = session
        self._store = store
        self._clock = clock
        self._ends = store.ends
        self._looked_at = clock.monotonic()
        self._over = False

    async def __call__(self) -> bool:
        due = self._ends != self._store.ends or self._clock.monotonic() >= self._looked_at + LOOK_EVERY_S
        if due and not self._over:
            self._ends, self._looked_at = self._store.ends, self._clock.monotonic()
            try:
                self._over = await self._store.find(self._session.hash) is None
            except StorageError:
                self._over = True  # whoever follows comes back, and is told to wait
        return self._over or self._session.ends_at <= self._clock.now()


class Cookies:
    """The session's cookie. Its name carries the port: cookies of one host are shared by all its ports."""

    def __init__(self, *, port: int, secure: bool) -> None:
        self.name = f"tieline_{port}"
        self._secure = secure

    def header(self, value: str, *, scheme: str) -> str:
        """A `Set-Cookie` value; "" takes the cookie away."""
        age = int(SESSION_LIFE.total_seconds()) if value else 0
        return f"{self.name}={value}; Path=/; Max-Age={age}; HttpOnly; SameSite=Strict{self._if_secure(scheme)}"

    def brief_header(self, name: str, value: str, *, path: str, age_s: int, scheme: str) -> str:
        """A `Set-Cookie` value of a cookie that comes along from another site too, below `path`; "" takes it away."""
        age = age_s if value else 0
        own = f"{self.name}_{name}={value}; Path={path}; Max-Age={age}"
        return f"{own}; HttpOnly; SameSite=Lax{self._if_secure(scheme)}"

    def _if_secure(self, scheme: str) -> str:
        return "; Secure" if self._secure or scheme == "https" else ""


async def session_of(connection: HTTPConnection, sessions: Sessions, cookies: Cookies) -> Session | None:
    """The session a request carries, if it is valid. Raises StorageError.

    One that a proxy's word has begun is valid only while the proxy goes on to name the same person.
    """
    session = await cookie_of(connection, sessions, cookies)
    if session is not None and session.method == "proxy" and named_by_proxy(connection) != session.person.id:
        return None
    return session


async def cookie_of(connection: HTTPConnection, sessions: Sessions, cookies: Cookies) -> Session | None:
    """The session of the request's cookie, whomever a proxy names. Raises StorageError."""
    cookie = connection.cookies.get(cookies.name)
    return await sessions.read(cookie) if cookie and sessions.is_open else None


def named_by_proxy(connection: HTTPConnection) -> str | None:
    """The id of the person whom a trusted proxy names (`gateway.web.middleware.PersonHeader`)."""
    named: str | None = getattr(connection.state, "named_by_proxy", None)
    return named


def visit_of(connection: HTTPConnection) -> Visit:
    """Where a request comes from."""
    address = connection.client.host if connection.client else ""
    return Visit(address=address, agent=connection.headers.get("user-agent", ""))


def hashed(secret: str) -> str:
    """The form in which the database knows a code or a session's id: both are long and random."""
    return hashlib.sha256(secret.encode()).hexdigest()


def _new_id() -> str:
    return secrets.token_urlsafe(18)


def _encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def own_key(folder: Path) -> bytes:
    """The key of this data directory, made where there is none. Blocking. Raises OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / "session.key"
    try:
        key = path.read_bytes()
    except FileNotFoundError:
        key = b""
    if len(key) >= 32:
        path.chmod(0o600)
        return key
    key = secrets.token_bytes(32)
    _write_private(path, key)
    return key


def _write_private(path: Path, content: bytes) -> None:
    """Replace the file in one step, readable by its owner alone from the first byte."""
    new = path.with_suffix(".new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
