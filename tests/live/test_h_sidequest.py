"""SideQuest in the running gateway, switched on while the subgoals of a conversation are known."""

import json
import re
from pathlib import Path

import pytest

from agent.compaction.optional_stages import EVICTED
from agent.compaction.subgoals import Tier
from gateway.config.errors import ConfigError
from tests.fakes.llm_server import LlmServer
from tests.gateway.world import World
from tests.live.scenes import (
    CHAT,
    SUBGOAL,
    SUMMARIES,
    WorldOf,
    asides,
    asked_aside,
    look,
    model,
    pages,
    rule,
    turns_of,
    working_on,
    write_agent,
)

CHOICE = "del_cursors"
QUIET = "[skills]\nenabled = false\n[context.microcompact]\nmin_pressure = 0.9\n"
BY_SUBGOALS = '[memory.compression]\npruning_strategy = "subgoal"\n'
SIDEQUEST = "[memory.sidequest]\nenabled = true\ninterval_turns = 1\nmax_eviction_ratio = 1.0\n"


def pages_in(text: str) -> set[int]:
    """The pages whose beginning is in there."""
    return {int(number) for number in re.findall(r"page (\d+) begins", text)}


async def pages_by_tier(world: World) -> tuple[set[int], set[int]]:
    """The pages that the active subgoal holds, and all others."""
    async with world.services.conversations.use(CHAT) as awake:
        state = awake.agent.message.compaction  # type: ignore[attr-defined]
        tiers = {position: state.watch.subgoals.tier(position) for position in state.window.results}
        texts = {position: str(state.window[position].message) for position in tiers}
    active = set().union(*(pages_in(texts[one]) for one, tier in tiers.items() if tier is Tier.ACTIVE))
    return active, set().union(*map(pages_in, texts.values())) - active


@pytest.mark.requirement("H-13")
async def test_what_the_active_subgoal_holds_is_neither_offered_nor_evicted(
    world_of: WorldOf, llm: LlmServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_agent(tmp_path)
    provider = model(llm, window=16_000)
    world = world_of(config=QUIET + BY_SUBGOALS + provider, providers=())
    async with world.process():
        everything = json.dumps({CHOICE: list(range(30))})
        world.script(
            rule(everything, system_contains=CHOICE),
            working_on("plan"),
            working_on("book", "plan", times=None),
            *SUMMARIES,
            *pages(world, 20),
        )
        read = 0
        while len(asides(world, SUBGOAL)) < 2:
            await look(world, read)
            read += 1
            assert read < 20, "two subgoals are never told apart"
        await asked_aside(world, SUBGOAL, 2)
        await look(world, read, read + 1)
        assert "book" in await world.asks("/status", "Working on: ")
        active, others = await pages_by_tier(world)
        assert active
        assert others

        world.config = QUIET + BY_SUBGOALS + SIDEQUEST + provider
        with pytest.raises(ConfigError, match="exclude each other"):
            world.reload()
        world.live.reload()
        assert "the changed configuration is not used" in caplog.text
        await world.answered("go on please")
        assert not asides(world, CHOICE), "the two are never at work together"

        world.config = QUIET + BY_SUBGOALS.replace("subgoal", "reactive") + SIDEQUEST + provider
        world.reload()
        await world.answered("go on with that")
        await asked_aside(world, CHOICE, 1)
        await world.answered("and now what")
        assert pages_in(asides(world, CHOICE)[0]) == others, "what is worked on is not offered"
        sent = [str(one["content"]) for one in turns_of(world)[-1]["messages"] if one["role"] == "tool"]
        assert pages_in(" ".join(sent)) == active, "all that was offered is gone, and nothing else"
        assert sum(EVICTED in text for text in sent) == len(others)
