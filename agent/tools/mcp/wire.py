"""The official SDK, and nothing of it elsewhere: one connection to one server. Loaded when a server is configured."""

import math
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import anyio
import httpx2
import jsonschema  # noqa: F401 - loaded here, in a thread: checks of arguments need it in the event loop
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
from agent.core.httpx_limits import limited_to
from agent.core.untrusted_text import one_line
from agent.tools.mcp.catalogue import MOST, Catalogue, Prompt, PromptArgument, PromptMessage, Resource
from agent.tools.mcp.elicitation import Given, Wanted
from agent.tools.mcp.login import Kept, Login, log_in, speaks_sse
from agent.tools.mcp.offers import MOST_TOOLS, Offer, Result
from agent.tools.mcp.server import bounded
from agent.tools.mcp.settings import WANTS_LOGIN, ServerSettings

MOST_PAGES = 20
MOST_ADDRESSES = 3  # that a person must open before one call
LARGEST_ANSWER = 16 * 1024 * 1024  # bytes, or of one event; a result is cut to a million characters
_ADDRESS = re.compile(r"(?<!\w)\w++://[^\s'\"<>`]+")
CONNECT_S, LIST_S, PROBE_EVERY_S = 30.0, 30.0, 60.0

Elicit = Callable[[Wanted], Awaitable[Given]]  # asks a person what the server wants to know
T = TypeVar("T")


class Lost(Exception):
    """The server is gone, or does not speak as it should. What was asked of it may or may not have been done."""


class Refused(Exception):
    """The server answered with an error."""


class WantsFirst(Refused):
    """The server does it only after a person has been at these addresses."""

    def __init__(self, why: str, wanted: Sequence[Wanted]) -> None:
        super().__init__(why)
        self.wanted = wanted


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

        answer = await _answered(lambda: self.client.call_tool(name, dict(arguments), progress_callback=told))
        blocks = [block.model_dump(mode="json", by_alias=True) for block in answer.content]
        return Result(blocks=blocks, structured=answer.structured_content, is_error=bool(answer.is_error))

    async def catalogue(self) -> Catalogue:
        """Its prompts and resources. Raises Refused or Lost."""
        has = self.client.server_capabilities
        prompts: list[Prompt] = []
        resources: list[Resource] = []
        if has.prompts is not None:
            prompts = await _pages(self.client.list_prompts, lambda page: [_prompt(one) for one in page.prompts])
        if has.resources is not None:
            resources = await _pages(
                self.client.list_resources, lambda page: [_resource(one) for one in page.resources]
            )
            with suppress(Refused):  # a server may have resources and know of no templates
                resources += await _pages(
                    self.client.list_resource_templates,
                    lambda page: [_template(one) for one in page.resource_templates],
                )
        return Catalogue(prompts=tuple(prompts), resources=tuple(resources))

    async def read(self, address: str) -> Result:
        """The content of the resource at that address. Raises Refused or Lost."""
        answer = await _answered(lambda: self.client.read_resource(address, cache_mode="bypass"))
        contents = [one.model_dump(mode="json", by_alias=True) for one in answer.contents]
        return Result(blocks=[{"type": "resource", "resource": one} for one in contents])

    async def prompt(self, name: str, arguments: Mapping[str, str]) -> list[PromptMessage]:
        """The messages of one of its prompts. Raises Refused or Lost."""
        with anyio.move_on_after(LIST_S):
            answer = await _answered(lambda: self.client.get_prompt(name, dict(arguments)))
            dumped = [(one.role, one.content.model_dump(mode="json", by_alias=True)) for one in answer.messages]
            return [PromptMessage(role, Result(blocks=[block])) for role, block in dumped]
        raise Refused(f"it did not answer within {LIST_S:g} s")

    async def watch(self, changed: Callable[[], None]) -> None:
        """Call `changed` when the server says that it offers something else now; returns where it has no way to."""
        try:
            async with self.client.listen(
                tools_list_changed=True, prompts_list_changed=True, resources_list_changed=True
            ) as subscription:
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
        if isinstance(message, _CHANGES):
            changed()

    async def asked(context: Any, params: Any) -> Any:
        if isinstance(params, types.ElicitRequestURLParams):
            wanted = Wanted(message=params.message, url=params.url)
        else:
            wanted = Wanted(message=params.message, schema=dict(params.requested_schema))
        given = await elicit(wanted)
        return types.ElicitResult(action=given.action, content=None if given.content is None else dict(given.content))

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
        except Exception as error:  # raised again, as Lost where the reason can be told
            if opening.deadline == math.inf:
                raise
            if refused:
                raise Lost(refusal(refused[-1], server)) from error
            if (unstarted := _unstarted(server, error)) is not None:
                raise Lost(unstarted) from error
            raise
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


