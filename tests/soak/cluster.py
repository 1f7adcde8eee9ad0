"""The soak of a cluster: six processes on one PostgreSQL, and one of them is killed every 20 seconds.

People write on Telegram. In the first half any process is struck, in turn; in the second two workers alone, so that the
other four live long enough to show whether their memory grows.
"""

import argparse
import logging
import os
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import linear_regression
from typing import ClassVar

import aiohttp
import anyio

from tests.cluster.crew import Crew
from tests.doubles.limits import raised_limits
from tests.program import configs
from tests.program.doubles import Doubles, all_doubles
from tests.program.running import Program
from tests.soak.crowd import Crowd
from tests.soak.vitals import TOLD_EVERY_S, metrics, status

# Agents that are awake hold their histories: with few of them at once all else that grows is seen.
SECTIONS = """messages_per_minute = 100000
[queue]
max_depth = 100
[session]
most_awake = 50
"""
SAMPLE_EVERY_S = 5.0
WARM_AFTER_S = 60.0  # of the life of a process: modules are loaded, its agents are awake
LEAST_TURNS = 1000  # of a life that tells of a slope
MOST_MB = 1.0  # that a process may grow by in a thousand turns
REST_WITHIN_S = 300.0
STARTS_WITHIN_S = 100.0
FINISHED = "select count(*) from inbox where status = 'new'", "select count(*) from arrival"


class Six(Crew):
    """The third worker is never struck in the second half."""

    others: ClassVar[Sequence[str]] = ("worker", "worker", "worker", "scheduler", "delivery")


ROLES = ("ingress", *Six.others)
OFTEN = (1, 2)  # the workers that are struck in the second half


@dataclass(frozen=True, slots=True)
class Point:
    """A look at one process. `turns` are its own if it is a worker, else those of all."""

    at_s: float
    turns: float
    rss_mb: float
    awake: int


@dataclass(slots=True)
class Life:
    """One process from its start to its end."""

    role: str
    began: float
    points: list[Point] = field(default_factory=list)

    @property
    def warm(self) -> Sequence[Point]:
        return [one for one in self.points if one.at_s >= WARM_AFTER_S]

    @property
    def slope_mb(self) -> float | None:
        """Megabytes in a thousand turns, by least squares; None: it did not live long enough to tell."""
        warm = self.warm
        if len(warm) < 10 or warm[-1].turns - warm[0].turns < LEAST_TURNS:
            return None
        return 1000 * linear_regression([one.turns for one in warm], [one.rss_mb for one in warm]).slope


class Lives:
    """Of all processes that were started, by pid."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self._lives: dict[int, Life] = {}

    async def watch(self, crowd: Crowd) -> None:
        """Sample until cancelled."""
        told_at = began = time.monotonic()
        async with aiohttp.ClientSession() as client:
            while True:
                for role, one in zip(ROLES, self._crew.all, strict=True):
                    await self._look(client, crowd, role, one)
                if time.monotonic() - told_at >= TOLD_EVERY_S:
                    told_at = time.monotonic()
                    sizes = " ".join(f"{life.points[-1].rss_mb:.0f}" for life in self._living)
                    print(f"{told_at - began:.0f} s: {crowd.answered:,} answered, {sizes} MB", flush=True)
                await anyio.sleep(SAMPLE_EVERY_S)

    def tell(self) -> bool:
        """Print each life that tells of a slope; True when none grows too fast, and at least one tells."""
        print(
            f"\n{'process':<12}{'lived s':>8}{'turns':>8}{'first MB':>10}{'last MB':>9}{'most MB':>9}{'awake':>7}",
            end="",
        )
        print(f"{'MB/1,000 turns':>16}")
        well = []
        for life in self._lives.values():
            slope, warm = life.slope_mb, life.warm
            if slope is not None:
                well.append(slope <= MOST_MB)
                first, last, most = warm[0].rss_mb, warm[-1].rss_mb, max(one.rss_mb for one in life.points)
                print(f"{life.role:<12}{warm[-1].at_s:>8.0f}{warm[-1].turns - warm[0].turns:>8,.0f}", end="")
                print(f"{first:>10.0f}{last:>9.0f}{most:>9.0f}{warm[-1].awake:>7}{slope:>16.2f}")
        short = len(self._lives) - len(well)
        sizes = [one.rss_mb for life in self._lives.values() for one in life.points]
        print(f"{short} more lived too short to tell; the largest of all had {max(sizes):.0f} MB")
        return bool(well) and all(well)

    @property
    def _living(self) -> Sequence[Life]:
        pids = [one.process.pid for one in self._crew.all if one.process is not None]
        return [self._lives[pid] for pid in pids if pid in self._lives and self._lives[pid].points]

    async def _look(self, client: aiohttp.ClientSession, crowd: Crowd, role: str, one: Program) -> None:
        if one.process is None or one.process.poll() is not None:
            return
        pid = one.process.pid
        life = self._lives.setdefault(pid, Life(role, time.monotonic()))
        try:
            found, kernel = await metrics(client, one), status(pid)
        except (aiohttp.ClientError, OSError, TimeoutError):  # it starts, or was killed just now
            return
        if "VmRSS" in kernel:
            turns = found["tieline_turns_total"] if role == "worker" else float(crowd.answered)
            awake = int(found["tieline_conversations_awake"])
            life.points.append(Point(time.monotonic() - life.began, turns, kernel["VmRSS"] / 1024, awake))


class Killer:
    """`kills` counts by role; `fell` names processes that ended by themselves, with their exit code."""

    def __init__(self, crew: Crew, crowd: Crowd, messages: int, chance: random.Random) -> None:
        self.kills: Counter[str] = Counter()
        self.fell: list[str] = []
        self._crew, self._crowd = crew, crowd
        self._messages, self._chance = messages, chance
        self._round: list[int] = []

    async def strike(self, every_s: float) -> None:
        """Kill one process now and then, and start it again, until cancelled. Waits until all six are ready."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._supervise)
            while True:
                await anyio.sleep(every_s)
                await self._all_ready()
                victim = self._next()
                self._crew.all[victim].kill()
                Program.start(self._crew.all[victim])  # before the next await: nobody else finds it dead
                self.kills[ROLES[victim]] += 1

    async def _all_ready(self) -> None:
        for last in (False, False, False, True):
            try:
                await self._crew.ready(STARTS_WITHIN_S)
            except AssertionError:  # one ended by itself, and is started again
                if last:
                    raise
            else:
                return

    def _next(self) -> int:
        is_second = self._crowd.answered > self._messages / 2
        if is_second:
            return self._chance.choice(OFTEN)
        if not self._round:
            self._round = self._chance.sample(range(len(ROLES)), len(ROLES))
        return self._round.pop()

    async def _supervise(self) -> None:
        """Start what ended by itself: one that the others took for dead."""
        while True:
            for role, one in zip(ROLES, self._crew.all, strict=True):
                if one.process is not None and one.process.poll() is not None:
                    self.fell.append(f"{role} {one.process.returncode}")
                    Program.start(one)
            await anyio.sleep(1.0)


