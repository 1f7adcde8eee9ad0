"""The status line: one message, created, edited, deleted; never in the way of anything."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Connection, Table, func, select

from agent.core.events import ToolStarted
from agent.core.ids import CallId, ConversationId
from agent.storage.database import Database
from agent.storage.tables import message, outbox
from gateway.channels.errors import ChannelBusy, ChannelGone, ChannelRejected, ChannelUnsure
from tests.fakes.channel import DEFAULT
from tests.fakes.clock import FakeClock
from tests.gateway.delivery.world import QUIET, World, audience, key

SILENT = replace(DEFAULT, typing=False, reactions=False)


@pytest.fixture
def world(sqlite_database: Database, clock: FakeClock, tmp_path: Path) -> World:
    return World(sqlite_database, clock, tmp_path, SILENT)


def count(conn: Connection, table: Table) -> int:
    return conn.execute(select(func.count()).select_from(table)).scalar_one()


def acts(world: World) -> list[str]:
    return [call.act for call in world.screen().calls]


@pytest.mark.requirement("G-08", "Z-145")
async def test_a_compaction_turn_creates_edits_and_deletes_exactly_one_status(world: World) -> None:
    async with world.process() as delivery:
        voice = delivery.outbox_for(key())
        voice.begin(audience())
        voice.status("compacting context…")
        await world.until(lambda: world.screen().texts == ["compacting context…"])
        await world.still()
        assert await world.notes() == 1
        voice.status("Compacting: 90000→30000 tokens")
        await world.until(lambda: world.screen().texts == ["Compacting: 90000→30000 tokens"])
        await voice.end()
        await world.until(lambda: world.screen().texts == [])
        await world.still()
    assert acts(world) == ["whisper", "edit", "delete"]
    assert await world.notes() == 0
    for table in (message, outbox):
        stored = await world.database.read(partial(count, table=table))
        assert stored == 0, f"status text reached {table.name}"


@pytest.mark.requirement("G-08")
async def test_updates_are_a_second_apart_and_the_last_one_wins(world: World) -> None:
    async with world.process() as delivery:
        voice = delivery.outbox_for(key())
        voice.begin(audience())
        for number in range(40):
            voice.status(f"step {number}")
            await world.pass_time(0.1, step_s=0.1)
        await world.until(lambda: world.screen().texts == ["step 39"])
        await voice.end()
        await world.until(lambda: world.screen().texts == [])
    assert 3 <= acts(world).count("edit") <= 5
    assert acts(world).count("whisper") == 1


@pytest.mark.requirement("G-08")
async def test_an_empty_text_ends_it(world: World) -> None:
    async with world.process() as delivery:
        voice = delivery.outbox_for(key())
        voice.begin(audience())
        voice.status("working")
        await world.until(lambda: world.screen().texts == ["working"])
        voice.status("")
        await world.until(lambda: world.screen().texts == [])
        voice.status("again")
        await world.until(lambda: world.screen().texts == ["again"])
        await voice.end()
        await world.until(lambda: world.screen().texts == [])


@pytest.mark.requirement("G-08")
async def test_it_goes_thirty_seconds_after_the_last_update(world: World) -> None:
    async with world.process() as delivery:
        voice = delivery.outbox_for(key())
        voice.begin(audience())
        voice.status("working")
        await world.until(lambda: world.screen().texts == ["working"])
        await world.pass_time(20)
        voice.status("still working")
        await world.pass_time(29)
        assert world.screen().texts == ["still working"]
        await world.pass_time(2)
        await world.still()
        assert world.screen().texts == []


@pytest.mark.requirement("G-08")
async def test_where_the_platform_can_only_the_asker_sees_it(
    sqlite_database: Database, clock: FakeClock, tmp_path: Path
) -> None:
    world = World(sqlite_database, clock, tmp_path, replace(SILENT, ephemeral=True))
    async with world.process() as delivery:
        voice = delivery.outbox_for(key())
        voice.begin(audience())
        voice.status("working")
        await world.until(lambda: world.screen().texts == ["working"])
        assert world.screen().shown[0].private_to == "ann"
        await voice.end()
        await world.until(lambda: world.screen().texts == [])


@pytest.mark.requirement("G-08")
async def test_without_edits_a_new_one_takes_the_place_of_the_old(
    sqlite_database: Database, clock: FakeClock, tmp_path: Path
) -> None:
    world = World(sqlite_database, clock, tmp_path, replace(SILENT, edits=False))
    async with world.process() as delivery:
        voice = delivery.outbox_for(key())
        voice.begin(audience())
        voice.status("one")
        await world.until(lambda: world.screen().texts == ["one"])
        voice.status("two")
        await world.until(lambda: world.screen().texts == ["two"])
        await voice.end()
        await world.until(lambda: world.screen().texts == [])


@pytest.mark.requirement("G-08", "Z-35")
@pytest.mark.parametrize(
    "error",
    [
        ChannelBusy("flood", after_s=2.0),
        ChannelRejected("no"),
        ChannelGone("blocked"),
        ChannelUnsure("cut"),
        ZeroDivisionError("a defect"),
    ],
)
@pytest.mark.parametrize("act", ["whisper", "edit", "delete"])
async def test_a_failing_status_fails_nothing_else(world: World, error: Exception, act: str) -> None:
    world.screen().fail(act, error, times=99)  # type: ignore[arg-type]
    async with world.process() as delivery:
        voice = delivery.outbox_for(key())
        voice.begin(audience())
        voice.status("one")
        await world.pass_time(2)
        voice.status("two")
        await world.pass_time(2)
        await voice.end()
        await world.commit("the answer")
        await world.until_idle()
        await world.still()
    assert "the answer" in world.screen().texts
    assert await world.statuses() == ["sent"]


@pytest.mark.requirement("G-08", "Z-75")
@pytest.mark.parametrize("act", ["whisper", "edit"])
async def test_what_the_platform_has_no_room_for_just_now_is_shown_a_little_later(world: World, act: str) -> None:
    """A status that a turn shows once is visible even when the chat had many messages just before."""
    async with world.process() as delivery:
        voice = delivery.outbox_for(key())
        voice.begin(audience())
        if act == "edit":
            voice.status("one")
            await world.until(lambda: world.screen().texts == ["one"])
        world.screen().fail(act, ChannelBusy("flood", after_s=3.0), times=2)  # type: ignore[arg-type]
        before = world.clock.monotonic()
        voice.status("two")
        await world.until(lambda: world.screen().texts == ["two"])
        assert 6.0 <= world.clock.monotonic() - before < 10.0
        await voice.end()
        await world.until(lambda: world.screen().texts == [])


@pytest.mark.requirement("G-08")
async def test_what_there_is_never_room_for_is_given_up_after_its_time(world: World) -> None:
    world.screen().fail("whisper", ChannelBusy("flood", after_s=3.0), times=99)
    async with world.process() as delivery:
        voice = delivery.outbox_for(key())
        voice.begin(audience())
        voice.status("one")
        await world.until(lambda: acts(world).count("whisper") == 3)
        await world.pass_time(40)
        tried = acts(world).count("whisper")
        await world.pass_time(40)
        assert acts(world).count("whisper") == tried <= 11
        assert world.screen().texts == []


@pytest.mark.requirement("G-08")
async def test_a_restart_removes_it(world: World) -> None:
    async with world.process() as delivery:
        voice = delivery.outbox_for(key())
        voice.begin(audience())
        voice.status("working")
        await world.until(lambda: world.screen().texts == ["working"])
        await world.still()
        world.screen().fail("delete", ChannelUnsure("killed here"))
    assert world.screen().texts == ["working"]
    async with world.process():
        await world.until(lambda: world.screen().texts == [])
        await world.still()
    assert await world.notes() == 0


@pytest.mark.parametrize(("verbosity", "shown"), [("normal", ["🔧 calculate…"]), ("quiet", [])])
async def test_events_show_as_far_as_the_verbosity_goes(
    sqlite_database: Database, clock: FakeClock, tmp_path: Path, verbosity: str, shown: list[str]
) -> None:
    world = World(
        sqlite_database,
        clock,
        tmp_path,
        SILENT,
        settings=replace(QUIET, verbosity=verbosity),  # type: ignore[arg-type]
    )
    async with world.process() as delivery:
        voice = delivery.outbox_for(key())
        voice.begin(audience())
        voice.show(ToolStarted(conversation=ConversationId("fake:1"), tool_name="calculate", tool_call_id=CallId("c1")))
        await world.pass_time(1)
        assert world.screen().texts == shown
        voice.queued(0)
        voice.queued(3)
        await world.pass_time(2)
        assert world.screen().texts == (["Waiting: 3"] if shown else [])
        with voice.awaiting():
            voice.queued(4)
            await world.pass_time(2)
            behind = ["Waiting: 4. My question above comes first: answer it, or /stop."]
            assert world.screen().texts == behind, "also in a quiet channel: nothing goes on without an answer"
            assert [one.message.tone for one in world.screen().shown] == ["behind"]
        await voice.end()
