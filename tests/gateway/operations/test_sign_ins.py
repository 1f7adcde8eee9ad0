"""People of the web server and their sign-ins, on both databases."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import anyio
import pytest
from argon2 import PasswordHasher
from argon2.low_level import Type
from sqlalchemy import make_url, select, update

from agent.storage.database import Database
from agent.storage.postgres import PostgresDatabase
from agent.storage.timestamps import to_timestamp
from gateway.channels.keys import UserId
from gateway.operations.sign_ins import SignIns
from gateway.storage import web_sign_ins as rows
from gateway.storage.tables import web_attempt, web_code, web_key, web_person, web_session
from gateway.web.control import OperationError
from gateway.web.sessions import OPERATOR, Limit, Sessions, Visit
from tests.fakes.clock import FakeClock

CHEAP = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1)
DEARER = PasswordHasher(time_cost=2, memory_cost=64, parallelism=1)
PHONE = Visit(address="192.0.2.7", agent="A browser on a phone " + "x" * 300)
ANNA, PASSWORD = UserId("anna"), "correct horse battery"


@pytest.fixture
def sign_ins(database: Database, clock: FakeClock) -> SignIns:
    return SignIns(database, clock, CHEAP)


async def begun(sign_ins: SignIns, session: str, person: str = "anna", former: str | None = None) -> bool:
    return await sign_ins.begin(session, UserId(person), "password", PHONE, former=former) is not None


# -- people


async def test_people_are_added_listed_and_disabled(sign_ins: SignIns) -> None:
    added = await sign_ins.add("anna", "Anna\nExample")
    assert (added.display, added.has_password, added.disabled_at) == ("Anna Example", False, None)
    assert (await sign_ins.add("bob")).display == "bob"
    disabled = await sign_ins.disable("bob")
    assert disabled.disabled_at is not None
    assert [one.id for one in await sign_ins.persons()] == ["anna", "bob"]
    assert (await sign_ins.enable("bob")).disabled_at is None


@pytest.mark.parametrize("id", ["operator", "", "Anna", "a b", "../anna", "ä", "-a", "a" * 33, "a\n"])
async def test_an_id_that_cannot_be_one_is_refused(sign_ins: SignIns, id: str) -> None:
    with pytest.raises(OperationError):
        await sign_ins.add(id)
    assert await sign_ins.persons() == []


async def test_an_id_is_one_persons(sign_ins: SignIns) -> None:
    await sign_ins.add("anna")
    with pytest.raises(OperationError, match="already"):
        await sign_ins.add("anna", "Another Anna")
    for nobody in ("bob", "operator"):
        with pytest.raises(OperationError, match="no person"):
            await sign_ins.disable(nobody)
        with pytest.raises(OperationError, match="no person"):
            await sign_ins.set_password(nobody, PASSWORD)


# -- sign-ins


@pytest.mark.requirement("G-71")
async def test_a_sign_in_is_listed_and_revoked(sign_ins: SignIns, database: Database, clock: FakeClock) -> None:
    await sign_ins.add("anna", "Anna")
    assert await begun(sign_ins, "s1")
    assert await sign_ins.begin("s2", UserId("operator"), "link", PHONE, former=None) is not None
    assert {(one.person, one.display, one.method) for one in await sign_ins.list_all()} == {
        ("anna", "Anna", "password"),
        ("operator", "operator", "link"),
    }
    first = next(one for one in await sign_ins.list_all() if one.person == "anna")
    assert (first.address, len(first.agent)) == ("192.0.2.7", rows.AGENT_MOST)
    assert await sign_ins.revoke(first.id)
    assert not await sign_ins.revoke(first.id)
    assert await sign_ins.find("s1") is None
    assert await SignIns(database, clock).find("s2") is not None, "another process knows the other one"


@pytest.mark.requirement("G-71")
async def test_a_new_sign_in_ends_the_browsers_former_one(sign_ins: SignIns) -> None:
    await sign_ins.add("anna")
    assert await begun(sign_ins, "s1")
    assert await begun(sign_ins, "s2", former="s1")
    assert await sign_ins.find("s1") is None
    assert not await begun(sign_ins, "s3", person="nobody", former="s2")
    assert await sign_ins.find("s2") is not None, "who fails to sign in stays who they are"


@pytest.mark.requirement("G-71")
async def test_disabling_a_person_ends_all_that_is_theirs(sign_ins: SignIns, clock: FakeClock) -> None:
    await sign_ins.add("anna")
    await sign_ins.add("bob")
    assert await begun(sign_ins, "s1")
    assert await begun(sign_ins, "s2", person="bob")
    await sign_ins.add_code("c1", ANNA, until=clock.now() + timedelta(minutes=5), most_open=20)
    before = sign_ins.ends
    await sign_ins.disable("anna")
    assert sign_ins.ends > before
    assert await sign_ins.find("s1") is None
    assert not await begun(sign_ins, "s3")
    assert await sign_ins.find("s2") is not None
    await sign_ins.enable("anna")
    assert await sign_ins.find("s1") is None, "what was ended stays ended"
    assert await sign_ins.redeem("c1", "s4", PHONE, former=None) is None


async def test_a_row_of_a_disabled_person_counts_for_nothing(sign_ins: SignIns, database: Database) -> None:
    """Also one that was written while the person was disabled, in another process."""
    await sign_ins.add("anna")
    assert await begun(sign_ins, "s1")
    await database.write(lambda conn: rows.set_disabled(conn, "anna", at=1))
    assert await sign_ins.find("s1") is None
    assert await sign_ins.list_all() == []


async def test_that_it_is_in_use_is_noted_once_an_hour(sign_ins: SignIns, database: Database, clock: FakeClock) -> None:
    await sign_ins.add("anna")
    await begun(sign_ins, "s1")

    async def seen_at() -> int:
        found = await database.read(lambda conn: conn.execute(select(web_session.c.seen_at)).scalar_one())
        return int(found)

    began = await seen_at()
    clock.advance(3599)
    await sign_ins.find("s1")
    assert await seen_at() == began
    clock.advance(1)
    await sign_ins.find("s1")
    assert await seen_at() == to_timestamp(clock.now())


async def test_old_rows_go(sign_ins: SignIns, database: Database, clock: FakeClock) -> None:
    await sign_ins.add("anna")
    await begun(sign_ins, "s1")
    await sign_ins.add_code("c1", ANNA, until=clock.now() + timedelta(minutes=5), most_open=20)
    await sign_ins.count_try([Limit(name="x", most=9, within_s=60)])
    clock.advance(31 * 24 * 3600)
    await database.write(lambda conn: rows.prune(conn, to_timestamp(clock.now())))
    for table in (web_session, web_code, web_attempt):
        assert await database.read(lambda conn, table=table: conn.execute(select(table)).all()) == []  # type: ignore[misc]
    assert [one.id for one in await sign_ins.persons()] == ["anna"]


# -- passwords


@pytest.mark.requirement("G-70")
async def test_a_password_is_kept_as_argon2id_alone(sign_ins: SignIns, database: Database) -> None:
    assert PasswordHasher().type is Type.ID, "what is taken where no test says otherwise"
    assert not await sign_ins.has_passwords()
    await sign_ins.add("anna")
    assert (await sign_ins.set_password("anna", PASSWORD)).has_password
    kept = await database.read(lambda conn: conn.execute(select(web_person.c.password_hash)).scalar_one())
    assert kept.startswith("$argon2id$")
    assert PASSWORD not in kept
    assert await sign_ins.has_passwords()
    await sign_ins.disable("anna")
    assert not await sign_ins.has_passwords(), "the form would let nobody in"


@pytest.mark.requirement("G-70")
@pytest.mark.parametrize("password", ["", "eleven char", "x" * 1025])
async def test_a_password_of_a_wrong_length_is_refused(sign_ins: SignIns, password: str) -> None:
    await sign_ins.add("anna")
    with pytest.raises(OperationError, match=f"has {len(password)} characters"):
        await sign_ins.set_password("anna", password)


@pytest.mark.requirement("G-70")
@pytest.mark.parametrize(
    ("person", "password", "right"),
    [
        pytest.param("anna", PASSWORD, True, id="right"),
        pytest.param("anna", PASSWORD + " ", False, id="nearly"),
        pytest.param("anna", "", False, id="none"),
        pytest.param("bob", PASSWORD, False, id="another person, without one"),
        pytest.param("carl", PASSWORD, False, id="a disabled person"),
        pytest.param("zoe", PASSWORD, False, id="nobody"),
        pytest.param("operator", PASSWORD, False, id="the owner has none"),
        pytest.param("zoe", "nobody's", False, id="what stands for nobody's password"),
    ],
)
async def test_whether_a_password_is_right(sign_ins: SignIns, person: str, password: str, right: bool) -> None:
    for one in ("anna", "bob", "carl"):
        await sign_ins.add(one)
    await sign_ins.set_password("anna", PASSWORD)
    await sign_ins.set_password("carl", PASSWORD)
    await sign_ins.disable("carl")
    assert await sign_ins.is_password(person, password) is right


class Counting(PasswordHasher):
    """Tells how often it has looked, and at a hash of which cost."""

    def __init__(self) -> None:
        super().__init__(time_cost=1, memory_cost=64, parallelism=1)
        self.looked: list[str] = []

    def verify(self, hash: str | bytes, password: str | bytes) -> bool:  # type: ignore[override]
        self.looked.append(str(hash).rpartition("$")[0].rpartition("$")[0])
        return super().verify(hash, password)


@pytest.mark.requirement("G-70")
async def test_nobodys_password_takes_as_long_as_somebodys(database: Database, clock: FakeClock) -> None:
    hasher = Counting()
    sign_ins = SignIns(database, clock, hasher)
    await sign_ins.add("anna")
    await sign_ins.add("bob")
    await sign_ins.set_password("anna", PASSWORD)
    for person in ("anna", "bob", "zoe"):
        assert not await sign_ins.is_password(person, "a wrong password")
    assert len(hasher.looked) == 3
    assert len(set(hasher.looked)) == 1, "the same parameters, so the same work"


@pytest.mark.requirement("G-70")
async def test_a_hash_is_made_anew_when_the_parameters_have_grown(database: Database, clock: FakeClock) -> None:
    await SignIns(database, clock, CHEAP).add("anna")
    await SignIns(database, clock, CHEAP).set_password("anna", PASSWORD)
    assert await SignIns(database, clock, DEARER).is_password("anna", PASSWORD)
    kept = await database.read(lambda conn: conn.execute(select(web_person.c.password_hash)).scalar_one())
    assert not DEARER.check_needs_rehash(kept)
    assert await SignIns(database, clock, DEARER).is_password("anna", PASSWORD)


async def test_a_hash_that_is_none_lets_nobody_in(sign_ins: SignIns, database: Database) -> None:
    await sign_ins.add("anna")
    await database.write(lambda conn: conn.execute(update(web_person).values(password_hash="plain text")))
    assert not await sign_ins.is_password("anna", "plain text")


async def test_a_new_password_ends_the_sign_ins(sign_ins: SignIns) -> None:
    await sign_ins.add("anna")
    await begun(sign_ins, "s1")
    await sign_ins.set_password("anna", PASSWORD)
    assert await sign_ins.find("s1") is None


# -- tries


@pytest.mark.requirement("G-70")
async def test_tries_are_counted_for_every_process(sign_ins: SignIns, database: Database, clock: FakeClock) -> None:
    limits = [Limit(name="address", most=2, within_s=60), Limit(name="address", most=3, within_s=3600)]
    first = await sign_ins.count_try(limits)
    assert first is not None
    assert await SignIns(database, clock).count_try(limits) is not None
    assert await sign_ins.count_try(limits) is None
    assert await sign_ins.count_try([Limit(name="person", most=1, within_s=60)]) is not None
    await sign_ins.forgive(first)
    assert await sign_ins.count_try(limits) is not None, "a right one is no try"
    clock.advance(61)
    assert await sign_ins.count_try(limits) is not None
    assert await sign_ins.count_try(limits) is None, "three within the hour"


async def test_one_limit_that_is_reached_counts_nothing_under_the_others(sign_ins: SignIns) -> None:
    full, free = Limit(name="full", most=1, within_s=60), Limit(name="free", most=1, within_s=60)
    assert await sign_ins.count_try([full]) is not None
    assert await sign_ins.count_try([free, full]) is None
    assert await sign_ins.count_try([free]) is not None


@pytest.mark.requirement("G-70")
async def test_many_tries_at_once_are_no_way_around_a_limit(sign_ins: SignIns) -> None:
    counted: list[bool] = []

    async def one() -> None:
        counted.append(await sign_ins.count_try([Limit(name="anna", most=10, within_s=60)]) is not None)

    async with anyio.create_task_group() as guesses:
        for _ in range(60):
            guesses.start_soon(one)
    assert (counted.count(True), counted.count(False)) == (10, 50)


# -- accounts by an identity provider


@pytest.mark.requirement("G-73")
async def test_an_identity_provider_makes_an_account_once(sign_ins: SignIns) -> None:
    assert await sign_ins.person_of("https://id.example/ 1", "anna-1", "Anna") == "anna-1"
    assert await sign_ins.person_of("https://id.example/ 1", "another", "Anna B.") == "anna-1"
    (anna,) = await sign_ins.persons()
    assert (anna.by_provider, anna.display) == (True, "Anna")
    await sign_ins.add("bob")
    with pytest.raises(ValueError, match="somebody else's"):
        await sign_ins.person_of("https://id.example/ 2", "bob", "Bob")


# -- several processes on one PostgreSQL, each with a home of its own


@pytest.fixture
async def processes(
    postgres_url: str, clock: FakeClock, tmp_path: Path
) -> AsyncIterator[list[tuple[SignIns, Sessions]]]:
    url = make_url(postgres_url).set(drivername="postgresql+psycopg")
    databases = [PostgresDatabase(url) for _ in range(2)]
    found = []
    for name, database in zip(("one", "other"), databases, strict=True):
        sign_ins = SignIns(database, clock)
        sessions = Sessions(tmp_path / name, clock)
        await sign_ins.share_key(tmp_path / name)
        sessions.open(sign_ins)
        found.append((sign_ins, sessions))
    yield found
    for database in databases:
        await database.aclose()


@pytest.mark.requirement("G-150")
async def test_a_browser_is_signed_in_at_each_process_until_one_signs_it_out(
    processes: list[tuple[SignIns, Sessions]], tmp_path: Path
) -> None:
    (_, one), (_, other) = processes
    assert (tmp_path / "one" / "session.key").read_bytes() != (tmp_path / "other" / "session.key").read_bytes()
    code = await one.new_code(OPERATOR)
    session = await other.redeem(code, PHONE)
    assert session is not None
    assert await one.redeem(code, PHONE) is None, "a link counts once"
    cookie = other.cookie(session)
    found = await one.read(cookie)
    assert found is not None
    assert (found.person, one.token_matches(found, other.token(session))) == (OPERATOR, True)
    await one.sign_out(found)
    assert await other.read(cookie) is None


@pytest.mark.requirement("G-150")
async def test_who_was_signed_in_at_the_first_process_stays_so(
    postgres_url: str, clock: FakeClock, tmp_path: Path
) -> None:
    """Its key, which an earlier version kept in its home alone, becomes that of all."""
    database = PostgresDatabase(make_url(postgres_url).set(drivername="postgresql+psycopg"))
    sign_ins, before = SignIns(database, clock), Sessions(tmp_path, clock)
    before.open(sign_ins)
    session = await before.redeem(await before.new_code(OPERATOR), PHONE)
    assert session is not None
    await sign_ins.share_key(tmp_path)
    after = Sessions(tmp_path, clock)
    after.open(sign_ins)
    assert await after.read(before.cookie(session)) is not None
    assert (sign_ins.key, after.cookie(session)) == ((tmp_path / "session.key").read_bytes(), before.cookie(session))
    await database.aclose()


@pytest.mark.requirement("G-150")
async def test_a_limit_on_tries_holds_for_all_processes_together(processes: list[tuple[SignIns, Sessions]]) -> None:
    limits = [Limit(name="person anna", most=5, within_s=60), Limit(name="address 192.0.2.7", most=20, within_s=60)]
    counted: list[bool] = []

    async def tries(sign_ins: SignIns) -> None:
        counted.append(await sign_ins.count_try(limits) is not None)

    async with anyio.create_task_group() as tasks:
        for _ in range(8):
            for sign_ins, _ in processes:
                tasks.start_soon(tries, sign_ins)
    assert (counted.count(True), len(counted)) == (5, 16)


async def test_on_sqlite_the_key_stays_in_the_home(sqlite_database: Database, clock: FakeClock, tmp_path: Path) -> None:
    sign_ins = SignIns(sqlite_database, clock)
    await sign_ins.share_key(tmp_path)
    assert sign_ins.key is None
    assert not await sqlite_database.read(lambda conn: conn.execute(select(web_key)).all())
