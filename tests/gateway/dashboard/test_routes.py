"""Every route of the dashboard, for every role and method, with real sign-ins."""

import re
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import anyio
import httpx2
import pytest

from gateway.access.settings import DashboardRight
from gateway.channels.adapter import SignedIn
from gateway.channels.keys import UserId
from gateway.dashboard.frame.shell import Entry
from gateway.dashboard.program.audit_log import keeper
from gateway.dashboard.sections import all_sections
from tests.adapters.web.visitor import Visitor, visiting
from tests.gateway.dashboard.conftest import browsing
from tests.gateway.world import World

AT_ONCE = 8
ROLES: dict[str, tuple[DashboardRight, ...]] = {
    "guest": (),
    "viewer": ("view",),
    "operator": ("view", "operate"),
    "reader": ("view", "transcripts"),
    "keeper": ("view", "configure"),
}
CONFIG = """
[[roles]]
name = "viewer"
people = ["web:viewer"]

[[roles]]
name = "operator"
people = ["web:operator1"]

[[roles]]
name = "reader"
people = ["web:reader"]
dashboard = ["view", "transcripts"]

[[roles]]
name = "keeper"
people = ["web:keeper"]
dashboard = ["view", "configure"]
"""
NAMES = {"operator": "operator1"}  # `operator` is the owner's own name


def address(entry: Entry) -> str:
    """The path of a page or action of something that there is not."""
    return re.sub(r"\{[^}]*\}", "9999", entry.path)


async def ask(visitor: Visitor, entry: Entry, method: str) -> httpx2.Response:
    path = address(entry)
    return await (visitor.client.get(path) if method == "GET" else visitor.post(path, {}))


async def at_once(asked: Sequence[Callable[[], Awaitable[httpx2.Response]]]) -> list[int]:
    """The status of each, some of them under way at a time."""
    statuses = [0] * len(asked)

    async def one(number: int) -> None:
        async with limiter:
            statuses[number] = (await asked[number]()).status_code

    limiter = anyio.CapacityLimiter(AT_ONCE)
    async with anyio.create_task_group() as tasks:
        for number in range(len(asked)):
            tasks.start_soon(one, number)
    return statuses


@pytest.mark.requirement("G-59", "G-68")
async def test_each_route_is_for_whom_it_says(world_of: Callable[..., World]) -> None:
    world = world_of(config=CONFIG)
    async with world.process(), browsing(world) as owner:
        sections = all_sections(world.services, tuple, keeper(world.database))
        entries = [entry for section in sections for entry in section.entries]
        assert len({(entry.path, entry.view is None) for entry in entries}) == len(entries) > 40
        wrong: list[str] = []
        async with httpx2.AsyncClient(base_url=owner.server.url, trust_env=False, timeout=60) as stranger:
            asked = [(method, address(entry)) for entry in entries for method in ("GET", "POST")]
            assert set(await at_once([partial(stranger.request, *one) for one in asked])) == {401}
        for role, rights in ROLES.items():
            name = NAMES.get(role, role)
            await world.services.sign_ins.add(name, role.title())
            link = await owner.server.sign_in_link(SignedIn(id=UserId(name), display=role))
            async with visiting(owner.server, link) as visitor:
                before = len(await owner.actions())
                for_all: list[tuple[Entry, str]] = []
                for entry in entries:
                    if entry.needs in rights and role not in ("operator", "keeper"):
                        continue  # what two roles may do is shown to them; the others are refused what is not theirs
                    own = "GET" if entry.view is not None else "POST"
                    for_all += [(entry, method) for method in (("GET", "POST") if role == "keeper" else (own,))]
                answers = await at_once([partial(ask, visitor, entry, method) for entry, method in for_all])
                for (entry, method), status in zip(for_all, answers, strict=True):
                    is_own = method == ("GET" if entry.view is not None else "POST")
                    if is_own and (status == 403) == (entry.needs in rights):
                        wrong.append(f"{role} {method} {entry.path}: {status}")
                    if not is_own and status not in (403, 404, 405):
                        wrong.append(f"{role} {method} {entry.path}: {status}")
                if not {"operate", "configure"} & set(rights):
                    changes = [one for one in (await owner.actions())[before:] if one.person == f"web:{name}"]
                    assert not {one.action for one in changes} & {entry.name for entry in entries if entry.action}, role
        assert wrong == []


async def test_the_live_events_are_for_who_may_look(world_of: Callable[..., World]) -> None:
    world = world_of(config=CONFIG)
    async with world.process(), browsing(world) as owner:
        await world.services.sign_ins.add("guest", "Guest")
        link = await owner.server.sign_in_link(SignedIn(id=UserId("guest"), display="Guest"))
        async with visiting(owner.server, link) as guest:
            assert (await guest.client.get("/live")).status_code == 403
