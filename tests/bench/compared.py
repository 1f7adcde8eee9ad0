"""Cost of what can be switched while the gateway runs: traces, their export, and an operator who looks at Overview.

One process takes turns with it and without it in blocks, in the order with, without, without, with, so that neither the
machine's pace nor a conversation that grows counts. Two processes beside each other differ by more than either costs.
"""

import statistics
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

import anyio
import httpx2

from tests.bench.peers.drivers.tieline import home_of
from tests.bench.peers.performance import CHAT, CROWD, Result, converse
from tests.bench.peers.rig import Rig
from tests.fakes.otlp_collector import OtlpCollector, otlp_collector

BLOCKS = 12  # with it, and as many without
TURNS = 200  # of a block
AFTER_S = 2.5  # that count to a block: what its turns leave to the background, and the console's next look
RELOAD_S = 30.0
CONTENT = {"accept": "text/html", "hx-request": "true", "hx-target": "content"}

Switched = Callable[[Rig], AbstractAsyncContextManager[None]]


async def traces(rig: Rig) -> Result:
    """Traces of all turns, as shipped, against none."""
    return await _compared(rig, without=_without_traces)


async def export(rig: Rig) -> Result:
    """All turns as spans, and metrics, to a collector on this machine, against none."""
    async with otlp_collector() as collector:
        return await _compared(rig, within=partial(_exported, collector))


async def overview(rig: Rig) -> Result:
    """The dashboard open on Overview, against closed."""
    return await _compared(rig, within=_looked_at)


async def _compared(rig: Rig, *, within: Switched | None = None, without: Switched | None = None) -> Result:
    """The milliseconds of CPU that it adds to a turn: one turn after another, and in a crowd."""
    await rig.ready()
    found: Result = {}
    for name, block in (("one", _one_after_another), ("crowd", _at_once)):
        costs: dict[bool, list[float]] = {True: [], False: []}
        number = 1
        for index in range(2 * BLOCKS):
            is_on = index % 4 in (0, 3)
            async with _nothing(rig) if (switched := within if is_on else without) is None else switched(rig):
                costs[is_on].append(await _cost_ms(rig, partial(block, rig, number)))
            number += TURNS
        more = [one - other for one, other in zip(costs[True], costs[False], strict=True)]
        found[f"{name}_more_ms"] = statistics.median(more)
        found[f"{name}_error_ms"] = statistics.stdev(more) / len(more) ** 0.5
        found[f"{name}_ms"] = statistics.median(costs[False])
    return found


async def _cost_ms(rig: Rig, block: Callable[[], Awaitable[None]]) -> float:
    before = rig.process.cpu()
    await block()
    await anyio.sleep(AFTER_S)
    return 1000 * (rig.process.cpu() - before) / TURNS


async def _one_after_another(rig: Rig, first: int) -> None:
    for number in range(first, first + TURNS):
        assert await rig.ask(CHAT, number) is not None, "an answer was lost"


async def _at_once(rig: Rig, first: int) -> None:
    waits = await converse(rig, CROWD, turns=TURNS // len(CROWD), at_once=len(CROWD), first=first)
    assert None not in waits, "an answer was lost"


@asynccontextmanager
async def _nothing(_: Rig) -> AsyncIterator[None]:
    yield


@asynccontextmanager
async def _without_traces(rig: Rig) -> AsyncIterator[None]:
    path = home_of(rig.site) / "gateway.toml"
    shipped = path.read_text()
    await _in_force(rig, f"{shipped}\n[traces]\nenabled = false\n")
    yield
    await _in_force(rig, shipped)


@asynccontextmanager
async def _exported(collector: OtlpCollector, rig: Rig) -> AsyncIterator[None]:
    path, seen = home_of(rig.site) / "gateway.toml", len(collector.spans)
    shipped = path.read_text()
    await _in_force(rig, f'{shipped}\n[otel]\nendpoint = "{collector.url}"\n')
    yield
    assert len(collector.spans) - seen >= TURNS, "turns were not exported"
    collector.spans.clear()
    await _in_force(rig, shipped)


async def _in_force(rig: Rig, configuration: str) -> None:
    """Write it, and wait until the gateway says that it counts."""
    said = rig.log().count("new settings count")
    (home_of(rig.site) / "gateway.toml").write_text(configuration)
    with anyio.fail_after(RELOAD_S):
        while rig.log().count("new settings count") == said:  # noqa: ASYNC110 - another process's file
            await anyio.sleep(0.1)


@asynccontextmanager
async def _looked_at(rig: Rig) -> AsyncIterator[None]:
    """Overview, held open as the page does: `/live`, and at each hint the content anew."""
    base = f"http://127.0.0.1:{rig.site.port}"
    async with httpx2.AsyncClient(
        base_url=base, timeout=None, trust_env=False, headers={"accept": "text/html"}
    ) as client:
        page = await client.get(await anyio.to_thread.run_sync(_sign_in_link, rig), follow_redirects=True)
        page.raise_for_status()
        async with anyio.create_task_group() as group:
            await group.start(_look, client)
            yield
            group.cancel_scope.cancel()


async def _look(client: httpx2.AsyncClient, *, task_status: anyio.abc.TaskStatus[None]) -> None:
    async with client.stream("GET", "/live") as events:
        events.raise_for_status()
        task_status.started()
        async for line in events.aiter_lines():
            if line == "event: changed":
                (await client.get("/", headers=CONTENT)).raise_for_status()


def _sign_in_link(rig: Rig) -> str:
    assert rig.launch is not None
    made = subprocess.run(
        [rig.launch.argv[0], "sign-in"],
        env=rig.launch.env,
        cwd=rig.launch.cwd,
        capture_output=True,
        text=True,
        check=True,
    )
    return made.stdout.split()[-1]
