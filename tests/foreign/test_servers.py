"""MCP servers that others wrote, started for real from their packages: each tool is there, or named with the reason.

`npm.txt`, `pypi.txt` and `pypi-sdk1.txt` (servers of the SDK's first version) say which packages; `make foreign`
installs them below `.foreign`. None of them is asked for anything that leaves this machine.
"""

import json
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest
from pydantic import SecretStr

from agent.core.clock import SystemClock
from agent.core.errors import ToolError
from agent.core.tools import Tool
from agent.tools.mcp.server import Server
from agent.tools.mcp.servers import Servers
from agent.tools.mcp.settings import McpSettings, ServerSettings
from agent.tools.toolbox import Toolbox
from tests.fakes.calls import call_in
from tests.fakes.waiting import until

FOREIGN = Path(__file__).parents[2] / ".foreign"
NPM, PYPI, FIRST = FOREIGN / "node_modules" / ".bin", FOREIGN / "pypi" / "bin", FOREIGN / "pypi-sdk1" / "bin"
FAST = ("python", (str(Path(__file__).with_name("fast_server.py")),))


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A program, its arguments (`{home}` is a folder that is a repository), and how many tools it has."""

    program: Path
    tools: int
    args: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    left_out: frozenset[str] = frozenset()


SERVERS = {
    "everything": Started(
        program=NPM / "mcp-server-everything",
        args=("stdio",),
        tools=15,
        left_out=frozenset({"simulate-research-query"}),
    ),
    "filesystem": Started(program=NPM / "mcp-server-filesystem", args=("{home}",), tools=14),
    "memory": Started(program=NPM / "mcp-server-memory", env={"MEMORY_FILE_PATH": "{home}/memory.jsonl"}, tools=9),
    "thinking": Started(program=NPM / "mcp-server-sequential-thinking", tools=1),
    "context7": Started(program=NPM / "context7-mcp", tools=2),
    "playwright": Started(program=NPM / "playwright-mcp", tools=25),
    "mongodb": Started(program=NPM / "mongodb-mcp-server", env={"MDB_MCP_TELEMETRY": "disabled"}, tools=27),
    "github": Started(program=NPM / "mcp-server-github", env={"GITHUB_PERSONAL_ACCESS_TOKEN": "none"}, tools=26),
    "gitlab": Started(program=NPM / "mcp-server-gitlab", env={"GITLAB_PERSONAL_ACCESS_TOKEN": "none"}, tools=9),
    "slack": Started(program=NPM / "mcp-server-slack", env={"SLACK_BOT_TOKEN": "none", "SLACK_TEAM_ID": "T"}, tools=8),
    "postgres": Started(program=NPM / "mcp-server-postgres", args=("postgresql://127.0.0.1:1/none",), tools=1),
    "notion": Started(program=NPM / "notion-mcp-server", tools=24),
    "git": Started(program=PYPI / "mcp-server-git", args=("--repository", "{home}"), tools=12),
    "fetch": Started(program=PYPI / "mcp-server-fetch", tools=1),
    "time": Started(program=PYPI / "mcp-server-time", tools=2),
    "duckduckgo": Started(program=PYPI / "duckduckgo-mcp-server", tools=3),
    "sqlite": Started(program=FIRST / "mcp-server-sqlite", args=("--db-path", "{home}/x.db"), tools=6),
    "arxiv": Started(program=FIRST / "arxiv-mcp-server", args=("--storage-path", "{home}"), tools=19),
    "calculator": Started(program=FIRST / "mcp-server-calculator", tools=1),
    "fast": Started(program=PYPI / FAST[0], args=FAST[1], tools=4),
}

CALLS: Mapping[str, tuple[str, Mapping[str, object], str]] = {
    "filesystem": ("list_allowed_directories", {}, "{home}"),
    "memory": ("read_graph", {}, "entities"),
    "git": ("git_status", {"repo_path": "{home}"}, "branch"),
    "time": ("get_current_time", {"timezone": "Europe/Berlin"}, "Berlin"),
    "sqlite": ("list_tables", {}, "[]"),
    "thinking": (
        "sequentialthinking",
        {"thought": "x", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1},
        "thoughtNumber",
    ),
    "fast": ("facts", {"title": "a title", "examples": 1}, "a title"),
}


@asynccontextmanager
async def connected(home: Path, name: str) -> AsyncIterator[tuple[Server, Toolbox]]:
    one, toolbox = SERVERS[name], Toolbox([])
    if not one.program.exists():
        pytest.skip(f"{one.program.name} is not installed: `make foreign`")

    def lend(lender: str, tools: Sequence[Tool]) -> None:
        toolbox.lend(lender, tools)

    settings = ServerSettings(
        name=name,
        command=str(one.program),
        args=tuple(arg.format(home=home) for arg in one.args),
        env={key: SecretStr(value.format(home=home)) for key, value in one.env.items()},
    )
    servers = Servers(McpSettings(servers=(settings,)), SystemClock(), home, lend=lend)
    async with anyio.create_task_group() as group:
        group.start_soon(servers.run)
        await until(lambda: servers.all[0].is_connected, longest_s=90)
        yield servers.all[0], toolbox
        group.cancel_scope.cancel()


async def call(toolbox: Toolbox, name: str, home: Path, arguments: Mapping[str, object]) -> str:
    tool = toolbox.get(name)
    assert tool is not None, sorted(toolbox.names)
    return await tool.run(arguments, call_in(home / "workspace"))


@pytest.mark.parametrize("name", SERVERS)
async def test_every_tool_is_there_or_named_with_the_reason(tmp_path: Path, name: str) -> None:
    await anyio.to_thread.run_sync(lambda: subprocess.run(["git", "init", "-q", str(tmp_path)], check=True))
    async with connected(tmp_path, name) as (server, toolbox):
        shown = server.shown
        assert frozenset(shown.left_out) == SERVERS[name].left_out, shown.left_out
        assert len(shown.specs) + len(shown.left_out) == SERVERS[name].tools
        assert shown.withheld == ()
        if name in CALLS:
            tool, arguments, answer = CALLS[name]
            given = json.loads(json.dumps(arguments).replace("{home}", str(tmp_path)))
            said = await call(toolbox, f"mcp__{name}__{tool}", tmp_path, given)
            assert answer.format(home=tmp_path) in said


async def test_a_crash_and_a_slow_tool(tmp_path: Path) -> None:
    async with connected(tmp_path, "fast") as (_, toolbox):
        assert await call(toolbox, "mcp__fast__slow", tmp_path, {"seconds": 1}) == "at last"
        with pytest.raises(ToolError, match="went away"):
            await call(toolbox, "mcp__fast__crash", tmp_path, {})
        assert "again" in await call(toolbox, "mcp__fast__facts", tmp_path, {"title": "again"})
