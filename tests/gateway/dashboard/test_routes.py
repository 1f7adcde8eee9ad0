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


# Which right each route needs, said here once more: what the routes say of themselves can be wrong.
ROUTES: dict[DashboardRight, str] = {
    "view": """
        GET /
        GET /usage.csv
        GET /conversations
        GET /approvals
        GET /delivery
        GET /turns
        GET /turns/{run}
        GET /spending
        GET /schedules
        GET /schedules/{number}
        GET /goals
        GET /people
        GET /people/{account:path}
        GET /places
        GET /places/{key:path}
        GET /providers
        GET /providers/{name}
        GET /mcp
        GET /mcp/{name}
        GET /skills
        GET /skills/{name}
        GET /programs
        GET /programs/webhooks
        GET /programs/events
        GET /accounts
        GET /accounts/check/{name:path}
        GET /settings
        GET /settings/{table}
        GET /settings/{table}/{entry}
        GET /health
    """,
    "transcripts": """
        GET /conversations/{key:path}
        GET /conversation-window/{key:path}
        GET /conversation-export/{key:path}
        GET /person/export/{account:path}
        GET /memory
        GET /memory-misses
        GET /memory/{key:path}
        GET /memory-export/{key:path}
    """,
    "operate": """
        POST /pairings/{code}/{decision}
        POST /conversation/stop/{key:path}
        POST /conversation/new/{key:path}
        POST /conversation/clear/{key:path}
        POST /conversation/provider/{key:path}
        POST /approvals/{id}/answer/{number:int}
        POST /approvals/{id}/words
        POST /approvals/{id}/{decision}
        POST /approvals/rules/{id:int}/revoke
        POST /delivery/all/{deed}
        POST /delivery/sending/{id:int}/{deed}
        POST /delivery/{id}/{deed}
        POST /spending/more
        POST /schedule/pause/{number}
        POST /schedule/resume/{number}
        POST /schedule/run/{number}
        POST /schedule/skip/{number}
        POST /schedule/remove/{number}
        POST /goal/pause/{number}
        POST /goal/resume/{number}
        POST /goal/raise/{number}
        POST /goal/clear/{number}
        POST /plan/stop/{number}
        POST /plan/resume/{number}
        POST /plan/cancel/{number}
        POST /memory-fact/forget/{key:path}
        POST /memory-all/forget/{key:path}
        POST /provider/test/{name}
        POST /provider/again/{name}
        POST /provider/key/{name}/{number:int}
        POST /provider/models/{name}
        POST /mcp-server/reconnect/{name}
        POST /skill/approve/{name}
        POST /skill/revoke/{name}
        POST /skill-reload
        POST /programs/webhook/drop/{name}
        POST /programs/events/test/{name}
        POST /programs/events/on/{name}
        POST /programs/events/retry/{id:int}
        POST /programs/events/retry-all/{name}
        POST /health/doctor
    """,
    "configure": """
        POST /alerts/test
        POST /person/add
        POST /person/role/{account:path}
        POST /person/take/{account:path}
        POST /person/part/{account:path}
        POST /person/dashboard/{account:path}
        POST /person/erase/{account:path}
        POST /place/allow/{key:path}
        POST /place/forget/{subject:path}
        GET /sign-ins
        POST /sign-in/add
        POST /sign-in/link/{person}
        POST /sign-in/revoke/{id}
        POST /sign-in/disable/{person}
        POST /sign-in/enable/{person}
        POST /sign-in/password/{person}
        POST /mcp-server/add
        POST /mcp-server/remove/{name}
        POST /mcp-server/login/{name}
        GET /mcp-login
        POST /accounts/reconnect/{name:path}
        POST /accounts/pause/{name:path}
        POST /accounts/resume/{name:path}
        POST /programs/key/add
        POST /programs/key/revoke/{name}
        POST /settings/reload
        GET /settings/file
        POST /settings/file/save
        POST /settings/{table}/save
        POST /settings/{table}/{entry}/save
        POST /health/backup
        GET /logs
        GET /logs/{number}
        GET /log-levels
        POST /log-level/choose
        POST /log-level/reset/{logger}
        GET /audit
    """,
}
NEEDED = {line.strip(): right for right, lines in ROUTES.items() for line in lines.strip().splitlines()}


def own_method(entry: Entry) -> str:
    """The method that a page or an action is there for."""
    return "GET" if entry.view is not None else "POST"


def needed_for(entry: Entry) -> DashboardRight:
    """The right that a page or an action has to need."""
    return NEEDED[f"{own_method(entry)} {entry.path}"]


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
async def test_each_route_is_for_whoever_has_its_right_alone(world_of: Callable[..., World]) -> None:
    world = world_of(config=CONFIG)
    async with world.process(), browsing(world) as owner:
        sections = all_sections(world.services, tuple, keeper(world.database))
        entries = [entry for section in sections for entry in section.entries]
        there = [f"{own_method(entry)} {entry.path}" for entry in entries]
        assert sorted(there) == sorted(NEEDED), "a new route gets a row, with the right that it has to need"
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
                    if needed_for(entry) in rights and role not in ("operator", "keeper"):
                        continue  # what two roles may do is shown to them; the others are refused what is not theirs
                    for_all += [
                        (entry, method) for method in (("GET", "POST") if role == "keeper" else (own_method(entry),))
                    ]
                answers = await at_once([partial(ask, visitor, entry, method) for entry, method in for_all])
                for (entry, method), status in zip(for_all, answers, strict=True):
                    is_own = method == own_method(entry)
                    if is_own and (status == 403) == (needed_for(entry) in rights):
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


async def test_every_page_leads_to_the_chat(world: World) -> None:
    """A macro of the same name as a value of the frame would stand in its place."""
    async with browsing(world, chat="/chat/") as there:
        for section in all_sections(world.services, tuple, keeper(world.database)):
            assert 'href="/chat/">Open chat' in await there.page(section.path), section.path
