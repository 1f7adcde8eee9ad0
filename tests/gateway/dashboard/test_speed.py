"""The dashboard over a full database, just after a start."""

import time
from collections.abc import Callable
from functools import partial

import pytest

from agent.ledger.sums import KINDS
from gateway.dashboard.sections import all_sections
from gateway.storage.operator_actions import OperatorAction
from gateway.storage.repair import open_database
from tests.gateway.dashboard.conftest import browsing
from tests.gateway.dashboard.filled import fill
from tests.gateway.world import World

P95_MS = 200.0
ROUNDS = 20
CHAT = "telegram%3A1000"  # the newest of the full database
NO_PAGES = ("/usage.csv", "/mcp-login")  # a file of any size, and the end of a login that was begun elsewhere

# Receivers and webhooks of the full database; what waits there is not due.
SECTIONS = (
    *(
        f"""
[[events]]
name = "program-{number}"
url = "https://program-{number}.example.org/hook"
secret = "a-secret-of-some-length"
"""
        for number in range(3)
    ),
    *(
        f"""
[[webhooks]]
name = "hook-{number}"
secret = "a-secret-of-some-length"
place = "telegram:{number + 1}"
mode = "ask"
"""
        for number in range(3)
    ),
)


@pytest.mark.slow
async def test_each_page_is_there_within_its_time(
    world_of: Callable[..., World], capsys: pytest.CaptureFixture[str]
) -> None:
    world = world_of(config="".join(SECTIONS))
    database = await open_database("sqlite:///tieline.db", world.home)
    await database.write(partial(fill, now=world.clock.now()))
    await database.aclose()

    async def unkept(done: OperatorAction) -> None: ...

    took: dict[str, list[float]] = {}
    async with world.process(), browsing(world) as owner:
        sections = all_sections(world.services, lambda: (), unkept)
        paths = [entry.path for one in sections for entry in one.entries if entry.view and "{" not in entry.path]
        paths += [
            f"/conversations/{CHAT}",
            "/conversations?find=matter+at+hand",
            "/conversations?find=person+99&page=2",
            "/approvals?page=2",
            "/approvals?rules=30",
            "/approvals?find=person+99",
            "/delivery?box=answers&page=7",
            "/delivery?box=waiting",
            "/logs?find=message+1234&level=error",
            "/logs?conversation=person+99&page=3",
            "/logs?id=r199",
            "/logs?logger=tieline.part7",
            "/schedules/300",
            "/schedules?find=plant&sort=whose",
            f"/people/{CHAT}",
            "/people?find=person+99&sort=who",
            f"/places/{CHAT}",
            *(f"/spending?over=12&by={kind}" for kind in KINDS),
            "/spending?over=30&by=person&sort=tokens&page=7",
            "/spending?over=today&by=channel",
            "/turns?sort=took&descending=1&days=7",
            "/turns?sort=worked&descending=1&days=7",
            "/turns?sort=cost&descending=1&provider=b&page=20",
            f"/turns?sort=tokens&conversation={CHAT}",
            "/programs?sort=used&page=20",
            "/programs?find=program-19&state=revoked",
            "/programs/webhooks?page=200",
            "/programs/webhooks?webhook=hook-7&page=9",
            "/programs/webhooks?webhook=hook-gone",
            "/programs/events?page=400",
            "/programs/events?to=program-7&page=20",
            "/programs/events?to=program-0&state=given_up",
            "/programs/events?to=program-gone&state=sent",
        ]
        for _ in range(ROUNDS):
            for path in (path for path in paths if path not in NO_PAGES):
                began = time.perf_counter()
                await (owner.page(path) if len(took.get(path, ())) % 2 == 0 else owner.fragment(path))
                took.setdefault(path, []).append((time.perf_counter() - began) * 1000)
    slowest = {path: sorted(times)[int(len(times) * 0.95) - 1] for path, times in took.items()}
    with capsys.disabled():
        for path, ms in sorted(slowest.items(), key=lambda one: -one[1]):
            print(f"\n{path:40} p95 {ms:6.1f} ms, first {took[path][0]:6.1f} ms", end="")
    assert {path: ms for path, ms in slowest.items() if ms > P95_MS} == {}
