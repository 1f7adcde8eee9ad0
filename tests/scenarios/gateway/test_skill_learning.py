"""Life of a learned skill: three good requests, a draft, approval, hints, credit, removal."""

from pathlib import Path
from shutil import rmtree

import pytest

from agent.skills.bandit import Arm
from tests.fakes.waiting import until
from tests.gateway.world import BOB, GROUP, World
from tests.scenarios.gateway.test_memory import bytes_of

NAME = "billing-module-refactor"
ASKED = "Please refactor the billing code module"
HINT = f'The skill "{NAME}" may help here'


def folder(world: World) -> Path:
    return world.home / "skills" / "auto" / NAME


async def three_go_well(world: World, words: str = ASKED) -> None:
    for number in range(3):
        await world.answered(f"{words} {number}", f"{words} {number}")
    await world.services.learning.flush()


def hinted(world: World) -> bool:
    """Whether the newest request has the hint; the double's own answers repeat older ones."""
    reminder, _, words = str(world.llm.bodies[-1]["messages"][-1]["content"]).partition("</reminder>")
    assert words
    return HINT in reminder


@pytest.mark.requirement("G-26", "W-59", "W-60", "W-07", "W-08")
async def test_a_draft_waits_is_approved_hinted_credited_and_revoked(world: World) -> None:
    await three_go_well(world)
    await world.services.skills.reload()
    waiting = await world.asks("/skills", "Waiting for approval")
    assert NAME in waiting.partition("Waiting for approval")[2]
    await world.answered(f"@@skill={NAME} before anybody approved it", "before anybody approved it")
    assert not hinted(world)
    await world.asks("/why skill", "I have hinted no skill")

    shown = await world.asks(f"/skill approve {NAME}", "What stands here")
    approving = shown[shown.index(f"/skill approve {NAME}") :].split()
    assert "may be used" in await world.asks(" ".join(approving))
    await world.asks("/new")
    await world.answered(f"@@skill={NAME} and now for June", "and now for June")
    assert hinted(world)
    why = await world.asks("/why skill", f"Skill hinted: {NAME}")
    assert "asked for it by name" in why
    assert "well 1 times and badly 0 times" in why
    assert "Of the successes 1 were given to it" in why, "in the next session: a score that nobody measured"
    assert "went well, which counts for it" in why
    await world.answered("hello there")
    assert "Skill hinted" in await world.asks("/why skill", NAME)
    assert not hinted(world), "a greeting fits nothing"
    await world.answered(f"@@skill={NAME} and for July", "and for July")
    warum = await world.asks("/why skill", "Hinweis auf die Fähigkeit", language="de")
    assert "2-mal gut" in warum

    await world.asks(f"/skill revoke {NAME}")
    await world.answered(f"@@skill={NAME} and for August", "and for August")
    assert not hinted(world)
    rmtree(folder(world))
    await world.services.skills.reload()
    await three_go_well(world)
    assert not folder(world).exists(), "what was revoked is not drafted again"


@pytest.mark.requirement("W-57")
async def test_one_request_retried_is_still_one(world: World) -> None:
    await world.answered(ASKED, ASKED)
    for number in range(3):
        await world.answered("/retry", ASKED)
        assert len(world.services.learning.buckets) == 1, number
    await world.services.learning.flush()
    assert not folder(world).exists()
    await world.asks("/undo", "Taken back")
    assert len(world.services.learning.buckets) == 0


async def test_what_was_learnt_outlives_the_process(world_of: object) -> None:
    world: World = world_of()  # type: ignore[operator]
    async with world.process():
        await world.answered("@@skill=travel-plan to Oslo", "to Oslo")
    async with world.process():
        assert world.services.learning.router.kept("travel-plan").arm.successes == 1


async def test_what_is_forgotten_is_in_no_draft(world: World) -> None:
    words = "Please draft the quetzal newsletter article"
    await three_go_well(world, words)
    (draft,) = (world.home / "skills" / "auto").iterdir()
    assert "quetzal" in (draft / "SKILL.md").read_text()
    await world.hears(world.said("/memory forget quetzal"))
    await world.shows("Forget this for good?")
    await world.hears(world.said("yes"))
    await world.shows("Forgotten.")
    await until(lambda: not draft.exists())
    await world.settled()
    await world.services.upkeep.tidy()
    assert b"quetzal" not in bytes_of(world.home)


async def test_in_a_group_people_take_back_their_own_words_alone(world: World) -> None:
    for number in range(3):
        words = f"Please draft the quetzal newsletter article {number}"
        await world.answered(f"@bot {words}", words, chat=GROUP)
    await world.services.learning.flush()
    (draft,) = (world.home / "skills" / "auto").iterdir()
    written = (draft / "SKILL.md").read_text()
    await world.answered("@bot hello herons", "hello herons", chat=GROUP, person=BOB)
    await world.hears(world.said("/memory forget all", chat=GROUP, person=BOB))
    await world.shows("Forget this for good?", GROUP)
    await world.hears(world.said("yes", chat=GROUP, person=BOB))
    await world.shows("Forgotten.", GROUP)
    await world.settled()
    assert (draft / "SKILL.md").read_text() == written


async def test_a_fact_takes_the_quotes_of_its_message_with_it(world: World) -> None:
    call = {"type": "tool_use", "name": "remember", "input": {"fact": "Ann writes about quetzals."}}
    words = "Please draft the quetzal newsletter article"
    world.script(
        {"match": {"contains": f"{words} 0", "tool_result": False}, "reply": {"blocks": [call]}},
        {"match": {"contains": f"{words} 0", "tool_result": True}, "reply": {"text": "I will keep that."}},
    )
    await world.answered(f"{words} 0", "I will keep that.")
    world.script()
    for number in (1, 2):
        await world.answered(f"{words} {number}", f"{words} {number}")
    await world.services.learning.flush()
    (draft,) = (world.home / "skills" / "auto").iterdir()
    fact = (await world.asks("/memory", "quetzals")).partition("#")[2].partition(" ")[0]
    await world.hears(world.said(f"/memory forget {fact}"))
    await world.shows("Forget this for good?")
    await world.hears(world.said("yes"))
    await world.shows("Forgotten.")
    await until(lambda: not draft.exists())


@pytest.mark.requirement("W-05", "W-07", "W-08")
async def test_a_shipped_skill_is_hinted_where_it_fits_and_told_of(world: World) -> None:
    for words in ("hello there", "thanks!", "I have a meeting tomorrow at 10"):
        await world.answered(words)
        assert "may help here" not in str(world.llm.bodies[-1])
    assert "only where one surely fits" in await world.asks("/why skill", "I have hinted no skill")
    await world.answered("please plan a trip to Oslo")
    assert 'The skill "travel-plan" may help here' in str(world.llm.bodies[-1]["messages"][-1]["content"])
    why = await world.asks("/why skill", "Skill hinted: travel-plan")
    assert "It alone fitted what was asked, by 1.00" in why
    assert "well 0 times and badly 0 times" in why
    assert "counts a quarter for it" in why
    await world.answered("thanks, great")
    assert "thanked for" in await world.asks("/why skill", "Skill hinted: travel-plan")
    await world.answered("Bitte plane eine Reise nach Bergen")
    await world.asks("/undo", "Taken back")
    assert "zurückgenommen" in await world.asks("/why skill", "Hinweis auf die Fähigkeit", language="de")
    assert world.services.learning.router.kept("travel-plan").arm == Arm(successes=1.5, failures=1)