def _unstarted(server: ServerSettings, error: BaseException) -> str | None:
    """The name of the program that could not be started, and why; None for another error."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if not server.command or not isinstance(error, FileNotFoundError | PermissionError | NotADirectoryError):
        return None
    where = f" in {server.cwd}" if server.cwd else ""
    return f"the program {server.command} cannot be started{where}: {error.strerror}"


def refusal(status: int, server: ServerSettings) -> str:
    """Advice to an operator about a server that answers the first words with this HTTP state."""
    match status:
        case 401 | 403 if server.has_own_login:
            what = f"{WANTS_LOGIN}: see headers of its [[mcp.servers]] entry"
        case 401 | 403 if not server.has_entry:
            what = (
                f"{WANTS_LOGIN}: run `tieline mcp login {server.name} {server.url}` where the "
                "gateway runs, or remove it in a chat and give it a [[mcp.servers]] entry with headers"
            )
        case 401 | 403:
            what = (
                f"{WANTS_LOGIN}: run `tieline mcp login {server.name}` where the gateway runs, "
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


_CHANGES = (
    types.ToolListChangedNotification,
    types.PromptListChangedNotification,
    types.ResourceListChangedNotification,
)


async def _answered(ask: Callable[[], Awaitable[T]]) -> T:
    """The server's answer. Raises Refused (WantsFirst among them) or Lost."""
    try:
        return await ask()
    except MCPError as error:
        if error.error.code == types.CONNECTION_CLOSED:
            raise Lost(why(error)) from error
        if error.error.code == types.URL_ELICITATION_REQUIRED:
            raise WantsFirst(why(error), _wanted_first(error.error.data)) from error
        raise Refused(why(error)) from error
    except ValidationError as error:
        raise Refused("its answer is not what the protocol says") from error
    except (OSError, anyio.ClosedResourceError, anyio.BrokenResourceError, RuntimeError) as error:
        raise Lost(why(error)) from error


def _wanted_first(data: Any) -> list[Wanted]:
    """The addresses of an error that says where a person must go before."""
    try:
        asked = types.ElicitationRequiredErrorData.model_validate(data).elicitations
    except ValidationError:
        return []
    return [Wanted(message=one.message, url=one.url, before=True) for one in asked[:MOST_ADDRESSES]]


async def _pages(ask: Callable[..., Awaitable[Any]], of: Callable[[Any], list[T]]) -> list[T]:
    """All pages of a list, up to a limit. Raises Refused or Lost."""
    found: list[T] = []
    cursor: str | None = None
    with anyio.move_on_after(LIST_S):
        for _ in range(MOST_PAGES):
            page = await _answered(partial(ask, cursor=cursor, cache_mode="refresh"))
            found += of(page)
            cursor = page.next_cursor
            if not cursor or len(found) >= MOST:
                break
        return found[:MOST]
    raise Refused(f"it did not answer within {LIST_S:g} s")


def _prompt(one: types.Prompt) -> Prompt:
    arguments = tuple(
        PromptArgument(name=each.name, description=each.description or "", required=bool(each.required))
        for each in one.arguments or ()
    )
    return Prompt(name=one.name, description=one.description or one.title or "", arguments=arguments)


def _resource(one: types.Resource) -> Resource:
    return Resource(
        address=one.uri,
        name=one.title or one.name,
        description=one.description or "",
        mime_type=one.mime_type or "",
    )


def _template(one: types.ResourceTemplate) -> Resource:
    return Resource(
        address=one.uri_template,
        name=one.title or one.name,
        description=one.description or "",
        mime_type=one.mime_type or "",
        is_template=True,
    )


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
