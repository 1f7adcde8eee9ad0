"""What is looked for in the memory of the running gateway and not found: noted for operators, and for nobody else."""

import json
from pathlib import Path

import pytest
from sqlalchemy import Connection, select, text

from agent.memory.misses import BATCH
from agent.storage.memory_tables import skill_outcomes
from tests.fakes.llm_server import LlmServer
from tests.gateway.world import World, calling
from tests.live.scenes import CHAT, WorldOf, write_agent

LONG = "who is the sister of Ida Petrel " + "y" * 900


async def missed(world: World) -> list[tuple[str, str, str, str]]:
    """Outcome, strategy, error and session of each miss that was written."""
    await world.house.memory.misses.flush()
    query = select(skill_outcomes).order_by(skill_outcomes.c.id)
    rows = await world.database.read(lambda conn: conn.execute(query).all())
    assert all(row.conv == CHAT and row.ts > 1_700_000_000 for row in rows)
    assert all(0 < len(row.query) <= 512 for row in rows)
    return [(row.outcome_type, row.strategy, row.error, row.session_id) for row in rows]


@pytest.mark.requirement("Z-133", "Z-134", "Z-137", "Z-138", "Z-140", "Z-141", "Z-142")
async def test_what_is_not_found_is_noted_for_operators_alone(
    world_of: WorldOf, llm: LlmServer, tmp_path: Path
) -> None:
    write_agent(tmp_path, tools=("recall",))
    config = '\n[memory.graph]\nenabled = true\n[memory.recall]\nstrategy = "auto"\n[skills]\nenabled = false\n'
    async with world_of(config=config).process() as world:
        world.script(
            *calling("look for it", "recall", query="xylophone lesson tuesday evening seven"),
            *calling("look for her", "recall", query="who is the sister of Ida Petrel"),
        )
        await world.answered(f"{LONG} look for it", "Done: look for it")  # looked for unasked, in a fresh session
        await world.answered("look for her", "Done: look for her")
        found = await missed(world)
        assert {outcome for outcome, *_ in found} == {"memory_miss"}, "the word that jobs look for"
        assert {"hybrid", "graph"} <= {strategy for _, strategy, *_ in found}
        assert {error for _, _, error, _ in found} == {"no_results"}
        assert len({session for *_, session in found}) == 1
        assert all(session for *_, session in found)
        longest = await world.database.read(
            lambda conn: max(len(one) for one in conn.execute(select(skill_outcomes.c.query)).scalars())
        )
        assert longest == 512
        await world.answered("and what else")
        await world.asks("/memory")
        seen = json.dumps(llm.bodies) + " ".join(world.texts())
        assert "memory_miss" not in seen
        assert "no_results" not in seen


@pytest.mark.requirement("Z-139")
async def test_recall_answers_though_no_miss_can_be_written(world_of: WorldOf, tmp_path: Path) -> None:
    write_agent(tmp_path, tools=("recall",))
    async with world_of(config="\n[skills]\nenabled = false\n").process() as world:

        def ruin(conn: Connection) -> None:
            conn.execute(text("DROP TABLE skill_outcomes"))

        await world.database.write(ruin)
        world.script(*calling("look for it", "recall", query=LONG))
        await world.answered("look for it", "Done: look for it")
        for number in range(BATCH):
            world.house.memory.misses.note(CHAT, f"query {number}", "hybrid")
        await world.house.memory.misses.flush()
        await world.answered("and what else")
        assert await world.rows() == [("done", None), ("done", None)]
