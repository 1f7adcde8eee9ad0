"""Whole turns that outgrow the window: what is stored, what another process finds, what can be found again."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from sqlalchemy import insert, select

from agent.built_ins import CommandResult
from agent.compaction.settings import CompressionSettings, MemorySettings, MicrocompactSettings
from agent.core.errors import ProviderBusy, ProviderRefused
from agent.core.events import CompactComplete, MidCompactLayer1Ran, MidCompactLayer2Ran
from agent.core.messages import CompactionPart, TextPart, ToolResult
from agent.core.tools import ToolContext, ToolSpec
from agent.inbox import Work
from agent.memory.settings import RecallSettings
from agent.operations import Operations
from agent.providers.provider import Request, Usage
from agent.run.guards import ceiling
from agent.run.settings import ContextSettings, Settings
from agent.sessions import window_store
from agent.storage.database import Database
from agent.storage.payloads import encode_parts
from agent.storage.tables import message as message_table
from agent.storage.tables import session as session_table
from tests.agent.world import KEY, World, offering
from tests.fakes.provider import SUMMARY, ScriptedProvider, calls, fails, says
from tests.fakes.waiting import until

FINDING = offering("lookup", "recall_transcript")
SMALL = 8_000  # tokens; the ceiling is 5,500 of them
REACTIVE = CompressionSettings(pruning_strategy="reactive")


def settings(*, micro: float = 0.0, level: Any = "safe", warn: bool = False, **memory: Any) -> Settings:
    return Settings(
        context=ContextSettings(compaction=level, microcompact=MicrocompactSettings(min_pressure=micro)),
        memory=MemorySettings(
            compression=REACTIVE, prune_protect_tokens=300, warn=warn, recall=RecallSettings(enabled=False), **memory
        ),
    )


def provider(**more: Any) -> ScriptedProvider:
    return ScriptedProvider(context_window=SMALL, otherwise=says("ok", usage=Usage()), **more)


def sent(request: Request) -> list[str]:
    return [message.content for message in request.messages]


@dataclass(frozen=True)
class Lookup:
    """A tool that always finds the same."""

    found: str
    spec: ToolSpec = ToolSpec(  # noqa: RUF009 - frozen
        name="lookup", description="Looks something up.", schema={"type": "object"}, risk="safe", core=True
    )

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        return self.found


async def stored_window(world: World) -> list[str]:
    """The state that another process would find."""
    session = await world.session()
    loaded = await world.database.read(lambda conn: window_store.load(conn, session))
    contents = []
    for one in loaded.entries:
        parts = tuple(
            replace(part, content=one.cleared[part.tool_use_id])
            if isinstance(part, ToolResult) and part.tool_use_id in one.cleared
            else part
            for part in one.message.parts
        )
        contents.append(replace(one.message, parts=parts).content)
    return contents


@pytest.mark.requirement("B-54", "B-21", "Z-31", "W-27")
async def test_another_process_finds_the_very_same_window_after_every_turn(database: Database, tmp_path: Path) -> None:
    lookup = Lookup("row " * 300)
    model = provider()
    world = World(database, tmp_path, model, settings=settings(), tools=(lookup,))
    seen = set()
    for number in range(24):
        if number % 3 == 0:
            model.scripts = [calls("lookup", {"n": number}, id=f"call_{number}")]
        await world.say(f"{number}: " + "word " * (60 if number % 5 else 900))
        window = [entry.message.content for entry in world.agent.message.compaction.window]
        assert await stored_window(world) == window
        seen |= {event.name for event in world.events}
        if number % 4 == 3:
            await world.restart()
    assert {"microcompact_ran", "compact_complete"} <= seen
    stored = await world.transcript()
    said = [one for one in stored if one.inbox_id is not None and one.message.role == "user" and one.position == 0]
    assert [int(one.message.content.split(":")[0]) for one in said] == list(range(24)), "the transcript keeps it all"
    results = [part.content for one in stored for part in one.message.tool_results]
    assert all(content == "row " * 300 for content in results), "and rewrites nothing"
    records = [part for one in stored for part in one.message.parts if isinstance(part, CompactionPart)]
    compactions = [event for event in world.events if isinstance(event, CompactComplete)]
    assert len(records) == len(compactions) > 1, "every compaction left its record, and no later one took it away"


@pytest.mark.requirement("Z-29", "W-13", "B-25")
async def test_a_kill_after_the_compaction_goes_on_from_it(sqlite_database: Database, tmp_path: Path) -> None:
    model = provider()
    world = World(sqlite_database, tmp_path, model, settings=settings())
    for number in range(6):
        await world.say(f"{number}: " + "word " * 300)
    gate = anyio.Event()
    model.scripts = [says("never heard", gate=gate)]
    work = await world.admit("big: " + "word " * 2_600)
    async with anyio.create_task_group() as group:
        group.start_soon(world.run, work)
        await until(lambda: len(model.requests) == 7)
        group.cancel_scope.cancel()
    assert len(model.asides) >= 1
    asides = len(model.asides)
    await world.restart()
    await world.run(await world.again(work))
    assert [say.text for say in await world.says(work)] == ["ok"]
    assert len(model.asides) == asides, "what was summarised is not summarised again"
    assert sent(model.requests[-1]) == sent(model.requests[-2])


@pytest.mark.requirement("R-49")
async def test_another_process_puts_in_the_summary_that_was_stored(sqlite_database: Database, tmp_path: Path) -> None:
    model = provider()
    world = World(sqlite_database, tmp_path, model, settings=settings())
    async with anyio.create_task_group() as group:
        group.start_soon(world.background.run)
        while not model.asides:
            await world.say("word " * 300)
            await anyio.wait_all_tasks_blocked()
        await world.say("and now?")
        assert not any(isinstance(event, MidCompactLayer2Ran) for event in world.events), "it is kept for later"
        group.cancel_scope.cancel()
    await world.restart()
    await world.say("word " * 1_200)
    assert sent(model.requests[-1])[0] == f"[Session memory summary]\n{SUMMARY}"
    assert len(model.asides) == 1, "no model was asked once more"


@pytest.mark.requirement("R-43", "B-25", "W-29")
async def test_with_every_summary_failing_the_conversation_goes_on(sqlite_database: Database, tmp_path: Path) -> None:
    model = provider(aside=fails(ProviderBusy("down")))
    world = World(sqlite_database, tmp_path, model, settings=settings())
    for number in range(30):
        assert await world.say(f"{number}: " + "word " * 500) == ["ok"]
    assert "auto_compact_circuit_breaker_tripped" in world.names()
    assert len(model.asides) <= 12
    assert any("[Mid-tier context collapse" in text for text in sent(model.requests[-1]))
    exported = [json.loads(line) for line in (await world.agent.operations.export()).splitlines()]
    said = [line["content"] for line in exported if line["role"] == "user"]
    assert [int(text.split(":")[0]) for text in said] == list(range(30)), "people still have every word"


@pytest.mark.requirement("W-63", "W-65", "B-26", "H-39")
async def test_level_off_stops_and_says_what_helps(sqlite_database: Database, tmp_path: Path) -> None:
    world = World(sqlite_database, tmp_path, provider(), settings=settings(level="off"))
    answers = [(await world.say(f"{number}: " + "word " * 700))[0] for number in range(8)]
    assert answers[0] == "ok"
    assert "/compact" in answers[-1]
    assert not any(
        isinstance(event, CompactComplete | MidCompactLayer1Ran | MidCompactLayer2Ran) for event in world.events
    )


@pytest.mark.requirement("B-26")
async def test_what_is_kept_for_the_answer_is_never_filled(sqlite_database: Database, tmp_path: Path) -> None:
    model = provider()
    world = World(sqlite_database, tmp_path, model, settings=settings(level="off"))
    room = ceiling(SMALL, ContextSettings())
    assert room < SMALL - 2_000, "what lies between is for the answer"
    words = 0
    while (await world.say(f"{words}: " + "word " * 200))[0] == "ok":
        words += 1
    sizes = [world.agent.metrics.estimator.messages(request.messages) for request in model.requests]
    assert len(sizes) > 3
    assert max(sizes) <= room, "no request went out that took from it"
    assert "/compact" in (await world.say("and now?"))[0]
    assert len(model.requests) == len(sizes)


@pytest.mark.requirement("B-24")
async def test_words_that_outgrow_the_window_within_one_turn_are_compacted(
    sqlite_database: Database, tmp_path: Path
) -> None:
    model = provider()
    world = World(sqlite_database, tmp_path, model, settings=settings(micro=0.99), tools=(Lookup("row"),))
    for number in range(3):
        await world.say(f"{number}: " + "word " * 300)
    before = len(model.requests)
    looks = [calls("lookup", {"n": number}, text="word " * 800, id=f"call_{number}") for number in range(8)]
    uncounted = [
        replace(look, chunks=tuple(one for one in look.chunks if not isinstance(one, Usage))) for look in looks
    ]
    model.scripts = [*uncounted, says("made it", usage=Usage())]
    assert (await world.say("look eight times"))[-1].endswith("made it")
    requests = model.requests[before:]
    assert len(requests) == 9, "each was asked once: no server had to refuse it"
    room = ceiling(SMALL, ContextSettings())
    assert max(world.agent.metrics.estimator.messages(request.messages) for request in requests) <= room
    done = [event for event in world.events if isinstance(event, CompactComplete | MidCompactLayer1Ran)]
    assert done, [event.name for event in world.events]


async def test_the_first_request_and_rules_stay_word_for_word(sqlite_database: Database, tmp_path: Path) -> None:
    model = provider()
    world = World(sqlite_database, tmp_path, model, settings=settings())
    await world.say("Plan my journey to Gdańsk.")
    await world.say("From now on answer in rhymes.")
    for number in range(20):
        await world.say(f"{number}: " + "word " * 400)
    texts = sent(model.requests[-1])
    assert SUMMARY in texts[0]
    assert texts[1:3] == ["Plan my journey to Gdańsk.", "From now on answer in rhymes."]


class TestRecall:
    async def filled(self, world: World, model: ScriptedProvider) -> None:
        model.scripts = [calls("lookup", {"q": "booking"}, id="call_x")]
        await world.say("what is my booking?")
        for number in range(12):
            await world.say(f"{number}: " + "word " * 500)

    @pytest.mark.requirement("B-21", "G-53")
    async def test_what_left_the_window_is_found_and_read_back(self, database: Database, tmp_path: Path) -> None:
        lookup = Lookup("reservation HAT_4471 for mia_li_3668, seat 12F\n" + "filler " * 900)
        model = provider()
        world = World(database, tmp_path, model, settings=settings(), tools=(lookup,), agent_md=FINDING)
        await self.filled(world, model)
        model.scripts = [calls("recall_transcript", {"query": "which seat has mia_li_3668?"}, id="call_r"), says("12F")]
        assert await world.say("which seat do I have?") == ["12F"]
        (found,) = model.requests[-1].messages[-1].tool_results
        assert "seat 12F" in found.content
        assert world.agent.metrics.estimator.text(found.content) <= 1_500
        number = int(found.content.split("[message ")[1].split(",")[0])
        model.scripts = [calls("recall_transcript", {"message": number, "from_char": 0}, id="call_s")]
        await world.say("and the rest?")
        (page,) = model.requests[-1].messages[-1].tool_results
        assert page.content.startswith('<untrusted source="recall_transcript">\nreservation HAT_4471')
        assert "read on with from_char 6000" in page.content

    async def test_a_cleared_result_is_found_while_its_message_still_stands(
        self, sqlite_database: Database, tmp_path: Path
    ) -> None:
        lookup = Lookup("the code is ZEBRA-9 " + "x" * 100)
        model = provider()
        world = World(sqlite_database, tmp_path, model, settings=settings(), tools=(lookup,), agent_md=FINDING)
        for number in range(4):
            model.scripts = [calls("lookup", {"n": number}, id=f"call_{number}")]
            await world.say(f"look {number}")
        assert "ZEBRA" not in str(sent(model.requests[-1])[:3])
        model.scripts = [calls("recall_transcript", {"query": "zebra code"}, id="call_r")]
        await world.say("what was the code?")
        (found,) = model.requests[-1].messages[-1].tool_results
        assert "ZEBRA-9" in found.content

    async def test_what_was_cleared_or_undone_by_people_is_out_of_reach(
        self, sqlite_database: Database, tmp_path: Path
    ) -> None:
        lookup = Lookup("a secret: OTTER-7")
        model = provider()
        world = World(sqlite_database, tmp_path, model, settings=settings(), tools=(lookup,), agent_md=FINDING)
        await self.filled(world, model)
        world.built_ins.commands["/clear"] = clear
        await world.say("/clear")
        model.scripts = [calls("recall_transcript", {"query": "otter secret"}, id="call_r")]
        await world.say("what was it?")
        (found,) = model.requests[-1].messages[-1].tool_results
        assert "Nothing that left the window fits" in found.content

    async def test_taking_back_the_last_exchange_leaves_the_summary(
        self, sqlite_database: Database, tmp_path: Path
    ) -> None:
        model = provider()
        world = World(sqlite_database, tmp_path, model, settings=settings())
        for number in range(12):
            await world.say(f"{number}: " + "word " * 500)
        world.built_ins.commands["/undo"] = undo
        await world.say("/undo")
        await world.say("go on")
        texts = sent(model.requests[-1])
        assert any(SUMMARY in text for text in texts)
        assert not any(text.startswith("11: ") for text in texts)


async def clear(work: Work, agent: Operations) -> CommandResult:
    await agent.clear()
    return CommandResult()


async def undo(work: Work, agent: Operations) -> CommandResult:
    await agent.take_back()
    return CommandResult()


async def test_people_are_told_before_if_they_want(sqlite_database: Database, tmp_path: Path) -> None:
    def unavailable() -> Settings:
        return settings(warn=True, soft_compaction_threshold=0.3, high_compaction_threshold=0.4)

    model = provider(aside=fails(ProviderBusy("down")))
    world = World(sqlite_database, tmp_path, model, settings=unavailable())
    said = [await world.say(f"{number}: " + "word " * 400) for number in range(6)]
    warnings = [text for texts in said for text in texts if "% of my window is filled" in text]
    assert warnings
    assert any(len(texts) == 1 for texts in said)


@pytest.mark.requirement("Z-75", "Z-145")
async def test_the_status_tells_what_was_gained_and_the_calls_are_counted(
    sqlite_database: Database, tmp_path: Path
) -> None:
    model = provider()
    world = World(sqlite_database, tmp_path, model, settings=settings())
    for number in range(12):
        await world.say(f"{number}: " + "word " * 500)
    done = next(event for event in world.events if isinstance(event, CompactComplete))
    gained = f"Compacting: {done.tokens_before}→{done.tokens_after} tokens"
    begun = world.outbox.statuses.index("Summarising the older part of this conversation…")
    assert begun < world.outbox.statuses.index(gained), "people see that it goes on, then what it came to"
    assert {say.text for say in await world.says()} == {"ok"}, "and no message tells of it"
    await world.ledger.flush()
    rows = await world.usage_rows()
    assert sum(row.purpose == "compaction" for row in rows) == len(model.asides)


@pytest.mark.requirement("Z-75")
async def test_the_status_tells_what_was_gained_without_a_model_too(sqlite_database: Database, tmp_path: Path) -> None:
    world = World(sqlite_database, tmp_path, provider(aside=fails(ProviderRefused("400"))), settings=settings())
    for number in range(12):
        await world.say(f"{number}: " + "word " * 500)
    done = [event for event in world.events if isinstance(event, CompactComplete) and event.mechanical]
    gained = [f"Compacting: {one.tokens_before}→{one.tokens_after} tokens" for one in done]
    assert gained
    assert set(gained) <= set(world.outbox.statuses)


@pytest.mark.requirement("Z-73")
async def test_dumps_hold_what_went_out_and_came_back(sqlite_database: Database, tmp_path: Path) -> None:
    world = World(sqlite_database, tmp_path, provider(), settings=settings())
    folder = tmp_path / "dumps"
    world.agent.operations.window.dump(folder)
    await world.say("hello there")
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["0000-request.json", "0001-response.txt"]
    assert "hello there" in (folder / "0000-request.json").read_text()
    assert (folder / "0000-request.json").stat().st_mode & 0o777 == 0o600


async def test_a_long_conversation_opens_quickly(sqlite_database: Database, tmp_path: Path) -> None:
    """10,000 messages, the newest of them in the window; on a quiet machine it takes well below 200 ms."""
    world = World(sqlite_database, tmp_path, provider(), settings=settings())
    await world.say("hi")
    session, at = await world.session(), 0
    text = encode_parts((TextPart(text="some words of an ordinary message " * 3),))
    rows = [
        {
            "session_id": session,
            "conv": KEY,
            "position": 0,
            "role": "user" if number % 2 == 0 else "assistant",
            "parts": text,
            "agent_visible": number >= 9_600,
            "compacted_at": None if number >= 9_600 else 1,
            "created_at": at + number,
        }
        for number in range(10_000)
    ]
    await sqlite_database.write(lambda conn: conn.execute(insert(message_table), rows))
    count = await sqlite_database.read(lambda conn: conn.execute(select(message_table.c.id)).all())
    assert len(count) > 10_000
    assert await sqlite_database.read(lambda conn: conn.execute(select(session_table.c.id)).all())
    began = time.process_time()
    loaded = await sqlite_database.read(lambda conn: window_store.load(conn, session))
    took = time.process_time() - began
    assert len(loaded.entries) in (401, 402)
    assert took < 2.0, f"opening took {took:.3f} s of a processor"
