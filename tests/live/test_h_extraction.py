"""Extraction of subgoals in the running gateway: beside turns, from the newest messages."""

import json
from pathlib import Path

import pytest

from tests.fakes.llm_server import LlmServer
from tests.fakes.waiting import until
from tests.gateway.world import BOB, World
from tests.live.scenes import SUBGOAL, WorldOf, asides, asked_aside, model, page, put, rule, working_on, write_agent

LONG = "a wish that takes some room " * 130
PLAIN = "[skills]\nenabled = false\n"


async def now(world: World) -> str:
    """The subgoal in /status, as the newest turn knows it."""
    return (await world.asks("/status", "Status")).partition("Working on: ")[2].partition(" (steps")[0]


def subgoal_systems(llm: LlmServer) -> list[str]:
    """The system prompts of the questions."""
    found = [json.dumps(body["messages"][0]["content"]) for body in llm.bodies if not body.get("tools")]
    return [text for text in found if SUBGOAL in text]


@pytest.mark.requirement(
    "H-01", "H-07", "H-09", "H-22", "H-23", "H-24", "H-31", "H-36", "Z-45", "Z-47", "Z-48", "Z-49", "Z-57", "Z-58",
    "H-20", "Z-01",
)  # fmt: skip
@pytest.mark.parametrize("strategy", ["subgoal", "subgoal_mig"])
async def test_a_slow_question_delays_no_turn_and_its_answer_is_shown(
    world_of: WorldOf, llm: LlmServer, tmp_path: Path, strategy: str
) -> None:
    write_agent(tmp_path)
    config = f'{PLAIN}[memory.compression]\npruning_strategy = "{strategy}"\n{model(llm, window=16_000)}'
    async with world_of(config=config, providers=()).process() as world:
        first = {
            "match": {"system_contains": SUBGOAL},
            "times": 1,
            "reply": {"text": "CURRENT: plan a trip\nCOMPLETED: NONE", "hold": "it"},
        }
        world.script(first, working_on("plan another trip"), working_on("book it", "plan a trip"))
        for number in range(3):
            await world.answered(f"{number} {LONG}", f"{number} a wish")
        await until(lambda: len(asides(world, SUBGOAL)) == 1, longest_s=10)
        question = asides(world, SUBGOAL)[0]
        said = [line for line in question.split("\n") if line.startswith(("user: ", "assistant: "))]
        assert len(said) <= 6
        assert said[-1].startswith("assistant: echo:")
        assert r"CURRENT: <one sentence>\nCOMPLETED: <one sentence or NONE>" in subgoal_systems(llm)[0]
        await world.answered("and milk", "and milk")  # the question is still open
        assert "ended_at" not in next(call for call in llm.calls if SUBGOAL in json.dumps(call["body"]))
        assert await now(world) == ""
        world.go_on("it")
        await until(lambda: all("ended_at" in call for call in llm.calls))
        await world.answered("and sugar", "and sugar")
        assert await now(world) == "plan a trip"
        assert f"strategy: {strategy})" in world.texts()[-1]
        asked = len(asides(world, SUBGOAL))
        await world.answered("and sugar", "and sugar")
        assert len(asides(world, SUBGOAL)) == asked, "the same words are not asked about again"
        await go_on_until_asked(world, 2)
        await world.answered("a look", "a look")  # long before the next question is due
        assert await now(world) == "plan a trip", "other words for it do not make another of it"
        assert len(said_in(asides(world, SUBGOAL)[1])) == 6
        await go_on_until_asked(world, 3)
        await world.answered("and now?", "and now?")
        assert await now(world) == "book it", "what is completed gives way"
        assert f"strategy: {strategy})" in world.texts()[-1]


