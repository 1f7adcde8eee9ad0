"""Pages and actions of the dashboard for a person who has some of its rights alone."""

import httpx2
from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.channels.adapter import SignedIn
from gateway.channels.keys import UserId
from gateway.dashboard.audit_log import keeper
from gateway.dashboard.sections import all_sections
from gateway.dashboard.shell import Shell
from tests.gateway.world import World


class _As:
    """Lets everybody in as Vera with these rights."""

    def __init__(self, app: ASGIApp, rights: frozenset[str]) -> None:
        self._app = app
        self._rights = rights

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        person = SignedIn(id=UserId("vera"), display="Vera")
        scope["state"] = {"person": person, "csrf": "x", "rights": self._rights}
        await self._app(scope, receive, send)


async def asked_as(world: World, path: str, *rights: str, post: bool = False) -> httpx2.Response:
    """The answer to Vera, who has these rights."""
    audit = keeper(world.database)
    shell = Shell(all_sections(world.services, lambda: (), audit), audit, world.clock, "")
    app = _As(Starlette(routes=list(shell.routes)), frozenset(rights))
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://dashboard") as client:
        return await (client.post(path) if post else client.get(path))
