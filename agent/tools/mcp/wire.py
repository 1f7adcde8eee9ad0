"""The official SDK, and nothing of it elsewhere: one connection to one server. Loaded when a server is configured."""

import math
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx2
import mcp_types as types
from mcp.client.client import Client
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from agent.core.clock import Clock
from agent.core.http_bodies import limited_to
from agent.core.whole_text import one_line
from agent.tools.mcp.complaints import bounded
from agent.tools.mcp.login import Kept, Login, log_in, speaks_sse
from agent.tools.mcp.offers import MOST_TOOLS, Offer
from agent.tools.mcp.results import Result
from agent.tools.mcp.settings import ServerSettings

MOST_PAGES = 20
LARGEST_ANSWER = 16 * 1024 * 1024  # bytes, or of one event; a result is cut to a million characters
_ADDRESS = re.compile(r"(?<!\w)\w++://[^\s'\"<>]+")
CONNECT_S, LIST_S, PROBE_EVERY_S = 30.0, 30.0, 60.0

# What the server asks of a person: its words, the schema of the answer; gives the answer, or None for a no.
Elicit = Callable[[str, Mapping[str, Any]], Awaitable[Mapping[str, Any] | None]]


class Lost(Exception):
    """The server is gone, or does not speak as it should. What was asked of it may or may not have been done."""


class Refused(Exception):
    """The server answered with an error."""


@dataclass(frozen=True, slots=True)
class Connection:
    """An open connection."""

    client: Client

    async def offers(self) -> list[Offer]:
        """All tools of the server. Raises Lost."""
        found: list[Offer] = []
        cursor: str | None = None
        try:
            with anyio.fail_after(LIST_S):
                for _ in range(MOST_PAGES):
                    page = await self.client.list_tools(cursor=cursor, cache_mode="refresh")
                    found += [_offer(tool) for tool in page.tools]
                    cursor = page.next_cursor
                    if not cursor or len(found) >= MOST_TOOLS:
                        break
        except (MCPError, ValidationError, TimeoutError, OSError, anyio.ClosedResourceError) as error:
            raise Lost(f"its tools cannot be listed: {why(error)}") from error
        return found

    async def call(self, name: str, arguments: Mapping[str, Any], progress: Callable[[str], None]) -> Result:
        """Call one of its tools. Raises Refused or Lost."""

        show = progress

        async def told(progress: float, total: float | None, message: str | None) -> None:
            share = f" {progress / total:.0%}" if total else ""
            show(f"{name}:{share} {message or ''}".strip()[:200])

        try:
            answer = await self.client.call_tool(name, dict(arguments), progress_callback=told)
        except MCPError as error:
            closed = error.error.code == types.CONNECTION_CLOSED
            raise (Lost if closed else Refused)(why(error)) from error
        except ValidationError as error:
            raise Refused("its answer is not what the protocol says") from error
        except (OSError, anyio.ClosedResourceError, anyio.BrokenResourceError, RuntimeError) as error:
            raise Lost(why(error)) from error
        blocks = [block.model_dump(mode="json", by_alias=True) for block in answer.content]
        return Result(blocks=blocks, structured=answer.structured_content, is_error=bool(answer.is_error))

    async def watch(self, changed: Callable[[], None]) -> None:
        """Call `changed` when the server says that its tools are others now; returns where it has no way to say so."""
        try:
            async with self.client.listen(tools_list_changed=True) as subscription:
                async for _ in subscription:
                    changed()
        except (ListenNotSupportedError, SubscriptionLost, MCPError, TimeoutError):
            return


