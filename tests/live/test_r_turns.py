"""The loop of a turn in the running gateway: what a request holds, what calls come to, how it ends, what it tells."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from sqlalchemy import select

from agent.core.events import (
    CallBilled,
    DecisionCompleted,
    LoopEnded,
    LoopFailed,
    LoopStarted,
    StepCompleted,
    StreamDelta,
    SubagentEnded,
    SubagentStarted,
    TokensUsed,
    ToolEnded,
    ToolStarted,
)
from agent.storage.tables import turn
from tests.fakes.waiting import until
from tests.gateway.world import ANN, GROUP, World, calling

WorldOf = Callable[..., World]


def call(name: str, **given: object) -> dict[str, Any]:
    return {"type": "tool_use", "name": name, "input": given}


def steps(*replies: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Rules: the model gives one reply a call, in this order."""
    return [{"match": {}, "times": 1, "reply": reply} for reply in replies]


def of(world: World, kind: type[Any]) -> list[Any]:
    return [event for event in world.events if isinstance(event, kind)]


def tools(body: Mapping[str, Any]) -> dict[str, Any]:
    return {one["function"]["name"]: one["function"] for one in body.get("tools", ())}


@pytest.mark.requirement("R-10", "R-12", "R-14", "R-17", "R-24", "R-31", "R-32", "R-33", "R-35", "W-01")
async def test_a_turn_with_a_call(world: World) -> None:
    world.script(*steps({"blocks": [call("calculate", expression="6*7")]}, {"text": "It is 42."}))
    await world.answered("how much is 6*7?", "It is 42.", chat=GROUP, chat_title="Gardeners")
    first, second = world.llm.bodies
    assert first["messages"][0]["role"] == "system"
    system = first["messages"][0]["content"]
    assert [part in system for part in ("You are Tieline", "## Rules that nothing", "## Surroundings")] == [True] * 3
    assert 'The place is called "Gardeners"' in system
    assert "The files of this chat are in /workspace" in system
    assert "how much is 6*7?" in first["messages"][-1]["content"]
    assert "calculate" in tools(first)
    asked, result = second["messages"][-2:]
    assert json.loads(asked["tool_calls"][0]["function"]["arguments"]) == {"expression": "6*7"}, (
        "put together of pieces"
    )
    assert (result["role"], result["tool_call_id"], result["content"]) == ("tool", asked["tool_calls"][0]["id"], "42")
    assert [event.tool_name for event in of(world, ToolStarted)] == ["calculate"]
    (ended,) = of(world, ToolEnded)
    assert (ended.tool_name, ended.is_error, ended.result_summary) == ("calculate", False, "42")
    assert ended.elapsed_ms >= 0
    assert [event.tool_calls for event in of(world, DecisionCompleted)] == [1, 0], "told after each call"
    one, two = of(world, StepCompleted)
    assert (two.step_index, two.remaining_steps) == (one.step_index + 1, one.remaining_steps - 1)
    assert (len(of(world, LoopStarted)), len(of(world, LoopEnded)), len(of(world, LoopFailed))) == (1, 1, 0)
    assert of(world, LoopEnded)[0].success


@pytest.mark.requirement("R-13", "R-15", "R-47")
async def test_what_it_cost_is_told_at_its_end_by_tier(world_of: WorldOf) -> None:
    made = world_of()
    made.config = (
        f'[[llm.providers]]\nname = "c"\ntype = "anthropic"\nmodel = "claude-sonnet-4-5"\n'
        f'base_url = "{made.llm.url}"\napi_key = "sk-double"\ndefault = true\n'
        "prices = {input = 1.0, output = 2.0}\n"
    )
    async with made.process() as world:
        world.script(*steps({"blocks": [call("calculate", expression="6*7")]}, {"text": "It is 42."}))
        await world.answered("how much is 6*7?", "It is 42.")
        (told,), billed = of(world, TokensUsed), of(world, CallBilled)
        assert len(billed) == 2
        for tier in ("prompt", "output", "cache_creation", "cache_read"):
            assert getattr(told, tier) == sum(getattr(one, tier) for one in billed)
        assert told.output == sum(one["usage"]["output_tokens"] for one in world.llm.calls) > 0
        assert told.estimated_cost_usd == pytest.approx(sum(one.cost_usd for one in billed)) != 0
        assert "".join(event.content for event in of(world, StreamDelta)).endswith("It is 42.")


@pytest.mark.requirement("R-25", "G-18")
async def test_a_question_is_offered_and_goes_on_with_the_answer(world: World) -> None:
    world.script(*steps({"blocks": [call("ask_user", question="Which city?")]}, {"text": "Rain in Rome."}))
    await world.answered("what is the weather?", "Which city?")
    assert "ask_user" in tools(world.llm.bodies[0])
    await world.answered("Rome", "Rain in Rome.")
    assert len({event.run for event in of(world, LoopStarted)}) == 2
    assert of(world, StepCompleted)[1].step_index == of(world, StepCompleted)[0].step_index + 1, "the same loop goes on"


