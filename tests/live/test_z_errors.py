"""Errors in the running gateway, by kind: retries, messages to people, and continuation."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from typing import Any

import pytest
from aiohttp import web
from sqlalchemy import text as sql

from agent.core import errors
from agent.core.errors import AgentError, Permanent, Transient
from agent.core.events import LoopFailed
from gateway.channels.errors import ChannelBusy, ChannelError, ChannelGone, ChannelRejected, ChannelUnsure
from tests.fakes.channel import Call
from tests.fakes.llm_server import LlmServer
from tests.fakes.waiting import until
from tests.gateway.world import ANN, BOB, World, calling
from tests.live.scenes import WorldOf, happened, write_agent

QUICK = "[retry]\nbackoff_ms = 20\n[timeouts]\nno_providers_backoff = 0.1\n[skills]\nenabled = false\n"


@pytest.mark.requirement("Z-32")
@pytest.mark.parametrize(
    ("error", "kind", "fault", "calls", "told"),
    [
        ("ProviderBusy", Transient, {"status": 503}, 4, "is not answering just now"),
        ("KeyRefused", Permanent, {"status": 401}, 1, "trying again will not help"),
        (
            "ContextTooLong",
            Permanent,
            {"status": 400, "code": "context_length_exceeded"},
            1,
            "no longer fits the model",
        ),
    ],
)
async def test_the_kind_of_an_error_says_whether_it_is_tried_again_and_what_is_told(
    world_of: WorldOf, llm: LlmServer, error: str, kind: type[AgentError], fault: dict[str, Any], calls: int, told: str
) -> None:
    async with world_of(config=QUICK, providers=("a",)).process() as world:
        llm.fails(kind="error", message="trouble", times=1, **fault)
        if kind is Transient:
            await world.answered("once")
            assert not happened(world, LoopFailed), "it was asked again, and the person has the answer"
            assert len(llm.calls) == 2
        else:
            await world.asks("once", told)
        await world.settled()
        before = len(llm.calls)
        llm.fails(kind="error", message="trouble", times=9, **fault)
        await world.asks("again and again", told)
        await world.settled()
        assert len(llm.calls) == before + calls
        assert happened(world, LoopFailed)[-1].error.startswith(f"{error}:"), "the event names the kind"
        found = getattr(errors, error)
        assert issubclass(found, kind)
        assert issubclass(found, AgentError)
        assert not issubclass(found, Permanent if kind is Transient else Transient)
        llm.double.faults.clear()
        await world.answered("and now")


@pytest.mark.requirement("Z-32")
async def test_what_a_filter_keeps_back_is_mended_as_every_invalid_request(world_of: WorldOf, llm: LlmServer) -> None:
    async with world_of(config=QUICK, providers=("a",)).process() as world:
        await world.answered("the heron")
        # Two refusals: of the history as it was, and as it was read anew.
        llm.fails(kind="error", message="trouble", status=400, code="content_filter", times=2)
        await world.answered("and now")
        assert "the heron" not in str(llm.bodies[-1]["messages"]), "else those words would end the conversation"
        assert not happened(world, LoopFailed)
    assert issubclass(errors.RequestFiltered, errors.RequestInvalid)


@pytest.mark.requirement("Z-32")
async def test_where_the_agent_is_broken_no_run_begins_until_it_is_mended(world: World) -> None:
    write_agent(world.home, tools=("read", "no_such_tool"))
    await world.asks("hello", "cannot be loaded")
    assert not world.llm.calls, "AgentInvalid is no error of a run"
    assert not happened(world, LoopFailed)
    write_agent(world.home)
    await world.answered("hello again")


@asynccontextmanager
async def site(hits: dict[str, int]) -> AsyncIterator[str]:
    """A web server: `/shaky` breaks off twice, `/down` always, `/odd` gives what is no text."""

    async def answer(request: web.Request) -> web.Response:
        name = request.path.strip("/")
        hits[name] = hits.get(name, 0) + 1
        if name == "odd":
            return web.Response(body=b"\0\1", content_type="application/octet-stream")
        if name == "shaky" and hits[name] == 3:
            return web.Response(text="The tide turns at six.")
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    app = web.Application()
    app.router.add_get("/{name}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@pytest.mark.requirement("Z-34")
async def test_a_tool_that_failed_for_now_is_run_again_and_one_that_failed_for_good_is_not(
    world_of: WorldOf,
) -> None:
    hits: dict[str, int] = {}
    async with site(hits) as host, world_of(config=f'[tools.web]\ninternal = ["{host}"]\n').process() as world:
        seen = {}
        for name in ("shaky", "down", "odd"):
            world.script(*calling(f"look at {name}", "web_fetch", url=f"http://{host}/{name}"))
            await world.answered(f"look at {name}", f"Done: look at {name}")
            seen[name] = str(world.llm.bodies[-1]["messages"][-1]["content"])
        assert "The tide turns at six." in seen["shaky"], "tried again, and the model never knew"
        assert "did not answer properly" in seen["down"]
        assert hits["down"] == 3, "the first try and two more, as shipped"
        assert "is no text" in seen["odd"]
        assert hits["odd"] == 1, "the same would come of it"
        assert not happened(world, LoopFailed), "an error of a tool is the model's to deal with"


@pytest.mark.requirement("Z-06", "Z-35")
@pytest.mark.parametrize(
    ("error", "says"),
    [
        (ChannelBusy("too many requests", after_s=0.1), ["one"]),
        (ChannelUnsure("cut off"), ["one"]),
        (ChannelRejected("bad request"), ["My answer could not be shown here: the platform refused it (bad request)."]),
        (ChannelGone("blocked"), []),
        (RuntimeError("a mistake of the adapter"), ["one"]),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
async def test_whatever_a_platform_refuses_costs_that_answer_at_most_and_no_turn(
    world: World, error: Exception, says: list[str]
) -> None:
    assert isinstance(error, ChannelError) is not isinstance(error, RuntimeError)
    await world.answered("before", person=BOB)
    screen = world.screen(BOB)
    screen.shown.clear()
    for act in ("send", "typing", "react", "open", "edit"):
        screen.fail(act, error)
    await world.say("one", person=BOB)
    await until(lambda: len(world.llm.calls) == 2)
    await world.asks("elsewhere", "elsewhere")
    await until(lambda: len(screen.shown) == len(says))
    assert all(words in seen for seen, words in zip(screen.texts, says, strict=True))
    await until(lambda: not world.services.dispatcher.running)
    kept = await world.database.read(
        lambda conn: conn.execute(sql("select count(*) from message where role = 'assistant'")).scalar_one()
    )
    assert kept == 3, "each turn is stored, whatever became of its answer"
    assert not happened(world, LoopFailed)
    screen.faults.clear()
    await world.say("two", person=BOB)
    await world.shows("two", BOB)
    assert len(screen.shown) == len({*says, "two"} | ({"one"} if isinstance(error, ChannelGone) else set()))


@pytest.mark.requirement("Z-16")
async def test_what_a_person_sees_of_an_answer_is_on_disk_already(world: World) -> None:
    stored: list[tuple[str, int, str]] = []

    def look(call: Call) -> None:
        """The rows that another process reads at this moment."""
        if call.act not in ("send", "finish") or "Done" not in call.text:
            return
        with closing(sqlite3.connect(f"file:{world.home}/tieline.db?mode=ro", uri=True)) as conn:
            (said,) = conn.execute("select count(*) from message where role = 'assistant' and parts like '%Done%'")
            (work,) = conn.execute("select status from inbox order by id desc limit 1")
            stored.append((call.text, said[0], work[0]))

    world.screen().watch = look
    world.script(*calling("count it", "calculate", expression="6*7"))
    await world.answered("count it", "Done: count it")
    assert stored == [("Done: count it", 1, "done")]


@pytest.mark.requirement("Z-16")
async def test_an_answer_that_cannot_be_stored_is_not_shown(world_of: WorldOf) -> None:
    """On a slow machine a preview would show it while it grows, so there is none."""
    async with world_of(config="stream = false").process() as world:
        await world.answered("before")
        when = "before insert on message when new.role = 'assistant'"
        refuse = sql(f"create trigger refuse {when} begin select raise(fail, 'full'); end")
        await world.database.write(lambda conn: conn.execute(refuse))
        await world.say("and now")
        await until(lambda: len(world.llm.calls) == 2)
        await until(lambda: not world.services.dispatcher.running, longest_s=20)
        assert not any("and now" in text for text in world.screen(ANN).made("send"))
        await world.database.write(lambda conn: conn.execute(sql("drop trigger refuse")))
