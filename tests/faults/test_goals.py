"""Work on a goal by itself, killed at each point: it rests, its owner is told once, nothing goes on, it can go on.

On Slack, where what was shown as the process died can be looked for.
"""

import json
import signal
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from agent.core.failpoints import ENVIRONMENT, Point
from tests.doubles.limits import raised_limits
from tests.program import configs
from tests.program.doubles import Doubles, all_doubles, until
from tests.program.people import OnSlack
from tests.program.running import Program

SECTIONS = """messages_per_minute = 6000
[agent.goal]
autonomous_enabled = true
verify_interval = 1
autonomous_turn_delay_ms = 20
"""
POINTS: Sequence[Point] = (
    "intake.commit", "model.before", "model.stream", "commit.before", "commit.within", "commit.after",
    "goal.judged", "goal.within", "goal.after",
)  # fmt: skip
OVER: frozenset[Point] = frozenset({"goal.after"})  # it was reached, and that was stored
CHECK = "Is the goal reached?"
RULES = (
    {"match": {"contains": CHECK}, "reply": {"text": json.dumps({"achieved": True, "reason": "all is there"})}},
    {"match": {"contains": "[autonomous]"}, "reply": {"text": "Every page is tidy.", "token_delay": 0.02}},
)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.requirement("Z-130")
async def test_killed_at_each_point_it_rests_and_can_go_on(tmp_path_factory: pytest.TempPathFactory) -> None:
    home: Path = tmp_path_factory.mktemp("h")
    order = home / "crash"
    async with all_doubles() as doubles:
        # What is killed is looked at, not how fast it writes.
        await doubles.slack.post("settings", raised_limits() | {"retry_delays": [0.1, 1, 1]})
        await doubles.llm.post("script", list(RULES))
        config = configs.ACCESS + SECTIONS + configs.models(doubles, "a") + configs.slack(doubles)
        program, slack = Program(home, config, {ENVIRONMENT: str(order)}, about={"agent.goal"}), OnSlack(doubles)
        async with program:
            for number, point in enumerate(POINTS, start=1):
                await killed_at(point, number, order, program, slack, doubles)


async def killed_at(point: Point, number: int, order: Path, program: Program, slack: OnSlack, doubles: Doubles) -> None:
    await anyio.Path(order).write_text(point)
    await slack.say(f"/goal create tidy page {number} --auto --turns 5")
    await death(program, point)
    before = await turns(doubles)
    program.start()
    await program.ready()
    ending = f"Goal {number} is reached" if point in OVER else f"Goal {number} is paused"
    await slack.hears(ending)
    await nothing_is_shown(slack)
    await program.settled()
    assert await turns(doubles) == before, f"{point}: it went on by itself"
    told = [text for text in await texts(slack) if ending in text]
    assert len(told) == 1, f"{point}: {told}"
    assert ("was restarted" in told[0]) is (point not in OVER), f"{point}: {told}"
    if point not in OVER:
        await slack.say(f"/goal resume {number} --auto")
        await slack.hears(f"Goal {number} is reached")
        await nothing_is_shown(slack)
        await program.settled()


async def death(program: Program, point: Point) -> None:
    process = program.process
    assert process is not None

    async def dead() -> bool:
        return process.poll() is not None

    await until(dead, what=f"the kill at {point}")
    assert process.returncode == -signal.SIGKILL


async def turns(doubles: Doubles) -> int:
    """The number of autonomous turns that the model was asked for."""
    calls = (await doubles.llm.get("calls"))["calls"]
    asked = [str(call["body"]["messages"][-1]) for call in calls]
    return sum("[autonomous]" in words and CHECK not in words for words in asked)


async def texts(slack: OnSlack) -> list[str]:
    return [str(one["text"]) for one in await slack.messages()]


async def nothing_is_shown(slack: OnSlack) -> None:
    """No message that follows the work stays."""

    async def gone() -> bool:
        return not any("Working on" in text for text in await texts(slack))

    await until(gone, what="no line of the work")
