"""The clocks keep their promise, the tests' own too."""

import anyio
import pytest

from agent.core.clock import Clock, SystemClock, shown_zone
from tests.fakes.clock import FakeClock


@pytest.mark.parametrize("clock", [SystemClock(), FakeClock()], ids=["system", "fake"])
@pytest.mark.parametrize("seconds", [0.0, -0.001, -5.0])
async def test_a_moment_that_has_passed_is_no_wait(clock: Clock, seconds: float) -> None:
    with anyio.fail_after(30):
        await clock.sleep(seconds)


async def test_time_is_utc_and_a_wait_takes_its_time() -> None:
    clock = SystemClock()
    assert str(clock.now().tzinfo) == "UTC"
    began = clock.monotonic()
    await clock.sleep(0.02)
    assert clock.monotonic() - began >= 0.02


@pytest.mark.parametrize(
    ("name", "shown"),
    [("Etc/GMT-2", "UTC+2"), ("Etc/GMT+11", "UTC-11"), ("Etc/GMT", "Etc/GMT"), ("Europe/Berlin", "Europe/Berlin")],
)
def test_an_offset_is_shown_with_the_sign_that_people_give_it(name: str, shown: str) -> None:
    assert shown_zone(name) == shown
