"""Secrets told or filed in one place, over random schedules of turns, sessions, tools, files: none reaches another.

Every request that leaves for the model is looked at, whoever's turn made it.
"""

import json
import random
import re
from collections.abc import Callable
from typing import Any

import pytest

from agent.core.ids import ConversationId, PersonId
from agent.inbox import Incoming
from agent.storage import inbox_rows
from agent.storage.payloads import encode_incoming
from agent.storage.timestamps import to_timestamp
from tests.gateway.world import ANN, BOB, GROUP, World

TOPIC = f"{GROUP}:7"  # a topic of the group: the same people
# Who is in which place, and who shares what is kept there.
PLACES: dict[str, tuple[str, str, str]] = {
    "anns-chat": (ANN, ANN, "ann"),
    "bobs-chat": (BOB, BOB, "bob"),
    "group-by-ann": (ANN, GROUP, "group"),
    "group-by-bob": (BOB, GROUP, "group"),
    "topic-by-ann": (ANN, TOPIC, "group"),
}
CANARY = re.compile(r"canary-(\w+)-\d+")
STEPS = 30
UNASKED = "[approvals]\nauto_approve = true\n"


def tool(name: str, arguments: dict[str, Any], when: str) -> list[dict[str, Any]]:
    call = {"type": "tool_use", "name": name, "input": arguments}
    return [
        {"match": {"contains": when, "tool_result": False}, "reply": {"blocks": [call]}},
        {"match": {"contains": when, "tool_result": True}, "reply": {"text": f"done {when}"}},
    ]


async def remind(world: World, place: str, words: str, step: int) -> None:
    """A schedule fires there, with its task for the model, as `gateway.scheduler.firing` puts it into the inbox."""
    person, chat, _ = PLACES[place]
    conversation = ConversationId(f"telegram:{chat}")
    incoming = Incoming(
        text=f"[Scheduled task] {words}",
        person=PersonId(f"telegram:{person}"),
        chat_type="direct" if chat == person else "group",
        received_at=world.clock.now(),
    )
    at = to_timestamp(world.clock.now())
    await world.database.write(
        lambda conn: inbox_rows.admit(
            conn,
            conversation=conversation,
            kind="reminder",
            dedup=f"rem:{step}",
            payload=encode_incoming(incoming),
            at=at,
        )
    )
    world.services.dispatcher.wake(conversation)


def leaks(world: World, place_of_step: dict[int, str]) -> list[str]:
    """Canaries that stand in a request of another audience than theirs; each request holds the number of its step."""
    found = []
    for body in world.llm.bodies:
        words = [str(message["content"]) for message in body["messages"] if message["role"] == "user"]
        steps = re.findall(r"step (\d+)!", words[-1])
        audience = PLACES[place_of_step[int(steps[-1])]][2]
        whole = json.dumps(body)
        found += [f"{hit.group()} in a request of {audience}" for hit in CANARY.finditer(whole) if hit[1] != audience]
    return found


def prying(world: World, draw: random.Random) -> tuple[str, dict[str, Any]]:
    """A call that looks into the place's own folder, or tries to get out of it."""
    folders = sorted(one.name for one in (world.home / "workspaces").glob("*"))
    other = draw.choice(folders) if folders else "nowhere"
    return draw.choice(
        (
            ("read", {"path": "password.txt"}),
            ("grep", {"pattern": "canary"}),
            ("read", {"path": f"/workspace/../{other}/password.txt"}),
            ("read", {"path": str(world.home / "workspaces" / other / "password.txt")}),
            ("shell", {"command": f"cat password.txt ../{other}/* {world.home}/workspaces/{other}/*"}),
        )
    )


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.requirement("G-25")
async def test_no_canary_crosses(world_of: "Callable[..., World]", seed: int) -> None:
    async with world_of(config=UNASKED).process() as world:
        await wander(world, random.Random(seed))


async def wander(world: World, draw: random.Random) -> None:
    place_of_step: dict[int, str] = {}
    for step in range(STEPS):
        place = place_of_step[step] = draw.choice(list(PLACES))
        person, chat, audience = PLACES[place]
        canary = f"canary-{audience}-{step}"
        to = {"person": person, "chat": chat}
        match draw.choice(("tell", "tell", "keep", "ask", "search", "new", "remind", "file", "pry", "pry")):
            case "tell":
                await world.answered(f"the gate password is {canary}, step {step}!", f"step {step}!", **to)
            case "keep":
                when = f"keep the password, step {step}!"
                world.script(*tool("remember", {"fact": f"The gate password is {canary}."}, when))
                await world.answered(when, f"done {when}", **to)
                world.script()
            case "ask":
                await world.answered(f"which gate password is it, step {step}!", f"step {step}!", **to)
            case "search":
                when = f"look up the gate password, step {step}!"
                name = draw.choice(("recall", "session_search"))
                world.script(*tool(name, {"query": "gate password canary"}, when))
                await world.answered(when, f"done {when}", **to)
                world.script()
            case "file":
                when = f"file the gate password, step {step}!"
                world.script(*tool("write", {"path": "password.txt", "content": f"It is {canary}."}, when))
                await world.answered(when, f"done {when}", **to)
                world.script()
            case "pry":
                when = f"look up the filed password, step {step}!"
                world.script(*tool(*prying(world, draw), when))
                await world.answered(when, f"done {when}", **to)
                world.script()
            case "new":
                await world.asks("/new", **to)
            case _:
                await remind(world, place, f"say the gate password, step {step}!", step)
                await world.shows(f"step {step}!", chat)
                await world.settled()
    assert leaks(world, place_of_step) == []
    recalled = [one for one in map(json.dumps, world.llm.bodies) if "<memory>" in one and CANARY.search(one)]
    assert recalled, "and within an audience they do come back"
    results = [one for body in world.llm.bodies for one in body["messages"] if one["role"] == "tool"]
    assert any(CANARY.search(str(one["content"])) for one in results), "files as well"
