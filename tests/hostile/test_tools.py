"""Turns in which a model calls every tool with what a stranger told it to: nothing else stands still meanwhile.

Each call goes the whole way: read from the stream, checked, gated, run, redacted, cut, recorded, stored, sent back.
"""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from agent.assembly import built_in_tool_names
from agent.core.clock import SystemClock
from agent.core.tools import Tool, ToolContext, ToolSpec
from agent.run.settings import Settings
from agent.storage.database import Database
from agent.tools.files.edit import LARGEST
from agent.tools.mcp.offers import LONGEST as MCP_RESULT
from agent.tools.mcp.offers import Result, text_of
from agent.tools.mcp.server import McpTool
from agent.tools.settings import ApprovalSettings, FileSettings, ShellSettings, WebSettings
from agent.tools.shell.shell import Room
from agent.tools.toolbox import WORKING, Reach, working_tools
from gateway.telemetry.redaction import Redactor
from tests.agent.tools.test_images import FakePictures
from tests.agent.tools.test_sending import FakeSending
from tests.agent.world import World
from tests.fakes.provider import ScriptedProvider, calls_all, says
from tests.hostile.texts import text_of as hostile
from tests.hostile.watch import MOST_S, longest_stall, quiet

LONG = 200_000  # characters, where the schema names no limit
FILLED = ("commas", "combining letters")
PAGE = 5_000_000

