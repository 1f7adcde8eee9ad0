"""MCP servers that are down, where an operator looks: /mcp, `tieline doctor`, the log, the owner's chat."""

import sys
from pathlib import Path

import pytest

from tests.program import configs
from tests.program.doubles import Doubles, until
from tests.program.people import OnTelegram
from tests.program.running import Program
from tests.program.stage import on_stage

CRASHES = "import sys; sys.exit('no licence was found')"


CONFIG = f"""
[[mcp.servers]]
name = "crashes"
command = "{sys.executable}"
args = ["-c", "{CRASHES}"]
[[mcp.servers]]
name = "missing"
command = "no-such-mcp-server"
"""


def servers(doubles: Doubles, _: Program) -> str:
    return CONFIG + configs.telegram(doubles)


@pytest.mark.slow  # owners are told of a server that stays away for two minutes
async def test_a_command_that_does_not_exist_and_one_that_crashes_are_seen_everywhere(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    async with on_stage(tmp_path_factory.mktemp("h"), servers, about=frozenset({"mcp"})) as stage:
        ann = OnTelegram(stage.doubles)
        log = stage.program.log

        async def logged() -> bool:
            text = log.read_text()
            crashed = "MCP server crashes is not connected" in text and "no licence was found" in text
            return crashed and "MCP server missing is not connected: the program no-such-mcp-server cannot" in text

        await until(logged, seconds=60, what="both in the log")
        await ann.say("hello")  # the owner's chat is known from now on
        await ann.hears("hello")
        await ann.say("/mcp")
        shown = await ann.hears("missing: not connected (")
        assert "the program no-such-mcp-server cannot be started: No such file or directory" in shown
        assert "crashes: not connected (" in shown
        assert "no licence was found" in shown
        doctor = await stage.program.cli("doctor")
        for words in ("no licence was found", "no-such-mcp-server"):
            assert words in doctor.stdout, doctor.stdout
        await ann.hears("The MCP server missing is not connected, and its tools cannot be used", seconds=240)
        await ann.hears("The MCP server crashes is not connected, and its tools cannot be used", seconds=240)
        told = [text for text in await ann.texts() if "its tools cannot be used" in text]
        assert len(told) == 2, "once each"
        home: Path = stage.program.home
        assert log.read_text().count("MCP server missing is not connected: ") == 1, "once for each reason"
    stopped = Program(home, "")
    stopped.write(CONFIG, about=frozenset({"mcp"}))
    doctor = await stopped.cli("doctor")
    assert "no licence was found" in doctor.stdout
    assert "no-such-mcp-server" in doctor.stdout
