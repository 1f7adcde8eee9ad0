"""MCP against a server that others wrote, in another language: npm's server-everything, over both transports.

`make foreign` installs it below `.foreign`; without npm these tests are skipped.
"""

import os
import signal
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from agent.core.clock import SystemClock
from agent.core.errors import ToolError
from agent.core.tools import Tool
from agent.tools.mcp.servers import Servers
from agent.tools.mcp.settings import McpSettings, ServerSettings
from agent.tools.shell.sandbox import family_of
from agent.tools.toolbox import Toolbox
from tests.fakes.calls import call_in
from tests.fakes.waiting import until
from tests.program import configs
from tests.program.doubles import Doubles
from tests.program.doubles import until as program_until
from tests.program.people import OnTelegram
from tests.program.running import Program
from tests.program.stage import on_stage

SERVER = Path(__file__).parents[2] / ".foreign" / "node_modules" / ".bin" / "mcp-server-everything"
pytestmark = pytest.mark.skipif(not SERVER.exists(), reason="the server is not installed: `make foreign` needs npm")


@asynccontextmanager
async def connected(home: Path, **settings: Any) -> AsyncIterator[Toolbox]:
    toolbox = Toolbox([])

    def lend(lender: str, tools: Sequence[Tool]) -> None:
        toolbox.lend(lender, tools)

    servers = Servers(
        McpSettings(servers=(ServerSettings(name="every", **settings),)), SystemClock(), home, lend=lend
    )  # fmt: skip
    async with anyio.create_task_group() as group:
        group.start_soon(servers.run)
        await until(lambda: "mcp__every__echo" in toolbox.names, longest_s=60)
        yield toolbox
        group.cancel_scope.cancel()


async def call(toolbox: Toolbox, name: str, home: Path, /, **arguments: Any) -> str:
    tool = toolbox.get(f"mcp__every__{name}")
    assert tool is not None, sorted(toolbox.names)
    return await tool.run(arguments, call_in(home))


async def test_over_stdio_with_progress_and_death(tmp_path: Path) -> None:
    async with connected(tmp_path, command=str(SERVER), args=("stdio",)) as toolbox:
        assert "hello" in await call(toolbox, "echo", tmp_path, message="hello")
        assert "5" in await call(toolbox, "get-sum", tmp_path, a=2, b=3)
        long = next(name for name in toolbox.names if "long-running" in name).removeprefix("mcp__every__")
        shown: list[str] = []
        tool = toolbox.get(f"mcp__every__{long}")
        assert tool is not None
        await tool.run({"duration": 1, "steps": 2}, call_in(tmp_path, progress=shown.append))
        assert shown, "its progress is told"
        async with anyio.create_task_group() as group:

            async def dying() -> None:
                with pytest.raises(ToolError, match="went away"):
                    await call(toolbox, long, tmp_path, duration=60, steps=60)

            group.start_soon(dying)
            await anyio.wait_all_tasks_blocked()
            for pid, name in family_of(os.getpid()).items():
                if pid != os.getpid() and name in ("node", "MainThread", "mcp-server-ever"):
                    os.kill(pid, signal.SIGKILL)
        assert "again" in await call(toolbox, "echo", tmp_path, message="again")


