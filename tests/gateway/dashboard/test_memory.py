"""The memory on the dashboard: the scope of each conversation, forgetting, export, and what is noted of it."""

import json
from functools import partial

import pytest

from agent.core.ids import ConversationId, PersonId
from agent.memory import rows
from agent.memory.records import audience_of_person
from agent.storage.timestamps import to_timestamp
from gateway.storage.retention import prune
from tests.gateway.dashboard.conftest import Browsing
from tests.gateway.world import BOB, GROUP, calling

ANNS, GROUPS = "/memory/telegram%3A77", "/memory/telegram%3A-1005"
HOSTILE = "<script>alert(1)</script>"


async def facts_of(owner: Browsing, person: str) -> list[str]:
    audience = audience_of_person(PersonId(f"telegram:{person}"))
    kept = await owner.world.database.read(partial(rows.facts, audiences=(audience,), most=50))
    return [one.text for one in kept]


@pytest.mark.requirement("G-77")
async def test_each_conversation_shows_what_its_turns_would_see(owner: Browsing) -> None:
    world = owner.world
    assert "Nobody has talked to the bot yet." in await owner.page("/memory")
    for text, person, chat in (
        (f"Ann likes the blue kettle {HOSTILE}", "77", "77"),
        ("Bob likes the blue teapot", BOB, BOB),
        ("The group likes the blue pan", "77", GROUP),
    ):
        await world.answered("hello", person=person, chat=chat)
        await world.asks(f"/memory add {text}", "Kept as fact", person=person, chat=chat)
    page = await owner.page("/memory")
    assert "Person 77" in page
    assert "this person, in direct chats" in page
    assert "everybody in this place" in page
    anns = await owner.page(ANNS)
    assert "Ann likes the blue kettle" in anns
    assert HOSTILE not in anns
    assert "teapot" not in anns
    assert "blue pan" not in anns
    found = await owner.page(f"{GROUPS}?find=blue")
    assert "The group likes the blue pan" in found
    assert "kettle" not in found
    assert "teapot" not in found
    noted = [(one.action, one.subject) for one in await owner.actions()]
    assert noted == [("memory.read", "telegram:77"), ("memory.read", "telegram:-1005")]
    assert "blue" not in "".join(one.detail for one in await owner.actions())


@pytest.mark.requirement("G-77")
async def test_one_fact_and_then_all_is_forgotten(owner: Browsing) -> None:
    world = owner.world
    await world.answered("the code is heron", "heron")
    await world.asks("/memory add the key is red", "Kept as fact")
    await world.asks("/memory add the door is green", "Kept as fact")
    page = await owner.page(ANNS)
    number = page.partition("the key is red")[2].partition('name="item" value="')[2].partition('"')[0]
    assert await owner.act("/memory-fact/forget/telegram%3A77", item=number) == "Forgotten: 1 fact."
    assert await facts_of(owner, "77") == ["the door is green"]
    again = await owner.post("/memory-fact/forget/telegram%3A77", item=number)
    assert again.status_code == 404
    assert (await owner.post("/memory-fact/forget/telegram%3A77", item="x")).status_code == 409
    lines = (await owner.visitor.client.get("/memory-export/telegram%3A77")).text.splitlines()
    assert "the door is green" in [json.loads(line).get("text") for line in lines]
    assert "Forgotten:" in await owner.act("/memory-all/forget/telegram%3A77")
    assert await facts_of(owner, "77") == []
    await world.answered("what do you know?", "what do you know?")
    assert "heron" not in str(world.llm.bodies[-1]), "the window is read anew as well"
    done = [one.action for one in await owner.actions()]
    assert done == ["memory.read", "memory.forget", "memory.export", "memory.forget_all"]
    assert "red" not in "".join(one.detail for one in await owner.actions())


@pytest.mark.requirement("G-77")
async def test_a_fact_goes_with_the_messages_it_comes_from_as_recall_finds_them(owner: Browsing) -> None:
    world = owner.world
    words = "please note: I am allergic to hazelnuts"
    world.script(*calling(words, "remember", fact="Ann is allergic to hazelnuts."))
    await world.answered(words, "Done:")
    await world.answered("and the kettle is blue", "kettle")
    found = await owner.page(f"{ANNS}?find=hazelnuts")
    assert "please note" in found
    number = (await owner.page(ANNS)).partition('name="item" value="')[2].partition('"')[0]
    told = await owner.act("/memory-fact/forget/telegram%3A77", item=number)
    assert told == "Forgotten: 1 fact and the 4 messages it came from."
    assert "Nothing that is kept holds these words." in await owner.page(f"{ANNS}?find=hazelnuts")
    kettle = await owner.page(f"{ANNS}?find=kettle")
    number = kettle.partition('name="item" value="')[2].partition('"')[0]
    told = await owner.act("/memory-fact/forget/telegram%3A77", item=number)
    assert told == "Forgotten: the exchange, 2 messages."
    assert "Nothing that is kept holds these words." in await owner.page(f"{ANNS}?find=kettle")


@pytest.mark.requirement("G-77")
async def test_a_chat_that_rested_for_long_shows_its_memory_still(owner: Browsing) -> None:
    world = owner.world
    await world.answered("hello")
    await world.asks("/memory add Ann likes tea", "Kept as fact")
    await world.answered("hello", person=BOB, chat=GROUP)
    await world.asks("/memory add The group likes pans", "Kept as fact", chat=GROUP)
    later = to_timestamp(world.clock.now()) + 1
    await world.database.write(
        partial(prune, inbox_before=later, outbox_before=later, runs_before=later, audit_before=later, now=later)
    )
    anns = await owner.page(ANNS)
    assert "Ann likes tea" in anns
    assert "known to this person, in direct chats" in anns
    groups = await owner.page(GROUPS)
    assert "The group likes pans" in groups
    assert "known to everybody in this place" in groups
    assert "Forgotten:" in await owner.act("/memory-all/forget/telegram%3A77")
    assert await facts_of(owner, "77") == []


@pytest.mark.requirement("G-77")
async def test_what_belongs_to_others_is_not_forgotten_from_here(owner: Browsing) -> None:
    world = owner.world
    await world.answered("hello")
    await world.answered("hello", person=BOB, chat=BOB)
    await world.asks("/memory add Bob likes tea", "Kept as fact", person=BOB, chat=BOB)
    page = await owner.page(f"/memory/telegram%3A{BOB}")
    number = page.partition('name="item" value="')[2].partition('"')[0]
    refused = await owner.post("/memory-fact/forget/telegram%3A77", item=number)
    assert refused.status_code == 404
    assert await facts_of(owner, BOB) == ["Bob likes tea"]


async def test_misses_of_the_week_are_listed_and_noted(owner: Browsing) -> None:
    world = owner.world
    await world.answered("hello")
    world.services.memory.misses.note(ConversationId("telegram:77"), f"where is {HOSTILE}", "hybrid")
    await world.services.memory.misses.flush()
    assert "Searches of the last week that found nothing: 1." in await owner.page("/memory")
    page = await owner.page("/memory-misses")
    assert "where is &lt;script&gt;" in page
    assert "Person 77" in page
    assert (await owner.actions())[-1].action == "memory.misses"


async def test_a_conversation_that_there_is_not_is_said(owner: Browsing) -> None:
    response = await owner.visitor.client.get("/memory/telegram%3A404", headers={"accept": "text/html"})
    assert response.status_code == 404
    assert "There is no conversation telegram:404." in response.text
