"""Plans through the whole house: commands, buttons, sub-agents, the message that follows the work, a death (§13.3)."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.llm_server import LlmServer
from tests.fakes.waiting import until
from tests.gateway.world import ANN, BOB, GROUP, World

GOAL = "compare the three offers in the workspace"


def planned(*tasks: Mapping[str, Any]) -> Mapping[str, Any]:
    """A rule: what the planner answers."""
    return {"match": {"contains": "Make the plan."}, "reply": {"text": json.dumps({"tasks": list(tasks)})}}


def task(id: int, title: str, needs: Sequence[int] = (), **more: Any) -> Mapping[str, Any]:
    return {"id": id, "title": title, "description": f"Please {title} now.", "depends_on": list(needs), **more}


def does(title: str, text: str, **more: Any) -> Mapping[str, Any]:
    """A rule: what the sub-agent with that task answers."""
    return {"match": {"contains": f"Please {title} now."}, "reply": {"text": text, **more}}


def together(text: str) -> Mapping[str, Any]:
    return {"match": {"contains": "Put the results together."}, "reply": {"text": text}}


@pytest.fixture
def world(tmp_path: Path, sqlite_template: Path, llm: LlmServer) -> World:
    return World(tmp_path, sqlite_template, llm)


@pytest.mark.requirement("Z-09")
async def test_confirmed_it_runs_two_at_once_and_gives_one_answer(world: World) -> None:
    world.script(
        together("Offer B is the best."),
        planned(task(1, "read A"), task(2, "read B"), task(3, "weigh them", [1, 2])),
        does("weigh them", "B wins"),
        does("read A", "A is dear", hold="both"),
        does("read B", "B is cheap", hold="both"),
    )
    async with world.process():
        await world.asks(f"/plan {GOAL}", "Nothing is done before you confirm")
        await world.shows("3. weigh them (after 1, 2)")
        assert len(world.llm.calls) == 1
        await world.press("c:/plan confirm 1")
        await until(lambda: len(world.llm.calls) >= 3)
        await world.shows("▶ 1. read A\n▶ 2. read B\n▫ 3. weigh them")
        world.go_on("both")
        await world.shows("Offer B is the best.")
        await world.settled()
        assert not any("0 of 3 done" in text for text in world.texts())
        assert any("Confirmed by Person 77" in text for text in world.texts())
        await world.answered("and now?")
        words = json.dumps(world.llm.bodies[-1])
        assert "Offer B is the best." in words and "B is cheap" not in words
        assert "✅ Plan 1, 3 of 3 done" in await world.asks("/plan status 1", "Plan 1, 3 of 3")
