"""A gateway whose dashboard is served on loopback, and a person signed in to it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from sqlalchemy import Connection
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.access.settings import DashboardRight
from gateway.channels.adapter import SignedIn
from gateway.channels.keys import UserId
from gateway.config.sections import WebSettings
from gateway.dashboard.sections import dashboard as sections
from gateway.storage import operator_actions
from gateway.storage.operator_actions import OperatorAction
from gateway.web.server import WebServer
from tests.adapters.web.visitor import Visitor, visiting
from tests.fakes.running import running
from tests.gateway.conftest import world, world_of
from tests.gateway.world import World

__all__ = ["world", "world_of"]


class As:
    """Lets everybody in as Anna, with these rights."""

    def __init__(self, app: ASGIApp, rights: frozenset[DashboardRight]) -> None:
        self._app = app
        self._rights = rights

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        person = SignedIn(id=UserId("anna"), display="Anna")
        scope["state"] = {"person": person, "csrf": "x", "rights": self._rights}
        await self._app(scope, receive, send)


class Browsing:
    """The owner, at the dashboard of a world."""

    def __init__(self, world: World, server: WebServer, visitor: Visitor) -> None:
        self.world = world
        self.server = server
        self.visitor = visitor

    async def page(self, path: str) -> str:
        """The HTML of a page that there is."""
        response = await self.visitor.client.get(path, headers={"accept": "text/html"})
        assert response.status_code == 200, response.text
        return response.text

    async def fragment(self, path: str) -> str:
        """The content alone, as a page that is open fetches it anew."""
        headers = {"accept": "text/html", "hx-request": "true", "hx-target": "content"}
        response = await self.visitor.client.get(path, headers=headers)
        assert response.status_code == 200, response.text
        return response.text

    async def post(self, path: str, **form: Any) -> httpx2.Response:
        """An action, as a button or form of a page sends it."""
        client = self.visitor.client
        origin = str(client.base_url).rstrip("/")
        return await client.post(path, data=form, headers={"x-csrf-token": self.visitor.token, "origin": origin})

    async def act(self, path: str, **form: Any) -> str:
        """The sentence that the person reads about an action that was carried out."""
        response = await self.post(path, **form)
        assert response.status_code == 200, response.text
        told: str = response.json()["text"]
        return told

    async def actions(self) -> list[OperatorAction]:
        """The audit log, oldest first."""

        def read(conn: Connection) -> list[OperatorAction]:
            return list(reversed(operator_actions.newest(conn)))

        return await self.world.database.read(read)


@asynccontextmanager
async def browsing(world: World, chat: str = "") -> AsyncIterator[Browsing]:
    """The dashboard of a process that runs. `chat` is where it says that the web chat is; "": nowhere."""
    server = WebServer(WebSettings(port=0), home=world.home, clock=world.clock)
    server.bind()
    async with running(server.run):
        server.let_in(world.services.sign_ins)
        server.give_rights(world.services.dashboard_rights)
        server.mount_dashboard(lambda reasons, _, link: sections(world.services, reasons, chat, link))
        server.watch(world.services.overview.reasons)
        async with visiting(server) as visitor:
            yield Browsing(world, server, visitor)


@pytest.fixture
async def owner(world: World) -> AsyncIterator[Browsing]:
    """The owner of a world whose process runs looks at the dashboard."""
    async with browsing(world) as there:
        yield there
