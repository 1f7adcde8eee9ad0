"""Folder and environment of a turn's tools: set by hooks and by the model, kept with the session."""

import json
import re
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent.core.ids import ConversationId
from agent.core.tools import ExecutionContext
from agent.storage import audit_rows
from agent.tools.files.paths import workspace_of
from tests.fakes.llm_server import LlmServer
from tests.gateway.world import World, calling
from tests.live.scenes import CHAT, WorldOf, model, put, turns_of, write_agent

OPEN = '[tools.shell]\nmode = "open"\n[approvals]\nauto_approve = true\n[skills]\nenabled = true\n'
COLOUR = '[[hooks]]\nname = "colour"\non = "session_start"\ncommand = "echo COLOUR=blue-$TIELINE_SESSION"\n'
SHOW = "echo colour=$COLOUR taste=$TASTE in $(basename $PWD)"
SKILL = "---\nname: taste\ndescription: How things taste.\nenv:\n  TASTE: sweet\n---\n\nTaste it.\n"


def results(world: World) -> list[str]:
    """The output of the commands, as the model read it."""
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


@pytest.mark.requirement("Z-114")
async def test_after_a_kill_a_session_goes_on_where_its_last_turn_has_moved(
    world_of: WorldOf, llm: LlmServer, tmp_path: Path
) -> None:
    """The context of a turn ends with it, though the turn is the last that its process stores."""
    write_agent(tmp_path, tools=("shell", "set_working_directory", "load_skill"))
    skill = tmp_path / "skills" / "taste"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(SKILL)
    (workspace_of(tmp_path, CHAT) / "inner").mkdir(parents=True)
    world = world_of(config=OPEN + COLOUR + model(llm, window=64_000), providers=())
    rules = (
        *calling("taste it", "load_skill", name="taste"),
        *calling("move there", "set_working_directory", path="inner"),
        *calling("show it", "shell", command=SHOW),
    )
    for words in ("taste it", "move there"):
        async with world.process():
            world.script(*rules)
            await world.answered(words, f"Done: {words}")
    async with world.process():
        await world.answered("show it", "Done: show it")
        assert "taste=sweet in inner" in results(world)[-1]


def stored(home: Path) -> dict[str, str]:
    """All that the database holds, as text, by table and column."""
    found: dict[str, str] = {}
    with closing(sqlite3.connect(f"file:{home}/tieline.db?mode=ro", uri=True)) as database:
        tables = [
            name
            for (name,) in database.execute(
                "select name from sqlite_master where type = 'table' and sql not like '%virtual%'"
            )
        ]
        for table in tables:
            cursor = database.execute(f'select * from "{table}"')
            for row in cursor:
                for (name, *_), value in zip(cursor.description, row, strict=True):
                    found[f"{table}.{name}"] = f"{found.get(f'{table}.{name}', '')}\n{value}"
    return found


@pytest.mark.requirement("Z-114")
async def test_where_a_turn_works_is_written_nowhere_and_made_anew_by_the_process_that_goes_on(
    world_of: WorldOf, llm: LlmServer, tmp_path: Path
) -> None:
    """Not even for a turn that waits for a person, which another process, with other settings, goes on with."""
    write_agent(tmp_path, tools=("shell", "set_working_directory"))
    asking = '[tools.shell]\nmode = "open"\n{more}[approvals]\nask = ["shell"]\n[skills]\nenabled = false\n'
    world = world_of(config=asking.format(more="output_kb = 4321\n") + COLOUR + model(llm, window=64_000), providers=())
    (workspace_of(tmp_path, CHAT) / "inner").mkdir(parents=True)
    moving = calling("move there", "set_working_directory", path="inner")
    showing = calling("show it", "shell", command=f"{SHOW}; ulimit -t")
    async with world.process():
        world.script(*moving, *showing)
        await world.answered("move there", "Done: move there")
        await world.say("show it")
        await world.shows("basename")
        texts = stored(tmp_path)
        assert "basename" in "".join(text for name, text in texts.items() if name.startswith("approval.")), "it waits"
        assert texts["session.cwd"].strip().splitlines()[-1] == "inner", "what a session has chosen is kept with it"
        for name, text in texts.items():
            assert str(tmp_path) not in text, (name, "a folder of this process")
            assert not re.search(r"(?<!\d)4321(?!\d)", text), (name, "a setting of this process")
            assert ExecutionContext.__name__ not in text, name
            assert "at_hand" not in text, name
    world.config = asking.format(more="cpu_s = 77\n") + COLOUR + model(llm, window=64_000)
    async with world.process():
        world.script(*moving, *showing)
        await world.say("/approve")
        await world.shows("Done: show it")
        assert "colour=blue-" in results(world)[-1]
        assert "in inner" in results(world)[-1]
        assert "77" in results(world)[-1].splitlines()[2:], "the settings of the process that goes on"