@pytest.mark.requirement("R-24")
async def test_an_answer_without_a_call_is_final(world: World) -> None:
    await world.answered("hello", "hello")
    await world.settled()
    assert len(world.llm.calls) == 1
    assert len(world.texts()) == 1


@pytest.mark.requirement("R-01")
async def test_a_refusal_of_the_model_ends_the_turn(world_of: WorldOf) -> None:
    async with world_of(providers=("a",)).process() as world:
        world.llm.fails(kind="error", status=401)
        await world.say("hello")
        await world.settled()
        assert len(world.llm.calls) == 1, "another try would be refused as well"
        assert len(of(world, LoopFailed)) == 1
        assert sum("trying again will not help" in text for text in world.texts()) == 1, "the person is told"


@pytest.mark.requirement("R-25", "R-02", "R-01", "R-38")
async def test_an_agent_file_adds_and_takes_away_tools(world_of: WorldOf) -> None:
    made = world_of(config='[approvals]\ndeny = ["calculate"]\n[agent]\nstep_budget = 2\n')
    folder = made.home / "agents" / "default"
    folder.mkdir(parents=True)
    keys = "extra_tools: [fail, final_answer, task_list]\ndisallowed_tools: [web_fetch, ask_user]\n"
    (folder / "AGENT.md").write_text(f"---\nname: Strict\n{keys}---\n\nYou are strict.\n")
    async with made.process() as world:
        world.script(*steps({"blocks": [call("fail", reason="I have no hands.")]}))
        await world.answered("lift this", "I have no hands.")
        shown = tools(world.llm.bodies[0])
        assert {"fail", "final_answer", "task_list", "remember"} <= set(shown), "added, the others stay"
        assert set(shown).isdisjoint({"web_fetch", "ask_user", "calculate"}), "taken away, and what is denied anyway"
        assert "calculate" not in shown["tool_search"]["description"]
        assert not of(world, LoopEnded), "it failed"
        world.script(*steps({"blocks": [call("final_answer", message="Lifted.")]}))
        await world.answered("and now?", "Lifted.")
        assert of(world, LoopEnded)[-1].success
        look = {"blocks": [{"type": "text", "text": "I look."}, call("current_time")]}  # words answer nothing yet
        world.script(*steps(look, look, look))
        await world.say("look for ever")
        await world.settled()
        assert len(of(world, DecisionCompleted)) == 4, "two steps and no more"
        assert len(of(world, LoopFailed)) == 2
        newest = select(turn.c.state).order_by(turn.c.inbox_id.desc()).limit(1)
        assert await world.database.read(lambda conn: conn.execute(newest).scalar_one()) == "failed"


@pytest.mark.requirement("R-40", "R-41", "R-28", "W-44")
async def test_what_fails_or_is_denied_is_told_and_the_loop_goes_on(world_of: WorldOf) -> None:
    config = '[approvals]\ndeny = ["glob"]\n[agent]\nrecovery_budget = 2\n'
    async with world_of(config=config).process() as world:
        world.script(
            *steps(
                {"blocks": [call("calculate", expression="1/0")]},
                {"blocks": [call("glob", pattern="*") | {"unoffered": True}]},
                {"blocks": [call("calculate", expression="1+1")]},
                {"text": "Two."},
            )
        )
        await world.answered("go on", "Two.")
        failed, denied, worked = (body["messages"][-1]["content"] for body in world.llm.bodies[1:])
        assert "zero" in failed
        assert "glob was denied and was not run" in denied
        assert worked == "2"
        world.script(*steps(*({"blocks": [call("calculate", expression=f"{n}/0")]} for n in range(1, 5))))
        await world.say("divide")
        await world.settled()
        assert len(world.llm.bodies) == 4 + 3, "two failures may be recovered from, the third ends it"
        assert of(world, LoopFailed)


@pytest.mark.requirement("R-31", "R-34", "R-36", "R-37", "R-50", "R-52", "R-54")
async def test_errands_and_conversations_run_side_by_side(world: World) -> None:
    below = {"system_contains": "You are a sub-agent"}
    nested = {"blocks": [call("Agent", task="deeper") | {"unoffered": True}]}
    world.script(
        {"match": below | {"contains": "errand one", "tool_result": False}, "reply": nested | {"hold": "slow"}},
        {"match": below | {"contains": "errand one"}, "reply": {"text": "found one"}},
        {"match": below, "reply": {"text": "found two", "hold": "slow"}},
        *calling("milk", "task_create", description="buy milk"),
        {
            "match": {"contains": "both", "tool_result": False},
            "reply": {"blocks": [call("Agent", task="errand one"), call("Agent", task="errand two")]},
        },
        {"match": {"contains": "both"}, "reply": {"text": "there"}},
    )

    def below_asked() -> list[Any]:
        return [body for body in world.llm.bodies if "You are a sub-agent" in body["messages"][0]["content"]]

    await world.say("both")
    await until(lambda: len(below_asked()) == 2)
    await world.say("milk", person="78")
    await world.shows("Done: milk", "78")
    assert "buy milk" in await world.asks("/tasks", "buy milk", person="78")
    assert "there" not in world.texts(), "the other conversation is still at it"
    assert (len(of(world, SubagentStarted)), of(world, SubagentEnded)) == (2, []), "neither has ended"
    world.go_on()
    await world.shows("there")
    results = [one["content"] for one in world.llm.bodies[-1]["messages"] if one["role"] == "tool"]
    assert ["found one" in results[-2], "found two" in results[-1]] == [True, True], "in the order of the calls"
    assert all("both" not in str(body["messages"][1:]) for body in below_asked()), "a history of its own"
    assert "Agent was not run" in str(below_asked()[2]["messages"][-1]), "a second level is refused at once"
    assert len(of(world, SubagentStarted)) == 2


