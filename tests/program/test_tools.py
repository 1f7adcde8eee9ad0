"""The working tools in a chat: a file is written once a person allows it, looked at, sent; the web is read as data."""

import os
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
import pytest_asyncio
from aiohttp import web

from agent.turn.tool_calls import STOPPED
from tests.fakes.sandbox import sandboxed
from tests.program import configs
from tests.program.doubles import free_port, until
from tests.program.people import OnTelegram
from tests.program.stage import Stage, on_stage

SERVERS = f"""
[[mcp.servers]]
name = "time"
command = "{sys.executable}"
args = ["-m", "mcp_server_time"]
approval = "never"

[[mcp.servers]]
name = "fake"
command = "{sys.executable}"
args = ["{Path(__file__).parents[1] / "fakes" / "mcp_server.py"}"]
approval = "never"
"""


PAGES = free_port()


@dataclass
class Pages:
    """A site whose pages wait until the test lets them go."""

    waiting: list[str] = field(default_factory=list)
    open: anyio.Event = field(default_factory=anyio.Event)

    async def page(self, request: web.Request) -> web.Response:
        self.waiting.append(request.path)
        await self.open.wait()
        return web.Response(text=f"this is {request.path}")

    async def all_six(self) -> bool:
        return len(self.waiting) == 6


@asynccontextmanager
async def pages() -> AsyncIterator[Pages]:
    site, app = Pages(), web.Application()
    app.router.add_get("/{name}", site.page)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", PAGES).start()
    try:
        yield site
    finally:
        site.open.set()
        await runner.cleanup()


def six(words: str) -> list[dict[str, Any]]:
    """The model fetches six pages at once when it reads these words."""
    uses = [
        {"type": "tool_use", "name": "web_fetch", "input": {"url": f"http://127.0.0.1:{PAGES}/{words}{number}"}}
        for number in range(6)
    ]
    return [
        {"match": {"contains": words, "tool_result": True}, "reply": {"text": f"Read all {words}."}},
        {"match": {"contains": words}, "reply": {"blocks": uses}},
    ]


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"blocks": [{"type": "tool_use", "name": name, "input": arguments}]}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    def channels(doubles: Any, program: Any) -> str:
        opened = f'[tools.web]\ninternal = ["127.0.0.1:{doubles.slack.port}", "127.0.0.1:{PAGES}"]\n'
        return opened + SERVERS + configs.telegram(doubles)

    async with on_stage(tmp_path_factory.mktemp("h"), channels, about={"mcp", "tools.web"}) as made:
        yield made


pytestmark = pytest.mark.asyncio(loop_scope="module")


async def results(stage: Stage) -> list[str]:
    """The tools of the newest request."""
    calls = (await stage.doubles.llm.get("calls"))["calls"]
    return [one["content"] for one in calls[-1]["body"]["messages"] if one["role"] == "tool"]


@pytest.mark.alone
@pytest.mark.requirement("Z-14", "R-28")
@sandboxed
async def test_a_file_is_written_looked_at_and_sent(stage: Stage) -> None:
    ann = OnTelegram(stage.doubles)
    await stage.doubles.llm.post(
        "script",
        [
            {"match": {"tool_result_contains": "on its way"}, "reply": {"text": "There you are."}},
            {"match": {"tool_result_contains": "exit code 0"}, "reply": call("send_file", path="tea/times.txt")},
            {"match": {"tool_result_contains": "Written"}, "reply": call("shell", command="wc -w tea/times.txt")},
            {"match": {"contains": "note it"}, "reply": call("write", path="tea/times.txt", content="four minutes\n")},
        ],
        append="1",
    )
    await ann.say("note it")
    await ann.hears("Write /workspace/tea/times.txt with 13 characters:")
    asking = next(one for one in await ann.messages() if one.get("reply_markup"))
    buttons = [one for row in asking["reply_markup"]["inline_keyboard"] for one in row]
    await ann.press(asking["message_id"], next(one["callback_data"] for one in buttons if one["text"] == "Approve"))
    await ann.hears("There you are.", seconds=40)
    (folder,) = (stage.program.home / "workspaces").iterdir()
    assert (folder / "tea" / "times.txt").read_text() == "four minutes\n"
    counted = (await results(stage))[1]
    assert counted.startswith('<untrusted source="shell">\n2 tea/times.txt\n')

    async def sent() -> list[dict[str, Any]]:
        return [one for one in await ann.messages() if "document" in one]

    (message,) = await until(sent, what="the file on Telegram")
    assert message["document"]["file_name"] == "times.txt"


