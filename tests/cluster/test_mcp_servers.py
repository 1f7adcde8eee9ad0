"""MCP servers of several processes on one database: what a page shows of them, and what it changes, is true of all."""

import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from tests.cluster.processes import Member, Members, running
from tests.program import configs
from tests.program.doubles import all_doubles, until

FAKE = str(Path(__file__).parents[1] / "fakes" / "mcp_server.py")
NEAR = f"""
[[mcp.servers]]
name = "near"
command = "{sys.executable}"
args = ["{FAKE}"]
blocked = ["slow"]
"""
ROLES = ("ingress,scheduler,delivery", "worker", "worker")


class Page:
    """The owner's browser at one process."""

    def __init__(self, client: httpx2.AsyncClient, token: str) -> None:
        self._client = client
        self._token = token

    async def text(self, path: str) -> str:
        response = await self._client.get(path, headers={"accept": "text/html"})
        assert response.status_code == 200, response.text
        return response.text

    async def act(self, path: str, **form: str) -> str:
        headers = {"x-csrf-token": self._token, "origin": str(self._client.base_url).rstrip("/")}
        response = await self._client.post(path, data=form, headers=headers)
        assert response.status_code == 200, response.text
        told: str = response.json()["text"]
        return told


@asynccontextmanager
async def browsing(ingress: Member) -> AsyncIterator[Page]:
    link = ingress.sign_in_link()
    async with httpx2.AsyncClient(base_url=httpx2.URL(link).join("/"), timeout=60, trust_env=False) as client:
        page = await client.get(link, follow_redirects=True)
        token = re.search(r'name="csrf" content="([^"]+)"', page.text)
        assert token is not None
        yield Page(client, token[1])


@pytest.mark.requirement("G-171")
@pytest.mark.timeout(200)
async def test_an_ingress_shows_the_servers_as_the_workers_have_them_and_changes_them_there(
    tmp_path: Path, postgres_url: str
) -> None:
    async with all_doubles() as doubles:
        config = configs.ACCESS + configs.models(doubles, "a") + configs.telegram(doubles) + NEAR
        members = Members(tmp_path, postgres_url, config, ROLES, about={"mcp"})
        ingress, one, _ = members.all
        async with running(members), browsing(ingress) as page:

            async def both_have(server: str) -> bool:
                rows = "select count(*) from mcp_state where state like '%\"is_connected\"_true%' and server = "
                return members.rows(f"{rows}'{server}'") == [(2,)]

            await until(lambda: both_have("near"))
            assert '<span class="state connected">connected <' in await page.text("/mcp")
            shown = await page.text("/mcp/near")
            assert "mcp__near__echo" in shown
            assert "the configuration does not want it" in shown
            began = members.rows("select state from mcp_state order by process")
            assert "is being connected anew" in await page.act("/mcp-server/reconnect/near")

            async def both_anew() -> bool:
                now = members.rows("select state from mcp_state order by process")
                return await both_have("near") and all(a != b for a, b in zip(began, now, strict=True))

            await until(both_anew)
            one.kill()

            async def one_is_gone() -> bool:
                return members.rows("select count(*) from mcp_state") == [(1,)]

            await until(one_is_gone)
            assert "added" in await page.act("/mcp-server/add", name="far", address="http://127.0.0.1:9/mcp")

            async def tried() -> bool:
                return members.rows("select count(*) from mcp_state where server = 'far'") == [(1,)]

            await until(tried)
            assert "added at runtime" in await page.text("/mcp/far")
            assert "is removed" in await page.act("/mcp-server/remove/far")

            async def parted() -> bool:
                return members.rows("select count(*) from mcp_state where server = 'far'") == [(0,)]

            await until(parted)
