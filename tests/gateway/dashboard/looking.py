"""Somebody who looks at the dashboard of a world with fewer rights than its owner."""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

import httpx2
from starlette.applications import Starlette

from gateway.access.settings import DashboardRight
from gateway.dashboard.frame.shell import Shell
from gateway.dashboard.program.audit_log import keeper
from gateway.dashboard.sections import all_sections
from tests.gateway.dashboard.conftest import As
from tests.gateway.world import World


@asynccontextmanager
async def looking(world: World, rights: Collection[DashboardRight]) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of all sections, behind no sign-in."""
    audit = keeper(world.database)
    shell = Shell(all_sections(world.services, tuple, audit), audit, world.clock, "")
    app = As(Starlette(routes=list(shell.routes)), frozenset(rights))
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://there") as client:
        yield client


async def asked_as(world: World, path: str, *rights: DashboardRight, post: bool = False) -> httpx2.Response:
    """The answer to somebody who has these rights."""
    async with looking(world, rights) as client:
        return await (client.post(path) if post else client.get(path))
