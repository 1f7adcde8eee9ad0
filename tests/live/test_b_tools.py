"""Tools that take too long, and the same inputs twice."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from aiohttp import web

from agent.core.events import SkillPicked, ToolEnded
from agent.core.messages import ToolUse
from agent.run.settings import Settings
from tests.fakes.waiting import until
from tests.gateway.world import World, calling
from tests.live.scenes import write_agent


def result_of(world: World) -> str:
    """The result of the newest call, as the model read it."""
    return str(world.llm.bodies[-1]["messages"][-1]["content"])


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"


@pytest.mark.requirement("B-31", "B-35")
async def test_a_tool_that_takes_too_long_is_killed_with_all_it_started(world_of: Callable[..., World]) -> None:
    world = world_of(
        config='[approvals]\nauto_approve = true\n[tools.shell]\nmode = "open"\n[timeouts]\ntool_exec = 0.7\n'
    )
    folder = world.home / "agents" / "default"
    folder.mkdir(parents=True)
    (folder / "AGENT.md").write_text("---\nname: Own\ntools: [shell]\n---\nBe brief.")
    async with world.process():
        world.script(*calling("sleep", "shell", command="sleep 61 & echo $! > pid; wait"))
        await world.answered("sleep well", "Done: sleep")
        assert "0.7" in result_of(world)
        (note,) = (world.home / "workspaces").glob("*/pid")
        pid = int(note.read_text())
        await until(lambda: not alive(pid))
        (ended,) = [event for event in world.events if isinstance(event, ToolEnded)]
        assert ended.is_error


@pytest.mark.requirement("B-35")
async def test_a_command_that_will_not_end_is_killed_when_its_own_time_is_over(world_of: Callable[..., World]) -> None:
    """Neither it nor what it has started listens when it is asked; what it wrote until then is not lost."""
    shell = '[tools.shell]\nmode = "open"\ntimeout_s = 1.5\ngrace_s = 0.2\n'
    world = world_of(config=f"[approvals]\nauto_approve = true\n{shell}")
    write_agent(world.home, tools=("shell",))
    stubborn = "trap '' TERM; echo begun; setsid sleep 61 & echo $! > pid; echo $$ > own; while :; do sleep 62; done"
    async with world.process():
        world.script(*calling("sleep", "shell", command=stubborn, timeout_s=500))
        with anyio.fail_after(40):
            await world.answered("sleep well", "Done: sleep")
        assert "its 1.5 s were over" in result_of(world)
        assert "begun" in result_of(world)
        for name in ("pid", "own"):
            (note,) = (world.home / "workspaces").glob(f"*/{name}")
            pid = int(note.read_text())
            await until(lambda pid=pid: not alive(pid))


@pytest.mark.requirement("B-82", "B-35")
async def test_a_tool_that_only_looks_has_thirty_seconds_unless_set(world_of: Callable[..., World]) -> None:
    assert Settings().timeouts.tool_info == 30.0
    never = anyio.Event()

    async def hang(request: web.Request) -> web.Response:
        await never.wait()
        return web.Response()

    app = web.Application()
    app.router.add_get("/", hang)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    config = f'[timeouts]\ntool_info = 0.4\ntool_exec = 50\n[tools.web]\ninternal = ["127.0.0.1:{port}"]\n'
    world = world_of(config=config)
    folder = world.home / "agents" / "default"
    folder.mkdir(parents=True)
    (folder / "AGENT.md").write_text("---\nname: Own\ntools: [web_fetch]\n---\nBe brief.")
    try:
        async with world.process():
            world.script(*calling("look", "web_fetch", url=f"http://127.0.0.1:{port}/"))
            with anyio.fail_after(20):
                await world.answered("look there", "Done: look")
            assert "0.4" in result_of(world)
    finally:
        await runner.cleanup()


SKILL = "---\nname: {}\ndescription: Names plovers on pencil sketches by their bills\n---\nLook at the bill."


@pytest.mark.requirement("B-02", "G-32")
async def test_the_same_messages_and_the_same_streams_give_the_same_transcript_and_the_same_hints(
    world_of: Callable[..., World], tmp_path: Path
) -> None:
    """As shipped, with skills that fit equally well; only ids and times are their own."""

    async def replayed() -> tuple[list[Any], list[str]]:
        world = world_of()
        for name in ("one", "two", "three", "four"):
            folder = world.home / "skills" / name
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "SKILL.md").write_text(SKILL.format(name))
        async with world.process():
            seen = len(world.llm.calls)
            for number in range(6):
                block = ToolUse(id=f"call_{number}", name="calculate", input={"expression": f"{number}+1"})
                use = {"type": "tool_use", "id": block.id, "name": block.name, "input": dict(block.input)}
                world.script(
                    {"match": {"contains": f"{number}: name", "tool_result": False}, "reply": {"blocks": [use]}},
                    {"match": {}, "reply": {"text": f"trip {number}"}},
                )
                await world.answered(f"{number}: name plovers on pencil sketches by their bills", f"trip {number}")
            hints = [event.skill for event in world.events if isinstance(event, SkillPicked)]
            bodies = json.dumps([body["messages"] for body in world.llm.bodies[seen:]])
            bodies = re.sub(r"\d\d:\d\d", "", bodies)
            await world.asks("/export", "messages")
            (file,) = world.screen().shown[-1].message.files
            lines = [json.loads(line) for line in file.path.read_text("utf-8").splitlines()]
            return [bodies, [line | {"timestamp": ""} for line in lines]], hints

    first, hints = await replayed()
    (tmp_path / "tieline.db").unlink()
    second, again = await replayed()
    assert len(set(hints)) > 1, "it is drawn"
    assert hints == again
    assert first == second
