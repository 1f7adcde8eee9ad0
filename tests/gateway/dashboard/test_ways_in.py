"""The ways to sign in to a whole gateway, beside the one-time link."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import httpx2
import pytest

from gateway.config.sections import WebSettings
from gateway.dashboard.sections import dashboard
from gateway.web.server import WebServer
from tests.fakes.oidc_server import OidcServer
from tests.fakes.running import running
from tests.gateway.web.test_oidc import provider, returned, settings_for
from tests.gateway.world import World

__all__ = ["provider"]

PASSWORD = "correct horse battery"
HTML = {"accept": "text/html"}


@asynccontextmanager
async def strangers(world: World, settings: WebSettings) -> AsyncIterator[httpx2.AsyncClient]:
    """A browser that is not signed in, at the world's dashboard. Anna has an account without rights."""
    await world.services.sign_ins.add("anna", "Anna")
    server = WebServer(settings, home=world.home, clock=world.clock)
    server.bind()
    async with running(server.run):
        server.let_in(world.services.sign_ins)
        server.give_rights(world.services.dashboard_rights)
        server.mount_dashboard(partial(dashboard, world.services))
        server.watch(world.services.overview.reasons)
        async with httpx2.AsyncClient(base_url=server.url, trust_env=False, timeout=60) as client:
            yield client


@pytest.mark.requirement("G-69", "G-70")
async def test_a_password_makes_a_member_and_no_owner(world: World) -> None:
    async with strangers(world, WebSettings(port=0)) as anna:
        await world.services.sign_ins.set_password("anna", PASSWORD)
        origin = {"origin": str(anna.base_url).rstrip("/")}
        for person, password in (("anna", "a wrong password"), ("operator", PASSWORD), ("zoe", PASSWORD)):
            wrong = await anna.post("/sign-in", data={"person": person, "password": password}, headers=origin)
            assert wrong.status_code == 403, person
        entered = await anna.post("/sign-in", data={"person": "anna", "password": PASSWORD}, headers=origin)
        assert entered.status_code == 303
        assert (await anna.get("/", headers=HTML)).status_code == 403, "signed in, without a right"


@pytest.mark.requirement("G-72")
async def test_a_proxy_names_who_has_signed_in(world: World) -> None:
    settings = WebSettings(port=0, trusted_proxies=("127.0.0.0/8",), person_header="X-Forwarded-User")
    async with strangers(world, settings) as proxy:
        for name, status in (("zoe", 401), ("operator", 401), ("anna", 403)):
            assert (await proxy.get("/", headers={**HTML, "x-forwarded-user": name})).status_code == status, name


@pytest.mark.requirement("G-73")
async def test_an_identity_provider_signs_in_whom_it_names(world: World, provider: OidcServer) -> None:
    async with strangers(world, settings_for(provider)) as client:
        assert (await returned(client)).status_code == 303
        assert (await client.get("/", headers=HTML)).status_code == 403, "signed in, without a right"
