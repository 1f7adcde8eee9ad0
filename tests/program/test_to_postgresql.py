"""A gateway that has talked on SQLite goes on with PostgreSQL: its conversations, its schedules, what was open."""

import json

import pytest
from sqlalchemy import make_url

from tests.fakes.databases import PostgresServer
from tests.program import configs
from tests.program.conftest import Start
from tests.program.doubles import Doubles, until
from tests.program.people import OnTelegram
from tests.upgrade.rows import engine_of, query


@pytest.mark.alone
@pytest.mark.requirement("G-154", "G-155", "G-156")
@pytest.mark.timeout(200)
async def test_a_conversation_goes_on_with_its_history_on_postgresql(
    doubles: Doubles, program: Start, postgres_server: PostgresServer
) -> None:
    config = configs.ACCESS + configs.models(doubles, "a") + configs.telegram(doubles)
    gateway, ann = program(config), OnTelegram(doubles)
    with postgres_server.database(empty=True) as url:
        (gateway.home / "secrets").mkdir(mode=0o700)
        address = make_url(url).set(password="hidden").render_as_string(hide_password=False)
        (gateway.home / "secrets" / "database").write_text(address)
        (gateway.home / "secrets" / "database").chmod(0o600)
        async with gateway:
            await ann.say("the words before the move")
            await ann.hears("the words before the move")
            await ann.say("/remind in 3 hours to stretch")
            await ann.hears("stretch")
            refused = await gateway.cli("migrate", "--to", "file:secrets/database")
            assert refused.returncode == 1, refused.stdout
            assert "tieline.db is in use by process" in refused.stderr
            await gateway.settled()
        moved = await gateway.cli("migrate", "--to", "file:secrets/database")
        assert (moved.returncode, moved.stderr) == (0, ""), moved.stdout
        assert 'url = "file:secrets/database"' in moved.stdout
        assert "hidden" not in moved.stdout
        finished = await gateway.cli("migrate", "--to", "file:secrets/database")
        assert finished.returncode == 0, finished.stderr
        assert "was filled from" in finished.stdout, "it is recognised"

        gateway.write(config + '\n[database]\nurl = "file:secrets/database"\n')
        old = (gateway.home / "tieline.db").read_bytes()
        async with gateway:
            await ann.say("the words after the move")
            await ann.hears("the words after the move")
            asked = await request_with(doubles, "the words after the move")
            assert "the words before the move" in json.dumps(asked["messages"])
            await ann.say("/schedules")
            await until_listed(ann)
            await ann.say("/remind in 4 hours to drink")
            await ann.hears("drink")
            checked = await gateway.cli("migrate", "--check")
            assert checked.returncode == 0, checked.stdout + checked.stderr
            assert "may run side by side" in checked.stdout
        assert (gateway.home / "tieline.db").read_bytes() == old
        engine = engine_of(gateway.home, url)
        assert query(engine, "select id from schedule order by id") == [(1,), (2,)], "new numbers follow the old"
        engine.dispose()


async def until_listed(ann: OnTelegram) -> None:
    """Wait until the list of schedules holds the reminder that was made before the move."""

    async def found() -> bool:
        return any("stretch" in text and "1" in text for text in (await ann.texts())[-2:])

    await until(found, what="the reminder of before in /schedules")


async def request_with(doubles: Doubles, words: str) -> dict[str, object]:
    """The newest request to a model that holds these words."""

    async def found() -> dict[str, object] | None:
        calls = (await doubles.llm.get("calls"))["calls"]
        return next((call["body"] for call in reversed(calls) if words in json.dumps(call["body"])), None)

    request: dict[str, object] = await until(found, what=f"a request with {words!r}")
    return request
