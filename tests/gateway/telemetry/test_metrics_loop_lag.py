"""A loop that stands still is seen."""

from gateway.telemetry.metrics import EVERY_S, RECENT, WINDOW, LoopLag
from tests.fakes.clock import FakeClock
from tests.fakes.running import running
from tests.fakes.waiting import until


class CountingClock(FakeClock):
    """Knows how many sleeps were begun."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = 0

    async def sleep(self, seconds: float) -> None:
        self.begun += 1
        await super().sleep(seconds)


async def test_the_surplus_of_a_sleep_is_the_lag() -> None:
    clock = CountingClock()
    lag = LoopLag(clock)

    async def sleep_takes(seconds: float) -> None:
        await until(lambda: clock.sleepers == 1)
        begun = clock.begun
        clock.advance(seconds)
        await until(lambda: clock.begun > begun)

    async with running(lag.run):
        for late in (0.0, 2.0, 0.25):
            await sleep_takes(EVERY_S + late)
        assert (lag.last_s, lag.worst_s) == (0.25, 2.0)
        assert lag.is_busy()
        for _ in range(RECENT):
            await sleep_takes(EVERY_S + 0.01)
        assert not lag.is_busy()
        for _ in range(WINDOW):
            await sleep_takes(EVERY_S)
        assert lag.worst_s == 0.0  # a minute ago is forgotten