@pytest.mark.requirement("R-11", "R-45", "R-03")
async def test_the_prefix_of_requests_is_watched(world: World) -> None:
    await world.answered("one", "one")
    await world.answered("two", "two")
    one, two = (event.prefix for event in of(world, DecisionCompleted))
    assert one == two
    await world.asks("/model model-other", "model-other")
    await world.answered("three", "three")
    assert of(world, DecisionCompleted)[-1].prefix != two, "the model is part of it"
    world.script(*calling("search", "tool_search", tool_name="task_list"))
    before = of(world, DecisionCompleted)[-1].prefix
    await world.answered("search", "Done: search")
    assert of(world, DecisionCompleted)[-1].prefix != before, "and so are the tools"


@pytest.mark.requirement("W-20", "R-44", "R-53")
async def test_a_stop_ends_the_loop_between_two_calls_of_the_model(world: World) -> None:
    world.script(
        {"match": {"tool_result": False}, "reply": {"blocks": [call("calculate", expression="1+1")], "hold": "slow"}},
        {"match": {"tool_result": True}, "reply": {"text": "never"}},
    )
    await world.say("count")
    await world.until_asked()
    await world.say("/stop")
    await world.shows("Stopped.")
    world.go_on()
    await world.settled()
    assert len(world.llm.bodies) == 1


@pytest.mark.requirement("R-44")
async def test_an_outer_limit_of_time_ends_it(world_of: WorldOf) -> None:
    async with world_of(config="[agent]\nexecution_timeout_ms = 1000\n").process() as world:
        world.script({"match": {}, "reply": {"text": "never", "hold": "gate"}})
        await world.say("think")
        await world.shows("1 s")
        await world.settled()
        assert of(world, LoopFailed)[0].error == "execution timeout"


@pytest.mark.requirement("R-18", "W-43", "R-42")
async def test_a_stream_without_end_is_given_up(world_of: WorldOf) -> None:
    config = "[timeouts]\nllm_stream = 1.0\nllm = 1.0\n"
    async with world_of(config=config, providers=("a",)).process() as world:
        world.script({"match": {}, "reply": {"text": "word " * 200, "token_delay": 0.02}})
        await world.say("tell me everything")
        await until(lambda: bool(of(world, LoopFailed)))
        await world.settled()
        assert "took longer than 1 s" in of(world, LoopFailed)[0].error
        assert len(world.llm.bodies) == 1, "what has begun so is not asked for again"
        assert any("word word" in text for text in world.texts()), "what came stands"


@pytest.mark.requirement("R-22", "R-23")
async def test_a_cut_answer_is_asked_for_at_the_models_limit(world_of: WorldOf) -> None:
    made = world_of()
    made.config = (
        f'[[llm.providers]]\nname = "c"\ntype = "anthropic"\nmodel = "claude-sonnet-4-5"\nbase_url = "{made.llm.url}"\n'
        'api_key = "sk-double"\ndefault = true\n'
    )
    async with made.process() as world:
        long = "many words " * 10
        world.script(*steps({"text": long, "stop_reason": "max_tokens"}, {"text": "the whole of it"}))
        await world.answered("write", "the whole of it")
        first, second = world.llm.bodies
        assert second["max_tokens"] > first["max_tokens"]
        await world.asks("/provider a", "a")
        world.script(*steps({"text": "only a part", "stop_reason": "max_tokens"}))
        await world.answered("write", "only a part")
        assert len(world.llm.bodies) == 3, "who limits its answers itself is not asked again"


@pytest.mark.requirement("W-22", "W-65")
async def test_the_files_limit_of_model_calls_holds(world_of: WorldOf) -> None:
    async with world_of(config="[agent]\nmax_turns = 2\n").process() as world:
        world.script({"match": {}, "reply": {"blocks": [call("current_time")]}})
        await world.say("look for ever")
        await until(lambda: bool(of(world, LoopFailed)))
        assert len(world.llm.bodies) == 2
        assert ANN
