"""Misses of the memory in the running gateway: noted for operators, and for nobody else."""

import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, select, text

from agent.core.ids import CostAttribution
from agent.memory import misses
from agent.memory.misses import BATCH
from agent.storage.tables import skill_outcomes
from tests.fakes.llm_server import LlmServer
from tests.fakes.waiting import until
from tests.gateway.world import World, calling
from tests.live.scenes import CHAT, WorldOf, model, turns_of, write_agent

LONG = "who is the sister of Ida Petrel " + "y" * 900


async def missed(world: World) -> list[tuple[str, str, str, str]]:
    """Outcome, strategy, error and session of each miss that was written."""
    await world.services.memory.misses.flush()
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
        for command in ("/memory", "/status", "/usage", "/help"):
            await world.asks(command)
        # The model made this query up: wherever else it stood, it would have come from the list of misses.
        assert not any("xylophone" in text for text in world.texts())
        for body in llm.bodies:
            for one in body["messages"]:
                own = json.dumps(one.get("tool_calls") or "")
                assert json.dumps(one).count("xylophone") == own.count("xylophone"), "in the model's own call alone"
        results = {one["content"] for body in llm.bodies for one in body["messages"] if one["role"] == "tool"}
        assert len(results) == 1, "of either search no more is told than that nothing was found"


@pytest.mark.requirement("Z-133")
async def test_misses_are_written_while_the_gateway_runs(world_of: WorldOf, tmp_path: Path) -> None:
    write_agent(tmp_path)
    async with world_of().process() as world:
        memory = world.services.memory
        scope = memory.scope(CHAT, "direct", None)

        async def all_written() -> bool:
            query = select(skill_outcomes.c.outcome_type)
            found = await world.database.read(lambda conn: conn.execute(query).scalars().all())
            return list(found) == ["memory_miss"] * BATCH

        for number in range(BATCH):
            attribution = CostAttribution(purpose="recall", conversation=CHAT)
            words = f"where is petrel {number}"
            await memory.recall(words, scope, attribution=attribution, limit=1, strategy="hybrid")
        await until(all_written)


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
            world.services.memory.misses.note(CHAT, f"query {number}", "hybrid")
        await world.services.memory.misses.flush()
        await world.answered("and what else")
        assert await world.rows() == [("done", None), ("done", None)]


VECTORS = '[memory.semantic]\nengine = "provider"\nprovider = "a"\n{more}[skills]\nenabled = false\n'
FACT = "The sailing boat lies in Oslo at berth seven."


def found(world: World) -> str:
    """The result of the newest call of a tool."""
    return str(next(one["content"] for one in reversed(turns_of(world)[-1]["messages"]) if one["role"] == "tool"))


async def knows_the_boat(world: World) -> None:
    """A fact is kept, as the model does it when it is asked to, in a session of its own."""
    await world.answered("keep it", "Done: keep it")
    await world.asks("/new")


KEEPING = (
    *calling("keep it", "remember", fact=FACT),
    *calling("ask for the boat", "recall", query="sailing boat berth"),
    *calling("ask for nonsense", "recall", query="xylophone lesson tuesday"),
)


@pytest.mark.requirement("Z-135")
async def test_vectors_that_find_nothing_near_enough_are_noted(
    world_of: WorldOf, llm: LlmServer, tmp_path: Path
) -> None:
    write_agent(tmp_path, tools=("recall", "remember"))
    config = VECTORS.format(more="min_similarity = 0.5\n") + model(llm, window=64_000)
    async with world_of(config=config, providers=()).process() as world:
        world.script(*KEEPING)
        await knows_the_boat(world)
        await world.answered("ask for the boat", "Done: ask for the boat")
        assert FACT in found(world)
        assert not [one for one in await missed(world) if one[1] == "semantic" and one[2] != "no_results"]
        before = len(await missed(world))
        await world.answered("ask for nonsense", "Done: ask for nonsense")
        assert FACT not in found(world)
        newest = (await missed(world))[before:]
        assert ("memory_miss", "semantic", "no_results") in [one[:3] for one in newest]
        assert [call for call in llm.calls if call["api"] == "embeddings"], "vectors were asked for"


@pytest.mark.requirement("Z-135")
async def test_what_is_looked_for_before_a_turn_and_not_found_by_vectors_is_noted(
    world_of: WorldOf, llm: LlmServer, tmp_path: Path
) -> None:
    """Nobody asks for it: no tool is called. Operators read of it all the same."""
    write_agent(tmp_path, tools=("recall", "remember"))
    config = VECTORS.format(more="min_similarity = 0.5\n") + model(llm, window=64_000)
    words = "xylophone lesson tuesday evening"
    async with world_of(config=config, providers=()).process() as world:
        world.script(*KEEPING)
        await knows_the_boat(world)
        await world.answered(words)
        assert not [one for one in turns_of(world)[-1]["messages"] if one["role"] == "tool"]
        await world.services.memory.misses.flush()
        rows = await world.database.read(lambda conn: misses.since(conn, 0, most=100))
        assert ("semantic", "no_results") in [(row.strategy, row.error) for row in rows if row.query == words]


@pytest.mark.requirement("Z-134", "Z-136")
@pytest.mark.parametrize(
    ("fault", "error"),
    [({"kind": "drop"}, ""), ({"kind": "error", "status": 500}, ""), ({"kind": "slow", "delay": 3}, "TimeoutError")],
    ids=["the network", "the service", "too slow"],
)
async def test_vectors_that_fail_are_noted_and_the_words_still_find(
    world_of: WorldOf, llm: LlmServer, tmp_path: Path, fault: dict[str, Any], error: str
) -> None:
    write_agent(tmp_path, tools=("recall", "remember"))
    config = VECTORS.format(more="timeout_s = 0.5\n") + model(llm, window=64_000)
    async with world_of(config=config, providers=()).process() as world:
        world.script(*KEEPING)
        await knows_the_boat(world)
        before = len(await missed(world))
        llm.double.faults.append({"method": "embeddings", "times": 99, **fault})
        await world.answered("ask for the boat", "Done: ask for the boat")
        assert FACT in found(world), "by its words"
        newest = [one for one in (await missed(world))[before:] if one[1] == "semantic"]
        assert newest
        assert all(outcome == "memory_miss" and why != "no_results" for outcome, _, why, _ in newest)
        assert all(error in why for *_, why, _ in newest)
        assert not any(why and why in text for *_, why, _ in newest for text in world.texts())