async def test_a_page_of_the_web_is_read_as_data_and_what_is_inside_is_not_read(stage: Stage) -> None:
    ann, port = OnTelegram(stage.doubles), stage.doubles.slack.port
    inside = f"http://127.0.0.1:{stage.program.port}/healthz"
    await stage.doubles.llm.post(
        "script",
        [
            {"match": {"tool_result_contains": "private network"}, "reply": {"text": "That one is closed."}},
            {"match": {"tool_result_contains": "HTTP 200"}, "reply": call("web_fetch", url=inside)},
            {"match": {"contains": "fetch"}, "reply": call("web_fetch", url=f"http://127.0.0.1:{port}/_control/state")},
        ],
        append="1",
    )
    await ann.say("fetch")
    await ann.hears("That one is closed.", seconds=40)
    first, second = (await results(stage))[-2:]
    assert first.startswith(f'<untrusted source="web_fetch">\n[http://127.0.0.1:{port}/_control/state: HTTP 200')
    assert "healthz" not in second or "private network" in second


async def test_a_file_that_a_person_sends_lies_in_the_workspace(stage: Stage) -> None:
    ann = OnTelegram(stage.doubles)
    await stage.doubles.llm.post(
        "script",
        [
            {"match": {"tool_result_contains": "0-list.csv:2"}, "reply": {"text": "The cups are in line 2."}},
            {
                "match": {"contains": "find the cups"},
                "reply": call("grep", pattern="^cups", path="/workspace/received"),
            },
        ],
        append="1",
    )
    table = {"name": "list.csv", "text": "thing,count\ncups,4\n", "mime_type": "text/csv"}
    await ann.send({"user": ann.user, "file": table, "caption": "find the cups"})
    await ann.hears("The cups are in line 2.", seconds=40)
    assert "<files>/workspace/received/" in str((await stage.asked("find the cups"))[0]["body"]["messages"])


@pytest.mark.alone
@pytest.mark.requirement("W-32")
async def test_tools_of_real_servers_work_from_the_configuration_alone(stage: Stage) -> None:
    ann = OnTelegram(stage.doubles)
    zone = {"timezone": "Europe/Berlin"}
    await stage.doubles.llm.post(
        "script",
        [
            {"match": {"tool_result_contains": "Europe/Berlin"}, "reply": {"text": "It is late in Berlin."}},
            {"match": {"contains": "how late"}, "reply": call("mcp__time__get_current_time", **zone)},
        ],
        append="1",
    )
    await offered(stage, "mcp__time__get_current_time")
    await ann.say("how late")
    await ann.hears("It is late in Berlin.", seconds=40)
    assert (await results(stage))[-1].startswith('<untrusted source="mcp__time__get_current_time">\n{')
    await ann.say("/mcp")
    await ann.hears("time: connected, 2 tools")
    await ann.say("/mcp time")
    await ann.hears("- mcp__time__convert_time (runs at once): Convert time between timezones")
    await ann.say("/mcp tme")
    await ann.hears("There is no MCP server tme; there is: time, fake.")


@pytest.mark.alone
async def test_a_server_that_dies_in_the_middle_of_a_call_ends_the_call(stage: Stage, tmp_path: Path) -> None:
    ann, pid = OnTelegram(stage.doubles), tmp_path / "pid"
    await stage.doubles.llm.post(
        "script",
        [
            {"match": {"tool_result_contains": "went away"}, "reply": {"text": "The server died."}},
            {"match": {"contains": "be slow"}, "reply": call("mcp__fake__slow", file=str(pid))},
        ],
        append="1",
    )
    await offered(stage, "mcp__fake__slow")
    await ann.say("be slow")

    async def begun() -> bool:
        return pid.exists() and pid.read_text() != ""

    await until(begun, seconds=40)
    os.kill(int(pid.read_text()), signal.SIGKILL)
    await ann.hears("The server died.", seconds=40)


