"""Each fault of a platform against the running program: nothing lost, nothing twice, in order; recovery is measured,
readiness tells the truth, and the people on the other platforms do not notice."""

from collections.abc import AsyncIterator

import anyio
import pytest
import pytest_asyncio

from tests.faults.platforms.faults import (
    DISCORD,
    SECOND_POLLER,
    SLACK,
    STOLEN_WEBHOOK,
    TELEGRAM,
)
from tests.faults.platforms.scene import Fault, Scene, three_platforms
from tests.faults.platforms.table import Rows

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(240)]

SHORT = {"a webhook set by somebody else (409)", "session invalid, a new one", "a new connection asked for"}


def cases(*faults: Fault) -> list[object]:
    """The quick ones run in the short form too."""
    return [
        pytest.param(
            fault, id=f"{fault.platform}: {fault.name}", marks=() if fault.name in SHORT else (pytest.mark.slow,)
        )
        for fault in faults
    ]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    async with three_platforms(tmp_path_factory.mktemp("h")) as running:
        yield running


@pytest.mark.requirement("G-09", "G-12", "G-30")
@pytest.mark.parametrize("fault", cases(*TELEGRAM, *DISCORD, *SLACK, SECOND_POLLER))
async def test_a_fault_loses_nothing_doubles_nothing_and_stays_where_it_is(
    scene: Scene, rows: Rows, fault: Fault
) -> None:
    rows.append(await scene.meets(fault))


@pytest.mark.slow
async def test_the_whole_day_at_once(scene: Scene) -> None:
    """After all that: nobody is waiting, nothing is dead, and the log tells of no defect."""
    await scene.at_rest()
    lines = (await anyio.Path(scene.program.log).read_text()).splitlines()
    # The library of Discord tells each reconnect with its whole traceback.
    defects = [line for line in lines if "Traceback" in line and '"logger": "discord.' not in line]
    assert not defects, defects[0][:3000]


@pytest.mark.slow
@pytest.mark.requirement("G-12", "G-30")
async def test_a_webhook_that_is_gone_is_set_again(tmp_path_factory: pytest.TempPathFactory, rows: Rows) -> None:
    async with three_platforms(tmp_path_factory.mktemp("h"), webhook=True) as scene:
        rows.append(await scene.meets(STOLEN_WEBHOOK))
