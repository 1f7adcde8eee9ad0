"""Parley's server, as far as the adapter uses it. Events are told to whoever waits for them, and kept for nobody."""

import asyncio
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from aiohttp import web

from gateway.testing.platform_double import PlatformDouble

TOKEN, ME = "good-token", "tieline"
DIRECT = {"anna"}  # rooms of one person


class Parley(PlatformDouble):
    """Rooms are made when somebody writes there."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[dict[str, Any]] = []
        self.events: list[dict[str, Any]] = []
        self._told = asyncio.Event()
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

    def write(self, room: str, text: str, *, author: str = "anna", told: bool = True, key: str = "") -> dict[str, Any]:
        """A message stands there; no event tells of it unless it is `told`."""
        self._last_at = round(max(time.time(), self._last_at + 0.001), 3)  # whole milliseconds
        number = str(len(self.messages) + 1)
        row: dict[str, Any] = {"id": number, "room": room, "author": author, "name": author.title(), "text": text}
        row |= {"at": self._last_at, "direct": room in DIRECT, "client_key": key, "gone": False}
        self.messages.append(row)
        if told:
            self.tell(row | {"kind": "message"})
        return row

    def tell(self, event: dict[str, Any]) -> None:
        self.events.append(event)
        self._told.set()
        self._told = asyncio.Event()

    def standing(self, room: str) -> list[dict[str, Any]]:
        return [row for row in self.messages if row["room"] == room and not row["gone"]]

    # -- the interface

    async def get_me(self, request: web.Request) -> web.Response:
        self._check(request)
        return web.json_response({"id": ME})

    async def get_events(self, request: web.Request) -> web.Response:
        self._check(request)
        after = int(request.query.get("after", len(self.events)))
        told = self._told
        if after == len(self.events) and "wait" in request.query:
            with suppress(TimeoutError):
                await asyncio.wait_for(told.wait(), float(request.query["wait"]))
        return web.json_response({"events": self.events[after:], "next": len(self.events)})

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
        row = self.write(request.match_info["room"], body["text"], author=ME, key=body["client_key"])
        return web.json_response({"id": row["id"]})

    async def patch_message(self, request: web.Request) -> web.Response:
        row = self._row(request)
        row["text"] = (await request.json())["text"]
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
