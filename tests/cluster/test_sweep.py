"""The sweep on a cluster: a process of each role is killed at each point that it passes; the others go on.

`make faults-cluster` prints how long people waited. `SHORT=1` takes a few cells of each.
"""

import json
import os
from collections.abc import Iterable
from dataclasses import asdict
from functools import partial
from pathlib import Path

import pytest

from tests.cluster.idle import idle_chat
from tests.cluster.sweep import CHANNELS, TAKEN_OVER_WITHIN_S, ClusterSweep, Role, cells_for, sweeping

FOLDER = Path("build", "faults-cluster")


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.requirement("G-138", "G-139")
@pytest.mark.parametrize("role", ["ingress", "worker"])
@pytest.mark.parametrize("channel", CHANNELS)
async def test_whoever_is_killed_the_others_answer_once(
    channel: str, role: Role, tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> None:
    cells = cells_for(channel, role)
    if os.environ.get("SHORT"):
        cells = cells[:: max(1, len(cells) // 4)]
    async with sweeping(channel, role, tmp_path_factory.mktemp("h")) as sweep:
        try:
            for number, cell in enumerate(cells):
                await sweep.run(cell, number)
            await sweep.end()
        finally:
            _note(sweep, Path(pytestconfig.rootpath))
    failed = [f"{verdict.cell}: {verdict.why}" for verdict in sweep.verdicts if verdict.why]
    assert not failed, "\n".join(failed)
    assert late(sweep.took_s.values()) < TAKEN_OVER_WITHIN_S


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.requirement("G-138", "G-161")
async def test_reminders_and_words_of_other_programs_outlive_their_process(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """A scheduler is killed while it acts on what is due, one that delivers while it sends: the second goes on."""
    home = tmp_path_factory.mktemp("h")
    async with idle_chat(home) as chat:
        for point in ("schedule.within", "schedule.after"):
            await chat.remind(point)
            took_s = await chat.killed("scheduler", point, partial(chat.is_due, point))
            assert took_s < TAKEN_OVER_WITHIN_S
            assert await chat.heard(point) == 1
        for point in ("send.before", "send.noted", "send.after"):
            took_s = await chat.killed("delivery", point, partial(chat.tell, point))
            assert took_s < TAKEN_OVER_WITHIN_S
            assert await chat.heard(point) == (2 if point == "send.after" else 1)
            assert await chat.flagged(point) == (point != "send.before"), "Telegram cannot be asked what arrived"


def late(took_s: Iterable[float]) -> float:
    """The 99th percentile, by the nearest rank."""
    found = sorted(took_s)
    return found[max(0, -(-len(found) * 99 // 100) - 1)]


def _note(sweep: ClusterSweep, root: Path) -> None:
    folder = root / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    found = [{**asdict(one), "role": sweep.role, "took_s": sweep.took_s.get(str(one.cell))} for one in sweep.verdicts]
    (folder / f"{sweep.place.name}-{sweep.role}.json").write_text(json.dumps(found, indent=1))