# What each tool in particular would choke on; the texts of `FILLED` go into all of its arguments besides.
SPECIAL: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "calculate": [
        {"expression": written}
        for written in (
            "round(1/3, 10**9)", "round(1/3, -10**9)", "round(10, -10**9)", "9**9**9", "factorial(900)**900",
            "2**8000*3**5000*5**3000", "9" * 500, "(" * 250 + ")" * 250, "-" * 499 + "1", "*".join("9" * 250),
            "*".join(["factorial(900)"] * 30), "1e308*1e308*1e308", "1e" + "9" * 400, "round(1/3,2400)" + "+1/7**2900",
        )
    ],
    "current_time": [{"zone": zone} for zone in ("../" * 20, "A" * 64, "Europe/Berlin" + "\0" * 20)],
    "glob": [{"pattern": pattern} for pattern in ("**/" * 31 + "*", "*a" * 250, "[" * 500, "[!" * 200, "?" * 500)],
    "grep": [
        {"pattern": pattern}
        for pattern in ("(a|aa)+$", "a{1,999}{1,999}", "[" * 900, "(" * 900)
    ],
    "read": [{"path": "long.txt"}, {"path": "wide.txt", "from_line": 10**9, "lines": 10**9}],
    "write": [{"path": "new.txt", "content": hostile("emoji", LARGEST // 4)}],
    "edit": [
        {"path": "long.txt", "old": "a", "new": "b", "everywhere": True},
        {"path": "long.txt", "old": hostile("letters", LARGEST), "new": hostile("stars", LARGEST)},
        {"path": "long.txt", "old": "a" * 1_000_000 + "b", "new": "c"},
    ],
    "shell": [{"command": command} for command in ("printf 'a,%.0s' {1..200000}", "echo " + "*" * 7_000, "(" * 7_000)],
    "web_fetch": [{"url": f"{{address}}/{kind}"} for kind in ("text", "bytes")],
    "web_scrape": [{"url": f"{{address}}/{kind}"} for kind in ("page",)],
    "mcp__far__tool": [{"text": "a"}],
    "schedule_periodic": [{"name": "a", "cron": cron, "kind": "goal"} for cron in ("*/1" * 20, "1-59/1," * 9)],
    "schedule_deferred": [
        {"name": "a", "run_at": at, "kind": "goal", "task": "a"} for at in ("tomorrow " * 7, "1" * 64, "12:" * 20)
    ],
    "read_output": [{"output": "../" * 20}, {"output": "a", "find": hostile("letters", LONG)}],
}  # fmt: skip


async def _far(name: str, arguments: Mapping[str, Any], context: ToolContext) -> str:
    """The answers of a hostile MCP server, at the length that is read."""
    block = {"type": "text", "text": hostile("commas", MCP_RESULT)}
    return text_of(Result(blocks=[block, {"type": "text", "text": "\ud83d" * 1000}], structured=arguments))


FAR = McpTool(
    ToolSpec(
        name="mcp__far__tool",
        description="From a server.",
        schema={"type": "object", "properties": {"text": {"type": "string"}}},
        category="mcp",
        risk="safe",
        untrusted=True,
    ),
    "tool",
    _far,
)


def filled(schema: Mapping[str, Any], text: str) -> Any:
    """A value of the schema, with the text in all its strings as far as they may be long, and huge numbers."""
    if "enum" in schema:
        return schema["enum"][0]
    if "anyOf" in schema:
        return filled(schema["anyOf"][0], text)
    match schema.get("type"):
        case "object":
            return {name: filled(inner, text) for name, inner in schema.get("properties", {}).items()}
        case "array":
            return [filled(schema.get("items", {}), text)] * min(schema.get("maxItems", 50), 50)
        case "integer":
            return min(schema.get("maximum", 10**15), 10**15)
        case "number":
            return min(schema.get("maximum", 1e300), 1e300)
        case "boolean":
            return True
        case _:
            return text[: schema.get("maxLength", LONG)]


@pytest.fixture(autouse=True, scope="module")
def _without_the_rest() -> Iterator[None]:
    with quiet():
        yield


@pytest.fixture
async def address() -> AsyncIterator[str]:
    """A server of hostile documents, each as long as is taken."""

    async def answer(request: web.Request) -> web.StreamResponse:
        match request.path:
            case "/text":
                return web.Response(text=hostile("commas", PAGE), content_type="text/plain")
            case "/page":
                return web.Response(text="<main>" + hostile("html", PAGE), content_type="text/html")
        return web.Response(body=b"\x81" * (PAGE // 5), headers={"Content-Type": "text/plain; charset=windows-1252"})

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


def tools(address: str = "http://127.0.0.1:1") -> tuple[Tool, ...]:
    """All that work on files, programs, the web and other chats, and one of an MCP server."""
    internal = (address.removeprefix("http://"),)
    settings = WebSettings(internal=internal, search="searxng", search_url=address)
    reach = Reach(
        clock=SystemClock(),
        files=FileSettings,
        commands=ShellSettings,
        web=lambda: settings,
        sending=FakeSending(),
        pictures=FakePictures(),
        room=Room("open"),
    )
    return (*working_tools(reach), FAR)


def names() -> list[str]:
    """Every tool that an agent may have."""
    return sorted(built_in_tool_names() | WORKING | {FAR.spec.name})


@pytest.mark.parametrize("name", names())
async def test_no_call_of_a_tool_stalls_the_loop(
    sqlite_database: Database, tmp_path: Path, address: str, name: str
) -> None:
    settings = Settings(approvals=ApprovalSettings(auto_approve=True))
    provider = ScriptedProvider()
    world = World(sqlite_database, tmp_path, provider, settings=settings, tools=tools(address))
    world.agent.tool.executor.redact = Redactor(["a secret of the house"])
    tool = world.agent.tool.executor.toolbox.get(name)
    assert tool is not None
    workspace = world.agent.tool.workspace
    workspace.mkdir(parents=True, exist_ok=True)
    (workspace / "long.txt").write_text("a" * 2_000_000)
    (workspace / "wide.txt").write_text("a," * 1_000_000)
    given = [filled(tool.spec.schema, hostile(text, LARGEST)) for text in FILLED]
    given += [
        {key: value.format(address=address) if key == "url" else value for key, value in one.items()}
        for one in SPECIAL.get(name, ())
    ]
    assert given

    async def turns() -> None:
        for number, arguments in enumerate(given):
            provider.scripts = [calls_all([(name, arguments, f"c{number}")]), says("Done.")]
            await world.say("go")

    stall = await longest_stall(turns)
    assert stall <= MOST_S, f"{name}: a call stalls the loop for {stall:.2f} s"


async def test_every_tool_there_is_is_called(sqlite_database: Database, tmp_path: Path) -> None:
    """The arguments come out of each tool's schema: a new tool is called with hostile ones as soon as it is there."""
    world = World(sqlite_database, tmp_path, ScriptedProvider(), tools=tools())
    assert world.agent.tool.executor.toolbox.names == set(names())
    assert set(SPECIAL) <= set(names())
