"""/skills and /skill: what people see, who decides, and that the word reaches the next turn."""

import re
from collections.abc import Callable

import pytest

from gateway.commands.kept.skills import MOST_LISTED
from tests.fakes.waiting import until
from tests.gateway.world import ANN, BOB, GROUP, World

DRAFT = "---\nname: anything\ndescription: How Ann wants bills\n---\nSort by date.\n```\nDo it so.\n```"
DIGITS = "---\ndescription: Counts digits\nallowed_tools: [calculate]\n---\nCount the digits."
HIDDEN = "---\ndescription: For the model alone\nuser_invocable: false\n---\nSecretly."


def write(world: World, name: str, text: str) -> None:
    path = world.home / "skills" / name / "SKILL.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def system(world: World) -> str:
    return str(world.llm.bodies[-1]["messages"][0]["content"])


@pytest.mark.requirement("G-26", "Z-10")
async def test_a_draft_is_used_when_somebody_who_may_has_read_and_approved_it(world_of: Callable[..., World]) -> None:
    world = world_of()
    write(world, "auto/bill-month-sort", DRAFT)
    write(world, "digits", DIGITS)
    async with world.process():
        listed = await world.asks("/skills", "Waiting for approval")
        assert "travel-plan (shipped): Plans a trip" in listed
        assert "digits (of the gateway): Counts digits" in listed
        assert "bill-month-sort (drafted by me): I drafted it" in listed
        bobs = await world.asks("/skills", "Waiting for an admin", person=BOB)
        assert "bill-month-sort" not in bobs, "a draft may hold words of others"
        assert "There is no skill" in await world.asks("/skill show bill-month-sort", person=BOB)
        refused = await world.asks("/skill approve bill-month-sort", person=BOB)
        assert refused.startswith("/skill approve is for admins of the whole bot: they decide which skills are used.")
        assert "/skills lists those that you may use" in refused
        assert "waits for approval" in (await world.asks("/skill bill-month-sort please")).lower()

        await world.answered("sort the bill of this month")
        assert "Sort by date" not in system(world)
        assert "bill-month-sort" not in system(world)

        shown = await world.asks("/skill show bill-month-sort", "Sort by date")
        assert "```\nDo it so.\n```" in shown, "as it is written"
        action = world.screen().shown[-1].actions[0]
        assert action.startswith("c:/skill approve ")
        digest = action.rpartition(" ")[2]
        assert f"/skill approve bill-month-sort {digest}" in shown
        for unread in ("", f" {digest[:7]}"):
            again = await world.asks(f"/skill approve bill-month-sort{unread}", "Sort by date")
            assert "Waits for approval" in again, "nobody approves what was not shown"
        assert "has changed" in await world.asks(f"/skill approve bill-month-sort {digest[::-1]}")
        assert "nothing to approve" in await world.asks(f"/skill approve {digest[::-1]}")
        await world.press(action)
        await world.shows("may be used as it stands")
        await world.answered("please sort the bill of this month")
        assert "Sort by date" in system(world)
        assert "bill-month-sort: How Ann wants bills" in system(world)

    async with world.process():
        await world.answered("and sort the bill of last month")
        assert "Sort by date" in system(world), "after a restart too"
        await world.asks("/skill revoke bill-month-sort", "not used any more")
        await world.answered("sort the bill of that month once more")
        assert "Sort by date" not in system(world)
        assert "Taken back: bill-month-sort" in await world.asks("/skills", "Taken back")


@pytest.mark.requirement("Z-08", "Z-09")
async def test_skills_are_called_up_and_read_anew(world: World) -> None:
    write(world, "digits", DIGITS)
    write(world, "hidden", HIDDEN)
    assert "May be used: 8." in await world.asks("/skill reload")
    await world.answered("/skill digits how many has 123?", "how many has 123?")
    assert "Count the digits." in system(world)
    assert world.llm.bodies[-1]["messages"][-1]["content"].endswith("@@skill=digits how many has 123?")
    await world.answered("/skill Travel-Plan Rome", "Rome", chat=GROUP)
    assert '<skill name="travel-plan">' in system(world)
    assert "Did you mean digits?" in await world.asks("/skill digit x")
    assert "for me alone" in await world.asks("/skill hidden x")
    assert "Which one?" in await world.asks("/skill")
    write(world, "digits", DIGITS.replace("Count the digits", "Add the digits"))

    async def read() -> bool:
        return any("Add the" in skill.body for skill in world.services.skills.catalogue.visible())

    await until(read)
    await world.answered("/skill digits how many has 45?", "how many has 45?", chat=ANN)
    assert "Add the digits." in system(world)


async def test_what_the_list_has_no_room_for_stands_apart_from_its_last_line(world: World) -> None:
    for number in range(MOST_LISTED):
        write(world, f"digits-{number}", DIGITS.replace("Counts", f"{number} counts"))
    assert "May be used: " in await world.asks("/skill reload")
    assert re.search(r"\n\n… and \d+ more\.\n\n", await world.asks("/skills", "Skills"))


async def test_switched_off_there_are_none(world_of: Callable[..., World]) -> None:
    world = world_of(config="[skills]\nenabled = false\n")
    async with world.process():
        await world.answered("plan a trip to Rome")
        assert "kill" not in system(world)
        assert "switched off" in await world.asks("/skill travel-plan Rome")
        assert "switched off" in await world.asks("/skills", "switched off")