@pytest.mark.alone
async def test_a_public_server_that_is_killed_in_the_middle_of_a_call_ends_it_and_comes_back(stage: Stage) -> None:
    ann, name = OnTelegram(stage.doubles), "mcp__time__convert_time"
    noon = {"source_timezone": "Asia/Tokyo", "time": "12:00", "target_timezone": "Europe/Berlin"}
    await stage.doubles.llm.post(
        "script",
        [
            {"match": {"tool_result_contains": "went away"}, "reply": {"text": "The clock died."}},
            {"match": {"tool_result_contains": "time_difference"}, "reply": {"text": "Early in Berlin."}},
            {"match": {"contains": "noon in Tokyo"}, "reply": call(name, **noon)},
        ],
    )
    await offered(stage, name)
    server = started_by(stage, "mcp_server_time")
    os.kill(server, signal.SIGSTOP)  # its calls end at once: frozen, it takes one and never answers
    await ann.say("noon in Tokyo")
    await under_way(stage)
    os.kill(server, signal.SIGKILL)
    await ann.hears("The clock died.", seconds=40)
    await ann.say("again: noon in Tokyo")
    await ann.hears("Early in Berlin.", seconds=60)
    assert started_by(stage, "mcp_server_time") != server


def started_by(stage: Stage, module: str) -> int:
    """The process that the program started to run this module."""
    assert stage.program.process is not None
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == stage.program.process.pid and module in (folder / "cmdline").read_text():
                return int(folder.name)
        except FileNotFoundError:  # it ended while we looked
            continue
    raise AssertionError(f"the program runs no {module}")


async def under_way(stage: Stage) -> None:
    """Wait until it is on record that a call has begun; it is recorded before it runs."""
    uri = f"file:{stage.program.home}/tieline.db?mode=ro"
    query = "select count(*) from turn where state = 'running' and checkpoint is not null"

    async def begun() -> bool:
        with closing(sqlite3.connect(uri, uri=True, timeout=30)) as opened:
            return bool(opened.execute(query).fetchone() != (0,))

    await until(begun, what="a call")


async def offered(stage: Stage, tool: str) -> None:
    """Wait until the server is connected, by what the log of the program says."""
    server = tool.split("__")[1]

    async def connected() -> bool:
        return f"MCP server {server} is connected" in stage.program.log.read_text()

    await until(connected, seconds=60, what=f"the MCP server {server}")


@pytest.mark.requirement("G-04", "R-34")
async def test_six_pages_are_fetched_at_once_and_read_in_order(stage: Stage) -> None:
    ann = OnTelegram(stage.doubles)
    await stage.doubles.llm.post("script", six("birds"))
    async with pages() as site:
        await ann.say("read about birds")
        await until(site.all_six, what="six requests at once, none of them answered")
        site.open.set()
        await ann.hears("Read all birds.")
    read = [one.splitlines()[-2] for one in (await results(stage))[-6:]]
    assert read == [f"this is /birds{number}" for number in range(6)]


@pytest.mark.requirement("W-21", "R-53")
async def test_a_stop_does_not_wait_for_them_and_leaves_a_sound_history(stage: Stage) -> None:
    ann = OnTelegram(stage.doubles)
    await stage.doubles.llm.post("script", six("fish"))
    await stage.script("and now", "Now this.")
    async with pages() as site:
        await ann.say("read about fish")
        await until(site.all_six, what="six requests at once")
        await ann.say("/stop")
        await ann.hears("Stopped.")
        assert not site.open.is_set(), "none of the pages has come"
        await ann.say("and now")
        await ann.hears("Now this.")
    messages = (await stage.asked("and now"))[0]["body"]["messages"]
    asked = [use["id"] for one in messages for use in one.get("tool_calls") or ()]
    answered = [one["tool_call_id"] for one in messages if one["role"] == "tool"]
    assert asked == answered
    assert all(STOPPED in one for one in [one["content"] for one in messages if one["role"] == "tool"][-6:])


@pytest.mark.slow
@pytest.mark.requirement("G-18")
async def test_what_a_server_asks_survives_a_kill_and_the_answer_reaches_the_model(stage: Stage) -> None:
    ann = OnTelegram(stage.doubles)
    await stage.doubles.llm.post(
        "script",
        [
            {"match": {"tool_result_contains": 'Answered: "yes"'}, "reply": {"text": "You are sure, then."}},
            {"match": {"contains": "are you sure"}, "reply": call("mcp__fake__confirm")},
        ],
        append="1",
    )
    await offered(stage, "mcp__fake__confirm")
    await ann.say("are you sure")
    await ann.hears("The MCP server fake asks: Really?")
    await stage.program.settled()
    stage.program.kill()
    stage.program.start()
    await stage.program.ready()
    await ann.hears("This question still stands")
    await ann.say("Yes")
    await ann.hears("You are sure, then.")
    assert sum("Really?" in text for text in await ann.texts()) == 1, "asked once"
    await ann.hears("Answered: Yes")
