"""Cost of turns: entered with their own commit, also when they are refused, stopped, fenced or killed."""

from pathlib import Path

import anyio
import pytest

from agent.core.errors import Fenced
from agent.core.events import CallBilled, TokensUsed
from agent.ledger.spending import Limit, Spending
from agent.providers.provider import Done, Prices, TextDelta, Usage
from agent.storage.database import Database
from tests.agent.world import World
from tests.fakes.provider import Script, ScriptedProvider, calls, cut, says
from tests.fakes.waiting import until

PRICES = Prices(input=1.0, output=2.0, cache_write=4.0, cache_read=0.5)
TIERS = Usage(prompt=100, output=50, cache_creation=20, cache_read=400)


@pytest.mark.requirement("R-47")
async def test_the_tokens_of_a_run_are_told_by_tier_with_their_cost(sqlite_database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider(scripts=[calls("calculate", {"expression": "1"}), says("One.")], prices=PRICES)
    provider.scripts[0] = Script(chunks=(*provider.scripts[0].chunks[:-2], TIERS, Done("tool_use")))
    provider.scripts[1] = says("One.", usage=TIERS)
    world = World(sqlite_database, tmp_path, provider)
    await world.say("hi")
    [told] = [event for event in world.events if isinstance(event, TokensUsed)]
    assert (told.prompt, told.output, told.cache_creation, told.cache_read) == (200, 100, 40, 800)
    each = (100 * 1.0 + 50 * 2.0 + 20 * 4.0 + 400 * 0.5) / 1_000_000
    assert told.estimated_cost_usd == pytest.approx(2 * each)
    assert not told.estimated
    assert [row.cost_usd for row in await world.usage_rows()] == pytest.approx([each, each])
    assert [event.purpose for event in world.events if isinstance(event, CallBilled)] == ["turn", "turn"]


@pytest.mark.requirement("R-47")
async def test_an_unknown_price_is_told_as_unknown(sqlite_database: Database, tmp_path: Path) -> None:
    world = World(sqlite_database, tmp_path, ScriptedProvider(scripts=[says("One.", usage=TIERS)]))
    await world.say("hi")
    [told] = [event for event in world.events if isinstance(event, TokensUsed)]
    assert told.estimated_cost_usd is None
    assert [row.cost_usd for row in await world.usage_rows()] == [None]


async def test_rows_come_with_the_turns_commit_and_not_by_one_of_their_own(
    sqlite_database: Database, tmp_path: Path
) -> None:
    world = World(sqlite_database, tmp_path, ScriptedProvider(scripts=[says("One.")]))
    await world.say("hi")
    [row] = await world.usage_rows()
    assert (row.conv, row.person, row.purpose, row.inbox_id) == ("telegram:77", "telegram:77", "turn", 1)
    assert world.ledger.unwritten(1) == ()


@pytest.mark.requirement("W-23")
async def test_a_budget_that_ends_in_the_middle_keeps_what_was_said(sqlite_database: Database, tmp_path: Path) -> None:
    dear = Prices(input=0.0, output=1_000_000.0)
    provider = ScriptedProvider(
        scripts=[calls("calculate", {"expression": "1"}, text="Let me see."), says("never")], prices=dear, max_tokens=5
    )
    world = World(sqlite_database, tmp_path, provider)
    world.spending = Spending(limits=(Limit(scope="person", usd=9.0),))
    said, notice = await world.say("hi")
    assert said == "Let me see."
    assert notice.startswith("You may spend 9.00 USD until 2026-01-02 00:00 UTC. 4.00 USD of it is left")
    assert len(provider.requests) == 1
    assert len(await world.usage_rows()) == 1


@pytest.mark.requirement("B-33")
async def test_what_was_cut_off_is_estimated_from_what_came(sqlite_database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider(scripts=[cut("half an answer of several words"), says("Whole.")], prices=PRICES)
    world = World(sqlite_database, tmp_path, provider)
    await world.say("hi")
    half, whole = await world.usage_rows()
    assert (half.estimated, whole.estimated) == (True, False)
    assert half.prompt > 0
    assert 0 < half.output < 20


@pytest.mark.requirement("R-15")
async def test_a_running_total_is_no_report(sqlite_database: Database, tmp_path: Path) -> None:
    """Some servers tell in every piece what was used so far; a stream that is cut then has not told all."""
    begun = Script(chunks=(Usage(prompt=70, output=1), TextDelta("some words that were written")))
    world = World(sqlite_database, tmp_path, ScriptedProvider(scripts=[begun, says("Whole.")]))
    await world.say("hi")
    half, _ = await world.usage_rows()
    assert (half.prompt, half.estimated) == (70, True)
    assert half.output > 1


async def test_a_call_of_a_fenced_turn_is_paid_all_the_same(sqlite_database: Database, tmp_path: Path) -> None:
    gate = anyio.Event()
    provider = ScriptedProvider(scripts=[Script(chunks=says("late").chunks, gate=gate)])
    world = World(sqlite_database, tmp_path, provider)
    work = await world.admit("hi")

    async def run() -> None:
        with pytest.raises(Fenced):
            await world.run(work)

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await until(lambda: bool(provider.requests))
        await world.own()  # somebody else has taken the conversation
        gate.set()
    assert await world.usage_rows() == []
    await world.ledger.flush()
    [row] = await world.usage_rows()
    assert (row.prompt, row.output, row.estimated) == (10, 5, False)


async def test_what_a_killed_process_was_asking_is_listed(sqlite_database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider(scripts=[Script(chunks=(TextDelta("half an"),), stalls=True)], prices=PRICES)
    world = World(sqlite_database, tmp_path, provider)
    work = await world.admit("hi")
    async with anyio.create_task_group() as group:
        group.start_soon(world.run, work)
        await until(lambda: bool(world.outbox.preview_text))
        after_the_kill = world.new_ledger()  # a kill asks nobody: the journal is as it is now
        await after_the_kill.open()
        [row] = await world.usage_rows()
        assert (row.output, row.estimated, row.person) == (0, True, "telegram:77")
        assert row.prompt > 0
        group.cancel_scope.cancel()
