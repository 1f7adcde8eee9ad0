"""Tries model providers and MCP servers, so that a refused key is told before somebody writes to the bot."""

from contextlib import aclosing
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import anyio

from agent.core.clock import SystemClock
from agent.core.errors import AgentError, ProviderBusy, QuotaUsedUp
from agent.core.messages import Message, TextPart
from agent.providers.models import USEFUL_WINDOW
from agent.providers.provider import Request, SystemPrompt
from agent.providers.registry import LazyProvider, ProviderDeps
from agent.providers.settings import ProviderSettings
from agent.tools.mcp.server import Server
from agent.tools.mcp.settings import ServerSettings, login_file
from gateway.channels.adapter import Diagnosis

WITHIN_S = 20.0
SERVER_WITHIN_S = 40.0  # one that is started may have to be loaded first
MAX_TOKENS = 16  # the least that every service takes; the answer is not waited for beyond its first piece


async def tried(settings: ProviderSettings, home: Path) -> Diagnosis:
    """Whether that model answers; the fix where it does not."""
    subject, what = f"provider {settings.name}", f"{settings.type}, model {settings.model}"
    provider = LazyProvider(settings, ProviderDeps(home=home, clock=SystemClock()))
    try:
        await provider.open()  # loading a library may take its time on a small machine
        began = perf_counter()
        with anyio.fail_after(WITHIN_S):
            await _first_piece(provider)
    except TimeoutError:
        finding = f"no answer within {WITHIN_S:.0f} s"
        return Diagnosis(subject=subject, level="error", finding=finding, fix=_where(settings))
    except ProviderBusy as error:
        finding = f"{what}: {_reason(error, settings)}"
        if error.limited:  # it knows us, and has too much to do
            return Diagnosis(subject=subject, level="warning", finding=finding, fix="wait, or ask for a higher limit")
        return Diagnosis(subject=subject, level="error", finding=finding, fix=_where(settings))
    except QuotaUsedUp as error:
        finding = f"{what}: {_reason(error, settings)}"
        fix = "add credit or raise the limit of the account at the provider"
        return Diagnosis(subject=subject, level="error", finding=finding, fix=fix)
    except AgentError as error:
        fix = f"see api_key, model and base_url of the provider {settings.name}"
        return Diagnosis(subject=subject, level="error", finding=f"{what}: {_reason(error, settings)}", fix=fix)
    finally:
        with anyio.CancelScope(shield=True):
            await provider.aclose()
    return Diagnosis(subject=subject, level="ok", finding=f"{what}, answered in {perf_counter() - began:.1f} s")


async def tried_server(settings: ServerSettings, home: Path) -> Diagnosis:
    """Whether that MCP server can be connected, and how many tools it has. A program is started for that, and ended."""
    subject = f"MCP server {settings.name}"
    with TemporaryDirectory() as folder:
        errors = Path(folder) / "errors"
        connection = Server(
            settings,
            SystemClock(),
            errors,
            login_file(home, settings.name),
            lend=lambda lender, tools: None,
            health=lambda name, trouble: heard.set(),
        )
        heard = anyio.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(connection.run)
            with anyio.move_on_after(SERVER_WITHIN_S):
                await heard.wait()
            group.cancel_scope.cancel()
        if not connection.trouble:
            return Diagnosis(subject=subject, level="ok", finding=f"{len(connection.tools)} tools")
    fix = "look at its [[mcp.servers]] entry"
    return Diagnosis(subject=subject, level="error", finding=f"not connected: {connection.trouble}", fix=fix)


async def window_of(settings: ProviderSettings, home: Path) -> Diagnosis:
    """How large the model's context window is, and who says so; its server is asked where nobody else does."""
    subject = f"window of {settings.name}"
    provider = LazyProvider(settings, ProviderDeps(home=home, clock=SystemClock()))
    tokens = await provider.look_up_window()
    if provider.asks_window:
        await provider.ask_window()
        tokens = provider.context_window
    origin = provider.window_origin
    said = {"configured": "configured", "listed": "by the price list", "told": "told by its server"}
    where = said.get(origin.source, "assumed: nobody tells it") if origin is not None else "built in"
    if origin is not None and origin.by:
        where = f"{where}, {origin.by}"
    finding = f"{tokens:,} tokens ({where})"
    if tokens < USEFUL_WINDOW:
        fix = "start its server with a larger context (-c, --max-model-len, num_ctx), or choose another model"
        finding = f"{finding}; below {USEFUL_WINDOW:,} little is left beside instructions and tools"
        return Diagnosis(subject=subject, level="warning", finding=finding, fix=fix)
    if origin is not None and origin.source == "assumed":
        fix = f"set context_window of the provider {settings.name}; until then it is learned from what is too long"
        return Diagnosis(subject=subject, level="warning", finding=finding, fix=fix)
    return Diagnosis(subject=subject, level="ok", finding=finding)


async def _first_piece(provider: LazyProvider) -> None:
    request = Request(
        system=SystemPrompt("Answer with one word."),
        messages=[Message(role="user", parts=(TextPart(text="Hello"),))],
        max_tokens=MAX_TOKENS,
    )
    async with aclosing(provider.stream(request)) as pieces:
        await anext(pieces)


def _where(settings: ProviderSettings) -> str:
    address = f"does the service run at {settings.base_url}?" if settings.base_url else "is the network up?"
    return f"{address} Behind a proxy set [network] proxy"


def _reason(error: AgentError, settings: ProviderSettings) -> str:
    return str(error).removeprefix(f"{settings.name}: ")
