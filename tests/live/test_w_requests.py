"""Requests to a model in the running gateway, hooks of a sub-agent, and sessions that end by themselves."""

import json
from collections.abc import Callable

import pytest
from sqlalchemy import Connection, select, update

from agent.core.events import ContextBuilt, LoopFailed, TokensUsed
from agent.storage.tables import message as message_table
from tests.fakes.waiting import until
from tests.gateway.world import World, calling
from tests.live.scenes import turns_of
from tests.live.test_r_turns import call, of, tools
from tests.live.test_w_turns import hooks, noted

WorldOf = Callable[..., World]


def anthropic(made: World, *, default: bool) -> str:
    return (
        f'[[llm.providers]]\nname = "c"\ntype = "anthropic"\nmodel = "claude-sonnet-4-5"\n'
        f'base_url = "{made.llm.url}"\napi_key = "sk-double"\ndefault = {str(default).lower()}\n'
    )


@pytest.mark.requirement("W-36", "W-37")
async def test_long_requests_ask_for_the_hour_of_cache_where_there_is_one(world_of: WorldOf) -> None:
    made = world_of()
    made.config = anthropic(made, default=True)
    async with made.process() as world:
        await world.answered("hello", "hello")
        marks = json.dumps(world.llm.bodies[-1])
        assert '"ttl": "1h"' in marks
        await world.asks("/provider a", "a")
        await world.answered("and now", "and now")
        assert "cache_control" not in json.dumps(world.llm.bodies[-1])
        assert '"ttl"' not in json.dumps(world.llm.bodies[-1])
    folder = made.home / "agents" / "default"
    folder.mkdir(parents=True)
    (folder / "AGENT.md").write_text("---\nname: Brief\ntools: []\n---\n\nBe brief.\n")
    made.llm.calls.clear()
    async with made.process() as world:
        await world.asks("/new")
        await world.asks("/provider c", "c")
        await world.answered("hello", "hello")
        assert '"ttl": "1h"' not in json.dumps(world.llm.bodies[-1]), "below 1,024 tokens"


@pytest.mark.requirement("W-39")
async def test_a_call_without_its_result_is_mended_before_it_is_sent(world_of: WorldOf) -> None:
    made = world_of()
    async with made.process() as world:
        for words in ("one", "two"):
            world.script(*calling(words, "calculate", expression="6*7"))
            await world.answered(words, f"Done: {words}")

        def lose(conn: Connection) -> None:
            rows = conn.execute(select(message_table.c.id, message_table.c.parts)).all()
            result = next(row.id for row in rows if "tool_result" in row.parts)
            conn.execute(update(message_table).where(message_table.c.id == result).values(agent_visible=False))

        await world.database.write(lose)
    async with made.process() as world:
        await world.answered("three", "three")
        sent = world.llm.bodies[-1]["messages"]
        uses = {use["id"] for one in sent for use in one.get("tool_calls", ())}
        assert uses == {one["tool_call_id"] for one in sent if one["role"] == "tool"}
        assert all(one.get("status", 200) == 200 for one in world.llm.calls), "the double refuses what services refuse"
        assert not of(world, LoopFailed)


@pytest.mark.requirement("W-42")
async def test_a_stream_that_ends_without_a_word_of_its_end_is_asked_for_again(world_of: WorldOf) -> None:
    async with world_of(providers=("a",)).process() as world:
        world.llm.fails(kind="drop", after=2)
        world.script({"match": {}, "reply": {"text": "one two three four five"}})
        await world.answered("count", "one two three four five")
        assert len(world.llm.bodies) == 2
        assert sum("one two" in text for text in world.texts()) == 1, "not twice"


@pytest.mark.requirement("R-16")
async def test_what_a_request_is_estimated_at_comes_near_to_what_it_was(world_of: WorldOf) -> None:
    async with world_of(providers=("a",)).process() as world:
        off = []
        for number in range(6):
            await world.answered(f"{number} " + "Donaudampfschiff äöü 漢字 " * 300, f"{number} ")
            estimate, real = of(world, ContextBuilt)[-1].token_estimate, of(world, TokensUsed)[-1].prompt
            off.append(abs(estimate - real) / real)
        assert off[1:] == sorted(off[1:], reverse=True), off
        assert off[-1] < 0.75 * off[1], off


@pytest.mark.requirement("R-39")
async def test_a_sub_agent_that_takes_too_long_is_an_error_of_its_call(world_of: WorldOf) -> None:
    folder = (made := world_of()).home / "agents"
    folder.mkdir()
    (folder / "scout.md").write_text("---\nname: scout\ndescription: Looks.\ntimeout_s: 1\n---\n\nYou look.\n")
    async with made.process() as world:
        world.script(
            {"match": {"system_contains": "You look."}, "reply": {"text": "never", "hold": "gate"}},
            *calling("send them", "Agent", task="look around", agent="scout"),
        )
        await world.answered("send them", "Done: send them")
        result = world.llm.bodies[-1]["messages"][-1]["content"]
        assert "1 s" in result
        assert result.startswith("Error")


@pytest.mark.requirement("W-25", "W-40", "R-34")
async def test_hooks_and_the_search_for_tools_reach_into_sub_agents(world_of: WorldOf) -> None:
    points = ("on_turn_start", "pre_prompt", "subagent_start", "subagent_stop")
    said = '[[hooks]]\nname = "say"\non = "pre_prompt"\ncommand = "echo heard of it"\n'
    async with world_of(config=hooks(*points) + said).process() as world:
        below = {"system_contains": "You are a sub-agent"}
        world.script(
            {"match": below, "times": 1, "reply": {"blocks": [call("tool_search", tool_name="task_list")]}},
            {"match": below, "times": 1, "reply": {"blocks": [call("task_list")]}},
            {"match": below, "reply": {"text": "nothing to do"}},
            *calling("send them", "Agent", task="look at the list"),
        )
        await world.answered("send them", "Done: send them")
        inside = [body for body in world.llm.bodies if "You are a sub-agent" in str(body["messages"][0])]
        assert len(inside) == 3
        assert ["task_list" in tools(body) for body in inside] == [False, True, True]
        assert all("heard of it" in str(body["messages"]) for body in inside)
        await until(lambda: noted(world.home).count("subagent_stop") == 1)
        each = noted(world.home)
        assert each.count("on_turn_start") == each.count("pre_prompt") == len(turns_of(world))
        assert each.count("subagent_start") == 1


@pytest.mark.requirement("W-62", "W-53")
async def test_a_conversation_that_is_left_alone_ends_its_session_for_hooks(world_of: WorldOf) -> None:
    async with world_of(config=hooks("session_end")).process() as world:
        await world.answered("hello", "hello")
        await world.services.conversations.tidy()
        assert noted(world.home) == [], "not yet"

        async def has_ended() -> bool:
            # Set forward each time: the turn may be at its last step yet, and what it does then counts as work of then.
            world.clock.ahead_s += 31 * 60
            await world.services.conversations.tidy()  # as each minute does
            return noted(world.home) == ["session_end"]

        await until(has_ended)
        await world.answered("again", "again")
        assert "hello" in str(world.llm.bodies[-1]["messages"]), "it goes on where it was"
