"""Records for an operator: the session of a call, and questions that the memory could not answer."""

import json

import pytest

from tests.fakes.waiting import until
from tests.gateway.world import World, calling


@pytest.mark.requirement("Z-110")
async def test_the_audit_tells_the_session_of_each_call(world: World) -> None:
    world.script(*calling("six times seven", "calculate", expression="6*7"))
    await world.answered("six times seven", "Done")
    await world.asks("/new", "A new conversation")
    await world.answered("six times seven", "Done")
    lines = (await world.services.operations.audit({"conversation": "telegram:77"}))["lines"]
    records = [json.loads(line) for line in lines]
    assert [record["tool"] for record in records] == ["calculate", "calculate"]
    sessions = [record["session"] for record in records]
    assert len(set(sessions)) == 2
    listed = await world.asks("/sessions", "▸")
    assert all(session[:8] in listed for session in sessions)


@pytest.mark.requirement("Z-142")
async def test_an_operator_can_read_what_the_memory_was_asked_in_vain(world: World) -> None:
    ask = calling("the harbour", "recall", query="where is the lighthouse keeper's spare key")
    world.script(*ask)
    await world.answered("the harbour", "Done")
    operations = world.services.operations

    async def missed() -> bool:
        await world.services.memory.misses.flush()
        return bool(await operations.misses({}))

    await until(missed)
    (miss, *_) = await operations.misses({"days": 1})
    assert "lighthouse keeper" in miss["query"]
    assert miss["conversation"] == "telegram:77"
    assert miss["error"] == "no_results"
    seen = dict((await world.services.overview.status({}))["figures"])
    assert int(seen["Memory misses, 7 days"]) >= 1
    world.clock.stepped_s += 8 * 86_400
    assert await operations.misses({"days": 7}) == []
    assert await operations.misses({"days": 30}) != []
