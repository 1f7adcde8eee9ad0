"""/focus and /sidequest: what people see of the two ways to keep a window small."""

from collections.abc import Callable

from tests.fakes.waiting import until
from tests.gateway.world import World


async def test_focus_tells_what_is_open_and_what_was_found(world_of: Callable[..., World]) -> None:
    world = world_of(config="[memory.focus]\nenabled = true\nmin_messages_per_focus = 2\n")
    async with world.process():
        opened = {"type": "tool_use", "name": "start_focus", "input": {"scope": "the berth"}}
        closed = {"type": "tool_use", "name": "complete_focus", "input": {"summary": "it is berth 7"}}
        world.script(
            {"match": {"contains": "where", "tool_result": False}, "reply": {"blocks": [opened]}},
            {"match": {"contains": "done?", "tool_result": False}, "reply": {"blocks": [closed]}},
            {"match": {}, "reply": {"text": "fine"}},
        )
        assert "none is open" in await world.asks("/focus", "Focus")
        await world.answered("where is it?", "fine")
        assert "Focus is open: the berth." in await world.asks("/focus", "inside")
        await world.answered("done?", "fine")
        found = await world.asks("/focus", "Findings")
        assert "Findings kept so far (1," in found
        assert "the berth: it is berth 7" in found


async def test_sidequest_tells_what_it_let_go(world_of: Callable[..., World]) -> None:
    config = (
        "[context.microcompact]\nmin_pressure = 0.9\n[memory.compression]\npruning_strategy = 'reactive'\n"
        "[memory.sidequest]\nenabled = true\ninterval_turns = 2\nmin_cursor_tokens = 20\n"
    )
    world = world_of(config=config)
    async with world.process():
        power = {"type": "tool_use", "name": "calculate", "input": {"expression": "7**900"}}
        world.script(
            {"match": {"system_contains": "del_cursors"}, "reply": {"text": '{"del_cursors": [0]}'}},
            {"match": {"contains": "how much", "tool_result": False}, "reply": {"blocks": [power]}},
            {"match": {}, "reply": {"text": "fine"}},
        )
        assert "next in 2" in await world.asks("/sidequest", "SideQuest")
        for number in range(3):
            await world.answered(f"how much is that? {number}", "fine")
        await until(lambda: any("del_cursors" in str(body["messages"][0]) for body in world.llm.bodies))
        await world.answered("go on", "fine")
        assert "let results go 1 times: 1 in all" in await world.asks("/sidequest", "let results go")


async def test_both_say_how_they_are_switched_on(world: World) -> None:
    assert "[memory.focus] enabled = true" in await world.asks("/focus", "off here")
    assert "[memory.sidequest] enabled = true" in await world.asks("/sidequest", "SideQuest is off")
