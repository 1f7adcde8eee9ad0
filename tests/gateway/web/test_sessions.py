"""Links that work once, cookies nobody can make and the database knows, tokens, signing out."""

import base64
import json
from pathlib import Path

import pytest

from agent.storage.database import Database
from gateway.channels.adapter import SignedIn
from gateway.channels.keys import UserId
from gateway.operations.sign_ins import SignIns
from gateway.web.sessions import OPERATOR, Session, Sessions, Visit
from tests.fakes.clock import FakeClock

DAY = 24 * 3600
HERE = Visit(address="127.0.0.1", agent="a browser")


@pytest.fixture
def sign_ins(database: Database, clock: FakeClock) -> SignIns:
    return SignIns(database, clock)


@pytest.fixture
def sessions(sign_ins: SignIns, tmp_path: Path, clock: FakeClock) -> Sessions:
    return at(tmp_path, clock, sign_ins)


def at(home: Path, clock: FakeClock, sign_ins: SignIns) -> Sessions:
    """As a process that starts in `home` has them."""
    sessions = Sessions(home / "web", clock)
    sessions.open(sign_ins)
    return sessions


async def redeemed(sessions: Sessions, code: str) -> Session | None:
    return await sessions.redeem(code, HERE)


@pytest.mark.requirement("G-71")
async def test_a_code_works_once(sessions: Sessions) -> None:
    code = await sessions.new_code(OPERATOR)
    session = await redeemed(sessions, code)
    assert session is not None
    assert session.person == OPERATOR
    assert await redeemed(sessions, code) is None
    assert await redeemed(sessions, "guess") is None


async def test_a_code_lives_ten_minutes(sessions: Sessions, clock: FakeClock) -> None:
    fresh, old = await sessions.new_code(OPERATOR), await sessions.new_code(OPERATOR)
    clock.advance(599)
    assert await redeemed(sessions, fresh) is not None
    clock.advance(1)
    assert await redeemed(sessions, old) is None


@pytest.mark.requirement("G-71")
async def test_a_code_outlives_a_restart(
    sessions: Sessions, sign_ins: SignIns, tmp_path: Path, clock: FakeClock
) -> None:
    code = await sessions.new_code(OPERATOR)
    assert await redeemed(at(tmp_path, clock, sign_ins), code) is not None


async def test_only_so_many_codes_are_open(sessions: Sessions, clock: FakeClock) -> None:
    first = await sessions.new_code(OPERATOR)
    for _ in range(20):
        clock.advance(1)
        await sessions.new_code(OPERATOR)
    assert await redeemed(sessions, first) is None


async def test_nobody_unknown_or_disabled_gets_a_code(sessions: Sessions, sign_ins: SignIns) -> None:
    person = SignedIn(id=UserId("anna"), display="Anna")
    with pytest.raises(ValueError, match="'anna' may not sign in"):
        await sessions.new_code(person)
    await sign_ins.add("anna")
    code = await sessions.new_code(person)
    await sign_ins.disable("anna")
    assert await redeemed(sessions, code) is None, "the link that was sent before is no way in either"
    with pytest.raises(ValueError, match="'anna' may not sign in"):
        await sessions.new_code(person)


async def cookie_of(sessions: Sessions) -> str:
    session = await redeemed(sessions, await sessions.new_code(OPERATOR))
    assert session is not None
    return sessions.cookie(session)


async def test_a_cookie_outlives_a_restart(
    sessions: Sessions, sign_ins: SignIns, tmp_path: Path, clock: FakeClock
) -> None:
    cookie = await cookie_of(sessions)
    again = await at(tmp_path, clock, sign_ins).read(cookie)
    assert again is not None
    assert again.person == OPERATOR


async def test_a_cookie_ends_after_thirty_days(sessions: Sessions, clock: FakeClock) -> None:
    cookie = await cookie_of(sessions)
    clock.advance(30 * DAY - 1)
    assert await sessions.read(cookie) is not None
    clock.advance(1)
    assert await sessions.read(cookie) is None


async def test_a_used_session_is_renewed_once_a_day(sessions: Sessions, clock: FakeClock) -> None:
    session = await sessions.read(await cookie_of(sessions))
    assert session is not None
    assert sessions.renewed(session) is None
    clock.advance(DAY + 1)
    renewed = sessions.renewed(session)
    assert renewed is not None
    assert renewed.id == session.id
    assert renewed.ends_at > session.ends_at


