"""Skills as people meet them: a shipped one helps by itself, a draft waits for a word, a change needs no restart."""

from collections.abc import AsyncIterator
from pathlib import Path
from shutil import rmtree

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


async def approving(ann: OnTelegram, name: str) -> str:
    """The line that approves the skill as it is shown."""
    await ann.say(f"/skill show {name}")
    shown = await ann.hears(f"/skill approve {name} ")
    return " ".join(shown[shown.index(f"/skill approve {name} ") :].split()[:4])


def write(home: Path, name: str, text: str) -> None:
    path = home / "skills" / name / "SKILL.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


@pytest.mark.alone
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
    await ann.say(await approving(ann, "berth-harbour-report"))
    await ann.hears("may be used as it stands")
    await ann.say("/skill berth-harbour-report for June")
    assert "Begin with the berth." in await system(stage, "for June")


@pytest.mark.slow
@pytest.mark.requirement("W-57", "W-59", "W-07", "W-08", "G-26")
async def test_what_goes_well_is_drafted_approved_hinted_and_revoked(stage: Stage) -> None:
    ann, name = OnTelegram(stage.doubles), "billing-module-refactor"
    draft = stage.program.home / "skills" / "auto" / name

    async def three_go_well(when: str) -> None:
        for number in range(3):
            words = f"Please refactor the billing code module {when}{number}"
            await ann.say(words)
            await ann.hears(words)
        await stage.program.settled()

    async def hint(words: str) -> str:
        """The text before these words of hers."""
        newest = (await stage.asking(words))["body"]["messages"][-1]
        return str(newest["content"]).partition("</reminder>")[0]

    async def drafted() -> bool:
        return (draft / "SKILL.md").exists()

    await three_go_well("1")
    await becomes(drafted, True)
    await ann.say("/skill reload")
    await ann.hears("Read anew")
    await ann.say("/skills")
    waiting = await ann.hears(f"{name} (drafted by me): I drafted it")
    assert waiting.index("Waiting for approval") < waiting.index(name)
    await ann.say(await approving(ann, name))
    await ann.hears(f"{name} may be used")
    await ann.say(f"/skill {name} for March")
    assert f'The skill "{name}" may help here' in await hint("for March")
    await ann.hears("for March")
    await stage.program.settled()
    await ann.say("/why skill")
    assert "counts for it" in await ann.hears(f"Skill hinted: {name}")

    await ann.say(f"/skill revoke {name}")
    await ann.hears(f"{name} is not used any more")
    rmtree(draft)
    await three_go_well("2")
    await ann.say(f"@@skill={name} for April")
    assert f'"{name}"' not in await hint("for April")
    assert not draft.exists()


@pytest.mark.requirement("W-05", "W-08", "Z-92")
async def test_nothing_is_suggested_that_nobody_asked_for(stage: Stage) -> None:
    ann = OnTelegram(stage.doubles)

    async def told(words: str) -> str:
        """The prompt before these words of hers."""
        newest = (await stage.asking(words))["body"]["messages"][-1]
        return str(newest["content"]).partition("</reminder>")[0]

    for words in ("hello there, how are you?", "Danke, das war nett", "I have a meeting tomorrow at ten"):
        await ann.say(words)
        assert "may help here" not in await told(words)
    await ann.say("bitte plane eine Reise nach Bergen")
    assert 'The skill "travel-plan" may help here' in await told("eine Reise nach Bergen")
    await ann.hears("eine Reise nach Bergen")
    await stage.program.settled()
    await ann.say("/why skill")
    assert "counts a quarter for it" in await ann.hears("It alone fitted what was asked")
    await ann.say("/status")
    assert "after" not in (await ann.hears("Provider")).lower()
    await ann.say("/goal")
    await ann.hears("There is no goal here")
    await ann.say("/done")
    await ann.hears("nobody has set one here")
