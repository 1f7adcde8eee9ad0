"""The sweep: killed at every crash point, on every send path, on every channel; then all is well again.

`make faults` prints its table; the short form goes through each point once.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.faults.paths import CHANNELS, Cell, cells_of, short
from tests.faults.sweep import Verdict, sweeping


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("h")


@pytest.mark.timeout(900)
@pytest.mark.requirement("W-12", "W-13", "B-52", "G-12", "G-27")
@pytest.mark.parametrize("channel", CHANNELS)
async def test_each_point_once(channel: str, home: Path, pytestconfig: pytest.Config) -> None:
    await sweep_over(channel, short(channel), home, pytestconfig)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.requirement("W-12", "W-13", "B-52", "G-12", "G-27")
@pytest.mark.parametrize("channel", CHANNELS)
async def test_all_points_on_all_paths(channel: str, home: Path, pytestconfig: pytest.Config) -> None:
    await sweep_over(channel, cells_of(channel), home, pytestconfig)


async def sweep_over(channel: str, cells: Sequence[Cell], home: Path, config: pytest.Config) -> None:
    async with sweeping(channel, home) as sweep:
        try:
            for number, cell in enumerate(cells):
                await sweep.run(cell, number)
            await sweep.end()
        finally:
            note(sweep.verdicts, Path(config.rootpath))
    failed = [f"{verdict.cell}: {verdict.why}" for verdict in sweep.verdicts if verdict.why]
    assert not failed, "\n".join(failed)


def note(verdicts: Sequence[Verdict], root: Path) -> None:
    """For the table at the end of the run."""
    folder = root / "build" / "faults"
    folder.mkdir(parents=True, exist_ok=True)
    for verdict in verdicts:
        name = f"{verdict.channel} {verdict.cell}".replace("/", "-").replace(" ", "_")
        (folder / f"{name}.json").write_text(json.dumps(asdict(verdict)))