def payload_of(cookie: str) -> list[object]:
    found: list[object] = json.loads(base64.urlsafe_b64decode(cookie.split(".")[0] + "==="))
    return found


def forged(cookie: str) -> str:
    payload = payload_of(cookie)
    payload[1] = "anna"
    return base64.urlsafe_b64encode(json.dumps(payload).encode()).rstrip(b"=").decode() + "." + cookie.split(".")[1]


@pytest.mark.parametrize("bad", ["", ".", "a.b", "é.ü", "%%%.%%%", "bnVsbA.bnVsbA"])
async def test_what_we_did_not_sign_is_nothing(sessions: Sessions, bad: str) -> None:
    assert await sessions.read(bad) is None


async def test_a_changed_cookie_is_nothing(
    sessions: Sessions, sign_ins: SignIns, tmp_path: Path, clock: FakeClock
) -> None:
    cookie = await cookie_of(sessions)
    assert await sessions.read(forged(cookie)) is None
    assert await sessions.read(cookie[:-2] + ("aa" if not cookie.endswith("aa") else "bb")) is None
    assert await at(tmp_path / "other", clock, sign_ins).read(cookie) is None
    assert await sessions.read(sessions.signed(cookie.split(".")[0].encode(), "another purpose")) is None


@pytest.mark.requirement("G-71")
async def test_a_signature_without_a_row_opens_nothing(sessions: Sessions, clock: FakeClock) -> None:
    session = await sessions.read(await cookie_of(sessions))
    assert session is not None
    never_begun = Session(id="never-begun", person=OPERATOR, ends_at=session.ends_at)
    assert await sessions.read(sessions.cookie(never_begun)) is None


@pytest.mark.requirement("G-71")
async def test_signing_out_ends_every_copy_also_after_a_restart(
    sessions: Sessions, sign_ins: SignIns, tmp_path: Path, clock: FakeClock
) -> None:
    cookie, other = await cookie_of(sessions), await cookie_of(sessions)
    session = await sessions.read(cookie)
    assert session is not None
    await sessions.sign_out(session)
    for again in (sessions, at(tmp_path, clock, sign_ins)):
        assert await again.read(cookie) is None
        assert await again.read(other) is not None


@pytest.mark.requirement("G-71")
async def test_who_follows_a_session_learns_of_its_end(
    sessions: Sessions, sign_ins: SignIns, database: Database, clock: FakeClock
) -> None:
    session = await sessions.read(await cookie_of(sessions))
    assert session is not None
    here, elsewhere = sessions.following(session), SignIns(database, clock)
    assert not await here()
    (listed,) = await elsewhere.list_all()
    await elsewhere.revoke(listed.id)
    assert not await here(), "another process: it is asked every two seconds"
    clock.advance(2)
    assert await here()
    again = await sessions.read(await cookie_of(sessions))
    assert again is not None
    following = sessions.following(again)
    await sessions.sign_out(again)
    assert await following(), "this process: at once"


async def test_a_token_belongs_to_its_session(sessions: Sessions) -> None:
    one, two = await sessions.read(await cookie_of(sessions)), await sessions.read(await cookie_of(sessions))
    assert one is not None
    assert two is not None
    assert sessions.token_matches(one, sessions.token(one))
    assert not sessions.token_matches(one, sessions.token(two))
    assert not sessions.token_matches(one, "")


@pytest.mark.requirement("G-28")
async def test_the_key_is_for_its_owner_alone(sessions: Sessions, tmp_path: Path) -> None:
    key = tmp_path / "web" / "session.key"
    assert key.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "web").stat().st_mode & 0o777 == 0o700
    code = await sessions.new_code(OPERATOR)
    assert not any(code.encode() in path.read_bytes() for path in (tmp_path / "web").iterdir())


def test_the_list_of_former_versions_goes(tmp_path: Path, clock: FakeClock) -> None:
    (tmp_path / "signed-out.json").write_text("{}")
    Sessions(tmp_path, clock)
    assert not (tmp_path / "signed-out.json").exists()
