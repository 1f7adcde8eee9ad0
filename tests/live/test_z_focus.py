"""Settings of Focus and SideQuest that the start of the gateway refuses."""

import pytest

from gateway.config.errors import ConfigError
from tests.live.scenes import WorldOf


@pytest.mark.requirement("Z-55", "Z-62", "H-38")
@pytest.mark.parametrize(
    ("config", "why"),
    [
        (
            '[memory.sidequest]\nenabled = true\n[memory.compression]\npruning_strategy = "subgoal"\n',
            "exclude each other",
        ),
        ("[memory.sidequest]\nenabled = true\n", "exclude each other"),
        ("[memory.focus]\nenabled = true\nauto_consolidate_min_window = 0\n", "auto_consolidate_min_window is 0"),
    ],
    ids=["SideQuest beside subgoal", "beside the strategy as shipped", "no turns between two looks"],
)
async def test_the_start_refuses_what_cannot_go_together(world_of: WorldOf, config: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        async with world_of(config=f"\n{config}").process():
            pass
