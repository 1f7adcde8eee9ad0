"""Pruning of results in the running gateway: by real tokens, beside the event loop, by use."""

import json
from pathlib import Path
from typing import Any

import pytest

from agent.compaction.scoring import EVICTED, marginal_gains
from agent.core.events import CompactComplete, ContextBuilt
from agent.turn.tokens import count_by_bytes
from tests.fakes.calls_seen import noting_calls_of
from tests.fakes.llm_server import LlmServer
from tests.fakes.running import running
from tests.fakes.waiting import until
from tests.gateway.world import BOB, GROUP, World, calling
from tests.live.scenes import (
    SUMMARIES,
    WorldOf,
    dumped,
    happened,
    look,
    model,
    page,
    pages,
    put,
    turns_of,
    working_on,
    write_agent,
)

PLAIN = "[skills]\nenabled = false\n"
QUIET = "[debug]\nenabled = true\n[skills]\nenabled = false\n"
LETTERS, LETTERS_TOKENS = "x q z j v k " * 1_400, 6 * 1_400  # each is a token with its blank, plain text has four bytes
WINDOW = 64_000
REED = "a heron stands in the reed and waits for the tide "


def results(world: World) -> dict[str, str]:
    """The results in the newest request of a turn, by the path that was read."""
    messages = turns_of(world)[-1]["messages"]
    paths = {
        call["id"]: json.loads(call["function"]["arguments"])["path"]
        for one in messages
        for call in one.get("tool_calls") or ()
    }
    return {paths[one["tool_call_id"]]: str(one["content"]) for one in messages if one["role"] == "tool"}


@pytest.mark.requirement("Z-27")
async def test_a_window_that_fills_is_counted_in_tokens_and_not_in_bytes(
    world_of: WorldOf, llm: LlmServer, tmp_path: Path
) -> None:
    write_agent(tmp_path)
    assert count_by_bytes(LETTERS) < 0.6 * LETTERS_TOKENS
    async with world_of(config=PLAIN + model(llm), providers=()).process() as world:
        async with running(world.services.warm_up):
            await world.answered(LETTERS, "x q z j")
            await until(lambda: world.services.tokenizer.is_exact)
            # Chats that were never calibrated by what a provider reports: only the counting tells them apart.
            await world.answered("hi", person=BOB)
            await world.answered(LETTERS, "x q z j", chat=GROUP)
        short, long = happened(world, ContextBuilt)[-2:]
        assert long.token_estimate - short.token_estimate == pytest.approx(LETTERS_TOKENS, rel=0.1)
        assert (short.window, long.window) == (16_000, 16_000), "of the provider"


def hard_at(llm: LlmServer, share: float) -> str:
    """A hard compaction from this share of the window on."""
    return (
        f"{PLAIN}[memory]\nprune_protect_tokens = 100\nsoft_compaction_threshold = {share - 0.004:.5f}\n"
        f"high_compaction_threshold = {share - 0.002:.5f}\nhard_compaction_threshold = {share:.5f}\n"
        f"[memory.flush]\nenabled = false\n{model(llm, window=WINDOW)}"
    )


@pytest.mark.requirement("Z-30")
async def test_a_hard_compaction_first_gives_up_the_result_that_nobody_came_back_to(
    world_of: WorldOf, llm: LlmServer, tmp_path: Path
) -> None:
    write_agent(tmp_path)
    async with world_of(config=hard_at(llm, 0.9), providers=()).process() as world:
        put(world, "map.txt", f"See kingfisher-4471.txt. {REED * 50}")
        put(world, "other.txt", f"Nothing here. {REED * 50}")
        put(world, "kingfisher-4471.txt", f"The nest. {REED * 50}")
        rules: list[Any] = []
        for name in ("map.txt", "other.txt", "kingfisher-4471.txt"):
            rules += calling(f"look into {name}!", "read", path=name)
        world.script(*rules)
        for name in ("map.txt", "other.txt", "kingfisher-4471.txt"):
            await world.answered(f"look into {name}!", f"Done: look into {name}!")
        for number in range(3):
            await world.answered(f"{number}: thank you for that, go on like this")
        assert not any(EVICTED in text for text in results(world).values())
        full = happened(world, ContextBuilt)[-1].token_estimate
        world.config = hard_at(llm, (full - 200) / WINDOW)
        world.reload()
        await world.answered("and now?")
        (done,) = happened(world, CompactComplete)
        assert (done.stage, done.messages, done.mechanical) == ("hard", 0, True), "no summary was needed"
        found = results(world)
        assert EVICTED in found["other.txt"], "never used again"
        assert "See kingfisher-4471.txt." in found["map.txt"], "the oldest of all, and what it told was used"
        assert "The nest." in found["kingfisher-4471.txt"]


@pytest.mark.requirement("Z-54", "Z-64")
async def test_gains_are_found_beside_the_loop_and_what_is_worked_on_stays_however_often_it_was_told(
    world_of: WorldOf, llm: LlmServer, tmp_path: Path
) -> None:
    write_agent(tmp_path)
    memory = "[memory]\nprune_protect_tokens = 100\ntool_call_cutoff = 60\n"
    async with world_of(config=QUIET + memory + model(llm), providers=()).process() as world:
        world.script(working_on("plan"), working_on("book", "plan"), *SUMMARIES, *pages(world, 16))
        put(world, "page14.txt", page(12))  # word for word, and newer: nothing that page 12 tells is told by it alone
        await look(world, *range(8))
        with noting_calls_of(marginal_gains) as in_the_loop:
            await look(world, *range(8, 13))
            await until(lambda: all("ended_at" in call for call in llm.calls))  # what is worked on is known
            await look(world, *range(13, 16))
        judged = dumped(world, "pruning-scores.txt")
        assert judged
        assert all(text.startswith("subgoal_mig") for text in judged), "what is shipped"
        assert not in_the_loop
        found = results(world)
        assert EVICTED in found.get("page1.txt", EVICTED)
        assert "page 12 begins" in found["page12.txt"], "of the subgoal that is worked on"
        assert "page 12 begins" in found["page14.txt"]
        assert "book" in await world.asks("/status", "Working on")
