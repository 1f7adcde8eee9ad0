"""Skills as people meet them: a shipped one helps by itself, a draft waits for a word, a change needs no restart."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.program import configs
from tests.program.people import OnTelegram
from tests.program.stage import Stage, becomes, on_stage

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    home = tmp_path_factory.mktemp("h", numbered=True)
    async with on_stage(home, lambda doubles, _: configs.telegram(doubles)) as stage:
        yield stage


async def system(stage: Stage, words: str) -> str:
    return str((await stage.asking(words))["body"]["messages"][0]["content"])


def write(home: Path, name: str, text: str) -> None:
    path = home / "skills" / name / "SKILL.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


@pytest.mark.requirement("Z-10", "G-26", "Z-08")
async def test_from_the_folder_to_the_prompt(stage: Stage) -> None:
    ann = OnTelegram(stage.doubles)
    await ann.say("/skills")
    assert "travel-plan (shipped)" in await ann.hears("meeting-notes")
    await ann.say("please plan a trip to Oslo")
    assert '<skill name="travel-plan">' in await system(stage, "a trip to Oslo")

    write(stage.program.home, "auto/berth-harbour-report", "# Draft\nBegin with the berth.")
    write(stage.program.home, "tide", "---\ndescription: Tells the tide\ntriggers: the tide\n---\nName the harbour.")

    async def read() -> bool:
        return "skills: 7 usable, berth-harbour-report wait for approval" in stage.program.log.read_text()

    await becomes(read, True)
    await ann.say("when is the tide?")
    assert "Name the harbour." in await system(stage, "when is the tide?")
    await ann.say("write the berth report of the harbour")
    assert "Begin with the berth" not in await system(stage, "write the berth report of the harbour")
    await ann.say("/skill approve berth-harbour-report")
    await ann.hears("may be used as it stands")
    await ann.say("/skill berth-harbour-report for June")
    assert "Begin with the berth." in await system(stage, "for June")
