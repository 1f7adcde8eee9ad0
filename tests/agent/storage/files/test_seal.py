"""Logins that machines share by one PostgreSQL, encrypted with a key that lies on each of them."""

import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx2
import pytest
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyUrl
from sqlalchemy import make_url, select

from agent.core.files.safe import put_whole
from agent.storage.files.kept import KeptFiles
from agent.storage.files.seal import KeySeal, read_seal
from agent.storage.postgres import PostgresDatabase
from agent.storage.process_tables import kept_file
from agent.tools.mcp import login
from agent.tools.mcp.login import Kept, Login
from agent.tools.mcp.settings import is_login, login_file
from tests.fakes.clock import FakeClock

URL = "https://tools.example/mcp"
KEY = b"k" * 44


def test_what_is_closed_is_opened_with_the_same_key_and_name_alone() -> None:
    seal = KeySeal(KEY)
    closed = seal.close(b"token", "secrets/mcp-a.json")
    assert b"token" not in closed
    assert seal.close(b"token", "secrets/mcp-a.json") != closed
    assert KeySeal(KEY + b"\n").open(closed, "secrets/mcp-a.json") == b"token", "an editor adds a line break"
    for wrong, about in ((KeySeal(b"j" * 44), "secrets/mcp-a.json"), (seal, "secrets/mcp-b.json")):
        with pytest.raises(ValueError, match="another key"):
            wrong.open(closed, about)


def test_a_short_key_is_refused(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("password\n")
    with pytest.raises(ValueError, match="8 bytes; 32 to 4096 are wanted"):
        read_seal(tmp_path / "key")


class Machine:
    def __init__(self, database: PostgresDatabase, clock: FakeClock, home: Path, key: bytes = KEY) -> None:
        self.database, self.clock, self.home = database, clock, home
        self.files = KeptFiles(database, clock, home, seal=KeySeal(key), holds=is_login)
        self.path = login_file(home, "tools")
        self.login = Login(self.path, URL, clock, self.sync)

    async def sync(self) -> None:
        await self.files.sync("secrets")

    def logs_in(self, token: str) -> None:
        kept = Kept(
            url=URL,
            tokens=OAuthToken(access_token=token, token_type="Bearer", expires_in=3600, refresh_token=f"{token}-again"),
            ends_at=self.clock.now().timestamp() + 3600,
            client=OAuthClientInformationFull(client_id="tieline", redirect_uris=[AnyUrl("http://127.0.0.1/")]),
            token_endpoint="https://tools.example/token",
            resource=None,
        )
        login.write(self.path, kept)

    @property
    def token(self) -> str | None:
        kept = login.read(self.path, URL)
        return kept.tokens.access_token if kept is not None else None

    async def sends(self, renewed_to: str | None = None) -> list[str]:
        """The requests of one call, as an httpx client would make them, and how they are authorized."""
        flow = self.login.async_auth_flow(httpx2.Request("POST", URL))
        sent, request = [], await anext(flow)
        while True:
            sent.append(request.headers.get("Authorization") or str(request.url))
            renewal = str(request.url).endswith("/token")
            answer = {"access_token": renewed_to, "token_type": "Bearer", "expires_in": 3600} if renewal else {}
            try:
                request = await flow.asend(httpx2.Response(200, json=answer, request=request))
            except StopAsyncIteration:
                return sent


@pytest.fixture
async def machine(postgres_url: str, clock: FakeClock, tmp_path: Path) -> AsyncIterator[Callable[..., Machine]]:
    url = make_url(postgres_url).set(drivername="postgresql+psycopg")
    databases: list[PostgresDatabase] = []

    def make(name: str, key: bytes = KEY) -> Machine:
        databases.append(PostgresDatabase(url))
        return Machine(databases[-1], clock, tmp_path / name, key)

    yield make
    for database in databases:
        await database.aclose()


async def stored(machine: Machine) -> dict[str, bytes]:
    query = select(kept_file.c.name, kept_file.c.content)
    found = await machine.database.read(lambda conn: conn.execute(query).all())
    return {row.name: bytes(row.content) for row in found}


@pytest.mark.requirement("G-152")
async def test_a_login_on_one_machine_counts_on_another_and_is_nowhere_in_the_clear(
    machine: Callable[..., Machine],
) -> None:
    one, other = machine("one"), machine("other")
    one.logs_in("first")
    put_whole(one.home / "secrets" / "api-key", "sk-secret")
    await one.sync()
    assert await other.sends() == ["Bearer first"]
    assert (other.path.stat().st_mode & 0o777, list(await stored(one))) == (0o600, ["mcp-tools.json"])
    assert not any(b"first" in content for content in (await stored(one)).values())
    one.path.unlink()
    await one.sync()
    await other.sync()
    assert (other.token, await stored(one)) == (None, {})


@pytest.mark.requirement("G-152")
async def test_a_token_that_one_machine_has_renewed_is_not_renewed_by_another(
    machine: Callable[..., Machine], clock: FakeClock
) -> None:
    """A token for renewing is often good once."""
    one, other = machine("one"), machine("other")
    one.logs_in("first")
    assert (await one.sends(), await other.sends()) == (["Bearer first"], ["Bearer first"])
    clock.advance(3600)
    assert await one.sends(renewed_to="second") == ["https://tools.example/token", "Bearer second"]
    assert await other.sends(renewed_to="third") == ["Bearer second"]


@pytest.mark.requirement("G-152")
async def test_with_another_key_each_machine_has_its_own_login(
    machine: Callable[..., Machine], caplog: pytest.LogCaptureFixture
) -> None:
    one, other = machine("one"), machine("other", b"j" * 44)
    one.logs_in("first")
    await one.sync()
    with caplog.at_level(logging.WARNING):
        assert await other.sends() == [URL]
    assert "encrypted with another key" in caplog.text


@pytest.mark.requirement("G-152")
async def test_whoever_goes_over_all_folders_stores_no_secret(machine: Callable[..., Machine]) -> None:
    one = machine("one")
    one.logs_in("first")
    put_whole(one.home / "secrets" / "api-key", "sk-secret")
    await one.sync()
    one.path.unlink()
    await KeptFiles(one.database, one.clock, one.home).sync_all()
    assert list(await stored(one)) == ["mcp-tools.json"]
    assert not any(b"sk-secret" in content for content in (await stored(one)).values())


def test_only_logins_are_meant() -> None:
    assert list(filter(is_login, ("mcp-a.json", "api-key", "mcp-a.txt", "x/mcp-a.json", "shared.key"))) == [
        "mcp-a.json"
    ]


@pytest.mark.requirement("G-152")
async def test_a_login_that_another_key_sealed_is_neither_replaced_nor_removed(machine: Callable[..., Machine]) -> None:
    one, other = machine("one"), machine("other", b"j" * 44)
    one.logs_in("first")
    await one.sync()
    before = await stored(one)
    other.logs_in("second")
    for _ in range(2):
        await other.sync()
    assert await stored(one) == before
    await one.sync()
    assert (one.token, other.token) == ("first", "second"), "each has its own"
    other.path.unlink()
    await other.sync()
    await one.sync()
    assert (one.token, await stored(one)) == ("first", before)
