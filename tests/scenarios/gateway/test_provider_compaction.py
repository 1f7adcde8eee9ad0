"""Summaries that a model's service writes and seals: only where one provider alone answers, and never the only copy."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import select

from agent.core.messages import SummaryPart
from agent.storage.payloads import decode_parts
from agent.storage.tables import message
from tests.fakes.llm_server import LlmServer
from tests.gateway.world import World

BETA = "compact-2026-09-04"
TOPICS = (
    "the harbour at dawn",
    "the price of barley",
    "a bridge of rope",
    "the colour of slate",
    "an old ferry",
    "rain",
)


def config(llm: LlmServer, *, more: str = "", failover: str = "") -> str:
    one = f'type = "anthropic"\nbase_url = "{llm.url}"\napi_key = "sk-double"\ncontext_window = 128000\n'
    return (
        f"[memory]\nprovider_compaction = true\n{more}\n[llm]\nfailover = [{failover}]\n"
        f'[[llm.providers]]\nname = "claude"\nmodel = "claude-a"\n{one}'
        f'[[llm.providers]]\nname = "other"\nmodel = "claude-b"\n{one}'
    )


def compactions(world: World) -> list[dict[str, Any]]:
    return [body for body in world.llm.bodies if body.get("compaction")]


def asked(world: World, words: str) -> dict[str, Any]:
    """The newest request that a person's words are in, other than one for a summary."""
    plain = [body for body in world.llm.bodies if not body.get("compaction")]
    return next(body for body in reversed(plain) if words in json.dumps(body["messages"][-1]))


async def talk(world: World) -> None:
    for topic in TOPICS:
        await world.answered(f"Tell me about {topic}. {'And more of it. ' * 20}", topic)


async def sealed(world: World) -> list[SummaryPart]:
    rows = await world.database.read(lambda conn: conn.execute(select(message.c.parts)).scalars().all())
    return [part for row in rows for part in decode_parts(row) if isinstance(part, SummaryPart)]


async def test_the_service_writes_the_summary_and_gets_it_back_first(
    world_of: Callable[..., World], llm: LlmServer
) -> None:
    made = world_of(config=config(llm), providers=())
    async with made.process() as world:
        await talk(world)
        await world.asks("/compact")
        await world.settled()
        (request,) = compactions(world)
        assert request["compaction"] == {"type": "summarize"}
        assert TOPICS[0] in json.dumps(request["messages"])
        await world.answered("And now?")
        messages = asked(world, "And now?")["messages"]
        first = messages[0]
        assert first["role"] == "assistant"
        assert (first["content"][0]["type"], first["content"][0]["content"][:9]) == ("compaction", "A summary")
        assert TOPICS[1] not in json.dumps(messages[1:])
        assert [BETA in call["headers"].get("anthropic-beta", "") for call in llm.double.calls[-1:]] == [True]
    async with made.process() as world:  # our own history is kept, and the seal with it
        await world.answered("Still there?")
        assert asked(world, "Still there?")["messages"][0]["content"][0]["type"] == "compaction"
        everything = await world.database.read(lambda conn: conn.execute(select(message.c.parts)).scalars().all())
        assert all(any(topic in row for row in everything) for topic in TOPICS)


async def test_another_provider_reads_the_summary_as_text(world_of: Callable[..., World], llm: LlmServer) -> None:
    async with world_of(config=config(llm), providers=()).process() as world:
        await talk(world)
        await world.asks("/compact")
        await world.settled()
        await world.asks("/provider other")
        await world.answered("And now?")
        first = asked(world, "And now?")["messages"][0]
        assert asked(world, "And now?")["model"] == "claude-b"
        assert (first["role"], first["content"][0]["type"]) == ("user", "text")
        assert "A summary of" in first["content"][0]["text"]


@pytest.mark.parametrize(
    ("more", "failover"),
    [
        pytest.param('summary_provider = "other"', "", id="another provider writes summaries"),
        pytest.param("", '"other"', id="another provider may stand in"),
    ],
)
async def test_where_two_providers_may_be_asked_we_write(
    world_of: Callable[..., World], llm: LlmServer, more: str, failover: str
) -> None:
    async with world_of(config=config(llm, more=more, failover=failover), providers=()).process() as world:
        await talk(world)
        await world.asks("/compact")
        await world.settled()
        assert compactions(world) == []
        assert any(part.text and not part.sealed for part in await sealed(world))


async def test_a_service_that_offers_none_is_asked_once(world_of: Callable[..., World], llm: LlmServer) -> None:
    llm.double.settings["compaction"] = False
    made = world_of(config=config(llm), providers=())
    async with made.process() as world:
        await talk(world)
        await world.asks("/compact")
        await world.settled()
        assert len(compactions(world)) == 1
        assert [part.sealed for part in await sealed(world)] == [""], "we wrote it"
        await talk(world)
        await world.asks("/compact")
        await world.settled()
        assert len(compactions(world)) == 1
        await world.answered("And now?")
    async with made.process() as world:
        await talk(world)
        await world.asks("/compact")
        assert len(compactions(world)) == 1, "it is remembered"


async def test_a_seal_that_is_not_taken_back_goes_as_text(world_of: Callable[..., World], llm: LlmServer) -> None:
    async with world_of(config=config(llm), providers=()).process() as world:
        await talk(world)
        await world.asks("/compact")
        await world.settled()
        llm.double.summaries.clear()
        await world.answered("And now?")
        first = asked(world, "And now?")["messages"][0]
        assert (first["role"], first["content"][0]["type"]) == ("user", "text")
        assert "A summary of" in first["content"][0]["text"]


async def test_what_is_forgotten_leaves_the_seal_as_well(world_of: Callable[..., World], llm: LlmServer) -> None:
    async with world_of(config=config(llm), providers=()).process() as world:
        llm.double.script = [{"match": {}, "reply": {"summary": "They like gooseberries.", "text": "Yes."}}]
        for topic in TOPICS:
            await world.answered(f"Tell me about {topic}. {'And more. ' * 20}", "Yes.")
        await world.asks("/compact")
        await world.settled()
        assert any("gooseberries" in part.sealed for part in await sealed(world))
        await world.asks("/memory forget gooseberries")
        actions = next(shown.actions for shown in reversed(world.screen().shown) if shown.actions)
        await world.press(actions[0])
        await world.settled()
        assert not any("gooseberries" in part.sealed + part.text for part in await sealed(world))


async def test_nothing_is_asked_of_the_service_by_default(world_of: Callable[..., World], llm: LlmServer) -> None:
    shipped = config(llm).replace("[memory]\nprovider_compaction = true\n", "")
    async with world_of(config=shipped, providers=()).process() as world:
        await talk(world)
        await world.asks("/compact")
        await world.settled()
        assert compactions(world) == []
