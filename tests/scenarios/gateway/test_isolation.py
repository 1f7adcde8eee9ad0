"""The data of one conversation is out of reach for every other, in any order of events."""

import json
import random
from collections.abc import Callable, Sequence

import pytest
from sqlalchemy import func, select

from agent.storage.tables import approval, inbox, tool_call
from tests.fakes.waiting import until
from tests.gateway.world import ANN, BOB, GROUP, World
from tests.scenarios.gateway.test_approvals import ASK, CALL, action_of, press

CHATS = ((ANN, ANN), (BOB, BOB), (ANN, GROUP), (BOB, GROUP))  # who, where
STEPS = 14


def canary(chat: str) -> str:
    return f"canary{chat.removeprefix('-')}x"


async def step(world: World, chance: random.Random, chat: str, person: str) -> None:
    """Something that a person may do; whatever they write names the place's own canary."""
    match chance.choice(("tell", "tell", "work", "steal", "/approvals", "/new", "/export")):
        case "tell":
            await world.say(f"remember {canary(chat)}", person=person, chat=chat)
        case "work":
            await world.say(f"work it out {canary(chat)}", person=person, chat=chat)
        case "steal":
            waiting = await world.database.read(lambda conn: list(conn.execute(select(approval.c.id, approval.c.conv))))
            foreign = [row.id for row in waiting if row.conv != f"telegram:{chat}"]
            if foreign:
                await press(world, f"a:{chance.choice(foreign)}:y", person=person, chat=chat)
                assert world.screen(chat).notes[-1] == "There is no such request in this chat."
                await world.say(f"/approve {chance.choice(foreign)}", person=person, chat=chat)
        case command:
            await world.say(command, person=person, chat=chat)


async def answer_all(world: World) -> None:
    """Let the person who asked approve, until every turn has ended."""
    query = select(approval.c.id, approval.c.conv, approval.c.requester).where(approval.c.status == "pending")
    left = select(func.count()).select_from(inbox).where(inbox.c.status == "new")

    async def over() -> bool:
        for row in await world.database.read(lambda conn: list(conn.execute(query))):
            chat, person = row.conv.removeprefix("telegram:"), row.requester.removeprefix("telegram:")
            await press(world, f"a:{row.id}:y", person=person, chat=chat, id=row.id)
        return not await world.database.read(lambda conn: conn.execute(left).scalar_one())

    await until(over)


def foreign_to(chat: str) -> Sequence[str]:
    return [canary(other) for other in {place for _, place in CHATS} if other != chat]


@pytest.mark.parametrize("seed", [1, *(pytest.param(more, marks=pytest.mark.slow) for more in (2, 3))])
async def test_a_canary_never_shows_up_elsewhere(world_of: "Callable[..., World]", seed: int) -> None:
    chance = random.Random(seed)
    unstarted = world_of(config=ASK)
    unstarted.script(
        {"match": {"tool_result": True}, "reply": {"text": "It is 42."}},
        {"match": {"contains": "work it out"}, "reply": {"blocks": [CALL]}},
    )
    for _ in range(2):  # two processes, one after the other
        async with unstarted.process() as world:
            for _ in range(STEPS):
                person, chat = chance.choice(CHATS)
                await step(world, chance, chat, person)
            await answer_all(world)
            await world.settled()
    for body in unstarted.llm.bodies:
        words = json.dumps(body)
        mine = {chat for _, chat in CHATS if canary(chat) in words}
        assert len(mine) <= 1, f"a request holds what was told in {mine}"
    for _, chat in CHATS:
        shown = json.dumps([call.text for call in unstarted.screen(chat).calls])
        assert [word for word in foreign_to(chat) if word in shown] == []
    async with unstarted.process() as world:
        rows = await world.database.read(lambda conn: list(conn.execute(select(tool_call.c.conv, tool_call.c.person))))
        assert all(row.conv == "telegram:-1005" or row.conv == row.person for row in rows)


async def test_an_action_is_bound_to_its_chat(world_of: "Callable[..., World]") -> None:
    unstarted = world_of(config=ASK)
    unstarted.script({"match": {"contains": "work it out"}, "reply": {"blocks": [CALL]}})
    async with unstarted.process() as world:
        await world.say("work it out")
        await until(lambda: any(shown.actions for shown in world.screen().shown))
        shown = next(shown for shown in world.screen().shown if shown.actions)
        await press(world, action_of(shown), chat=GROUP)  # the very same person, in another place
        assert world.screen(GROUP).notes[-1] == "There is no such request in this chat."
