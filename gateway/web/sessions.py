"""Who is signed in: one-time links, signed session cookies, their tokens. Knows no HTTP.

The cookie carries its session under a signature; the key lies in the data directory with mode 0600. Signing out is
remembered until the session would have ended by itself.
"""

import base64
import binascii
import hashlib
import hmac
import json
import os
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from agent.core.clock import Clock
from gateway.channels.adapter import SignedIn
from gateway.channels.keys import UserId

CODE_LIFE = timedelta(minutes=10)
SESSION_LIFE = timedelta(days=30)
RENEW_AFTER = timedelta(days=1)
OPEN_CODES = 20  # more than that are not open at once; the oldest goes

OPERATOR = SignedIn(id=UserId("operator"), display="Operator")


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    id: str
    person: SignedIn
    ends_at: datetime


class Sessions:
    """Gives out codes and cookies and checks them."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        """Keeps its key and the list of ended sessions in `folder`. Raises OSError when it cannot."""
        self._clock = clock
        self._ended_file = folder / "signed-out.json"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._key = _read_or_make_key(folder / "session.key")
        self._codes: dict[str, tuple[SignedIn, datetime]] = {}
        self._ended = _read_ended(self._ended_file)

    def new_code(self, person: SignedIn) -> str:
        """A code for one sign-in within ten minutes. Only its hash is kept."""
        code = secrets.token_urlsafe(24)
        self._codes[_hashed(code)] = (person, self._clock.now() + CODE_LIFE)
        while len(self._codes) > OPEN_CODES:
            del self._codes[next(iter(self._codes))]
        return code

    def redeem(self, code: str) -> Session | None:
        """The session a code opens; None when it is unknown, used or too old."""
        person, until = self._codes.pop(_hashed(code), (None, None))
        if person is None or until is None or self._clock.now() >= until:
            return None
        return Session(id=secrets.token_urlsafe(18), person=person, ends_at=self._clock.now() + SESSION_LIFE)

    def cookie(self, session: Session) -> str:
        """What the browser keeps."""
        payload = json.dumps(
            [session.id, session.person.id, session.person.display, int(session.ends_at.timestamp())]
        ).encode()
        return f"{_encoded(payload)}.{_encoded(self._signature(payload))}"

    def read(self, cookie: str) -> Session | None:
        """The session in a cookie; None when it is not ours, has ended or was signed out."""
        payload_text, _, signature_text = cookie.partition(".")
        try:
            payload, signature = _decoded(payload_text), _decoded(signature_text)
        except (binascii.Error, ValueError):
            return None
        if not hmac.compare_digest(signature, self._signature(payload)):
            return None
        session_id, person, display, ends = json.loads(payload)  # ours: the signature says so
        ends_at = datetime.fromtimestamp(ends, self._clock.now().tzinfo)
        session = Session(id=session_id, person=SignedIn(id=UserId(person), display=display), ends_at=ends_at)
        return None if self.is_over(session) else session

    def is_over(self, session: Session) -> bool:
        """Signed out since, or too old: for what lasts longer than a request."""
        return session.id in self._ended or session.ends_at <= self._clock.now()

    def renewed(self, session: Session) -> Session | None:
        """The session with its full life again, when a day of it is used up; None when that is not due."""
        ends_at = self._clock.now() + SESSION_LIFE
        if ends_at - session.ends_at < RENEW_AFTER:
            return None
        return Session(id=session.id, person=session.person, ends_at=ends_at)

    def token(self, session: Session) -> str:
        """What a page must send back with everything that changes state (CSRF)."""
        return _encoded(self._signature(b"csrf:" + session.id.encode()))

    def token_matches(self, session: Session, token: str) -> bool:
        return hmac.compare_digest(self.token(session).encode(), token.encode())

    def sign_out(self, session: Session) -> None:
        """End it, in this browser and in any copy of its cookie."""
        now = self._clock.now().timestamp()
        # A renewed cookie of the same session may live longer than the one at hand.
        self._ended[session.id] = now + SESSION_LIFE.total_seconds()
        self._ended = {id: until for id, until in self._ended.items() if until > now}
        _write_private(self._ended_file, json.dumps(self._ended).encode())

    def _signature(self, payload: bytes) -> bytes:
        return hmac.digest(self._key, payload, "sha256")


def _hashed(code: str) -> str:
    return hashlib.sha256(code.encode()).hexdigest()


def _encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _read_or_make_key(path: Path) -> bytes:
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


def _read_ended(path: Path) -> dict[str, float]:
    try:
        ended = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return ended if isinstance(ended, dict) else {}


def _write_private(path: Path, content: bytes) -> None:
    """Replace the file in one step, readable by its owner alone from the first byte."""
    new = path.with_suffix(".new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
