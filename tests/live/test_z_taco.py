"""Long results of tools shortened by a model in the running gateway, and what is never shortened."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from sqlalchemy import select

from agent.core.events import ToolOutputCompressed
from agent.storage.tables import message as message_table
from tests.fakes.llm_server import LlmServer
from tests.gateway.world import World, calling
from tests.live.scenes import WorldOf, asides, happened, model, page, put, rule, turns_of, write_agent

TACO = "You shorten the output of a program"
ON = "[tools.taco]\nenabled = true\n[skills]\nenabled = false\n"
SHORT = "exit code 0; total 4711 in /srv/data"


def results(world: World) -> list[str]:
    """The results in the newest request of a turn."""
    return [str(one["content"]) for one in turns_of(world)[-1]["messages"] if one["role"] == "tool"]


def many_lines(words: int) -> str:
    """A page of so many lines; one long line would be cut by the tool itself."""
    return page(1, words).replace(" w", "\nw")


async def read_it(world: World, words: int) -> str:
    put(world, "page.txt", many_lines(words))
    await world.answered("read it", "Done: read it")
    return results(world)[-1]


@pytest.mark.requirement("Z-98", "Z-99", "Z-100", "Z-101", "Z-102", "Z-105", "Z-108", "Z-109")
async def test_a_long_result_is_shortened_before_it_enters_the_conversation(
    world_of: WorldOf, llm: LlmServer, tmp_path: Path
) -> None:
    write_agent(tmp_path)
    cheap = ON.replace("enabled = true\n[skills]", 'enabled = true\nprovider = "b"\n[skills]')
    config = cheap + model(llm, window=64_000) + model(llm, "b", window=64_000)
    async with world_of(config=config, providers=()).process() as world:
        world.script(rule(SHORT, system_contains=TACO), *calling("read it", "read", path="page.txt"))
        assert "page 1 begins" in await read_it(world, 200), "at or below the threshold nothing is touched"
        assert not asides(world, TACO)
        shown = await read_it(world, 2_000)
        assert SHORT in shown
        assert "page 1 begins" not in shown
        assert len(asides(world, TACO)) == 1
        asked = next(body for body in llm.bodies if not body.get("tools"))
        assert asked["model"] == "model-b", "the provider it names is looked up when it is asked"
        question = json.dumps(asked["messages"])
        for kept in ("paths", "exit codes", "structure", "less than 500 tokens", "page 1 begins"):
            assert kept in question
        before = turns_of(world)[-2]["messages"]
        after = turns_of(world)[-1]["messages"]
        assert [one for one in before if one["role"] == "system"] == [one for one in after if one["role"] == "system"]
        parts = await world.database.read(lambda conn: list(conn.execute(select(message_table.c.parts)).scalars()))
        assert sum("original_tokens" in text for text in parts) == 1, "the stored part says what it is"
        told = happened(world, ToolOutputCompressed)
        assert len(told) == 1
        assert told[0].original_tokens > 2_000 > 500 > told[0].compressed_tokens


@pytest.mark.requirement("Z-106")
@pytest.mark.parametrize("status", [500, 400])
async def test_where_no_model_can_be_had_the_raw_result_is_used(
    world_of: WorldOf, llm: LlmServer, tmp_path: Path, status: int
) -> None:
    write_agent(tmp_path)
    async with world_of(config=ON + model(llm, window=64_000), providers=()).process() as world:
        call = {"type": "tool_use", "name": "read", "input": {"path": "page.txt"}}
        put(world, "page.txt", many_lines(2_000))
        world.script(
            {"match": {"system_contains": TACO}, "reply": {"text": ""}},
            {"match": {"contains": "read it", "tool_result": False}, "reply": {"blocks": [call]}},
            rule("Done: read it", contains="read it"),
        )
        if status == 400:
            world.script(*llm.double.script[1:], rule("x" * 40_000, system_contains=TACO))
        await world.answered("read it", "Done: read it")
        assert "page 1 begins" in results(world)[-1]
        assert not happened(world, ToolOutputCompressed)


@pytest.mark.requirement("Z-104", "Z-107")
@pytest.mark.parametrize(
    ("settings", "ask"),
    [
        ("[skills]\nenabled = false\n", ""),
        (ON.replace("enabled = true\n[skills]", 'enabled = true\ncompressible_tools = ["shell"]\n[skills]'), ""),
        (ON, '[approvals]\nask = ["read"]\n'),
    ],
    ids=["as shipped", "another tool", "a person allowed this call"],
)
async def test_what_is_left_alone(world_of: WorldOf, llm: LlmServer, tmp_path: Path, settings: str, ask: str) -> None:
    write_agent(tmp_path)
    async with world_of(config=settings + ask + model(llm, window=64_000), providers=()).process() as world:
        world.script(rule(SHORT, system_contains=TACO), *calling("read it", "read", path="page.txt"))
        put(world, "page.txt", many_lines(2_000))
        if ask:
            await world.say("read it")
            await world.shows("read")
            await world.say("/approve")
            await world.shows("Done: read it")
        else:
            await world.answered("read it", "Done: read it")
        assert "page 1 begins" in results(world)[-1]
        assert not asides(world, TACO)


@asynccontextmanager
async def served(text: str) -> AsyncIterator[str]:
    """A page of a site on this machine; where it is, without the scheme."""

    async def get(request: web.Request) -> web.Response:
        paragraphs = "".join(f"<p>{line}</p>" for line in text.splitlines())
        return web.Response(text=f"<html><body><article>{paragraphs}</article></body></html>", content_type="text/html")

    app = web.Application()
    app.router.add_get("/", get)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@pytest.mark.requirement("Z-103")
@pytest.mark.parametrize("listed", [("shell", "web_scrape", "read"), ("web_fetch",)], ids=["default", "chosen"])
async def test_only_the_tools_on_the_list_are_shortened(
    world_of: WorldOf, llm: LlmServer, tmp_path: Path, listed: tuple[str, ...]
) -> None:
    """Without a list those that give most: shell, web_scrape and read; with one, it takes their place."""
    tools = ("shell", "web_scrape", "read", "web_fetch")
    write_agent(tmp_path, tools=tools)
    chosen = "" if "read" in listed else f"compressible_tools = {json.dumps(listed)}\n"
    async with served(many_lines(2_000)) as site:
        config = (
            f'[tools.taco]\nenabled = true\n{chosen}[skills]\nenabled = false\n[tools.shell]\nmode = "open"\n'
            f'[approvals]\nauto_approve = true\n[tools.web]\ninternal = ["{site}"]\n{model(llm, window=128_000)}'
        )
        async with world_of(config=config, providers=()).process() as world:
            put(world, "page.txt", many_lines(2_000))
            given = {
                "shell": {"command": "cat page.txt"},
                "web_scrape": {"url": f"http://{site}/"},
                "read": {"path": "page.txt"},
                "web_fetch": {"url": f"http://{site}/"},
            }
            for tool in tools:
                world.script(rule(SHORT, system_contains=TACO), *calling(f"use {tool}", tool, **given[tool]))
                await world.answered(f"use {tool}", f"Done: use {tool}")
                told = results(world)[-1]
                assert (SHORT in told) is (tool in listed), (tool, told[:200])
                assert ("w1x17" in told) is (tool not in listed), (tool, told[:200])