@asynccontextmanager
async def connected(
    server: ServerSettings, *, changed: Callable[[], None], elicit: Elicit, errors: Path, login: Login | None = None
) -> AsyncIterator[Connection]:
    """A connection for as long as the block lasts. `errors` is the file for what a started program complains of.

    `login` goes along with what is sent to an address, unless the configuration has a login of its own.

    Raises whatever the SDK does when there is none to be had or it breaks: `why` makes a sentence of it.
    """

    async def heard(message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            changed()

    async def asked(context: Any, params: Any) -> Any:
        if not isinstance(params, types.ElicitRequestFormParams):
            return types.ElicitResult(action="decline")
        answer = await elicit(params.message, dict(params.requested_schema))
        if answer is None:
            return types.ElicitResult(action="decline")
        return types.ElicitResult(action="accept", content=dict(answer))

    refused: list[int] = []  # HTTP states of the answers
    with anyio.CancelScope(deadline=anyio.current_time() + CONNECT_S) as opening:
        try:
            async with AsyncExitStack() as stack:
                transport = await _transport(server, stack, errors, refused, login)
                client = Client(
                    transport,
                    client_info=types.Implementation(name="tieline", version="1"),
                    message_handler=heard,
                    elicitation_callback=asked,
                )
                await stack.enter_async_context(client)
                opening.deadline = math.inf
                yield Connection(client)
        except Exception as error:
            if opening.deadline == math.inf or not refused:
                raise
            raise Lost(refusal(refused[-1], server)) from error
    if opening.cancelled_caught:
        raise Lost(f"it did not answer within {CONNECT_S:g} s")


async def logged_in(
    server: ServerSettings,
    clock: Clock,
    *,
    redirect: str,
    show: Callable[[str], Awaitable[None]],
    sent_back: Callable[[], Awaitable[str]],
    registered: tuple[str, str] | None = None,
) -> Kept | None:
    """A new login at the server, as `log_in` makes it. Raises LoginFailed."""
    headers = {name: value.get_secret_value() for name, value in server.headers.items()}
    async with create_mcp_http_client(headers=headers) as client:
        client.event_hooks["response"].append(limited_to(LARGEST_ANSWER))
        return await log_in(
            client, server.url, clock, redirect=redirect, show=show, sent_back=sent_back, registered=registered
        )


def refusal(status: int, server: ServerSettings) -> str:
    """What an operator can do about a server that answers the first words with this HTTP state."""
    match status:
        case 401 | 403 if server.has_own_login:
            what = "it wants a login, or another one: see headers of its [[mcp.servers]] entry"
        case 401 | 403:
            what = (
                f"it wants a login, or another one: run `tieline mcp login {server.name}` where the gateway runs, "
                "or give its [[mcp.servers]] entry headers"
            )
        case 404 | 405:
            what = "no MCP server answers at this address; one that speaks SSE has an address that ends in /sse"
        case status if status >= 500:
            what = "the server itself has failed"
        case _:
            what = "the server refused"
    return f"{what} (HTTP {status})"


async def _transport(
    server: ServerSettings, stack: AsyncExitStack, errors: Path, refused: list[int], login: Login | None
) -> Any:
    if server.url:
        headers = {name: value.get_secret_value() for name, value in server.headers.items()}

        async def noted(response: httpx2.Response) -> None:
            if response.status_code >= 400:
                refused.append(response.status_code)

        def client(
            headers: dict[str, str] | None = None,
            timeout: httpx2.Timeout | None = None,
            auth: httpx2.Auth | None = None,
        ) -> httpx2.AsyncClient:
            made = create_mcp_http_client(headers=headers, timeout=timeout, auth=auth)
            made.event_hooks["response"] += [limited_to(LARGEST_ANSWER), noted]
            return made

        auth = None if server.has_own_login else login
        if speaks_sse(server.url):
            return sse_client(server.url, headers=headers, httpx_client_factory=client, auth=auth)
        speaking = await stack.enter_async_context(client(headers, auth=auth))
        return streamable_http_client(server.url, http_client=speaking)
    env = {name: value.get_secret_value() for name, value in server.env.items()}
    parameters = StdioServerParameters(command=server.command, args=list(server.args), env=env, cwd=server.cwd)
    await anyio.to_thread.run_sync(_make_ready, errors)
    # At the end of what earlier ones complained of: why the last one died is what an operator looks for.
    return stdio_client(parameters, errlog=stack.enter_context(errors.open("a")))


def _make_ready(errors: Path) -> None:
    errors.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    bounded(errors)


def _offer(tool: types.Tool) -> Offer:
    annotations = tool.annotations
    return Offer(
        name=tool.name,
        description=tool.description or "",
        schema=dict(tool.input_schema),
        reads_only=bool(annotations is not None and annotations.read_only_hint),
        must_be_task=bool(tool.execution is not None and tool.execution.task_support == "required"),
    )


def why(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "it took too long"
    if isinstance(error, BaseExceptionGroup):
        return why(error.exceptions[0])
    text = error.error.message if isinstance(error, MCPError) else str(error)
    text = _ADDRESS.sub("its address", text)  # there may be a key in it
    return one_line(text)[:300] or type(error).__name__
