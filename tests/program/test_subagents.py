"""Sub-agents in the real program: side by side, seen at work, killed in the middle, by hand."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.program import configs
from tests.program.people import OnTelegram
from tests.program.stage import Stage, on_stage

SUB = "You are a sub-agent"


def subagent_task(task: str) -> dict[str, Any]:
    return {"type": "tool_use", "name": "Agent", "input": {"task": task, "tools": ["calculate"]}}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    async with on_stage(tmp_path_factory.mktemp("h"), lambda doubles, program: configs.telegram(doubles)) as made:
        yield made


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.requirement("R-36", "W-13")
async def test_two_work_side_by_side_are_seen_and_a_kill_is_told(stage: Stage) -> None:
    ann, llm = OnTelegram(stage.doubles), stage.doubles.llm
    await llm.post(
        "script",
        [
            {"match": {"system_contains": "You find things out."}, "reply": {"text": "in *four* shops"}},
            {"match": {"system_contains": SUB, "contains": "teapots"}, "reply": {"text": "nine teapots"}},
            {"match": {"system_contains": SUB}, "reply": {"text": "four cups", "hold": "cups"}},
            {"match": {"tool_result_contains": "Interrupted"}, "reply": {"text": "It was cut off."}},
            {"match": {"tool_result_contains": "four cups"}, "reply": {"text": "Nine and four."}},
            {
                "match": {"contains": "inventory"},
                "reply": {"blocks": [subagent_task("count cups"), subagent_task("count teapots")]},
            },
        ],
        append="1",
    )
    await ann.say("inventory, please")
    await stage.over("count teapots")
    await ann.say("/agents")
    assert "count cups" in await ann.hears("Sub-agents at work:")
    stage.program.kill()
    stage.program.start()
    await stage.program.ready()
    await ann.hears("It was cut off.", seconds=60)
    assert len(await stage.asked("count cups")) == 1, "nothing is begun anew by itself"
    await stage.release("cups")
    await ann.say("the inventory again")
    await ann.hears("Nine and four.", seconds=40)


async def test_a_person_has_one_work_and_sees_its_answer(stage: Stage) -> None:
    ann = OnTelegram(stage.doubles)
    await ann.say("/agent")
    await ann.hears("researcher: Looks things up")
    await ann.say("/agent researcher who sells blue kettles?")
    await ann.hears("shops", seconds=40)
    recorded = (await stage.program.cli("audit")).stdout
    assert "Agent" in recorded
