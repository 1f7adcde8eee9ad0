"""The window of the conversation: /compact, /context, /debug-dump, as people use them, through the whole gateway."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gateway.telemetry.exposition import exposition
from tests.gateway.world import ANN, BOB, GROUP, World

QUESTIONS = "<questions>\nWhich was the first? => bird number 1\n</questions>"
SUMMARY = "<summary>\nGoal: birds\nAccomplished: seen\nKey Decisions: none\nRelevant Files: none\n</summary>"


@pytest.fixture(autouse=True)
def summariser(world: World) -> None:
    world.script(
        {"match": {"system_contains": "You write the memory"}, "reply": {"text": QUESTIONS + SUMMARY}},
        {"match": {}, "reply": {"text": "fine"}},
    )


async def talk(world: World, turns: int) -> None:
    for number in range(turns):
        await world.answered(f"bird number {number} " + "and more about it " * 30, "fine")


@pytest.mark.requirement("Z-77")
async def test_compact_summarises_now_and_status_shows_what_it_gained(world: World) -> None:
    assert "nothing to compact yet" in await world.asks("/compact")
    await talk(world, 6)
    assert "→" in await world.asks("/compact the heron", "Summarised")
    request = next(body for body in world.llm.bodies if "You write the memory" in str(body["messages"][0]))
    assert "keep this above all: the heron" in str(request["messages"][0])
    await world.answered("go on", "fine")
    assert "conversation summary" in str(world.llm.bodies[-1]["messages"])
    assert "Compaction: " in await world.asks("/status", "Status")
    shown = await world.asks("/context", "What fills my window")
    assert "\n\nQuestions to my summaries: 1; answered: 0; put back into them: 1\n" in shown
    assert "- Which was the first? bird number 1" in str(world.llm.bodies[-1]["messages"])
    assert "\n\nLast compaction: " in shown, "right after a list it would be part of its last line"


@pytest.mark.requirement("Z-72")
async def test_who_scrapes_reads_the_figures_of_the_newest_compaction(world: World) -> None:
    overview = world.services.overview

    async def scraped() -> list[int]:
        text = exposition(overview.metrics, await overview.gauges()).decode()
        samples = {one.name: one.value for family in text_string_to_metric_families(text) for one in family.samples}
        return [
            int(samples[f"tieline_compaction_last_{name}"])
            for name in ("before_tokens", "after_tokens", "timestamp_ms")
        ]

    await talk(world, 6)
    assert await scraped() == [0, 0, 0], "there was none so far"
    begun_ms = int(world.clock.now().timestamp() * 1000)
    told = await world.asks("/compact", "Summarised")
    before, after, at_ms = await scraped()
    assert f"{before:,}" in told, told
    assert f"{after:,}" in told
    assert begun_ms <= at_ms <= int(world.clock.now().timestamp() * 1000)


async def test_context_lists_what_fills_the_window(world: World) -> None:
    await talk(world, 2)
    answer = await world.asks("/context", "What fills my window")
    assert "instructions and tools: " in answer
    assert "The size is configured." in answer
    assert "people: " in answer
    assert "my answers: " in answer
    assert "pinned: the first request and standing rules: " in answer
    assert "🟢" in answer


async def test_in_a_group_only_admins_compact(world: World) -> None:
    assert "admin" in (await world.asks("/compact", "admin", chat=GROUP, person=BOB)).lower()


@pytest.mark.requirement("G-28")
async def test_dumps_are_for_admins_and_hold_the_requests(world: World) -> None:
    assert "admin" in (await world.asks("/debug-dump", "admin", chat=BOB, person=BOB)).lower()
    assert "Dumping is off here" in await world.asks("/debug-dump")
    assert not (world.home / "dumps").exists(), "to ask is not to switch on"
    answer = await world.asks("/debug-dump on", "Dumping what goes")
    assert "Dumping is on here, into dumps/" in await world.asks("/debug-dump")
    assert "dumps/" in answer
    await world.say("a secret bird")
    await world.shows("fine")
    (folder,) = (world.home / "dumps").glob("*/*")
    assert any("a secret bird" in path.read_text() for path in folder.glob("*-request.json"))
    assert "Say what they shall keep" in await world.asks("/dump-format", "json keeps")
    assert "“?” is no form" in await world.asks("/dump-format ?", "no form")
    for form, kept in (("raw", "*-request.txt"), ("trace", "trace.jsonl")):
        await world.asks(f"/dump-format {form}", f"as {form}")
        await world.answered(f"a {form} bird", "fine")
        (written,) = folder.glob(kept)
        assert written.stat().st_mode & 0o777 == 0o600
        assert ("raw bird" in written.read_text()) == (form == "raw")
    assert not any("trace bird" in path.read_text() for path in folder.iterdir()), "sizes and nothing else"
    assert "Dumping is off" in await world.asks("/debug-dump off", "off")
    assert "means nothing here" in await world.asks("/debug-dump sideways", "means nothing", chat=ANN)
