"""Whole turns with skills: what a model is shown of them, what they set, and that a change waits for the turn's end."""

import os
from pathlib import Path

import anyio
import pytest

from agent.compaction.settings import MemorySettings
from agent.core.events import SkillsReloaded
from agent.core.tools import ToolContext
from agent.inbox import WorkKind
from agent.memory.settings import RecallSettings
from agent.memory.vectors import NoVectors, Vectors
from agent.run.prefix import causes
from agent.run.settings import PlacePolicy, Settings
from agent.skills.catalogue import NOTHING, Entry, Reason, Snapshot
from agent.skills.settings import SkillSettings
from agent.skills.skill import Origin, parsed
from agent.storage.database import Database
from tests.agent.world import World, offering
from tests.fakes.embedding import FakeEmbedder
from tests.fakes.provider import ScriptedProvider, calls, says
from tests.fakes.tools import FakeTool
from tests.fakes.waiting import until

TEA = "---\nname: tea\ndescription: How to brew tea\ntriggers: brew tea\nenv: {TEA: green}\n---\nBoil the water first."
JAM = "---\nname: jam\ndescription: How to cook jam\ntriggers: cook jam\n---\nWash the fruit."


def entry(text: str, origin: Origin = "operator", *, waits: bool = False) -> Entry:
    skill = parsed(text, folder=Path("x"), origin=origin).skill
    return Entry(skill=skill, standing="quarantined" if waits else "ready", why=(Reason("drafted"),) if waits else ())


def snapshot(*entries: Entry) -> Snapshot:
    return Snapshot(entries={one.skill.name: one for one in entries})


def skilled(database: Database, home: Path, provider: ScriptedProvider, *texts: str, **more: object) -> World:
    world = World(database, home, provider, **more)  # type: ignore[arg-type]
    world.catalogue.put(snapshot(*(entry(text) for text in texts)))
    return world


