"""Limits of a run, through the program: `[budget] max_tool_runtime_secs`; hooks in sub-agents."""

from collections.abc import Callable

import pytest

from tests.gateway.world import World, calling


async def test_a_run_whose_tools_have_taken_their_time_ends_with_a_sentence(world_of: Callable[..., World]) -> None:
    config = '[budget]\nmax_tool_runtime_secs = 0.2\n[tools.shell]\nmode = "open"\n[approvals]\nauto_approve = true\n'
    async with world_of(config=config).process() as world:
        world.script(*calling("wait for it", "shell", command="sleep 0.5"))
        told = await world.answered("wait for it", "The tools of this task have run for 0.2 seconds together")
        assert "max_tool_runtime_secs" in told
        assert len(world.llm.bodies) == 1, "the model is not asked again"
        await world.answered("and now?")  # the limit is of one run


@pytest.mark.requirement("W-65", "W-22")
async def test_a_question_to_the_person_is_a_call_of_the_model_too(world_of: Callable[..., World]) -> None:
    async with world_of(config="[agent]\nmax_turns = 2\n").process() as world:
        question = {"type": "tool_use", "name": "ask_user", "input": {"question": "Which list?"}}
        look = {"type": "tool_use", "name": "current_time", "input": {}}
        world.script(
            {"match": {"contains": "look at the list"}, "times": 1, "reply": {"blocks": [question]}},
            {"match": {}, "reply": {"blocks": [look]}},
        )
        await world.answered("look at the list", "Which list?")
        await world.answered("the long one", "after 2 calls of the model")
        assert len(world.llm.bodies) == 2


async def test_hooks_in_a_sub_agent_are_told_of_its_requests(world_of: Callable[..., World]) -> None:
    note = 'echo "$TIELINE_MODEL:$TIELINE_MESSAGES:$TIELINE_TOKENS" >> told'
    config = f"[[hooks]]\nname = \"note\"\non = \"pre_prompt\"\ncommand = '''{note}'''\n"
    async with world_of(config=config).process() as world:
        below = {"system_contains": "You are a sub-agent"}
        world.script(
            {"match": below, "reply": {"text": "nothing to do"}},
            *calling("send them", "Agent", task="look at the list"),
        )
        await world.answered("send them", "Done")
        lines = (world.home / "told").read_text().split()
        assert [line.split(":")[1] for line in lines].count("1") == 2, "the turn's first request and the sub-agent's"
        assert {line.split(":")[0] for line in lines} == {"model-a"}
        assert all(int(line.split(":")[2]) > 0 for line in lines)
