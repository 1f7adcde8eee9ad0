"""The order of a turn's steps in the running gateway, as far as it can be seen from outside."""

from collections.abc import Callable

import pytest

from agent.core.events import Published
from agent.skills.bandit import Arm
from tests.fakes.waiting import until
from tests.gateway.world import World, calling
from tests.live.scenes import working_on
from tests.live.test_r_compaction import KEPT, SHORT, WINDOW, share, sized, tell
from tests.live.test_w_learning import SKILL, arm
from tests.live.test_w_turns import hooks, noted

WorldOf = Callable[..., World]
POINTS = ("on_turn_start", "pre_compact", "pre_prompt", "pre_tool_use", "post_tool_use", "stop", "turn_end")
SEEN = {
    "loop:start": "start",
    "skill_picked": "skill",
    "memory:search": "recall",
    "compact_triggered": "compaction",
    "llm_decision_complete": "model",
    "loop:persist": "persist",
    "loop:end": "end",
}


@pytest.mark.requirement("W-67")
async def test_the_steps_of_a_turn_come_in_their_order(world_of: WorldOf) -> None:
    made = sized(world_of(), more=hooks(*POINTS))
    made.config = made.config.replace("[skills]\nenabled = false\n", "").replace(
        "[memory.recall]\nenabled = false\n", ""
    )
    folder = made.home / "skills" / "plover"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(SKILL.format("plover"))
    async with made.process() as world:
        await tell(world, *SHORT)
        await until(lambda: noted(world.home)[-1:] == ["turn_end"])
        trace: list[str] = []
        told = len(noted(world.home))

        def look() -> None:
            """The notes of hooks since the last look. The gateway waits for hooks, so they precede what comes now."""
            nonlocal told
            new = noted(world.home)[told:]
            told += len(new)
            trace.extend(new)

        def hear(published: Published) -> None:
            look()
            if (step := SEEN.get(published.event.name)) is not None:
                trace.append(step)

        world.bus.listen(hear)
        before = arm(world, "plover")
        world.script(KEPT, working_on("birds", times=None), *calling("name plovers", "calculate", expression="6*7"))
        words = f"@@skill=plover name plovers on pencil sketches {share(0.36)}"
        assert len(words) > 0.3 * WINDOW
        await world.answered(words, "Done: name plovers")
        await until(lambda: noted(world.home)[-1:] == ["turn_end"])
        look()
        assert (before, arm(world, "plover")) == (Arm(), Arm(successes=1)), "counted at the end"
        each = ["pre_prompt", "model"]
        assert trace == [
            "start",
            "skill",
            "recall",
            "on_turn_start",
            "pre_compact",
            "compaction",
            *each,
            "pre_tool_use",
            "post_tool_use",
            "on_turn_start",
            *each,
            "stop",
            "persist",
            "end",
            "turn_end",
        ]
