"""The goal of a session in the running gateway, where the operator wants models to read it."""

from pathlib import Path

import pytest

from agent.core.events import GoalCompleted
from tests.fakes.llm_server import LlmServer
from tests.gateway.world import World, calling
from tests.live.scenes import WorldOf, happened, model, page, put, rule, turns_of, write_agent
from tests.live.test_b_sessions import sessions

READ = "[agent.goal]\ntrack_in_system_prompt = true\n[skills]\nenabled = false\n"
GOAL = "sort all the letters of the archive"


def system(world: World) -> str:
    """The system prompt of the newest request of a turn."""
    return "\n".join(str(one["content"]) for one in turns_of(world)[-1]["messages"] if one["role"] == "system")


def told(world: World) -> str:
    """The goal that the model reads; "" for none."""
    return system(world).partition("<current_goal>\n")[2].partition("\n</current_goal>")[0]


@pytest.mark.requirement(
    "Z-83", "Z-84", "Z-85", "Z-86", "Z-87", "Z-88", "Z-89", "Z-90", "Z-96", "Z-97",
)  # fmt: skip
async def test_a_goal_lives_with_its_session(world_of: WorldOf, llm: LlmServer, tmp_path: Path) -> None:
    write_agent(tmp_path)
    async with world_of(config=READ + model(llm, window=64_000), providers=()).process() as world:
        put(world, "page.txt", page(1, 30))
        world.script(
            rule("The task is done.", contains="are you there yet"),
            *calling("you know where", "read", path="page.txt"),
            rule("Not done yet, I go on.", contains="how far"),
        )
        await world.answered(GOAL)
        assert told(world) == GOAL
        await world.answered("also throw away the doubles")
        assert told(world) == f"{GOAL}\nalso throw away the doubles", "what goes on with it extends it"
        await world.answered("you know where", "Done: you know where")
        await world.answered("how far is it?", "Not done yet")
        assert told(world).startswith(GOAL), "a phrase after a tool call, or denied, ends nothing"
        assert not happened(world, GoalCompleted)
        await world.answered("are you there yet?", "The task is done.")
        assert len(happened(world, GoalCompleted)) == 1
        await world.answered("thanks")
        assert told(world) == "", "one word sets no goal"
        await world.answered("paint the fence in the garden")
        assert told(world) == "paint the fence in the garden", "a new message makes it active again with its own text"
        for state in ("idle", "active", "completed"):
            assert state not in system(world).partition("## Current goal")[2].partition("</current_goal>")[0]
        assert turns_of(world)[-1]["tools"], "it takes no tool away"
        await world.asks("/clear")
        await world.answered("thanks")
        assert told(world) == ""
        await world.answered(GOAL)
        assert told(world) == GOAL
        await world.asks("/new")
        await world.answered("thanks")
        assert told(world) == "", "another session is after nothing"
        await world.answered("count the herons on the lake")
        *_, left, newest = await sessions(world)
        await world.asks(f"/sessions {left[0][:8]}", "Back in")
        await world.answered("thanks")
        assert told(world) == "", "a goal does not follow into another session"
        await world.asks(f"/sessions {newest[0][:8]}")
        await world.answered("thanks")
        assert told(world) == "count the herons on the lake", "each session keeps its own"


@pytest.mark.requirement("Z-88", "Z-94")
@pytest.mark.parametrize(
    ("settings", "reads"),
    [
        ("track_in_system_prompt = true", True),
        ("", False),
        ("enabled = false\ntrack_in_system_prompt = true", False),
    ],
    ids=["wanted", "as shipped", "goals are off"],
)
async def test_an_identity_says_where_the_goal_stands(
    world_of: WorldOf, llm: LlmServer, tmp_path: Path, settings: str, *, reads: bool
) -> None:
    write_agent(tmp_path, identity="Be brief. You are after: {current_goal}. So much for that.")
    config = f"[agent.goal]\n{settings}\n[skills]\nenabled = false\n{model(llm, window=64_000)}"
    async with world_of(config=config, providers=()).process() as world:
        await world.answered(GOAL)
        there = f"You are after: <current_goal>\n{GOAL}\n</current_goal>. So much"
        assert (there in system(world)) is reads
        assert ("You are after: (none). So much" in system(world)) is not reads
        assert "{current_goal}" not in system(world)
        assert "## Current goal" not in system(world), "it stands there alone"
        await world.answered("write a poem about the sea")
        assert ("write a poem" in system(world)) is reads


@pytest.mark.requirement("Z-90")
async def test_other_words_may_complete_a_goal(world_of: WorldOf, llm: LlmServer, tmp_path: Path) -> None:
    write_agent(tmp_path)
    config = READ.replace("[skills]", 'completion_phrases = ["hooray"]\n[skills]') + model(llm, window=64_000)
    async with world_of(config=config, providers=()).process() as world:
        world.script(rule("All of it is done.", contains="status one"), rule("Hooray!", contains="status two"))
        await world.answered(GOAL)
        await world.answered("status one?", "All of it is done.")
        assert not happened(world, GoalCompleted)
        await world.answered("status two?", "Hooray!")
        assert len(happened(world, GoalCompleted)) == 1


@pytest.mark.requirement("Z-95")
@pytest.mark.parametrize("settings", ["", READ], ids=["as shipped", "followed"])
async def test_whatever_became_of_a_goal_the_model_is_asked_and_its_tools_run(
    world_of: WorldOf, llm: LlmServer, tmp_path: Path, settings: str
) -> None:
    write_agent(tmp_path)
    config = f"{settings}\n{model(llm, window=64_000)}"
    async with world_of(config=config, providers=()).process() as world:
        put(world, "page.txt", page(1, 30))

        async def works(state: str) -> None:
            before = len(turns_of(world))
            world.script(*calling(f"show me when {state}", "read", path="page.txt"))
            await world.answered(f"show me when {state}", f"Done: show me when {state}")
            asked = turns_of(world)[before:]
            assert len(asked) == 2, "one call, and one more with what the tool gave"
            offered = [{tool["function"]["name"] for tool in body["tools"]} for body in asked]
            assert all("read" in names for names in offered)
            assert "page 1 begins" in str(asked[1]["messages"][-1]["content"])

        await works("idle")
        await world.answered("and there is more to do", "and there is more")
        await works("active")
        world.script(rule("The task is done.", contains="are you there"))
        await world.answered("are you there yet?", "The task is done.")
        assert bool(happened(world, GoalCompleted)) is bool(settings), "only where it is followed"
        await works("completed")
        await world.asks("/clear")
        await works("cleared")
        await world.asks("/goal create sort the letters --turns 1", "sort the letters")
        await works("kept")
        await works("used up")
        await world.asks("/goal create count the letters", "count the letters")
        await world.asks("/goal pause", "paused")
        await works("paused")
        await world.asks("/goal resume")
        await world.asks("/done")
        await works("reached")