@pytest.mark.requirement("Z-57")
async def test_who_is_no_admin_sees_the_subgoal_too(world_of: WorldOf, llm: LlmServer, tmp_path: Path) -> None:
    write_agent(tmp_path)
    async with world_of(config=PLAIN + model(llm, window=16_000), providers=()).process() as world:
        world.script(working_on("plan a trip"))
        for number in range(3):
            await world.answered(f"{number} {LONG}", f"{number} a wish", person=BOB)
        await asked_aside(world, SUBGOAL)
        await world.answered("and now", "and now", person=BOB)
        status = await world.asks("/status", "Status", person=BOB)
    assert "Working on: plan a trip (steps so far: " in status
    assert "strategy:" not in status, "how it is followed is the admins' to know"


async def go_on_until_asked(world: World, count: int) -> None:
    """Say things until that many questions were asked, and wait for their answers."""
    for number in range(12):
        if len(asides(world, SUBGOAL)) >= count:
            break
        await world.answered(f"{number} more for {count}", f"{number} more for {count}")
    await asked_aside(world, SUBGOAL, count)


def said_in(question: str) -> list[str]:
    """The messages a question is made of."""
    return [line for line in question.split("\n") if line.startswith(("user: ", "assistant: "))]


@pytest.mark.requirement("Z-59", "H-31", "H-01")
async def test_nothing_is_asked_while_a_turn_calls_tools(world_of: WorldOf, llm: LlmServer, tmp_path: Path) -> None:
    write_agent(tmp_path)
    async with world_of(config=PLAIN + model(llm, window=16_000), providers=()).process() as world:
        rounds = []
        for number in range(9):
            put(world, f"page{number}.txt", page(number, 300))
            call = {"type": "tool_use", "name": "read", "input": {"path": f"page{number}.txt"}}
            rounds.append({"match": {"contains": "read all", "turn": number}, "reply": {"blocks": [call]}})
        world.script(working_on("read"), *rounds, rule("all read", contains="read all"))
        await world.answered("read all of it", "all read")
        await asked_aside(world, SUBGOAL)
        kinds = ["turn" if body.get("tools") else "aside" for body in llm.bodies]
        assert kinds.count("turn") == 10
        assert kinds.index("aside") == 10, (
            "in no step of the tool loop, though the window was full enough from the fifth"
        )


@pytest.mark.requirement("H-15", "H-16", "H-17", "H-18")
@pytest.mark.parametrize(
    ("reply", "current", "count"),
    [
        ("CURRENT: make tea\nCOMPLETED: boil water", "make tea", 1),
        ("CURRENT: make tea\nCOMPLETED: NONE", "make tea", 1),
        ("they make some tea", "they make some tea", 1),
        ("CURRENT: \nCOMPLETED: boil water", "CURRENT: COMPLETED: boil water", 1),
    ],
    ids=["both lines", "nothing completed", "no prefix", "an empty line"],
)
async def test_however_a_model_words_it(
    world_of: WorldOf, llm: LlmServer, tmp_path: Path, reply: str, current: str, count: int
) -> None:
    write_agent(tmp_path)
    async with world_of(config=PLAIN + model(llm, window=16_000), providers=()).process() as world:
        world.script(rule(reply, system_contains=SUBGOAL))
        for number in range(3):
            await world.answered(f"{number} {LONG}", f"{number} a wish")
        await asked_aside(world, SUBGOAL)
        await world.answered("and now", "and now")
        assert await now(world) == current


@pytest.mark.requirement("H-10", "H-39")
@pytest.mark.parametrize(
    "off",
    [
        "[agent.compression.subgoal_config]\nenabled = false\n",
        '[context]\ncompaction = "off"\n',
        '[memory.compression]\npruning_strategy = "reactive"\n',
    ],
    ids=["switched off", "compaction is off", "another strategy"],
)
async def test_where_it_is_off_nothing_is_asked(world_of: WorldOf, llm: LlmServer, tmp_path: Path, off: str) -> None:
    write_agent(tmp_path)
    async with world_of(config=PLAIN + off + model(llm, window=16_000), providers=()).process() as world:
        for number in range(3):
            await world.answered(f"{number} {LONG}", f"{number} a wish")
        await world.answered("and now", "and now")
        assert not asides(world, SUBGOAL)
        assert "Working on: " not in (await world.asks("/status", "Status")) or await now(world) == "–"
