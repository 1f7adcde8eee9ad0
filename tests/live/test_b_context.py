"""Rules of the window: its content for a model, and its overflow."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import text as sql

from agent.core.events import (
    CompactTriggered,
    ContextBuilt,
    LoopStarted,
    MemoryFlushed,
    MicrocompactRan,
    MidCompactLayer2Ran,
)
from agent.core.ids import ConversationId
from agent.memory.notes import path_of
from agent.sessions.store import transcript
from tests.gateway.world import ANN, World, calling
from tests.live.test_b_turns import exported

HERE = ConversationId(f"telegram:{ANN}")
SUMMARY = "<summary>\nGoal: birds\nAccomplished: seen\nKey Decisions: none\nRelevant Files: none\n</summary>"
# The stages before the limits that the ids are about are put behind them.
LATE = (
    "[context]\noutput_reserve = 1000\nemergency_buffer = 100\n"
    "[memory]\nsoft_compaction_threshold = 0.97\nhigh_compaction_threshold = 0.98\nhard_compaction_threshold = 0.99\n"
)
WINDOW, RESERVE, FLUSH = 32_000, 4_000, 8_000


def script(world: World) -> None:
    world.script(
        {"match": {"system_contains": "You write the memory"}, "reply": {"text": SUMMARY}},
        {"match": {"contains": "answer with exactly: NO_REPLY"}, "reply": {"text": "NO_REPLY"}},
        {"match": {}, "reply": {"text": "fine"}},
    )


async def stored(world: World) -> list[str]:
    """Everything of the conversation's newest session, as it is in the database."""
    (id,) = await world.database.read(
        lambda conn: conn.execute(sql("select id from session order by created_at desc limit 1")).scalars().all()
    )
    return [message.message.content for message in await world.database.read(lambda conn: [*transcript(conn, id)])]


def shown(world: World) -> str:
    """The request of the newest turn."""
    return json.dumps(next(body["messages"] for body in reversed(world.llm.bodies) if body.get("tools")))


def lines(count: int) -> str:
    """About six tokens each."""
    return "and a little more of it " * count


@pytest.mark.requirement("B-15", "B-19", "B-20", "B-53", "B-54", "B-59", "B-78", "B-79", "B-89", "B-94", "G-21")
@pytest.mark.parametrize(("more", "compacts"), [(0, False), (80, True)], ids=["below the floor", "above it"])
async def test_notes_are_due_8000_tokens_before_the_end_and_a_summary_4000(
    world_of: Callable[..., World], more: int, compacts: bool
) -> None:
    world = world_of(window=WINDOW, config=LATE, providers=("a",))
    async with world.process():
        script(world)
        for number in range(9):
            await world.answered(f"bird number {number}: " + lines(330), "fine")
        if more:
            await world.answered(lines(more), "fine")
        assert not any(isinstance(event, MemoryFlushed | CompactTriggered) for event in world.events)
        await world.answered(lines(1_325), "fine")
        tokens = next(event.token_estimate for event in reversed(world.events) if isinstance(event, ContextBuilt))
        assert tokens > WINDOW - FLUSH
        assert (tokens > WINDOW - RESERVE) is compacts
        happened = [type(event) for event in world.events if isinstance(event, MemoryFlushed | CompactTriggered)]
        assert happened == [MemoryFlushed, CompactTriggered][: 1 + compacts], "each once, the notes first"
        assert all(call["usage"]["input_tokens"] <= WINDOW for call in world.llm.calls), "it never overflows"
        if compacts:
            asked = next(body for body in world.llm.bodies if "You write the memory" in json.dumps(body["messages"]))
            assert "bird number 1:" in json.dumps(asked["messages"])
            assert "Accomplished: seen" in shown(world)
            assert "bird number 2:" not in shown(world)
        kept = "\n".join(await stored(world))
        assert all(f"bird number {one}:" in kept for one in range(9)), "nothing is taken out of the store"
        said = [line["content"] for line in await exported(world) if line["role"] == "user"]
        assert [words[:13] for words in said[:9]] == [f"bird number {one}" for one in range(9)], "nor of the export"


