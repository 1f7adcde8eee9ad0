"""A server of the Model Context Protocol for other agents: the doors as tools, over streamable HTTP at `/api/mcp`.

Each request brings its key, and nothing is kept between two of them: any process answers any request. Imported at the
first one, since the library takes half a second.
"""

import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import mcp_types as types
from mcp.server.lowlevel.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from gateway.api.keys import Key, Refused
from gateway.api.openai.door import refused_by
from gateway.api.places import Caller, Places
from gateway.api.reading import MOST_FOUND, Reading
from gateway.api.refusals import BadRequest
from gateway.api.turns import NotTaken, Turns
from gateway.channels.keys import ConversationKey

KEY = "tieline_key"  # of the request's state
MOST_BODY = 1 << 20  # bytes

_log = logging.getLogger("tieline.api")

Arguments = Mapping[str, Any]

_PLACE = {"type": "string", "description": "A chat, such as telegram:77 or slack:T0/C0."}
_ONCE = {"type": "string", "description": "The same call with the same word is carried out once.", "maxLength": 255}


class Doors:
    """The tools; each needs the scope of its name."""

    def __init__(self, places: Places, turns: Turns, reading: Reading) -> None:
        self._places = places
        self._turns = turns
        self._reading = reading
        self._tools: Mapping[str, tuple[str, types.Tool, Callable[[Key, Arguments], Awaitable[str]]]] = {
            "send": ("send", _tool("send", "Say something in a chat, as the bot.", text=True), self._send),
            "ask": ("ask", _tool("ask", "Have the bot answer in a chat; people there see it.", text=True), self._ask),
            "search_conversations": ("search", _SEARCH, self._search),
            "schedules": ("schedules", _SCHEDULES, self._schedules),
        }

    def tools(self, key: Key) -> Sequence[types.Tool]:
        """The tools that the key opens."""
        return [tool for scope, tool, _ in self._tools.values() if scope in key.scopes]

    async def call(self, key: Key, name: str, arguments: Arguments) -> str:
        """Raises BadRequest, NotTaken and Refused."""
        scope, tool, work = self._tools.get(name, ("", None, None))
        if tool is None or work is None or scope not in key.scopes:
            raise BadRequest(f"there is no tool {name[:100]!r} for this key")
        known: Mapping[str, Any] = tool.input_schema["properties"]
        for argument, value in arguments.items():
            if argument not in known or not isinstance(value, str):
                raise BadRequest(f"{argument[:100]}: is not known, or no text")
        for argument in tool.input_schema["required"]:
            if argument not in arguments:
                raise BadRequest(f"{argument}: is missing")
        return await work(key, arguments)

    def _place(self, key: Key, arguments: Arguments) -> ConversationKey:
        place = self._places.place(arguments["place"])
        if not key.reaches(place):
            raise Refused(f"the API key {key.name} does not reach {place}", status=403, code="place_not_allowed")
        return place

    async def _send(self, key: Key, arguments: Arguments) -> str:
        place, once = self._place(key, arguments), arguments.get("idempotency_key") or secrets.token_hex(16)
        sent = await self._places.send(place, arguments["text"], (), caller=_caller(key), once=once)
        return f"{sent.state}: {sent.reason}" if sent.reason else sent.state

    async def _ask(self, key: Key, arguments: Arguments) -> str:
        place, once = self._place(key, arguments), arguments.get("idempotency_key") or secrets.token_hex(16)
        begun = await self._places.ask(place, arguments["text"], caller=_caller(key), once=once)
        answer = await self._turns.answer(begun)
        if (refused := refused_by(answer)) is not None:
            raise refused
        return answer.text

    async def _search(self, key: Key, arguments: Arguments) -> str:
        place = self._place(key, arguments) if arguments.get("place") else None
        found = await self._reading.search(key, arguments["words"], place)
        return "\n".join(f"{one.at} {one.place} {one.role}: {one.text}" for one in found) or "nothing was found"

    async def _schedules(self, key: Key, arguments: Arguments) -> str:
        found = await self._reading.schedules(self._place(key, arguments))
        return "\n".join(found) or "there are none"


class McpServer:
    """The ASGI application behind the entrance; `run` must run while it is served."""

    def __init__(self, doors: Doors, version: str) -> None:
        self._doors = doors
        self._server: Server[Any] = Server(
            "tieline", version=version, on_list_tools=self._list, on_call_tool=self._call
        )
        self.manager = StreamableHTTPSessionManager(
            self._server, json_response=True, stateless=True, max_request_body_size=MOST_BODY
        )

    async def _list(self, context: Any, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=list(self._doors.tools(_key(context))))

    async def _call(self, context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            text, is_error = await self._doors.call(_key(context), params.name, params.arguments or {}), False
        except (BadRequest, NotTaken, Refused) as error:
            text, is_error = str(error), True
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=is_error)


def _key(context: Any) -> Key:
    key = getattr(context.request.state, KEY)
    assert isinstance(key, Key)
    return key


def _caller(key: Key) -> Caller:
    return Caller(id=key.person, display=key.name, role="member")


def _tool(name: str, about: str, *, text: bool) -> types.Tool:
    properties = {"place": _PLACE, "text": {"type": "string"}, "idempotency_key": _ONCE}
    schema = {"type": "object", "properties": properties, "required": ["place", "text"], "additionalProperties": False}
    return types.Tool(name=name, description=about, input_schema=schema)


_SEARCH = types.Tool(
    name="search_conversations",
    description=f"Search what was said in the chats that this key reaches; the newest {MOST_FOUND} messages.",
    input_schema={
        "type": "object",
        "properties": {"words": {"type": "string"}, "place": _PLACE},
        "required": ["words"],
        "additionalProperties": False,
    },
    annotations=types.ToolAnnotations(read_only_hint=True),
)
_SCHEDULES = types.Tool(
    name="schedules",
    description="List the reminders and schedules of a chat, the next first.",
    input_schema={
        "type": "object",
        "properties": {"place": _PLACE},
        "required": ["place"],
        "additionalProperties": False,
    },
    annotations=types.ToolAnnotations(read_only_hint=True),
)
