"""Parley's server, as far as the adapter uses it. Events are told to whoever is connected, and kept for nobody."""

import re
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from aiohttp import web

from gateway.testing.platform_double import PlatformDouble

TOKEN, ME = "good-token", "tieline"
BAD_TOKEN = 4001
DIRECT = {"anna"}  # rooms of one person


class Parley(PlatformDouble):
    """Rooms are made when somebody writes there."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[dict[str, Any]] = []
        self.at_once: dict[str, Any] | None = None  # a message that is told to whoever connects
        self.calls_made: list[str] = []  # ids of messages by which the bot called somebody
        self._sockets: set[web.WebSocketResponse] = set()
        self._last_at = 0.0

    def routes(self) -> Iterable[web.AbstractRouteDef]:
        return [
            web.get("/me", self.get_me),
            web.get("/events", self.get_events),
            web.get("/rooms/{room}/messages", self.get_messages),
            web.post("/rooms/{room}/messages", self.post_message),
            web.patch("/rooms/{room}/messages/{id}", self.patch_message),
            web.delete("/rooms/{room}/messages/{id}", self.delete_message),
        ]

    # -- people

    async def write(self, room: str, text: str, *, author: str = "anna") -> dict[str, Any]:
        row = self.keep(room, text, author=author)
        await self.tell(row | {"kind": "message"})
        return row

    def keep(self, room: str, text: str, *, author: str, key: str = "") -> dict[str, Any]:
        self._last_at = round(max(time.time(), self._last_at + 0.001), 3)  # whole milliseconds
        number = str(len(self.messages) + 1)
        row: dict[str, Any] = {"id": number, "room": room, "author": author, "name": author.title(), "text": text}
        row |= {"at": self._last_at, "direct": room in DIRECT, "client_key": key, "gone": False}
        self.messages.append(row)
        self._call(row)
        return row

    def _call(self, row: dict[str, Any]) -> None:
        """Parley tells everybody who is named outside code."""
        if re.search(r"@\w", re.sub(r"(`+).*?\1", "", row["text"], flags=re.DOTALL)) and row["author"] == ME:
            self.calls_made.append(row["id"])

    async def tell(self, event: dict[str, Any]) -> None:
        for socket in list(self._sockets):
            with suppress(ConnectionError):  # cut, and not closed yet
                await socket.send_json(event)

    def standing(self, room: str) -> list[dict[str, Any]]:
        return [row for row in self.messages if row["room"] == room and not row["gone"]]

    # -- the interface

    async def get_me(self, request: web.Request) -> web.Response:
        self._check(request)
        return web.json_response({"id": ME})

    async def get_events(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        if (await socket.receive_json()).get("token") != TOKEN:
            await socket.close(code=BAD_TOKEN)
            return socket
        await socket.send_json({"you": ME})
        if self.at_once is not None:
            await socket.send_json(self.at_once | {"kind": "message"})
        self._sockets.add(socket)
        async for _ in socket:  # nothing more is said to Parley
            pass
        self._sockets.discard(socket)
        return socket

    async def get_messages(self, request: web.Request) -> web.Response:
        self._check(request)
        query, rows = request.query, self.standing(request.match_info["room"])
        if "client_key" in query:
            return web.json_response([row for row in rows if row["client_key"] == query["client_key"]])
        if "after" in query:
            rows = [row for row in rows if int(row["id"]) > int(query["after"])]
        else:
            rows = [row for row in rows if row["at"] >= round(float(query["from"]), 3)]
        return web.json_response(rows[: int(query["limit"])])

    async def post_message(self, request: web.Request) -> web.Response:
        self._check(request)
        body = await request.json()
        if len(body["text"]) > 4000:
            raise web.HTTPBadRequest
        row = self.keep(request.match_info["room"], body["text"], author=ME, key=body["client_key"])
        await self.tell(row | {"kind": "message"})
        return web.json_response({"id": row["id"]})

    async def patch_message(self, request: web.Request) -> web.Response:
        row = self._row(request)
        row["text"] = (await request.json())["text"]
        self._call(row)
        return web.json_response({})

    async def delete_message(self, request: web.Request) -> web.Response:
        self._row(request)["gone"] = True
        return web.json_response({})

    def _row(self, request: web.Request) -> dict[str, Any]:
        self._check(request)
        for row in self.standing(request.match_info["room"]):
            if row["id"] == request.match_info["id"] and row["author"] == ME:
                return row
        raise web.HTTPNotFound

    def _check(self, request: web.Request) -> None:
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            raise web.HTTPUnauthorized
