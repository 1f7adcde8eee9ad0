"""A person with a browser's manners but no browser: signs in by link, posts with the token, reads the event stream."""

import json
import re
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html.parser import HTMLParser
from typing import Any

import httpx2

from gateway.web.server import WebServer


class Visitor:
    """Signed in at a running server."""

    def __init__(self, client: httpx2.AsyncClient, token: str) -> None:
        self.client = client
        self.token = token

    async def post(self, path: str, body: Any, **headers: str) -> httpx2.Response:
        return await self.client.post(
            path,
            json=body,
            headers={"x-csrf-token": self.token, "origin": str(self.client.base_url).rstrip("/"), **headers},
        )

    async def say(self, text: str, *, session: str = "main", id: str = "", files: tuple[str, ...] = ()) -> str:
        id = id or secrets.token_hex(16)
        response = await self.post(f"/chat/c/{session}/messages", {"id": id, "text": text, "files": files})
        assert response.status_code == 200, response.text
        return id

    async def upload(self, name: str, content: bytes, mime_type: str = "application/octet-stream") -> dict[str, Any]:
        response = await self.client.post(
            "/chat/files",
            params={"name": name},
            content=content,
            headers={"x-csrf-token": self.token, "content-type": mime_type},
        )
        assert response.status_code == 201, response.text
        found: dict[str, Any] = response.json()
        return found

    async def state(self, session: str = "main") -> dict[str, Any]:
        """All there is to see now."""
        async with self.events(session) as events:
            async for _, event in events:
                return event
        raise AssertionError("no event came")

    async def all_messages(self, session: str = "main") -> list[dict[str, Any]]:
        """All messages there, oldest first, with those that the page shows on demand only."""
        page: dict[str, Any] = await self.state(session)
        found: list[dict[str, Any]] = page["messages"]
        while page["has_older"]:
            page = (await self.client.get(f"/chat/c/{session}/older?before={found[0]['order']}")).json()
            found = [*page["messages"], *found]
        return found

    @asynccontextmanager
    async def events(
        self, session: str = "main", after: str | None = None
    ) -> AsyncIterator[AsyncIterator[tuple[str, dict[str, Any]]]]:
        headers = {"last-event-id": after} if after else {}
        async with self.client.stream("GET", f"/chat/c/{session}/events", headers=headers) as response:
            assert response.status_code == 200, response.status_code
            yield _parsed(response)


async def _parsed(response: httpx2.Response) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    id = ""
    async for line in response.aiter_lines():
        if line.startswith("id: "):
            id = line[4:]
        elif line.startswith("data: "):
            yield id, json.loads(line[6:])


@asynccontextmanager
async def visiting(server: WebServer, link: str = "") -> AsyncIterator[Visitor]:
    """A visitor who used a sign-in link."""
    async with httpx2.AsyncClient(base_url=server.url, timeout=60, trust_env=False) as client:
        page = await client.get(link or await server.sign_in_link(), follow_redirects=True)
        assert page.status_code in (200, 403), page.text  # 403: signed in, without a right to look at the dashboard
        match = re.search(r'name="csrf" content="([^"]+)"', page.text)
        assert match, page.text
        yield Visitor(client, match[1])


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []
        self._skipped = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._skipped += tag == "figcaption"
        if tag == "br":
            self.pieces.append("\n")

    def handle_endtag(self, tag: str) -> None:
        self._skipped -= tag == "figcaption"

    def handle_data(self, data: str) -> None:
        if not self._skipped:
            self.pieces.append(data)


def text_of(html: str) -> str:
    """The text that a person reads in a piece of HTML."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    return "".join(reader.pieces)
