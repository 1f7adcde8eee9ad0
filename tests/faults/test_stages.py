"""Killed at each stage of compaction: changed in memory, while it is stored, stored."""

from pathlib import Path

import pytest

from agent.core.failpoints import Point
from tests.faults.climbing import climbing
from tests.faults.stages import STAGES, Stage

CELLS = [(stage, point) for stage in STAGES for point in stage.points]
CHANNELS = ("telegram", "discord", "slack")


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("h")


@pytest.mark.timeout(300)
@pytest.mark.requirement("Z-29", "W-13")
async def test_a_hard_compaction_dies_while_it_is_stored(home: Path) -> None:
    cells = [(stage, point) for stage, point in CELLS if (stage.name, point) == ("hard", "window.commit")]
    await climb("telegram", cells, home)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.requirement("Z-29", "W-13")
@pytest.mark.parametrize("channel", CHANNELS)
async def test_each_of_them(channel: str, home: Path) -> None:
    """Every stage and point, the channels taking turns; a hard compaction on each of them."""
    mine = CELLS[CHANNELS.index(channel) :: len(CHANNELS)]
    hard = [(stage, point) for stage, point in CELLS if stage.name == "hard" and (stage, point) not in mine]
    await climb(channel, [*mine, *hard], home)


async def climb(channel: str, cells: list[tuple[Stage, Point]], home: Path) -> None:
    async with climbing(channel, home) as one:
        for stage, point in cells:
            try:
                await one.through(stage, point)
            except AssertionError as error:
                raise AssertionError(f"{stage.name} at {point}: {error}") from error
