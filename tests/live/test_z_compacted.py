"""Traces of a compaction in the running gateway: on the screen, in the store, in the log, in later requests."""

import json
import logging
from pathlib import Path

import pytest
from sqlalchemy import Connection, select, update

from agent.core.events import CompactComplete, SummariesApplied
from agent.core.messages import Message, SummaryPart, ToolResult
from agent.sessions import store
from agent.storage.tables import message as message_table
from gateway.running.agents import ActiveAgent
from tests.fakes.llm_server import LlmServer
from tests.fakes.waiting import until
from tests.gateway.world import World
from tests.live.scenes import (
    CHAT,
    PAIRS,
    SUBGOAL,
    SUMMARIES,
    WorldOf,
    asked_aside,
    happened,
    look,
    model,
    pages,
    rule,
    turns_of,
    working_on,
    write_agent,
)

PLAIN = "[skills]\nenabled = false\n"


def sent(world: World) -> list[str]:
    """The messages of the newest request of a turn, without the system's."""
    return [json.dumps(one) for one in turns_of(world)[-1]["messages"] if one["role"] != "system"]


@pytest.mark.requirement(
    "H-08", "H-33", "H-34", "Z-31", "Z-50", "Z-51", "Z-72", "Z-74", "Z-75", "Z-77", "Z-78", "Z-82", "H-05", "H-14",
)  # fmt: skip
async def test_a_compaction_keeps_what_is_worked_on_and_everything_in_the_store(
    world_of: WorldOf, llm: LlmServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_agent(tmp_path)
    config = f'{PLAIN}[memory.compression]\npruning_strategy = "subgoal"\n{model(llm, window=32_000)}'
    async with world_of(config=config, providers=()).process() as world:
        world.script(working_on("plan"), working_on("book", "plan"), *SUMMARIES, *pages(world, 24))
        assert "Compaction:" not in await world.asks("/status", "Status"), "nothing before the first"
        await look(world, *range(20))
        await asked_aside(world, SUBGOAL, 2)
        await look(world, 20)
        caplog.set_level(logging.INFO, logger="tieline")
        await world.asks("/compact", "Summarised")
        await world.settled()
        done = happened(world, CompactComplete)[-1]
        assert done.stage == "hard"
        assert 0 < done.tokens_after < done.tokens_before
        line = next(record.getMessage() for record in caplog.records if "tokens_before=" in record.getMessage())
        saved = done.tokens_before - done.tokens_after
        assert line.endswith(f"tokens_before={done.tokens_before} tokens_after={done.tokens_after} saved={saved}")
        status = await world.asks("/status", "Compaction:")
        assert f"(-{saved / 1000:.1f}k)" in status
        assert "Working on: book" in status
        await look(world, 21)
        request = sent(world)
        summary = next(place for place, text in enumerate(request) if "HAT-4471" in text)
        pinned = next(place for place, text in enumerate(request) if "look at page 0." in text)
        active = [place for place, text in enumerate(request) if "look at page 20." in text]
        assert summary == 0
        assert pinned == 1, "then what is pinned"
        assert active
        assert active[0] > pinned, "then what is worked on, word for word"
        assert any("page 20 begins" in text for text in request)
        assert not any("page 3 begins" in text for text in request)

        def kept(conn: Connection) -> list[Message]:
            session = store.current(conn, CHAT)
            assert session is not None
            return [one.message for one in store.transcript(conn, session)]

        messages = await world.database.read(kept)
        texts = [one.content for one in messages]
        assert sum("page 3 begins" in text for text in texts) == 1, "what left the window is still in the transcript"
        parts = [part for one in messages for part in one.parts if isinstance(part, SummaryPart)]
        assert any("HAT-4471" in part.text for part in parts)
        await world.asks("/compact")
        assert all(call.get("status", 200) == 200 for call in llm.calls), "no request had a result without its call"


@pytest.mark.requirement("Z-78", "Z-80", "Z-81", "Z-82")
@pytest.mark.parametrize("dumps", [False, True], ids=["in silence", "told while dumps are on"])
async def test_a_result_whose_call_is_gone_reaches_no_model(
    world_of: WorldOf, llm: LlmServer, tmp_path: Path, caplog: pytest.LogCaptureFixture, *, dumps: bool
) -> None:
    write_agent(tmp_path)
    world = world_of(config=f"{PLAIN}[debug]\nenabled = {str(dumps).lower()}\n{model(llm)}", providers=())
    async with world.process():
        world.script(*SUMMARIES, *pages(world, 4, words=60))
        await look(world, 0, 1)

        def lose(conn: Connection) -> None:
            rows = conn.execute(select(message_table.c.id, message_table.c.parts)).all()
            call = next(row.id for row in rows if "tool_use" in row.parts and "page1.txt" in row.parts)
            conn.execute(update(message_table).where(message_table.c.id == call).values(agent_visible=False))

        await world.database.write(lose)
    caplog.set_level(logging.DEBUG, logger="tieline")
    async with world.process():
        world.script(*SUMMARIES, *pages(world, 4, words=60))
        await look(world, 2)
        whole = " ".join(sent(world))
        assert "page 0 begins" in whole
        assert "page 1 begins" not in whole
        await world.asks("/compact")
        await look(world, 3)
        assert all(call.get("status", 200) == 200 for call in llm.calls)
    told = any("orphaned" in record.getMessage() for record in caplog.records)
    assert told is dumps


@pytest.mark.requirement("Z-12", "Z-28")
async def test_summaries_made_ahead_take_the_places_of_calls_and_their_results(
    world_of: WorldOf, llm: LlmServer, tmp_path: Path
) -> None:
    write_agent(tmp_path)
    config = f'{PLAIN}[memory.compression]\npruning_strategy = "subgoal"\n{model(llm)}'
    async with world_of(config=config, providers=()).process() as world:
        world.script(working_on("plan"), working_on("book", "plan", times=None), *SUMMARIES, *pages(world, 18))
        for number in range(18):
            await look(world, number)
            if happened(world, SummariesApplied):
                break
        applied = happened(world, SummariesApplied)[0]
        request = " ".join(sent(world))
        assert request.count("[tool summary]") == applied.pairs
        assert "it holds PAIR-1" in request
        calls = [one for one in turns_of(world)[-1]["messages"] if one.get("tool_calls")]
        results = [one for one in turns_of(world)[-1]["messages"] if one["role"] == "tool"]
        assert {use["id"] for one in calls for use in one["tool_calls"]} == {one["tool_call_id"] for one in results}
        assert not happened(world, CompactComplete), "the cheap stage alone"
        await look(world, number + 1 if number < 17 else 0)
        assert all(call.get("status", 200) == 200 for call in llm.calls)


@pytest.mark.requirement("Z-12")
async def test_summaries_that_wait_for_their_places_outlive_the_process(
    world_of: WorldOf, llm: LlmServer, tmp_path: Path
) -> None:
    """A summary that is paid for once is not asked for again: the second process's model would say it otherwise."""
    write_agent(tmp_path)
    config = f'{PLAIN}[memory.compression]\npruning_strategy = "subgoal"\n{model(llm)}'
    world = world_of(config=config, providers=())

    async def waiting() -> bool:
        query = select(message_table.c.id).where(message_table.c.deferred.is_not(None))
        return bool(await world.database.read(lambda conn: conn.execute(query).all()))

    goals, reading = (working_on("plan"), working_on("book", "plan", times=None)), pages(world, 18)
    async with world.process():
        world.script(*goals, *SUMMARIES, *reading)
        for number in range(18):
            await look(world, number)
            if await waiting():
                break
            await until(lambda: all("ended_at" in call for call in llm.calls))  # also what is asked in the background
        assert not happened(world, SummariesApplied)
    async with world.process():
        later = rule("\n".join(f"{number}: made LATER" for number in range(1, 9)), system_contains=PAIRS)
        world.script(*goals, later, *SUMMARIES, *reading)
        for following in range(number + 1, 18):
            await look(world, following)
            if happened(world, SummariesApplied):
                break
        folded = [text for text in sent(world) if "[tool summary]" in text]
        assert "it holds PAIR-1" in folded[0]


@pytest.mark.requirement("Z-79")
async def test_after_summaries_have_taken_their_places_orphaned_results_are_looked_for(
    world_of: WorldOf, llm: LlmServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """No stage leaves an orphan, so one is put into the window of the agent that runs; the dump tells where it went."""
    write_agent(tmp_path)
    strategy = '[memory.compression]\npruning_strategy = "subgoal"\n'
    config = f"{PLAIN}[debug]\nenabled = true\n{strategy}{model(llm)}"
    async with world_of(config=config, providers=()).process() as world:
        world.script(working_on("plan"), working_on("book", "plan", times=None), *SUMMARIES, *pages(world, 18))
        await look(world, 0, 1)
        async with world.services.conversations.use(CHAT) as awake:
            assert isinstance(awake, ActiveAgent)
            window = awake.agent.message.compaction.window
            at = len(window)
            lost = ToolResult(tool_use_id="lost", content="of a call that is nowhere")
            window.extend([Message(role="user", parts=(lost,))])
        for number in range(2, 18):
            assert not any("orphaned" in record.getMessage() for record in caplog.records), "not before"
            await look(world, number)
            if happened(world, SummariesApplied):
                break
        assert happened(world, SummariesApplied)
        assert not happened(world, CompactComplete), "the cheap stage alone"
        told = [record.getMessage() for record in caplog.records if "orphaned" in record.getMessage()]
        assert told == [f"orphaned tool results at position {at - 2} taken out"], "the two pairs before it are one each"
        assert not any("of a call that is nowhere" in text for text in sent(world))
        assert all(call.get("status", 200) == 200 for call in llm.calls)
