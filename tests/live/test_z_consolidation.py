"""Stretches that tell nothing new give way to their facts while the gateway runs with Focus on."""

from pathlib import Path

import pytest

from tests.fakes.llm_server import LlmServer
from tests.live.scenes import WorldOf, asides, asked_aside, model, page, put, rule, turns_of, write_agent

FACTS = "Write down what of it may be"


@pytest.mark.requirement("Z-60", "Z-61", "Z-63")
async def test_every_four_turns_a_stretch_that_tells_nothing_new_is_looked_for(
    world_of: WorldOf, llm: LlmServer, tmp_path: Path
) -> None:
    write_agent(tmp_path)
    on = '[skills]\nenabled = false\n[memory.focus]\nenabled = true\n[memory.compression]\npruning_strategy = "mig"\n'
    async with world_of(config=on + model(llm, window=64_000), providers=()).process() as world:
        put(world, "page.txt", page(1, 20))
        read = {"blocks": [{"type": "tool_use", "name": "read", "input": {"path": "page.txt"}}]}
        turn = (
            {"match": {"contains": "compare the cranes"}, "reply": read, "times": 1},
            {"match": {"contains": "compare the cranes"}, "reply": read, "times": 1},
        )
        turns = [one for n in range(10) for one in (*turn, rule(f"answer{n}", times=1, contains="compare the cranes"))]
        world.script(
            rule("I would rather not.", times=1, system_contains=FACTS),
            rule("- the berth is 7\n- the crane is blue", system_contains=FACTS),
            *turns,
        )
        asked = []
        for number in range(9):
            await world.answered("compare the cranes", f"answer{number}")
            asked.append(len(asides(world, FACTS)))
        assert asked[2] == 0, "nothing before the fourth turn"
        assert asked[3:7] in ([1] * 4, [0, 1, 1, 1]), "the question is asked after the turn, and in vain"
        assert asked[-1] <= 2
        await asked_aside(world, FACTS, 2)
        await world.answered("compare the cranes", "answer9")
        assert "1. the berth is 7" in str(turns_of(world)[-1]["messages"])