async def soak_cluster(home: Path, given: argparse.Namespace) -> bool:
    """Run it and print; True when nothing was lost or doubled, all came in order, and no process grew."""
    load = os.getloadavg()
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)  # else doubles tell whose request a kill cut off
    async with _cluster(home) as (doubles, crew):
        crowd = Crowd(doubles, given.conversations, given.turns, random.Random(given.seed), platforms=("telegram",))
        await crowd.move_in()
        lives = Lives(crew)
        killer = Killer(crew, crowd, given.conversations * given.turns, random.Random(given.seed + 1))
        began = time.monotonic()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lives.watch, crowd)
            tasks.start_soon(crowd.listen)
            async with anyio.create_task_group() as trouble:
                trouble.start_soon(killer.strike, given.kill_every)
                await crowd.talk(at_once=given.at_once)
                trouble.cancel_scope.cancel()
            took = time.monotonic() - began
            with anyio.move_on_after(REST_WITHIN_S):
                await crowd.all_answered()
            crew.start()
            await crew.ready(STARTS_WITHIN_S)
            settled = await _settles(crew)
            await anyio.sleep(SAMPLE_EVERY_S)  # second answers would have come by then
            tasks.cancel_scope.cancel()
        print(f"\n{crowd.said:,} messages in {given.conversations:,} conversations, {took:.0f} s,", end=" ")
        print(f"{crowd.said / took:.1f} a second; load before {load[0]:.1f}, after {os.getloadavg()[0]:.1f}")
        struck = ", ".join(f"{role} {count}" for role, count in sorted(killer.kills.items()))
        print(f"{killer.kills.total()} kills: {struck}; ended by themselves: {', '.join(killer.fell) or 'none'}")
        steady = lives.tell()
        return all([crowd.tell(crew.rows), settled, steady or given.conversations * given.turns < 2 * LEAST_TURNS])


@asynccontextmanager
async def _cluster(home: Path) -> AsyncIterator[tuple[Doubles, Six]]:
    async with all_doubles() as doubles:
        await doubles.telegram.post("settings", raised_limits())  # hundreds write at once here
        account = configs.telegram(doubles, more="messages_per_second = 1000\nprivate_messages_per_second = 50\n")
        config = configs.ACCESS + SECTIONS + configs.models(doubles, "a") + account
        crew = Six(home / "ingress", config, about={"session"})
        async with crew:
            yield doubles, crew


async def _settles(crew: Crew) -> bool:
    """Whether all that came in is done with and all that was said is sent; prints what is not."""
    try:
        await crew.settled(REST_WITHIN_S)
    except AssertionError as error:
        print(f"\nit did not come to rest: {error}")
        return False
    left = {query: count for query in FINISHED if (count := crew.rows(query)[0][0])}
    for query, count in left.items():
        print(f"\nleft: {query}: {count}")
    return not left
