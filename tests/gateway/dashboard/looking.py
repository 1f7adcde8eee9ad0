"""Somebody who looks at the dashboard of a world with fewer rights than its owner."""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

import httpx2
from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.channels.adapter import SignedIn
from gateway.channels.keys import UserId
from gateway.dashboard.sections import all_sections
from gateway.dashboard.shell import Right, Shell
from gateway.storage.operator_actions import OperatorAction
from tests.gateway.world import World


class _As:
    """Lets everybody in as Anna, with these rights."""

    def __init__(self, app: ASGIApp, rights: frozenset[Right]) -> None:
        self._app = app
        self._rights = rights

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        person = SignedIn(id=UserId("anna"), display="Anna")
        scope["state"] = {"person": person, "csrf": "x", "rights": self._rights}
        await self._app(scope, receive, send)


@asynccontextmanager
async def looking(world: World, rights: Collection[Right]) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of all sections, behind no sign-in."""

    async def unkept(done: OperatorAction) -> None: ...

    shell = Shell(all_sections(world.services, lambda: (), unkept), unkept, world.clock, "")
    app = _As(Starlette(routes=list(shell.routes)), frozenset(rights))
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://there") as client:
        yield client
