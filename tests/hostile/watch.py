"""A heartbeat beside a job on the same event loop, and what its gaps mean on a machine that may be slow or busy.

A gap counts with the processor time that this process took in it: what other processes take of the machine stalls
nobody here. That time is divided by how much slower than the reference this machine is right now. A gap in which
nothing was calculated (a blocking read, a sleep) counts as a whole, less what an idle heartbeat misses here anyway.
"""

import gc
import re
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import anyio

MOST_S = 0.25  # a gap above this is a stall: messages, leases and platforms' deadlines wait meanwhile
BEAT_S = 0.005
REFERENCE_S = 0.012  # processor time of the calibration on the machine that MOST_S is meant for
IDLE_S = 0.3
TRIES = 5  # a stall that is ours is there each time
WAITED_S = 1.0

_WORDS = "word, " * 4_000


@dataclass(frozen=True, slots=True)
class Gap:
    """Between two beats: seconds on the clock, and of them those in which this process may have calculated."""

    wall_s: float = 0.0
    busy_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Machine:
    """`slowness` is 1 for the reference and for what is faster; `idle_s` is the longest gap of a loop without work."""

    slowness: float
    idle_s: float

    def stall(self, gaps: list[Gap]) -> float:
        """The longest stall in seconds of the reference machine."""
        busy = max((gap.busy_s for gap in gaps), default=0.0) / self.slowness
        waited = max((gap.wall_s - gap.busy_s for gap in gaps), default=0.0)
        return max(busy, waited if waited > WAITED_S + 4 * self.idle_s else 0.0)


async def gaps_beside(job: Callable[[], Awaitable[object]]) -> list[Gap]:
    """Run the job; the gaps of a heartbeat meanwhile."""
    gaps: list[Gap] = []

    async def beat() -> None:
        wall, busy = time.monotonic(), time.process_time()
        while True:
            await anyio.sleep(BEAT_S)
            now, used = time.monotonic(), time.process_time()
            gaps.append(Gap(now - wall, min(now - wall, used - busy)))
            wall, busy = now, used

    async with anyio.create_task_group() as group:
        group.start_soon(beat)
        await anyio.sleep(2 * BEAT_S)  # it beats before the job begins
        await job()
        await anyio.sleep(2 * BEAT_S)  # and once more, or the last gap would be unseen
        group.cancel_scope.cancel()
    return gaps


def slowness() -> float:
    """The present slowness of this machine against the reference."""
    best = min(_calibration_s() for _ in range(5))
    return max(1.0, best / REFERENCE_S)


def _calibration_s() -> float:
    began = time.thread_time()
    for _ in range(8):
        sum(len(match[0]) for match in re.finditer(r"\b(?:wo|wa)rd\b|,", _WORDS))
    return time.thread_time() - began


async def machine() -> Machine:
    """Measured now."""
    idle = await gaps_beside(lambda: anyio.sleep(IDLE_S))
    return Machine(slowness(), max(gap.wall_s for gap in idle))


async def longest_stall(job: Callable[[], Awaitable[object]]) -> float:
    """The longest stall beside the job, in seconds of the reference machine: where there is one, the least of a few."""
    least = float("inf")
    for _ in range(TRIES):
        here = await machine() if least < float("inf") else Machine(1.0, 0.0)
        least = min(least, here.stall(await gaps_beside(job)))
        if least <= MOST_S:
            break
    return least


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the garbage collector from going through what earlier tests left."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
