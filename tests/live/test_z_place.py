"""Where the tools of a turn work: its folder and environment, set by hooks and by the model, kept with the session."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agent.core.ids import ConversationId
from agent.storage import audit_rows
from agent.tools.workspace import workspace_of
from tests.fakes.llm_server import LlmServer
from tests.gateway.world import World, calling
from tests.live.scenes import CHAT, WorldOf, model, put, turns_of, write_agent

OPEN = '[tools.shell]\nmode = "open"\n[approvals]\nauto_approve = true\n[skills]\nenabled = true\n'
COLOUR = '[[hooks]]\nname = "colour"\non = "session_start"\ncommand = "echo COLOUR=blue-$TIELINE_SESSION"\n'
SHOW = "echo colour=$COLOUR taste=$TASTE in $(basename $PWD)"
SKILL = "---\nname: taste\ndescription: How things taste.\nenv:\n  TASTE: sweet\n---\n\nTaste it.\n"


def results(world: World) -> list[str]:
    """What the commands printed, as the model read it."""
    found = []
    for body in turns_of(world):
        newest = body["messages"][-1]
        if newest["role"] == "tool":
            found.append(str(newest["content"]))
    return [text for text in found if "colour=" in text]


@pytest.mark.requirement("Z-110", "Z-111", "Z-112", "Z-113", "Z-143")
async def test_folder_and_environment_hold_for_the_turn_and_outlive_the_process(
    world_of: WorldOf, llm: LlmServer, tmp_path: Path
) -> None:
    write_agent(tmp_path, tools=("shell", "set_working_directory", "load_skill", "write"))
    skill = tmp_path / "skills" / "taste"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(SKILL)
    world = world_of(config=OPEN + COLOUR + model(llm, window=64_000), providers=())
    put(world, "note.txt", "a note")
    (workspace_of(tmp_path, CHAT) / "inner").mkdir()
    move = {"type": "tool_use", "name": "set_working_directory", "input": {"path": "inner"}}
    taste = {"type": "tool_use", "name": "load_skill", "input": {"name": "taste"}}
    show = {"type": "tool_use", "name": "shell", "input": {"command": SHOW}}
    rules: list[Mapping[str, Any]] = [
        {"match": {"contains": "move there", "tool_result": False}, "reply": {"blocks": [move, taste]}},
        {"match": {"contains": "move there", "tool_result_contains": "colour="}, "reply": {"text": "moved"}},
        {"match": {"contains": "move there", "tool_result": True}, "reply": {"blocks": [show]}},
        *calling("show it", "shell", command=SHOW),
    ]
    async with world.process():
        world.script(*rules)
        await world.answered("move there", "moved")
        before = results(world)[-1]
        assert "colour=blue-" in before
        assert "in inner" not in before, "a move within the turn does not count yet"
        assert "taste= " in before, "nor does what a skill sets that the model called up"
        assert "counts from the next message on: TASTE" in json.dumps(turns_of(world)[1]["messages"])
        await world.answered("show it", "Done: show it")
        assert "in inner" in results(world)[-1]
        assert "taste=sweet" in results(world)[-1]
        session = results(world)[-1].partition("colour=blue-")[2].split()[0]
        records = await world.database.read(lambda conn: audit_rows.newest(conn, conversation=ConversationId(CHAT)))
        assert {record.session for record in records} == {session}
    async with world.process():
        world.script(*rules)
        await world.answered("show it", "Done: show it")
        assert f"colour=blue-{session} taste=sweet in inner" in results(world)[-1], "as the process before had left it"
        await world.asks("/new")
        await world.answered("show it", "Done: show it")
        assert "in inner" not in results(world)[-1], "another session begins anew"
        assert session not in results(world)[-1]
        assert "colour=blue-" in results(world)[-1]
