"""Links that work once, cookies nobody can make, tokens, signing out."""

import base64
import json
from pathlib import Path

import pytest

from gateway.web.sessions import OPERATOR, Sessions
from tests.fakes.clock import FakeClock

DAY = 24 * 3600


@pytest.fixture
def sessions(tmp_path: Path, clock: FakeClock) -> Sessions:
    return Sessions(tmp_path / "web", clock)


def test_a_code_works_once(sessions: Sessions) -> None:
    code = sessions.new_code(OPERATOR)
    session = sessions.redeem(code)
    assert session is not None
    assert session.person == OPERATOR
    assert sessions.redeem(code) is None
    assert sessions.redeem("guess") is None


def test_a_code_lives_ten_minutes(sessions: Sessions, clock: FakeClock) -> None:
    fresh, old = sessions.new_code(OPERATOR), sessions.new_code(OPERATOR)
    clock.advance(599)
    assert sessions.redeem(fresh) is not None
    clock.advance(1)
    assert sessions.redeem(old) is None


def test_only_so_many_codes_are_open(sessions: Sessions) -> None:
    first = sessions.new_code(OPERATOR)
    for _ in range(20):
        sessions.new_code(OPERATOR)
    assert sessions.redeem(first) is None


def cookie_of(sessions: Sessions) -> str:
    session = sessions.redeem(sessions.new_code(OPERATOR))
    assert session is not None
    return sessions.cookie(session)


def test_a_cookie_outlives_a_restart(sessions: Sessions, tmp_path: Path, clock: FakeClock) -> None:
    cookie = cookie_of(sessions)
    again = Sessions(tmp_path / "web", clock).read(cookie)
    assert again is not None
    assert again.person == OPERATOR


def test_a_cookie_ends_after_thirty_days(sessions: Sessions, clock: FakeClock) -> None:
    cookie = cookie_of(sessions)
    clock.advance(30 * DAY - 1)
    assert sessions.read(cookie) is not None
    clock.advance(1)
    assert sessions.read(cookie) is None


def test_a_used_session_is_renewed_once_a_day(sessions: Sessions, clock: FakeClock) -> None:
    session = sessions.read(cookie_of(sessions))
    assert session is not None
    assert sessions.renewed(session) is None
    clock.advance(DAY + 1)
    renewed = sessions.renewed(session)
    assert renewed is not None
    assert renewed.id == session.id
    assert renewed.ends_at > session.ends_at


def forged(cookie: str) -> str:
    payload = json.loads(base64.urlsafe_b64decode(cookie.split(".")[0] + "==="))
    payload[1] = "anna"
    return base64.urlsafe_b64encode(json.dumps(payload).encode()).rstrip(b"=").decode() + "." + cookie.split(".")[1]


@pytest.mark.parametrize("bad", ["", ".", "a.b", "é.ü", "%%%.%%%", "bnVsbA.bnVsbA"])
def test_what_we_did_not_sign_is_nothing(sessions: Sessions, bad: str) -> None:
    assert sessions.read(bad) is None


def test_a_changed_cookie_is_nothing(sessions: Sessions, tmp_path: Path, clock: FakeClock) -> None:
    cookie = cookie_of(sessions)
    assert sessions.read(forged(cookie)) is None
    assert sessions.read(cookie[:-2] + ("aa" if not cookie.endswith("aa") else "bb")) is None
    assert Sessions(tmp_path / "other", clock).read(cookie) is None


def test_signing_out_ends_every_copy_also_after_a_restart(sessions: Sessions, tmp_path: Path, clock: FakeClock) -> None:
    cookie, other = cookie_of(sessions), cookie_of(sessions)
    session = sessions.read(cookie)
    assert session is not None
    sessions.sign_out(session)
    for again in (sessions, Sessions(tmp_path / "web", clock)):
        assert again.read(cookie) is None
        assert again.read(other) is not None


def test_a_token_belongs_to_its_session(sessions: Sessions) -> None:
    one, two = (sessions.read(cookie_of(sessions)) for _ in range(2))
    assert one is not None
    assert two is not None
    assert sessions.token_matches(one, sessions.token(one))
    assert not sessions.token_matches(one, sessions.token(two))
    assert not sessions.token_matches(one, "")


@pytest.mark.requirement("G-28")
def test_the_key_is_for_its_owner_alone(sessions: Sessions, tmp_path: Path) -> None:
    key = tmp_path / "web" / "session.key"
    assert key.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "web").stat().st_mode & 0o777 == 0o700
    code = sessions.new_code(OPERATOR)
    assert not any(code.encode() in path.read_bytes() for path in (tmp_path / "web").iterdir())
