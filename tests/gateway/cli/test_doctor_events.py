"""`tieline doctor` about programs that are told of events."""

from dataclasses import replace

from gateway.doctor.events import looked_up
from gateway.events.request import Caller
from tests.gateway.cli.conftest import Tieline
from tests.gateway.events.test_request import names, section

CONFIG = '[[events]]\nname = "crm"\nurl = "https://crm.example.org/hook"\nsecret = "a secret of sixteen"\n'


async def test_where_each_leads_is_looked_up_and_nothing_is_sent() -> None:
    inwards = section("https://crm.example.org/s3cret")
    one = replace(inwards, allow_private=("10.0.0.5",), events=("dead_letter",))
    own, closed = await looked_up((one, inwards), names("10.0.0.5"))
    assert (own.level, own.subject) == ("ok", "events to crm")
    assert own.finding == "dead_letter, to crm.example.org, not tried: `tieline events test crm` sends one"
    assert closed.level == "error"
    assert 'name it in allow_private = ["10.0.0.5"]' in closed.finding
    assert "s3cret" not in f"{own} {closed}"


async def test_a_name_that_nobody_has_is_told() -> None:
    async def lookup(host: str, port: int) -> list[str]:
        raise OSError("no such name")

    (found,) = await looked_up((section("https://crm.example.org/x"),), Caller(lookup))
    assert (found.level, found.finding) == ("error", "there is no host crm.example.org")


def test_offline_nobody_is_looked_up(tieline: Tieline) -> None:
    ran = tieline("doctor", "--offline", config=CONFIG)
    assert "events to crm" in ran.stdout
    assert "not asked (--offline)" in ran.stdout
