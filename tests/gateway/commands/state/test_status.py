"""State and usage: /status /usage /verbose /exit."""

import re
from collections.abc import Callable

import pytest

from gateway.channels.adapter import Fullness
from gateway.channels.keys import ConversationKey
from tests.gateway.world import ANN, BOB, GROUP, World, slowly

PRICED = """
[[llm.providers]]
name = "priced"
type = "openai"
model = "p-1"
base_url = "{url}/v1"
api_key = "sk-double"
prices = {{ input = 1000.0, output = 1000.0 }}
"""


async def test_status_tells_what_is_really_in_use(world: World) -> None:
    answer = await world.asks("/status")
    assert "Provider: a (model-a), the default" in answer
    assert "🟢 0 of 128,000 tokens (0 %)" in answer
    assert "Idle" in answer
    assert "telegram: connected" in answer
    await world.asks("/model other", "now asks")
    await world.answered("hello there")
    answer = await world.asks("/status", "other")
    assert "a (other), chosen here" in answer
    assert "2 messages" in answer
    assert "Working on" not in answer, "nothing is known of that yet"


async def test_status_beside_a_running_turn(world: World) -> None:
    world.script(slowly("slow"))
    await world.say("slow please", person=BOB)
    await world.until_asked()
    await world.say("waiting", person=BOB)
    answer = await world.asks("/status", "Status", person=BOB)
    assert re.search(r"Working for \d+ s", answer)
    assert "Waiting: 1, mode queue" in answer
    assert "telegram: connected" not in answer, "health is the admins'"


async def test_usage_counts_tokens_and_says_where_the_price_is_unknown(world_of: Callable[..., World]) -> None:
    world = world_of()
    world.config = PRICED.format(url=world.llm.url)  # the first one: the default
    async with world.process():
        assert "this conversation: 0 in, 0 out, 0 from cache, no cost" in await world.asks("/usage")
        world.script({"match": {}, "reply": {"text": "ok", "usage": {"input_tokens": 1200, "output_tokens": 34}}})
        await world.asks("/provider a", "now uses")
        await world.answered("hello", "ok")
        answer = await world.asks("/usage", "1,200 in")
        assert "this conversation: 1,200 in, 34 out, 0 from cache, price not known" in answer
        await world.asks("/provider reset", "Back to the default")
        await world.answered("hello again", "ok")
        answer = await world.asks("/usage", "2,400 in")
        assert "all time here: 2,400 in, 68 out, 0 from cache, 1.23 USD, calls of unknown price: 1" in answer
        assert "0 in, 0 out" in await world.asks("/usage", person=BOB)


@pytest.mark.parametrize("mode", ["quiet", "normal", "verbose"])
async def test_verbosity_is_set_for_this_chat(world: World, mode: str) -> None:
    assert "I show: normal. Choose" in await world.asks("/verbose")
    assert "I show: normal. Choose" in await world.asks("/verbose loud")
    assert f"From now on I show: {mode}." in await world.asks(f"/verbose {mode.upper()}")
    assert f"I show: {mode}. Choose" in await world.asks("/verbose", "Choose")
    assert "I show: normal" in await world.asks("/verbose", chat=GROUP)


async def test_verbosity_counts_at_once_and_after_a_restart(world_of: Callable[..., World]) -> None:
    world = world_of()
    async with world.process():
        await world.asks("/verbose verbose", "From now on")
        call = {"type": "tool_use", "name": "calculate", "input": {"expression": "1/0"}}
        world.script(
            {"match": {"tool_result": True}, "reply": {"text": "42", "hold": "42"}},
            {"match": {}, "reply": {"blocks": [call]}},
        )
        await world.say("how much")
        await world.shows("🔧 calculate failed")
        world.go_on("42")
        await world.shows("42")
    async with world.process():
        assert "I show: verbose" in await world.asks("/verbose", "Choose")


async def test_a_server_channel_cannot_be_left(world: World) -> None:
    assert "/exit only leaves the terminal" in await world.asks("/exit")
    await world.say("still there?")
    await world.shows("still there?")


async def test_the_terminal_can(world_of: Callable[..., World]) -> None:
    async with world_of(accounts=("console",)).process() as world:
        await world.hears(world.said("/quit", on="console", chat=""))
        await world.shows("Bye.", "", "console")


def figures(status: str) -> tuple[int, str]:
    """Tokens of the window and the line of the newest compaction."""
    used = re.search(r"🟢 ([\d,]+) of 128,000 tokens", status)
    assert used is not None, status
    badge = re.search(r"Compaction: (\S+→\S+ \(-\S+\))", status)
    return int(used[1].replace(",", "")), badge[1] if badge else ""


@pytest.mark.requirement("Z-76", "Z-77")
async def test_status_tells_as_much_after_a_sleep_and_a_restart(world_of: Callable[..., World]) -> None:
    world = world_of()
    world.script({"match": {}, "reply": {"text": "fine"}})
    async with world.process():
        for number in range(6):
            await world.answered(f"bird number {number} " + "and more about it " * 60, "fine")
        before, none_yet = figures(await world.asks("/status", "Status"))
        assert before > 1000
        assert none_yet == ""
        await world.asks("/compact", "→")
        compacted, badge = figures(await world.asks("/status", "Status"))
        assert compacted < before, "it need not wait for the next request"
        assert badge
    async with world.process():
        used, again = figures(await world.asks("/status", "Status"))
        assert used == pytest.approx(compacted, rel=0.1)
        assert again == badge
        await world.asks("/new", "A new conversation")
        used, again = figures(await world.asks("/status", "Status"))
        assert again == "", "it is of the session that was left"


@pytest.mark.requirement("Z-77")
@pytest.mark.parametrize("command", ["/new", "/clear"])
async def test_what_was_gained_is_not_told_of_the_next_session(world: World, command: str) -> None:
    world.script({"match": {}, "reply": {"text": "fine"}})
    for number in range(6):
        await world.answered(f"bird number {number} " + "and more about it " * 60, "fine")
    await world.asks("/compact", "→")
    assert figures(await world.asks("/status", "Status"))[1]
    await world.asks(command)
    assert "Compaction: " not in await world.asks("/status", "Status")
    await world.answered("another bird", "fine")
    assert "Compaction: " not in await world.asks("/status", "Status")
    assert gauge(world).badge == ""


def gauge(world: World) -> Fullness:
    """The gauge that Ann's account shows beside her chat."""
    full = world.accounts["telegram"].adapter_context.fullness(ConversationKey("telegram", ANN))
    assert full is not None
    return full


@pytest.mark.requirement("Z-76")
async def test_the_gauge_is_coloured_by_the_window_of_the_model_that_answers(world_of: Callable[..., World]) -> None:
    world = world_of(window=12_000, config="[context]\noutput_reserve = 500\n")
    world.script({"match": {}, "reply": {"text": "fine"}})
    async with world.process():
        await world.answered("heron " * 5_000, "fine")
        full = gauge(world)
        assert (full.window, full.colour) == (12_000, "yellow")
        assert f"🟡 {full.used:,} of 12,000 tokens" in await world.asks("/status", "Status")