@pytest.mark.requirement("Z-10")
async def test_what_fits_is_in_the_system_prompt_for_that_turn_alone(sqlite_database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider()
    world = skilled(sqlite_database, tmp_path, provider, TEA, JAM)
    await world.say("hello there")
    await world.say("how do I brew tea?")
    await world.say("thank you")
    before, fitting, after = (request.system for request in provider.requests)
    assert "- jam: How to cook jam\n- tea: How to brew tea" in before.stable
    assert before.stable is fitting.stable is after.stable, "the list stays as it is"
    assert '<skill name="tea">\nBoil the water first.\n</skill>' in fitting.volatile
    assert "Wash" not in fitting.volatile
    assert before.volatile == after.volatile
    assert "Boil" not in before.volatile


@pytest.mark.requirement("Z-10", "Z-18")
async def test_without_skills_a_request_is_as_it_always_was(sqlite_database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider()
    world = skilled(sqlite_database, tmp_path, provider)
    await world.say("how do I brew tea?")
    world.catalogue.put(snapshot(entry(TEA, "auto", waits=True)))
    await world.say("how do I brew tea?")
    world.catalogue.put(snapshot(entry(TEA)))
    world.settings = Settings(skills=SkillSettings(enabled=False))
    await world.say("how do I brew tea?")
    without, waiting, off = provider.requests
    assert without.system == waiting.system == off.system
    assert "kill" not in without.system.stable + without.system.volatile
    assert without.tools is waiting.tools is off.tools
    assert "load_skill" not in {spec.name for spec in without.tools.specs}


@pytest.mark.requirement("Z-18")
async def test_every_message_is_asked_with_instructions_rules_and_skills_as_they_are_then(
    sqlite_database: Database, tmp_path: Path
) -> None:
    provider = ScriptedProvider()
    world = skilled(sqlite_database, tmp_path, provider, TEA)
    await world.say("hello")
    os.utime(world.write_persona("default", "---\nname: T\n---\nYou are new."), ns=(1, 1))
    await world.say("hello")
    world.settings = Settings(place=PlacePolicy(instructions="Answer in rhymes."))
    await world.say("hello")
    world.catalogue.put(snapshot(entry(JAM)))
    await world.say("hello")
    seen = [
        tuple(words in request.system.stable for words in ("You are new.", "Answer in rhymes.", "- jam:"))
        for request in provider.requests
    ]
    assert seen == [(False, False, False), (True, False, False), (True, True, False), (True, True, True)]


@pytest.mark.requirement("Z-08", "Z-21", "R-11")
async def test_a_reload_waits_for_the_end_of_the_turn(sqlite_database: Database, tmp_path: Path) -> None:
    gate = anyio.Event()
    provider = ScriptedProvider(scripts=[calls("echo", {"text": "a"}), says("ok")])
    tool = FakeTool(gate=gate)
    world = skilled(sqlite_database, tmp_path, provider, TEA, tools=(tool,))
    first, second = await world.admit("brew tea"), await world.admit("brew tea")
    async with anyio.create_task_group() as group:
        group.start_soon(world.run, first, second)
        await until(lambda: bool(tool.running))
        world.catalogue.put(snapshot(entry(TEA.replace("Boil the", "Cool the")), entry(JAM)))
        gate.set()
    before, during, after = (request.system for request in provider.requests)
    assert before == during
    assert "Boil the water" in during.volatile
    assert "Cool the water" in after.volatile
    assert "- jam:" in after.stable
    assert [(event.usable, event.waiting) for event in world.events if isinstance(event, SkillsReloaded)] == [
        (1, 0),
        (2, 0),
    ], "told once for each change, before the turn"


@pytest.mark.requirement("Z-21")
async def test_a_skill_that_changes_during_a_turn_is_loaded_as_it_was(
    sqlite_database: Database, tmp_path: Path
) -> None:
    gate = anyio.Event()
    provider = ScriptedProvider(
        scripts=[calls("echo", {"text": "a"}), calls("load_skill", {"name": "tea"}), says("ok")]
    )
    tool = FakeTool(gate=gate)
    world = skilled(sqlite_database, tmp_path, provider, TEA, tools=(tool,), agent_md=offering("load_skill", "echo"))
    work = await world.admit("hello there")
    async with anyio.create_task_group() as group:
        group.start_soon(world.run, work)
        await until(lambda: bool(tool.running))
        world.catalogue.put(snapshot(entry(TEA.replace("Boil the", "Cool the"))))
        gate.set()
    (loaded,) = provider.requests[-1].messages[-1].tool_results
    assert "Boil the water" in loaded.content


@pytest.mark.requirement("Z-08")
async def test_nothing_is_lost_when_all_sources_have_something(sqlite_database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider()
    world = skilled(sqlite_database, tmp_path, provider, TEA)
    await world.say("hello")
    waiting = [await world.admit("brew tea"), await world.admit("[Scheduled task] cook jam", kind="reminder")]
    world.catalogue.put(snapshot(entry(JAM)))
    os.utime(world.write_persona("default", "---\nname: T\n---\nYou are new."), ns=(1, 1))
    world.settings = Settings(skills=SkillSettings(list_chars=0))
    await world.run_through(*waiting)
    _, person, schedule = (request.system for request in provider.requests)
    assert person.stable.startswith("You are new.")
    assert "How to" not in person.stable
    assert "Boil" not in person.volatile
    assert "Wash the fruit" in schedule.volatile


async def test_the_change_of_skills_is_the_named_cause(sqlite_database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider()
    world = skilled(sqlite_database, tmp_path, provider, TEA)
    prefixes = []
    for text, present in (("hello", (TEA,)), ("brew tea", (TEA,)), ("hello", (TEA,)), ("hello", (TEA, JAM))):
        world.catalogue.put(world.catalogue.snapshot if len(present) == 1 else snapshot(*map(entry, present)))
        await world.say(text)
        assert world.agent.context.run is not None
        assert world.agent.context.run.requests.prefix is not None
        prefixes.append(world.agent.context.run.requests.prefix)
    assert causes(prefixes[0], prefixes[1]) == ("skills",)
    assert causes(prefixes[0], prefixes[2]) == ()
    assert causes(prefixes[2], prefixes[3]) == ("skills",)


@pytest.mark.requirement("Z-10", "G-26")
async def test_the_model_loads_what_may_be_used_and_nothing_else(sqlite_database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider(
        scripts=[calls("load_skill", {"name": "Tea"}), says("ok"), calls("load_skill", {"name": "jam"}), says("ok")]
    )
    world = skilled(sqlite_database, tmp_path, provider, agent_md=offering("load_skill"))
    world.catalogue.put(snapshot(entry(TEA), entry(JAM, "auto", waits=True)))
    await world.say("what do you know?")
    await world.say("and jam?")
    results = [
        result for request in provider.requests for message in request.messages for result in message.tool_results
    ]
    assert "Boil the water first." in results[0].content
    assert not results[0].is_error
    assert "there is no skill 'jam'; there is: tea" in results[-1].content
    assert all("Wash" not in str(request) for request in provider.requests)


class Looking(FakeTool):
    """Notes the environment that it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[dict[str, str]] = []

    async def run(self, arguments: object, context: ToolContext) -> str:
        self.seen.append(dict(context.execution.env))
        return "seen"


async def test_what_a_skill_sets_reaches_the_tools_of_that_turn(sqlite_database: Database, tmp_path: Path) -> None:
    look = calls("echo", {"text": "x"})
    provider = ScriptedProvider(
        scripts=[
            *(look, says("ok"), look, says("ok")),
            *(calls("load_skill", {"name": "tea"}), look, says("ok"), look, says("ok")),
        ]
    )
    tool = Looking()
    world = skilled(sqlite_database, tmp_path, provider, TEA, tools=(tool,), agent_md=offering("load_skill", "echo"))
    for text in ("brew tea", "something else", "have a look at the list", "go on"):
        await world.say(text)
    assert tool.seen == [{"TEA": "green"}, {}, {}, {"TEA": "green"}], (
        "what is loaded within a turn counts from the next"
    )


async def test_one_that_is_called_up_keeps_to_its_tools(sqlite_database: Database, tmp_path: Path) -> None:
    text = "---\nname: strict\nhide_from_model_invocation: true\ntools: [calculate]\n---\nCount only."
    provider = ScriptedProvider(
        scripts=[calls("echo", {"text": "x"}), calls("calculate", {"expression": "1+1"}, id="c2"), says("ok")]
    )
    tool = FakeTool()
    world = skilled(sqlite_database, tmp_path, provider, text, TEA, tools=(tool,))
    await world.say("@@skill=strict how many?")
    first, *_, last = provider.requests
    assert "Count only." in first.system.volatile
    assert "strict" not in first.system.stable, "the model may not call it up by itself"
    results = [result for message in last.messages for result in message.tool_results]
    assert results[0].is_error
    assert "works with other tools alone: calculate" in results[0].content
    assert not results[1].is_error


@pytest.mark.parametrize(
    ("kind", "there"),
    [
        pytest.param("message", True, id="people call it up"),
        pytest.param("reminder", False, id="what a schedule says may be the model's own words"),
    ],
)
async def test_what_is_for_people_alone_no_schedule_calls_up(
    sqlite_database: Database, tmp_path: Path, kind: WorkKind, there: bool
) -> None:
    text = "---\nname: strict\nhide_from_model_invocation: true\nenv: {TEA: green}\n---\nCount only."
    provider = ScriptedProvider()
    world = skilled(sqlite_database, tmp_path, provider, text, TEA)
    await world.say("@@skill=strict how many?", kind=kind)
    assert ("Count only." in provider.requests[-1].system.volatile) is there
    await world.say("@@skill=tea how many?", kind=kind)
    assert "Boil the water" in provider.requests[-1].system.volatile


@pytest.mark.parametrize(
    ("mode", "window", "whole"),
    [
        pytest.param("auto", 128_000, True, id="room enough"),
        pytest.param("auto", 12_000, False, id="little room"),
        pytest.param("full", 12_000, True, id="always whole"),
        pytest.param("compact", 128_000, False, id="never whole"),
    ],
)
async def test_where_room_is_short_a_skill_is_only_named(
    sqlite_database: Database, tmp_path: Path, mode: str, window: int, whole: bool
) -> None:
    provider = ScriptedProvider(context_window=window)
    world = skilled(sqlite_database, tmp_path, provider, TEA)
    world.settings = Settings(skills=SkillSettings(prompt_mode=mode))  # type: ignore[arg-type]
    await world.say("brew tea")
    volatile = provider.requests[-1].system.volatile
    assert ("Boil the water" in volatile) is whole
    assert ("- tea: How to brew tea (load_skill brings it)" in volatile) is not whole
    await world.say("@@skill=tea for two")
    assert "Boil the water" in provider.requests[-1].system.volatile, "what a person calls up is there"


async def test_an_agent_without_the_tool_is_not_shown_the_list(sqlite_database: Database, tmp_path: Path) -> None:
    provider = ScriptedProvider()
    agent_md = "---\nname: T\ntools: [calculate]\n---\nHi."
    world = skilled(sqlite_database, tmp_path, provider, TEA, agent_md=agent_md)
    await world.say("brew tea")
    system = provider.requests[-1].system
    assert "How to brew" not in system.stable
    assert "Boil the water" in system.volatile
    world.catalogue.put(NOTHING)


async def test_meaning_helps_where_words_tell_nothing(sqlite_database: Database, tmp_path: Path) -> None:
    provider, embedder = ScriptedProvider(), FakeEmbedder(least=0.4, same={"infusion": "tea", "prepare": "brew"})
    world = skilled(sqlite_database, tmp_path, provider, TEA, JAM)

    async def current() -> FakeEmbedder:
        return embedder

    world.memory.vectors = Vectors(sqlite_database, current)
    await world.say("prepare an infusion")
    assert "Boil the water" in provider.requests[-1].system.volatile
    await world.say("prepare another infusion")
    assert embedder.texts.count("How to brew tea. ") == 1, "made once"
    assert embedder.texts.count("prepare another infusion") == 1, "recall and skills ask for the same"
    before = len(embedder.texts)
    world.settings = Settings(memory=MemorySettings(recall=RecallSettings(enabled=False)))
    await world.say("cook jam")
    assert len(embedder.texts) == before, "nobody is asked where words tell enough"
    embedder.error = NoVectors("gone")
    assert await world.say("prepare one more infusion") == ["ok"]
    assert "Boil" not in provider.requests[-1].system.volatile
