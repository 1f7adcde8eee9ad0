"""Growing answers in threads: native while they only grow, edits of the same message otherwise, exact in the end."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from adapters.slack.adapter import SlackAdapter
from adapters.slack.channel import SlackChannel
from adapters.slack.streams import REFUSALS, REFUSED_FOR_S, STREAM, SlackStreams
from gateway.channels.errors import ChannelBusy, ChannelRejected, ChannelUnsure
from gateway.channels.outbound import Button, Outbound, SentRef
from gateway.delivery.rendering.markdown import parse
from tests.adapters.slack.world import ANN, DM, World, running, shown, workspace
from tests.doubles.limits import raised_limits
from tests.doubles.slack_api import TEAM
from tests.fakes.clock import FakeClock


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with workspace() as world:
        world.home = tmp_path
        yield world


def final(text: str, **more: object) -> Outbound:
    return Outbound(document=parse(text), key="o1-0", **more)  # type: ignore[arg-type]


def streams_of(channel: SlackChannel) -> SlackStreams:
    assert channel.streams is not None
    return channel.streams


def methods(world: World) -> list[str]:
    return [call["method"] for call in world.double.calls if call["method"].startswith("chat.")]


async def test_only_threads_have_streams(world: World) -> None:
    async with running(world, world.home) as adapter:
        assert adapter.channel(DM).streams is None
        assert adapter.channel(f"{TEAM}:C0GENERAL").streams is None


@pytest.mark.requirement("G-11")
async def test_an_answer_is_appended_piece_by_piece_and_never_edited(world: World) -> None:
    async with running(world, world.home) as adapter:
        root = await world.write("<@U0DOUBLE> tell me", channel="C0GENERAL")
        channel = adapter.channel(f"{TEAM}:C0GENERAL:{root}")
        assert channel.capabilities.stream_every_s == 2.0
        streams = streams_of(channel)
        sent = await streams.open(parse("The **ca"), reply_to=root, to=ANN)
        await streams.update(sent, parse("The **cat** sat"))
        await streams.update(sent, parse("The **cat** sat"))
        await streams.update(sent, parse("The **cat** sat on the `ma"))
        done = await streams.finish(sent, final("The **cat** sat on the `mat`."))
        (message,) = world.by_bot("C0GENERAL")
        assert message["text"] == "The **cat** sat on the `mat`."
        assert (done.id, done.kind) == (message["ts"], "message")
        assert "streaming" not in message
        assert methods(world) == ["chat.startStream", "chat.appendStream", "chat.appendStream", "chat.stopStream"]
        started = world.calls("chat.startStream")[0]["params"]
        assert (started["recipient_user_id"], started["recipient_team_id"]) == (ANN, TEAM)
        assert await channel.history.find("o1-0") == SentRef(message["ts"])


async def test_a_table_and_buttons_at_the_end(world: World) -> None:
    async with running(world, world.home) as adapter:
        root = await world.write("root")
        channel = adapter.channel(f"{DM}:{root}")
        streams = streams_of(channel)
        sent = await streams.open(parse("Here:"), reply_to=root, to=ANN)
        buttons = ((Button(label="More", action="more"),),)
        await streams.finish(sent, final("Here: **x**", buttons=buttons))
        (message,) = world.by_bot()
        assert (message["text"], message["blocks"][0]["elements"][0]["value"]) == ("Here: **x**", "more")
        sent = await streams.open(parse("Table"), reply_to=root, to=ANN)
        await streams.finish(sent, final("Table\n\n| a | b |\n|---|---|\n| c | d |"))
        # Streams show tables as bars; only a markdown block draws them.
        assert world.by_bot()[1]["blocks"][0]["type"] == "markdown"


@pytest.mark.requirement("G-24")
async def test_an_answer_that_starts_over_is_edited_in_the_same_message(world: World) -> None:
    async with running(world, world.home) as adapter:
        root = await world.write("root")
        streams = streams_of(adapter.channel(f"{DM}:{root}"))
        sent = await streams.open(parse("Wrong **start** of"), reply_to=root, to=ANN)
        await streams.update(sent, parse("Right"))
        await streams.update(sent, parse("Right **now**"))
        assert [shown(message) for message in world.by_bot()] == ["Right now"]
        done = await streams.finish(sent, final("Right **now**."))
        assert [(message["ts"], shown(message)) for message in world.by_bot()] == [(done.id, "Right now.")]


@pytest.mark.parametrize("kind", ["drop", "drop_after"])
async def test_a_frame_that_was_perhaps_lost_is_put_right_at_the_end(world: World, kind: str) -> None:
    async with running(world, world.home) as adapter:
        root = await world.write("root")
        streams = streams_of(adapter.channel(f"{DM}:{root}"))
        sent = await streams.open(parse("One"), reply_to=root, to=ANN)
        world.fault("chat.appendStream", kind)
        with pytest.raises(ChannelUnsure):
            await streams.update(sent, parse("One two"))
        await streams.finish(sent, final("One two three"))
        assert [shown(message) for message in world.by_bot()] == ["One two three"]


@pytest.mark.parametrize(("kind", "arrived"), [("drop", False), ("drop_after", True)])
async def test_a_lost_end_is_unsure_and_can_be_found_or_repeated(world: World, kind: str, arrived: bool) -> None:
    async with running(world, world.home) as adapter:
        root = await world.write("root")
        channel = adapter.channel(f"{DM}:{root}")
        streams = streams_of(channel)
        sent = await streams.open(parse("One"), reply_to=root, to=ANN)
        world.fault("chat.stopStream", kind)
        with pytest.raises(ChannelUnsure):
            await streams.finish(sent, final("One two"))
        assert (await channel.history.find("o1-0") is not None) is arrived
        await streams.finish(sent, final("One two"))
        assert [shown(message) for message in world.by_bot()] == ["One two"]
        assert await channel.history.find("o1-0") == SentRef(sent.id)


async def test_a_busy_frame_is_dropped_and_the_final_is_not(world: World) -> None:
    async with running(world, world.home) as adapter:
        root = await world.write("root")
        streams = streams_of(adapter.channel(f"{DM}:{root}"))
        sent = await streams.open(parse("One"), reply_to=root, to=ANN)
        world.fault("chat.appendStream", "rate_limit", retry_after=30)
        for _ in range(2):
            with pytest.raises(ChannelBusy):
                await streams.update(sent, parse("One two"))
        assert len(world.calls("chat.appendStream")) == 1
        await streams.finish(sent, final("One two three"))
        assert [message["text"] for message in world.by_bot()] == ["One two three"]


async def test_where_native_streams_are_refused_answers_grow_by_edits(world: World) -> None:
    async with running(world, world.home) as adapter:
        root = await world.write("root")
        world.fault("chat.startStream", "error", error="missing_scope", times=99)
        streams = streams_of(adapter.channel(f"{DM}:{root}"))
        for _ in range(4):
            sent = await streams.open(parse("One"), reply_to=root, to=ANN)
            await streams.update(sent, parse("One **two**"))
            await streams.finish(sent, final("One **two** three"))
        assert len(world.calls("chat.startStream")) == 3  # it is not asked for ever
        assert [shown(message) for message in world.by_bot()] == ["One two three"] * 4


async def test_refused_native_streams_are_tried_again_after_an_hour(world: World) -> None:
    clock = FakeClock()
    world.double.settings.update(raised_limits())  # hours pass here by our clock, and not by the platform's
    adapter = SlackAdapter(world.settings(), world.adapter_context(world.home, clock=clock))
    try:
        root = world.hidden_from_history("root")
        streams = streams_of(adapter.channel(f"{DM}:{root}"))
        world.fault("chat.startStream", "error", error="missing_scope", times=REFUSALS + 1)

        async def is_native() -> bool:
            clock.advance(5.0)  # the limits of the account go by it too
            return (await streams.open(parse("One"), reply_to=root, to=ANN)).kind == STREAM

        assert not any([await is_native() for _ in range(REFUSALS + 1)])
        assert len(world.calls("chat.startStream")) == REFUSALS
        clock.advance(REFUSED_FOR_S)
        assert [await is_native(), await is_native()] == [False, False], "still refused: for another hour"
        assert len(world.calls("chat.startStream")) == REFUSALS + 1
        clock.advance(REFUSED_FOR_S)
        assert [await is_native(), await is_native()] == [True, True]
    finally:
        await adapter.aclose()


async def test_in_a_channel_a_stream_for_nobody_is_a_message(world: World) -> None:
    async with running(world, world.home) as adapter:
        root = await world.write("<@U0DOUBLE> tell me", channel="C0GENERAL")
        streams = streams_of(adapter.channel(f"{TEAM}:C0GENERAL:{root}"))
        sent = await streams.open(parse("One"), reply_to=None, to=None)
        await streams.finish(sent, final("One two"))
        assert [shown(message) for message in world.by_bot("C0GENERAL")] == ["One two"]
        assert world.calls("chat.startStream") == []


async def test_native_streams_can_be_switched_off(world: World) -> None:
    async with running(world, world.home, native_streams=False) as adapter:
        root = await world.write("root")
        streams = streams_of(adapter.channel(f"{DM}:{root}"))
        sent = await streams.open(parse("One"), reply_to=None, to=ANN)
        await streams.drop(sent)
        assert (world.by_bot(), world.calls("chat.startStream")) == ([], [])


@pytest.mark.parametrize("how", ["finish", "drop"])
async def test_a_half_stream_of_an_earlier_process_can_be_ended(world: World, how: str) -> None:
    async with running(world, world.home) as adapter:
        root = await world.write("root")
        sent = await streams_of(adapter.channel(f"{DM}:{root}")).open(parse("One"), reply_to=root, to=ANN)
    async with running(world, world.home) as adapter:
        streams = streams_of(adapter.channel(f"{DM}:{root}"))
        if how == "finish":
            await streams.finish(sent, final("One and all"))
            assert [shown(message) for message in world.by_bot()] == ["One and all"]
        else:
            world.fault("chat.delete", "error", error="streaming_state_conflict")
            await streams.drop(sent)
            assert world.by_bot() == []
            await streams.drop(sent)


async def test_a_stream_that_slack_ended_or_somebody_deleted(world: World) -> None:
    async with running(world, world.home) as adapter:
        root = await world.write("root")
        streams = streams_of(adapter.channel(f"{DM}:{root}"))
        sent = await streams.open(parse("One"), reply_to=root, to=ANN)
        del world.double.messages["D0ANN", sent.id]["streaming"]
        with pytest.raises(ChannelRejected):
            await streams.update(sent, parse("One two"))
        await streams.finish(sent, final("One two"))
        assert [shown(message) for message in world.by_bot()] == ["One two"]
        sent = await streams.open(parse("Two"), reply_to=root, to=ANN)
        del world.double.messages["D0ANN", sent.id]
        with pytest.raises(ChannelRejected):
            await streams.finish(sent, final("Two three"))
