"""Five processes on one database answer as one."""

from pathlib import Path

from tests.cluster.processes import Members, running
from tests.program import configs
from tests.program.doubles import all_doubles
from tests.program.people import OnTelegram
from tests.program.stage import Stage


async def test_a_person_is_answered_on_telegram(tmp_path: Path, postgres_url: str) -> None:
    async with all_doubles() as doubles:
        config = configs.ACCESS + configs.models(doubles, "a") + configs.telegram(doubles)
        members = Members(tmp_path, postgres_url, config)
        async with running(members):
            stage, ann = Stage(doubles, members.all[0]), OnTelegram(doubles)
            await stage.script("good morning", "Good morning, Ann.")
            await ann.say("good morning")
            try:
                assert await ann.hears("Good morning", seconds=15) == "Good morning, Ann."
            except AssertionError:
                print(members.logs())
                print(
                    members.rows("select * from arrival"),
                    members.rows("select id, conv, status, attempts, note from inbox"),
                    members.rows("select id, status, noted_by from outbox"),
                    members.rows("select * from procrastinate_jobs"),
                    members.rows("select * from process"),
                )
                raise
