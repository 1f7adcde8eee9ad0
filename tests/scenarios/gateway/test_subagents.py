"""Sub-agents through the whole gateway: by hand, at work, stopped, and out of reach for other conversations."""

import json
import random
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agent.core.ids import ConversationId, PersonId
from agent.storage import approval_rows
from agent.tools.files.edit import COVERS
from tests.fakes.llm_server import LlmServer
from tests.fakes.waiting import until
from tests.gateway.world import ANN, BOB, GROUP, World

SUB = "You are a sub-agent"
BROKEN = "---\nstepps: 3\n---\n\nYou are broken.\n"
# Who is in which place, and who shares what is kept there.
PLACES = {"anns": (ANN, ANN, "ann"), "bobs": (BOB, BOB, "bob"), "group": (BOB, GROUP, "group")}
CANARY = re.compile(r"canary-(\w+)-\d+")
STEPS = 18


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"blocks": [{"type": "tool_use", "name": name, "input": arguments}]}


def below(reply: Mapping[str, Any], **match: Any) -> dict[str, Any]:
    """A rule: what a sub-agent's model answers."""
    return {"match": {"system_contains": SUB, **match}, "reply": reply}


def of_sub(world: World) -> list[dict[str, Any]]:
    return [body for body in world.llm.bodies if SUB in json.dumps(body["messages"][0])]


@pytest.fixture
def unstarted(tmp_path: Path, sqlite_template: Path, llm: LlmServer) -> World:
    folder = tmp_path / "agents"
    folder.mkdir()
    (folder / "broken.md").write_text(BROKEN)
    (folder / "counter.md").write_text("---\ndescription: Counts things.\ntools: [calculate]\n---\n\nYou count.\n")
    return World(tmp_path, sqlite_template, llm)


async def test_a_person_has_one_do_a_task(unstarted: World) -> None:
    async with unstarted.process() as world:
        world.script(below(call("calculate", expression="2*21"), tool_result=False), below({"text": "It is **42**."}))
        listed = await world.asks("/agent", "/agent researcher find out")
        assert "- broken cannot be used: stepps: unknown key; did you mean steps?" in listed
        assert "- counter: Counts things." in listed
        assert "- researcher: Looks things up" in listed
        assert "There is no sub-agent conter; there is: broken" in await world.asks("/agent conter add")
        assert "broken cannot be used: stepps" in await world.asks("/agent broken add")
        assert "Name a sub-agent" in await world.asks("/agent counter")
        assert world.llm.bodies == []
        await world.answered("/agent Counter how much is 2*21?", "It is 42.")
        assert len(of_sub(world)) == len(world.llm.bodies) == 2, "no other model has been asked"
        assert [tool["function"]["name"] for tool in world.llm.bodies[0]["tools"]] == ["calculate"]
        world.script()
        await world.answered("and what was it?", "echo")
        history = json.dumps(world.llm.bodies[-1]["messages"][1:])
        assert "Have the sub-agent counter do this: how much is 2*21?" in history
        assert "42" in history
        assert "calculate" not in history, "how it came to be stays below"


async def test_what_fails_is_said_too_and_in_the_persons_language(unstarted: World) -> None:
    async with unstarted.process() as world:
        gives_up = call("fail", reason="Nothing can be counted.")
        gives_up["blocks"][0]["unoffered"] = True  # its loop takes it, though no request names it
        world.script(below(gives_up))
        assert "Unteragenten für /agent" in await world.asks("/agent", "Nenne einen", language="de")
        await world.answered("/agent counter what?", "Nothing can be counted.", language="de")


@pytest.mark.requirement("Z-04")
async def test_it_is_seen_at_work_and_stopped(unstarted: World) -> None:
    async with unstarted.process() as world:
        world.script(below({"text": "never", "hold": "gate"}))
        assert "I am not working on anything" in await world.asks("/agents", "Counts things.")
        await world.say("/agent counter count the stars")
        await until(lambda: bool(of_sub(world)))
        shown = await world.asks("/agents", "Sub-agents at work:")
        assert re.search(r"▸ counter · step 1/10 · \d+ s\n   count the stars", shown)
        assert "Sub-agents at work" not in await world.asks("/agents", "I am not working", person=BOB)
        await world.say("/stop")
        await world.shows("Stopped.")
        await world.settled()
        assert "at work" not in await world.asks("/agents")


async def test_the_list_of_tasks_is_shown_to_people(unstarted: World) -> None:
    async with unstarted.process() as world:
        assert await world.asks("/tasks") == "I have set myself no tasks in this session."
        two = [
            {"type": "tool_use", "name": "task_create", "input": {"description": "boil water"}},
            {
                "type": "tool_use",
                "name": "task_update",
                "input": {"task_id": 1, "status": "completed", "output": "98°"},
            },
        ]
        world.script(
            {"match": {"contains": "make tea", "tool_result": False}, "reply": {"blocks": two}},
            {"match": {"contains": "make tea"}, "reply": {"text": "There."}},
        )
        await world.answered("make tea", "There.")
        assert "1 done, 0 under way, 0 open, 0 failed" in await world.asks("/tasks", "✓ 1 · boil water\n   98°")
        assert "no tasks" in await world.asks("/tasks", person=BOB)
        await world.asks("/new")
        assert "no tasks" in await world.asks("/tasks")


