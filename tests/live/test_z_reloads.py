"""A configuration that changes within a turn of the running gateway counts from the next one on."""

from pathlib import Path

import pytest
from sqlalchemy import select

from agent.storage.tables import skill_outcomes
from tests.fakes.llm_server import LlmServer
from tests.fakes.waiting import until
from tests.gateway.world import World
from tests.live.scenes import WorldOf, turns_of, write_agent


def settings(
    llm: LlmServer, home: Path, *, name: str, files: int, strategy: str, attempts: int, waits: bool = False
) -> str:
    wait = f"touch {home}/begun; while [ ! -e {home}/go ]; do sleep 0.05; done; " if waits else ""
    return f"""
[skills]
enabled = false
[approvals]
auto_approve = true
[tools.files]
workspace_files = {files}
[memory.recall]
strategy = "{strategy}"
[memory.graph]
enabled = true
[retry]
max_retries = {attempts - 1}
backoff_ms = 10
[[hooks]]
name = "{name}"
on = "pre_tool_use"
command = "{wait}echo {name} >> {home}/hooks.log"
[[llm.providers]]
name = "a"
type = "openai"
model = "model-{name}"
base_url = "{llm.url}/v1"
api_key = "sk-double"
"""


def uses(tool: str, **given: object) -> dict[str, object]:
    return {"blocks": [{"type": "tool_use", "name": tool, "input": given}]}


async def graph_misses(world: World) -> int:
    await world.services.memory.misses.flush()
    query = select(skill_outcomes).where(skill_outcomes.c.strategy == "graph")
    return await world.database.read(lambda conn: len(conn.execute(query).all()))


@pytest.mark.requirement("Z-21")
async def test_a_turn_goes_by_the_settings_it_began_with(world_of: WorldOf, llm: LlmServer, tmp_path: Path) -> None:
    write_agent(tmp_path, tools=("read", "write", "recall"))
    before = settings(llm, tmp_path, name="old", files=100, strategy="keyword", attempts=3, waits=True)
    async with world_of(config=before, providers=()).process() as world:
        for number in (1, 2):
            words = f"turn {number}"
            world.llm.double.script += [
                {"match": {"contains": words, "tool_result": False},
                 "reply": uses("write", path=f"{number}.txt", content="first"), "times": 1},
                {"match": {"contains": words}, "reply": {"error": {"status": 503}}, "times": 1},
                {"match": {"contains": words}, "reply": uses("recall", query="xylophone of Ida Petrel"), "times": 1},
                {"match": {"contains": words}, "reply": uses("write", path=f"{number}b.txt", content="x"), "times": 1},
                {"match": {"contains": words}, "reply": {"text": f"Done: {words}"}},
            ]  # fmt: skip
        await world.say("turn 1")
        await until(lambda: (tmp_path / "begun").exists())
        world.config = settings(llm, tmp_path, name="new", files=1, strategy="graph", attempts=1)
        assert world.reload() == ()
        (tmp_path / "go").touch()
        await world.shows("Done: turn 1")
        await world.settled()
        assert (tmp_path / "hooks.log").read_text().split() == ["old"] * 3
        assert set(world.models_asked) == {"model-old"}, "also after the model was replaced"
        results = [str(one["content"]) for one in turns_of(world)[-1]["messages"] if one["role"] == "tool"]
        assert results[-1].startswith("Written"), "a workspace of 100 files"
        assert not await graph_misses(world)
        asked = len(llm.calls)
        await world.say("turn 2")
        await until(lambda: len(llm.calls) > asked + 1)
        await world.settled()
        assert set(world.models_asked[asked:]) == {"model-new"}
        assert (tmp_path / "hooks.log").read_text().split() == ["old"] * 3 + ["new"]
        results = [str(one["content"]) for one in turns_of(world)[-1]["messages"] if one["role"] == "tool"]
        assert "may hold no more" in results[-1]
        assert len(llm.calls) == asked + 2, "the second request failed, and is not repeated any more"
        await world.answered("go on with turn 2", "Done: turn 2")
        assert await graph_misses(world)