@pytest.mark.requirement("B-25", "B-89")
async def test_a_summary_that_fails_costs_no_words(world: World) -> None:
    for number in range(7):
        await world.answered(f"bird {number} " + "and more of it " * 60, f"bird {number}")
    world.llm.fails(kind="error", status=400, message="no", times=99)
    assert "→" in await world.asks("/compact", "shortened")
    world.llm.double.faults.clear()
    kept = "\n".join(await stored(world))
    assert all(f"bird {number} " in kept for number in range(7))
    said = [line["content"] for line in await exported(world) if line["role"] == "user"]
    assert [words[:7] for words in said] == [f"bird {number} " for number in range(7)], "people see it too"
    await world.answered("go on", "go on")


@pytest.mark.requirement("B-26")
async def test_what_cannot_be_made_to_fit_is_told_and_not_sent(world_of: Callable[..., World]) -> None:
    world = world_of(window=9_000, providers=("a",))
    async with world.process():
        script(world)
        await world.answered("hello", "fine")
        await world.asks("a word of it " * 2_400, "no longer fits the model")
        # The question about the subgoal, in the background, may have an excerpt of it.
        assert "a word of it " * 100 not in json.dumps(world.llm.bodies)
        await world.answered("hello again", "fine")


@pytest.mark.requirement("B-21")
async def test_old_results_leave_the_window_and_not_the_transcript(world_of: Callable[..., World]) -> None:
    world = world_of(config='[memory.compression]\npruning_strategy = "reactive"\n')
    async with world.process():
        for number in range(6):
            rules: Any = calling(f"sum {number}", "calculate", expression=f"{number}+7**900")
            world.script(*rules)
            await world.answered(f"sum {number}", f"Done: sum {number}")
        await world.answered("and now", "and now")
        assert any(isinstance(event, MicrocompactRan) for event in world.events)
        results = [one["content"] for one in world.llm.bodies[-1]["messages"] if one["role"] == "tool"]
        sums = [str(number + 7**900) for number in range(6)]
        assert [one in results for one in sums] == [False, False, False, True, True, True]
        lines = await world.asks("/export", "messages")
        assert lines
        (file,) = world.screen().shown[-1].message.files
        kept = [json.loads(line) for line in file.path.read_text("utf-8").splitlines()]
        assert [line["content"] for line in kept if line["role"] == "tool"] == sums


@pytest.mark.requirement("B-14", "B-16", "B-22", "B-27")
async def test_the_prompt_holds_who_it_is_what_it_may_and_the_notes_which_may_end_its_service(world: World) -> None:
    await world.answered("hello", "hello")
    system = str(world.llm.bodies[-1]["messages"][0]["content"])
    assert "Tieline" in system
    assert "calculate" in {tool["function"]["name"] for tool in world.llm.bodies[-1]["tools"]}
    assert world.clock.now().strftime("%Y-%m-%d") in shown(world)
    file = path_of(world.home, HERE)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("- likes terns more than gulls\n" * 500 + "- likes plovers\n")
    await world.answered("again", "again")
    assert "likes plovers" in shown(world)
    assert "hello" in shown(world), "the history too"
    file.write_text("AGENT_STATUS: terminated\n")
    calls = len(world.llm.calls)
    await world.asks("are you there", "I no longer serve this conversation")
    assert len(world.llm.calls) == calls
    file.unlink()
    await world.answered("and now", "and now")


