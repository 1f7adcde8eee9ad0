"""The order of a turn in the running gateway: what is sent to models, what waits for its end, what comes first."""

import json
from pathlib import Path

import pytest
from sqlalchemy import func, select

from agent.core.events import CorrectionHeard
from agent.core.ids import ConversationId
from agent.storage.tables import inbox
from gateway.running.agents import ActiveAgent
from tests.fakes.llm_server import LlmServer
from tests.fakes.waiting import until
from tests.gateway.world import BOB, World, calling, slowly
from tests.live.scenes import CHAT, WorldOf, happened, model, page, put, turns_of, write_agent

BOBS = ConversationId(f"telegram:{BOB}")
PLAIN = "[skills]\nenabled = false\n"


def system(body: dict[str, object]) -> str:
    return "\n".join(str(one["content"]) for one in body["messages"] if one["role"] == "system")  # type: ignore[attr-defined]


@pytest.mark.requirement("Z-17", "Z-18")
async def test_an_identity_that_changes_within_a_turn_counts_from_the_next(
    world_of: WorldOf, llm: LlmServer, tmp_path: Path
) -> None:
    write_agent(tmp_path, identity="You are calm.")
    async with world_of(config=PLAIN + model(llm, window=64_000), providers=()).process() as world:
        put(world, "page.txt", page(1, 20))
        call = {"type": "tool_use", "name": "read", "input": {"path": "page.txt"}}
        world.script(
            {"match": {"contains": "read it", "tool_result": False}, "reply": {"blocks": [call], "hold": "read"}},
            {"match": {"contains": "read it"}, "reply": {"text": "Done: read it"}},
        )
        await world.say("read it")
        await world.until_asked()
        write_agent(tmp_path, identity="You are hasty.")
        world.go_on("read")
        await world.shows("Done: read it")
        await world.settled()
        await world.answered("and now")
        bodies = turns_of(world)
        assert ["hasty" in system(body) for body in bodies] == [False, False, True]
        assert ["calm" in system(body) for body in bodies] == [True, True, False]
        assert all(body["messages"][0]["role"] == "system" for body in bodies), "before everything else"


@pytest.mark.requirement("Z-13", "Z-19")
async def test_what_a_model_thought_goes_back_to_it_word_for_word(
    world_of: WorldOf, llm: LlmServer, tmp_path: Path
) -> None:
    write_agent(tmp_path)
    config = PLAIN + model(llm, window=64_000, kind="anthropic", more="thinking = 2000")
    async with world_of(config=config, providers=()).process() as world:
        put(world, "page.txt", page(1, 20))
        thought = "First I read <it>,\n  then — I say so.\u00a0"
        blocks = [
            {"type": "thinking", "thinking": thought},
            {"type": "text", "text": "I read it now."},
            {"type": "tool_use", "name": "read", "input": {"path": "page.txt"}},
        ]
        world.script(
            {"match": {"contains": "read it", "tool_result": False}, "reply": {"blocks": blocks}},
            {"match": {"contains": "read it"}, "reply": {"text": "Done: read it"}},
        )
        await world.answered("read it", "Done: read it")
        said = next(one for one in llm.bodies[1]["messages"] if one["role"] == "assistant")
        assert [block["type"] for block in said["content"]] == ["thinking", "text", "tool_use"], "each as its own kind"
        assert said["content"][0]["thinking"] == thought
        assert said["content"][0]["signature"] in llm.double.issued, "the very signature that the service gave"
        assert "I read it now." in " ".join(world.texts())


@pytest.mark.requirement("Z-02", "Z-01", "Z-03")
async def test_each_chat_has_its_own_agent_and_may_change_its_model(world: World) -> None:
    world.script(slowly("slow"), *calling("what is it", "calculate", expression="6*7"))
    await world.say("slow please")
    await world.until_asked()
    await world.asks("what is it", "Done: what is it", person=BOB)  # while Ann's turn goes on
    result = next(one for one in turns_of(world)[-1]["messages"] if one["role"] == "tool")
    assert "42" in str(result["content"])
    assert "slow" not in json.dumps(turns_of(world)[-1]["messages"])
    world.go_on()
    await world.shows("the slow answer")
    await world.settled()
    await world.asks("/provider b", "This chat now uses")
    await world.answered("one more")
    await world.answered("another", person=BOB)
    assert world.models_asked[-2:] == ["model-b", "model-a"], "at once, and in this chat alone"
    await world.answered("what is it", "Done: what is it")
    assert "42" in json.dumps(turns_of(world)[-1]["messages"][-1])
    async with world.services.conversations.use(CHAT) as ann, world.services.conversations.use(BOBS) as bob:
        assert isinstance(ann, ActiveAgent)
        assert isinstance(bob, ActiveAgent)
        assert ann.agent is not bob.agent
        assert ann.agent.tool is not bob.agent.tool
        assert ann.agent.tool.executor is bob.agent.tool.executor, "one serves both, and both calls went through it"


@pytest.mark.requirement("Z-07", "Z-22")
async def test_a_task_that_is_due_comes_before_messages_that_wait(world: World) -> None:
    later = {"name": "oven", "run_at": "+2s", "kind": "custom", "task": "look at the oven"}
    world.script(slowly("slow"), *calling("remember the oven", "schedule_deferred", **later))
    await world.answered("remember the oven", "Done: remember the oven")
    await world.say("slow please")
    await world.until_asked(3)
    await world.say("from Ann")
    query = select(func.count()).select_from(inbox).where(inbox.c.kind == "reminder")

    async def is_due() -> bool:
        return await world.database.read(lambda conn: conn.execute(query).scalar_one() == 1)

    await until(is_due, longest_s=20)
    world.go_on()
    await world.shows("from Ann")
    await world.settled()
    asked = [json.dumps(body["messages"], ensure_ascii=False) for body in turns_of(world)]
    first = [
        next(place for place, text in enumerate(asked) if words in text) for words in ("[Scheduled task]", "from Ann")
    ]
    assert first == sorted(first)
    assert first[0] < first[1], "a turn of its own, before what people have said meanwhile"


@pytest.mark.requirement("Z-05")
async def test_words_of_correction_are_heard(world_of: WorldOf) -> None:
    async with world_of(config="\n[skills.learning]\nfeedback = true\n").process() as world:
        await world.answered("how many legs has a spider")
        await world.answered("tell me more")
        assert not happened(world, CorrectionHeard)
        await world.answered("No, that is wrong. Do it again.")
        heard = happened(world, CorrectionHeard)
        assert len(heard) == 1
        assert heard[0].confidence > 0.5
        await world.answered("I meant the other spider")
        assert [one.kind for one in happened(world, CorrectionHeard)[1:]] == ["alternative"]
