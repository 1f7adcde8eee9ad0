"""`tieline people` and `sign-ins`, on a data directory that no gateway holds."""

from pathlib import Path

import anyio.to_thread
import pytest

from agent.core.clock import SystemClock
from gateway.operations.sign_ins import SignIns
from gateway.storage.repair import open_database
from gateway.web.sessions import OPERATOR, Visit
from tests.gateway.cli.conftest import Tieline

PASSWORD = "correct horse battery"


@pytest.fixture(autouse=True)
async def database(home: Path) -> None:
    await (await open_database("sqlite:///tieline.db", home)).aclose()


def told(tieline: Tieline, *args: str, stdin: str | None = None) -> str:
    ran = tieline(*args, stdin=stdin)
    assert ran.exit_code == 0, ran.stderr
    return ran.stdout


def test_people_come_and_go(tieline: Tieline) -> None:
    assert told(tieline, "people", "list") == "Nobody but the owner has an account.\n"
    assert "Anna (web:anna) has an account." in told(tieline, "people", "add", "anna", "--display", "Anna")
    assert "cannot sign in any more" in told(tieline, "people", "disable", "anna")
    heads, row = told(tieline, "people", "list").splitlines()
    assert heads.split()[:4] == ["id", "name", "state", "password"]
    assert row.split()[:4] == ["anna", "Anna", "disabled", "-"]
    assert "can sign in again" in told(tieline, "people", "enable", "anna")


@pytest.mark.requirement("G-70")
def test_a_password_is_asked_for_twice_or_read(tieline: Tieline, home: Path) -> None:
    asked = told(tieline, "people", "add", "anna", "--password", stdin=f"{PASSWORD}\n{PASSWORD}\n")
    assert PASSWORD not in asked
    assert "has a new password" in told(tieline, "people", "password", "anna", "--stdin", stdin=f"{PASSWORD} 2\n")
    assert told(tieline, "people", "list").splitlines()[1].split()[3] == "yes"
    assert not any(PASSWORD.encode() in path.read_bytes() for path in home.rglob("*") if path.is_file())
    differing = tieline("people", "password", "anna", stdin=f"{PASSWORD}\nanother one\n")
    assert differing.exit_code == 1


def test_what_cannot_be_is_told_with_the_fix(tieline: Tieline) -> None:
    for args, words in (
        (("add", "operator"), "is the owner"),
        (("add", "Anna B"), "is no id"),
        (("disable", "zoe"), "no person 'zoe'"),
        (("link", "zoe"), "no gateway runs"),
    ):
        ran = tieline("people", *args)
        assert (ran.exit_code, words in ran.stderr) == (1, True), ran.stderr
    short = tieline("people", "add", "anna", "--password", stdin="short\nshort\n")
    assert "5 characters; use 12" in short.stderr
    assert "Nobody" in told(tieline, "people", "list"), "no account without the password that was meant for it"


@pytest.mark.requirement("G-71")
async def test_sign_ins_are_listed_and_ended(tieline: Tieline, home: Path) -> None:
    opened = await open_database("sqlite:///tieline.db", home)
    visit = Visit(address="192.0.2.7", agent="A browser\x1b[2J")
    assert await SignIns(opened, SystemClock()).begin("a" * 64, OPERATOR.id, "link", visit, former=None)
    await opened.aclose()
    ran = await anyio.to_thread.run_sync(lambda: told(tieline, "sign-ins"))
    assert "aaaaaaaaaaaa  operator  link" in ran
    assert "\x1b" not in ran
    ended = await anyio.to_thread.run_sync(lambda: told(tieline, "sign-ins", "revoke", "aaaa"))
    assert "A sign-in of operator is ended." in ended
    assert "Nobody is signed in." in await anyio.to_thread.run_sync(lambda: told(tieline, "sign-ins"))