@pytest.mark.requirement("G-25")
async def test_what_is_allowed_in_one_chat_is_not_allowed_for_a_sub_agent_of_another(unstarted: World) -> None:
    async with unstarted.process() as world:
        here, path = ConversationId(f"telegram:{BOB}"), {"path": "a.txt", "content": "x"}
        world.script(
            below(call("write", **path), tool_result=False),
            below({"text": "written"}, tool_result_contains="Written"),
            below({"text": "not written"}),
            {"match": {"tool_result": False}, "reply": call("Agent", task="write it")},
            {"match": {"tool_result_contains": "not written"}, "reply": {"text": "It was refused."}},
            {"match": {"tool_result_contains": "written"}, "reply": {"text": "It was allowed."}},
        )
        await world.database.write(
            lambda conn: approval_rows.allow(
                conn, here, tool="write", covers=COVERS, shown="", by=PersonId(f"telegram:{BOB}"), at=1
            )
        )
        await world.answered("please", "It was refused.", person=ANN)
        await world.answered("please", "It was allowed.", person=BOB)
        files = [str(path.relative_to(world.home)) for path in (world.home / "workspaces").rglob("a.txt")]
        assert len(files) == 1
        assert BOB in files[0]


def through_a_sub_agent(when: str, tool: str, **arguments: Any) -> list[dict[str, Any]]:
    """The conversation's model hands the step on, and a sub-agent's calls that tool."""
    return [
        below(call(tool, **arguments), tool_result=False),
        below({"text": f"looked, {when}"}),
        {
            "match": {"contains": when, "tool_result": False},
            "reply": call("Agent", task=f"look for the password, {when}"),
        },
        {"match": {"contains": when, "tool_result": True}, "reply": {"text": f"done {when}"}},
    ]


@pytest.mark.requirement("G-25")
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
async def test_no_canary_crosses_through_a_sub_agent(
    tmp_path: Path, sqlite_template: Path, llm: LlmServer, seed: int
) -> None:
    draw, place_of_step = random.Random(seed), dict[int, str]()
    unstarted = World(tmp_path, sqlite_template, llm, config="[approvals]\nauto_approve = true\n")
    async with unstarted.process() as world:
        for step in range(STEPS):
            place = place_of_step[step] = draw.choice(list(PLACES))
            person, chat, audience = PLACES[place]
            canary, when, to = f"canary-{audience}-{step}", f"step {step}!", {"person": person, "chat": chat}
            kept = f"The gate password is {canary}."
            match draw.choice(("tell", "keep", "put", "plan", "recall", "sessions", "files", "read", "tasks")):
                case "tell":
                    world.script()
                    await world.answered(f"the gate password is {canary}, {when}", when, **to)
                    continue
                case "keep":
                    rules = through_a_sub_agent(when, "remember", fact=kept)
                case "put":
                    rules = through_a_sub_agent(when, "write", path="password.txt", content=kept)
                case "plan":
                    rules = through_a_sub_agent(when, "task_create", description=kept)
                case "recall":
                    rules = through_a_sub_agent(when, "recall", query="gate password canary")
                case "sessions":
                    rules = through_a_sub_agent(when, "session_search", query="canary password")
                case "files":
                    rules = through_a_sub_agent(when, "grep", pattern="canary", path="/workspace")
                case "read":
                    rules = through_a_sub_agent(
                        when, "read", path=f"../telegram%3A{draw.choice((ANN, BOB))}/password.txt"
                    )
                case _:
                    rules = through_a_sub_agent(when, "task_list")
            world.script(*rules)
            await world.answered(f"the password, {when}", f"done {when}", **to)
    found, seen = [], 0
    for body in llm.bodies:
        words = [str(message["content"]) for message in body["messages"] if message["role"] == "user"]
        audience = PLACES[place_of_step[int(re.findall(r"step (\d+)!", words[-1])[-1])]][2]
        hits = list(CANARY.finditer(json.dumps(body)))
        seen += bool(hits) and SUB in json.dumps(body["messages"][0])
        found += [f"{hit.group()} in a request of {audience}" for hit in hits if hit[1] != audience]
    assert found == []
    assert seen, "and sub-agents do see what is theirs"


async def test_one_that_may_have_read_what_is_forgotten_ends(unstarted: World) -> None:
    """Its messages are stored nowhere: they cannot be rewritten as the conversation's are."""
    async with unstarted.process() as world:
        step = call("calculate", expression="2*21")
        await world.answered("we keep the code of the harbour here", "harbour", chat=f"{GROUP}:7")
        world.script(
            below(step | {"hold": "step"}, tool_result=False), below({"text": "It is 42."}), {"reply": {"text": "Oh."}}
        )
        await world.hears(world.said("/agent counter use the code heron", chat=f"{GROUP}:7"))
        await world.until_asked(2)
        await world.asks("/memory add The code is heron.", "Kept as fact", chat=GROUP)
        await world.hears(world.said("/memory forget heron", chat=GROUP))
        await world.shows("Forget this for good?", GROUP)
        await world.hears(world.said("yes", chat=GROUP))
        await world.shows("Forgotten.", GROUP)
        world.llm.release("step")
        await world.settled()
        assert len(of_sub(world)) == 1
        assert "may have read was forgotten" in json.dumps(world.screen(f"{GROUP}:7").texts)