async def test_over_http(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environ = {**os.environ, "PORT": str(port)}
    with subprocess.Popen([str(SERVER), "streamableHttp"], env=environ, stdout=subprocess.DEVNULL) as process:  # noqa: ASYNC220
        try:
            async with connected(tmp_path, url=f"http://127.0.0.1:{port}/mcp") as toolbox:
                assert "hello" in await call(toolbox, "echo", tmp_path, message="hello")
                began = time.monotonic()
                process.kill()
                with pytest.raises(ToolError):
                    await call(toolbox, "echo", tmp_path, message="gone")
                assert time.monotonic() - began < 60
        finally:
            process.kill()


async def test_through_a_chat_and_when_it_dies_in_a_call(tmp_path_factory: pytest.TempPathFactory) -> None:
    def channels(doubles: Doubles, _: Program) -> str:
        server = f'[[mcp.servers]]\nname = "every"\ncommand = "{SERVER}"\nargs = ["stdio"]\napproval = "never"\n'
        return server + configs.telegram(doubles)

    def use(name: str, **arguments: Any) -> dict[str, Any]:
        return {"blocks": [{"type": "tool_use", "name": f"mcp__every__{name}", "input": arguments}]}

    async with on_stage(tmp_path_factory.mktemp("h"), channels, about=frozenset({"mcp"})) as stage:
        ann = OnTelegram(stage.doubles)
        long = use("trigger-long-running-operation", duration=600, steps=600)
        rules = [
            {"match": {"tool_result_contains": "went away"}, "reply": {"text": "It died."}},
            {"match": {"tool_result_contains": "from far"}, "reply": {"text": "It has answered."}},
            {"match": {"contains": "echo it"}, "reply": use("echo", message="from far")},
            {"match": {"contains": "take long"}, "reply": long},
        ]
        await stage.doubles.llm.post("script", rules)

        async def connected() -> bool:
            return "MCP server every is connected" in stage.program.log.read_text()

        await program_until(connected, seconds=60, what="the server")
        await ann.say("echo it")
        await ann.hears("It has answered.")
        await ann.say("take long")
        await stage.over("take long")
        assert stage.program.process is not None
        for pid, name in family_of(stage.program.process.pid).items():
            if pid != stage.program.process.pid and name in ("node", "MainThread", "mcp-server-ever"):
                os.kill(pid, signal.SIGKILL)
        await ann.hears("It died.")


async def test_forms_addresses_prompts_resources_and_pictures_through_a_chat(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """The server's own form has thirteen fields of every kind that the protocol knows."""

    def channels(doubles: Doubles, _: Program) -> str:
        server = f'[[mcp.servers]]\nname = "every"\ncommand = "{SERVER}"\nargs = ["stdio"]\napproval = "never"\n'
        return f"[mcp]\nstart_wait_s = 60.0\n{server}{configs.telegram(doubles)}"

    def use(name: str, **arguments: Any) -> dict[str, Any]:
        return {"blocks": [{"type": "tool_use", "name": name, "input": arguments}]}

    far = {"url": "https://example.org/far", "message": "Log in there."}
    picture = {"match": {"contains": "see it"}, "reply": use("mcp__every__get-tiny-image")}
    rules = [
        {"match": {"contains": "fill it in", "tool_result": True}, "reply": {"text": "It is filled in."}},
        {"match": {"contains": "fill it in"}, "reply": use("mcp__every__trigger-elicitation-request")},
        {"match": {"contains": "open it", "tool_result": True}, "reply": {"text": "It is open."}},
        {"match": {"contains": "open it"}, "reply": use("mcp__every__trigger-url-elicitation", **far, errorPath=True)},
        {"match": {"contains": "list them", "tool_result": True}, "reply": {"text": "These are they."}},
        {"match": {"contains": "list them"}, "reply": use("list_mcp_resources", server="every")},
        {"match": {"contains": "read one", "tool_result": True}, "reply": {"text": "That is it."}},
        {
            "match": {"contains": "read one"},
            "reply": use("read_mcp_resource", server="every", uri="demo://resource/dynamic/text/1"),
        },
        {"match": {"contains": "have chosen the prompt"}, "reply": {"text": "Rain, I suppose."}},
        picture,
    ]
    async with on_stage(tmp_path_factory.mktemp("h"), channels, about=frozenset({"mcp"})) as stage:
        ann = OnTelegram(stage.doubles)
        await stage.doubles.llm.post("script", rules)

        async def told(words: str) -> str:
            """The result of the newest call in the turn about these words, as the model read it."""
            messages = (await stage.asked(words))[-1]["body"]["messages"]
            return str([one["content"] for one in messages if one["role"] == "tool"][-1])

        await ann.say("fill it in")
        for number, answer in enumerate(
            ("Ann", "yes", "Skip", "ann@example.org", "https://example.org", "2000-02-29", "7", "2.5", "Joey",
             "Guitar, 5", "Skip", "Skip", "Skip"), 1
        ):  # fmt: skip
            await ann.hears(f"{number} of 13:")
            await ann.say(answer)
        await ann.hears("It is filled in.", seconds=60)
        said = await told("fill it in")
        for value in ("Ann", "It was a dark and stormy night.", "ann@example.org", "2000-02-29", "2.5", "Joey", "Bass"):
            assert value in said, said
        await ann.say("open it")
        before = await ann.hears("Before it goes on, the MCP server every wants you to open an address")
        assert "https://modelcontextprotocol.io" in before
        await ann.say("I am done there")
        assert "https://example.org/far" in await ann.hears("asks you to open an address: Log in there.")
        await ann.say("I open it")
        await ann.hears("It is open.")
        assert "User completed the URL elicitation flow" in await told("open it")
        await ann.say("list them")
        await ann.hears("These are they.")
        assert "demo://resource/dynamic/text/{resourceId}" in await told("list them")
        await ann.say("read one")
        await ann.hears("That is it.")
        assert "[demo://resource/dynamic/text/1]" in await told("read one")
        await ann.say("/mcp every")
        await ann.hears("- args-prompt city=… [state=…]")
        await ann.say("/mcp prompt every args-prompt city=Bonn")
        await ann.hears("Rain, I suppose.")
        (call,) = await stage.asked("have chosen the prompt")
        assert "weather in Bonn?" in str(call["body"]["messages"][-1])
        await ann.say("see it")

        async def seen() -> bool:
            calls = (await stage.doubles.llm.get("calls"))["calls"]
            return any("data:image/png;base64" in str(one["body"]["messages"]) for one in calls)

        await program_until(seen, seconds=60, what="the picture")
