"""Vital signs of the process, sampled: memory, files, threads, tasks, and the delay of its loop."""

import re
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles

import aiohttp
import anyio

from tests.program.running import Program
from tests.soak.crowd import Crowd

SAMPLE_EVERY_S = 0.5  # as often as the process itself measures its lag
KEEP_EVERY_S = 5.0
SHOWN = 12  # lines of the table
TOLD_EVERY_S = 60.0  # that it goes on


@dataclass(frozen=True, slots=True)
class Sample:
    at_s: float
    answered: int
    rss_mb: float
    files: int
    threads: int
    tasks: int
    awake: int


class Vitals:
    """Of one running program."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._began = time.monotonic()
        self._samples: list[Sample] = []
        self._lags: list[float] = []

    async def watch(self, crowd: Crowd) -> None:
        """Sample until cancelled."""
        kept_at, told_at = 0.0, time.monotonic()
        async with aiohttp.ClientSession() as client:
            while True:
                gauges = await self._gauges(client)
                self._lags.append(gauges["tieline_event_loop_lag_seconds"])
                if time.monotonic() - kept_at >= KEEP_EVERY_S:
                    kept_at = time.monotonic()
                    self._samples.append(self._sample(crowd, gauges))
                    if kept_at - told_at >= TOLD_EVERY_S:
                        told_at = kept_at
                        newest = self._samples[-1]
                        print(f"{newest.at_s:.0f} s: {newest.answered:,} answered, {newest.rss_mb:.0f} MB", flush=True)
                await anyio.sleep(SAMPLE_EVERY_S)

    async def look(self, crowd: Crowd) -> None:
        """One last sample."""
        async with aiohttp.ClientSession() as client:
            self._samples.append(self._sample(crowd, await self._gauges(client)))

    def tell(self) -> None:
        """Print the table; the last line is after the end, with nothing left to do."""
        print(f"\n{'s':>6}{'answered':>10}{'RSS MB':>8}{'files':>7}{'threads':>9}{'tasks':>7}{'awake':>7}")
        step = max(1, len(self._samples) // SHOWN)
        shown = self._samples[::step]
        for one in [*shown, *([] if shown[-1] is self._samples[-1] else [self._samples[-1]])]:
            print(
                f"{one.at_s:>6.0f}{one.answered:>10,}{one.rss_mb:>8.0f}{one.files:>7}{one.threads:>9}{one.tasks:>7}"
                f"{one.awake:>7}"
            )
        half = self._samples[len(self._samples) // 2]
        last = self._samples[-1]
        grown = last.rss_mb - half.rss_mb
        print(f"RSS grew by {grown:+.0f} MB over the second half ({last.answered - half.answered:,} answers)")
        late = quantiles(self._lags, n=100, method="inclusive")
        print(f"event loop late: p50 {late[49] * 1000:.0f} ms, p99 {late[98] * 1000:.0f} ms,", end=" ")
        print(f"worst {max(self._lags):.2f} s")

    async def _gauges(self, client: aiohttp.ClientSession) -> dict[str, float]:
        return await metrics(client, self._program)

    def _sample(self, crowd: Crowd, gauges: dict[str, float]) -> Sample:
        assert self._program.process is not None
        process = Path("/proc", str(self._program.process.pid))
        found = status(self._program.process.pid)
        return Sample(
            at_s=time.monotonic() - self._began,
            answered=crowd.answered,
            rss_mb=found["VmRSS"] / 1024,
            files=len(list((process / "fd").iterdir())),
            threads=found["Threads"],
            tasks=int(gauges["tieline_tasks"]),
            awake=int(gauges["tieline_conversations_awake"]),
        )


async def metrics(client: aiohttp.ClientSession, program: Program) -> dict[str, float]:
    """Counters and gauges of the program, summed over their labels."""
    async with client.get(f"{program.url}/metrics", timeout=aiohttp.ClientTimeout(10)) as answer:
        text = await answer.text()
    found = defaultdict[str, float](float)
    for name, value in re.findall(r"^(tieline_\w+)(?:\{.*\})? (\S+)$", text, re.MULTILINE):
        found[name] += float(value)
    return found


def status(pid: int) -> dict[str, int]:
    """Figures of a process: `VmRSS` in KB, `Threads`; without memory once it ended. Raises OSError where it is gone."""
    text = Path("/proc", str(pid), "status").read_text()
    return {name: int(value) for name, value in re.findall(r"^(VmRSS|Threads):\s+(\d+)", text, re.MULTILINE)}
