"""Lasting notes before the first compaction of a cycle: in silence, by the memory's tools alone."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from agent.compaction.settings import MemorySettings
from agent.core.errors import ProviderBusy
from agent.core.events import CompactTriggered, MemoryFlushed
from agent.core.ids import ConversationId
from agent.memory.notes import versions_of
from agent.memory.settings import FlushSettings
from agent.memory_flush import ASKED, NO_REPLY, OTHERS, SILENT
from agent.run.settings import ContextSettings, Settings
from agent.storage.database import Database
from agent.storage.tables import tool_call
from agent.tools.settings import ApprovalSettings, HookSettings
from tests.agent.world import World, offering
from tests.fakes.provider import Script, calls, calls_all, fails, says
from tests.scenarios.context.test_compaction import REACTIVE, provider


def settings(*, flush: bool = True) -> Settings:
    memory = MemorySettings(compression=REACTIVE, prune_protect_tokens=300, flush=FlushSettings(enabled=flush))
    return Settings(context=ContextSettings(), memory=memory)


async def talked(world: World, more: int = 0) -> list[str]:
    """So much that the window is summarised once, and `more` turns after that; everything people got."""
    words = [f"{number}: " + "word " * 300 for number in range(6)]
    words += ["big: " + "word " * 2_600, *(f"short {number}" for number in range(more))]
    return [text for one in words for text in await world.say(one)]


def kinds(world: World) -> list[type]:
    return [type(event) for event in world.events if isinstance(event, MemoryFlushed | CompactTriggered)]


@pytest.mark.requirement("B-20", "B-45", "B-55", "B-56", "B-57", "B-58", "B-59", "G-21")
async def test_notes_are_written_in_silence_before_a_model_compacts(sqlite_database: Database, tmp_path: Path) -> None:
    model = provider(
        notes=[
            calls_all([
                ("write_notes", {"text": "## Decisions\n- tea at four"}, "n1"),
                ("calculate", {"expression": "1+1"}, "n2"),
            ]),
            says(NO_REPLY),
        ]
    )  # fmt: skip
    world = World(sqlite_database, tmp_path, model, settings=settings())
    said = await talked(world, 1)
    assert kinds(world)[:2] == [MemoryFlushed, CompactTriggered], "notes come first"
    assert kinds(world).count(MemoryFlushed) <= kinds(world).count(CompactTriggered), "once a cycle"
    first, second = model.flushes[:2]
    assert [one.reminder for one in (first, second)] == [SILENT, SILENT], "in each round of it"
    assert first.messages[-1].content == ASKED
    turns, offered = ({spec.name for spec in one.tools.specs} for one in (model.requests[-1], first))
    assert offered == turns | {"write_notes", "remember"}, "a model can call no other"
    assert "write_notes" not in turns, "it is one of those a turn only names"
    assert first.system.stable == model.requests[-1].system.stable, "the same prompt as a turn's"
    results = {part.tool_use_id: part for part in second.messages[-1].tool_results}
    assert results["n2"].content == OTHERS, "no other tool runs"
    assert world.agent.instruction.notes.path.read_text() == "## Decisions\n- tea at four\n"
    assert not any(NO_REPLY in text or "calculate" in text for text in said)
    assert not any("NO_REPLY" in content or ASKED in content for _, content in await world.texts()), "stored nowhere"
    assert "tea at four" in model.requests[-1].system.volatile, "and shown in the turns after"
    assert await recorded(world) == [("write_notes", "ran")]
    assert {"flush"} < {row.purpose for row in await world.usage_rows()}


async def test_the_model_may_not_go_on_for_ever(sqlite_database: Database, tmp_path: Path) -> None:
    model = provider(notes=[calls("write_notes", {"text": f"- line {n}"}, id=f"n{n}") for n in range(9)])
    world = World(sqlite_database, tmp_path, model, settings=settings())
    await talked(world)
    assert kinds(world).count(MemoryFlushed) == 1
    assert len(model.flushes) == 3


@pytest.mark.parametrize("trouble", [fails(ProviderBusy("gone")), calls("write_notes", {"text": "x"}, id="n")])
async def test_failing_costs_the_notes_alone(
    sqlite_database: Database, tmp_path: Path, trouble: object, caplog: pytest.LogCaptureFixture
) -> None:
    model = provider(notes=[trouble])
    world = World(sqlite_database, tmp_path, model, settings=settings())
    world.agent.instruction.notes.path.parent.parent.mkdir(parents=True)
    world.agent.instruction.notes.path.parent.write_text("a file where a folder should be")
    said = await talked(world)
    assert said.count("ok") == 7, "each message has its answer"
    assert CompactTriggered in kinds(world)
    assert "not written" in caplog.text


async def test_switched_off_nothing_is_asked(sqlite_database: Database, tmp_path: Path) -> None:
    model = provider()
    world = World(sqlite_database, tmp_path, model, settings=settings(flush=False))
    await talked(world)
    assert kinds(world)
    assert model.flushes == []


def writing(number: int = 1) -> Script:
    kept = [("write_notes", {"text": "- kept"}, "n1"), ("remember", {"fact": "Ida lives in Oslo."}, "n2")]
    return calls_all(kept[:number])


@pytest.mark.requirement("B-90", "G-17")
async def test_where_nothing_may_be_stored_nobody_looks_back(sqlite_database: Database, tmp_path: Path) -> None:
    denied = replace(settings(), approvals=ApprovalSettings(deny=("write_notes", "rem*")))
    model = provider(notes=[writing(2)])
    world = World(sqlite_database, tmp_path, model, settings=denied)
    await talked(world)
    assert CompactTriggered in kinds(world)
    assert MemoryFlushed not in kinds(world)
    assert model.flushes == []
    few = World(sqlite_database, tmp_path, provider(), settings=settings(), key=ConversationId("web:2"),
                agent_md="---\nname: default\ntools: [calculate]\n---\nYou are brief.\n")  # fmt: skip
    await talked(few)
    assert MemoryFlushed not in kinds(few), "tools that the agent does not have are not used in silence either"


@pytest.mark.requirement("B-90", "B-93", "G-17", "R-41")
@pytest.mark.parametrize(
    ("approvals", "hooks", "why"),
    [
        pytest.param({"deny": ("write_notes",)}, (), "the rules of the gateway", id="denied"),
        pytest.param({"ask": ("write_notes",)}, (), "nobody can be asked now", id="asked about"),
        pytest.param({}, ("echo not today >&2; exit 1",), "not today", id="kept back by a hook"),
    ],
)
async def test_its_calls_go_the_way_of_every_call(
    sqlite_database: Database, tmp_path: Path, approvals: dict[str, Any], hooks: tuple[str, ...], why: str
) -> None:
    model = provider(notes=[writing(), says(NO_REPLY)])
    world = World(
        sqlite_database, tmp_path, model, settings=replace(settings(), approvals=ApprovalSettings(**approvals))
    )
    world.hooks = tuple(HookSettings(name="h", on="pre_tool_use", command=command) for command in hooks)
    await talked(world)
    (result,) = model.flushes[1].messages[-1].tool_results
    assert result.is_error
    assert why in result.content
    assert not world.agent.instruction.notes.path.exists()
    assert await recorded(world) == [("write_notes", "denied")]


@pytest.mark.requirement("B-16", "B-22")
async def test_what_a_person_changes_in_the_file_stands_in_the_next_prompt(
    sqlite_database: Database, tmp_path: Path
) -> None:
    model = provider()
    world = World(sqlite_database, tmp_path, model, settings=settings())
    path = world.agent.instruction.notes.path
    path.parent.mkdir(parents=True, exist_ok=True)
    seen = []
    for number, notes in enumerate(("- likes plovers\n", "- likes herons\n", "- herons, no more plovers\n", "")):
        path.write_text(notes)
        os.utime(path, ns=(number * 10**9, number * 10**9))  # not within one tick of the disk's clock
        await world.say(f"what now {number}")
        seen.append(model.requests[-1].system.volatile)
    assert [("likes plovers" in one, "herons" in one) for one in seen] == [
        (True, False),
        (False, True),
        (False, True),
        (False, False),
    ]
    assert "no more plovers" in seen[2]


@pytest.mark.requirement("B-16")
async def test_a_change_that_makes_the_file_no_longer_is_seen_too(sqlite_database: Database, tmp_path: Path) -> None:
    model = provider()
    world = World(sqlite_database, tmp_path, model, settings=settings())
    path = world.agent.instruction.notes.path
    path.parent.mkdir(parents=True, exist_ok=True)
    for number, at in enumerate(("at three", "at four.")):
        path.write_text(f"- meets Bo {at}\n")
        os.utime(path, ns=(number * 10**9, number * 10**9))
        await world.say(f"when {number}")
        assert f"meets Bo {at}" in model.requests[-1].system.volatile


async def recorded(world: World) -> list[tuple[str, str]]:
    found = select(tool_call.c.tool, tool_call.c.verdict).order_by(tool_call.c.id)
    return [(row.tool, row.verdict) for row in await world.database.read(lambda conn: conn.execute(found).all())]


@pytest.mark.requirement("B-16", "B-22")
async def test_the_file_is_read_anew_and_its_wordings_are_kept(sqlite_database: Database, tmp_path: Path) -> None:
    model = provider(
        scripts=[
            calls("write_notes", {"text": "- likes plovers"}),
            says("done"),
            says("a"),
            calls("write_notes", {"text": "all new", "replace": True}, id="c2"),
            says("b"),
        ]
    )
    world = World(sqlite_database, tmp_path, model, settings=settings(), agent_md=offering("write_notes"))
    path = world.agent.instruction.notes.path
    await world.say("note it")
    assert path.read_text() == "- likes plovers\n"
    world.clock.advance(1)
    path.write_text("- likes herons, says a person\n")
    await world.say("what now")
    assert "herons" in model.requests[-1].system.volatile
    world.clock.advance(1)
    await world.say("again")
    assert path.read_text() == "all new\n"
    kept = [file.read_text() for file in versions_of(path)]
    assert kept == ["- likes plovers\n", "- likes herons, says a person\n", "all new\n"]
    assert path.stat().st_mode & 0o077 == 0


async def test_notes_whose_words_stand_within_others_are_written_and_a_repeated_call_is_not(
    sqlite_database: Database, tmp_path: Path
) -> None:
    scripts = [step for text in ("Do not deploy on Friday.", "deploy on Friday", "deploy on Friday")
               for step in (calls("write_notes", {"text": text}), says("done"))]  # fmt: skip
    world = World(sqlite_database, tmp_path, provider(scripts=scripts), agent_md=offering("write_notes"))
    for _ in range(3):
        await world.say("note it")
    assert world.agent.instruction.notes.path.read_text() == "Do not deploy on Friday.\ndeploy on Friday\n"