@pytest.mark.requirement("B-15", "B-23")
async def test_a_damaged_transcript_is_mended_as_far_as_it_goes(world_of: Callable[..., World]) -> None:
    world = world_of()
    async with world.process():
        await world.answered("the plover", "plover")
        await world.answered("the heron", "heron")
        await world.answered("the dunlin", "dunlin")
        broken = sql("update message set parts = '[{' where id = (select min(id) from message)")
        half = sql(
            "update message set parts = '[{\"damaged\": 1}, ' || substr(parts, 2) where parts like '%the heron%'"
        )
        await world.database.write(lambda conn: conn.execute(broken) and conn.execute(half) and None)
    async with world.process():
        await world.answered("what now", "what now")
        asked = [message["content"] for message in world.llm.bodies[-1]["messages"] if message["role"] == "user"]
        assert "the plover" not in str(asked), "nothing of it could be read"
        assert "the heron" in str(asked), "the part after the damaged one could"
        assert "the dunlin" in str(asked)
        assert len([event for event in world.events if isinstance(event, LoopStarted)]) == 4


@pytest.mark.requirement("B-77")
async def test_a_window_that_nobody_knows_is_taken_for_128000(world_of: Callable[..., World]) -> None:
    world = world_of(window=None, providers=("a",))
    async with world.process():
        await world.answered("hello", "hello")
        assert "128,000" in await world.asks("/context", "What fills")


@pytest.mark.requirement("G-19")
async def test_a_summary_made_ahead_takes_the_place_of_the_oldest_part(world_of: Callable[..., World]) -> None:
    world = world_of(window=WINDOW, config=LATE + "[memory.flush]\nenabled = false\n", providers=("a",))
    async with world.process():
        script(world)
        number = 0
        while not any(isinstance(event, MidCompactLayer2Ran) for event in world.events):
            number += 1
            await world.answered(f"bird number {number}: " + lines(330), "fine")
            assert number < 20
        assert "Accomplished: seen" in shown(world)
        assert "bird number 1:" in shown(world), "the first request stays"
        assert "bird number 2:" not in shown(world)
        assert not any(isinstance(event, CompactTriggered) for event in world.events), "nobody waited for a model"


@pytest.mark.requirement("G-22")
async def test_messages_keep_their_subgoals_when_the_window_is_rebuilt(world_of: Callable[..., World]) -> None:
    """The messages before the compaction are the reference for those after it."""
    world = world_of(
        config='[memory.compression]\npruning_strategy = "subgoal"\n[memory]\ncompaction_preserve_tail = 12\n'
    )
    async with world.process():
        for current, numbers in (
            ("birds\nCOMPLETED: NONE", (0, 1, 2)),
            ("trains\nCOMPLETED: birds", (3, 4, 5)),
            ("boats\nCOMPLETED: trains", (6, 7, 8)),
        ):
            world.script(
                {"match": {"system_contains": "You write the memory"}, "reply": {"text": SUMMARY}},
                {"match": {"system_contains": "You follow a conv"}, "reply": {"text": f"CURRENT: {current}"}},
                {"match": {"contains": "answer with exactly: NO_REPLY"}, "reply": {"text": "NO_REPLY"}},
                {"match": {}, "reply": {"text": "fine"}},
            )
            for number in numbers:
                await world.answered(f"thing number {number}: " + lines(1_000), "fine")
        async with world.services.conversations.use(HERE) as awake:
            state = awake.agent.message.compaction  # type: ignore[attr-defined]
            before = {
                entry.message.id: state.watch.subgoals.subgoal_at(position)
                for position, entry in enumerate(state.window)
                if entry.message.id
            }
        await world.asks("/compact", "Summarised")
        await world.settled()
        async with world.services.conversations.use(HERE) as awake:
            state = awake.agent.message.compaction  # type: ignore[attr-defined]
            after = {
                entry.message.id: state.watch.subgoals.subgoal_at(position)
                for position, entry in enumerate(state.window)
                if entry.message.id
            }
        assert len(set(before.values())) > 2, (before, after)
        left = {id for id in before.keys() & after.keys() if before[id] is not None}
        assert left
        assert len(left) < len(before)
        assert len({before[id] for id in left}) > 1, "of several subgoals"
        assert {id: after[id] for id in left} == {id: before[id] for id in left}
