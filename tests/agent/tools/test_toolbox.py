"""Each built-in tool has exactly one risk tag, and the machine decides which there are (R-26)."""

from pathlib import Path
from typing import Any

import pytest

from agent.assembly import built_in_tool_names, built_in_tools
from agent.core.tools import Appraisal
from agent.providers.images import ImageSettings
from agent.tools.approvals import Rules, gate_for
from agent.tools.output_files import Outputs
from agent.tools.settings import FileSettings, ShellSettings, WebSettings
from agent.tools.shell.shell import Room
from agent.tools.toolbox import WORKING, Reach, Toolbox, working_tools
from tests.agent.tools.test_images import FakePictures
from tests.agent.tools.test_sending import FakeSending
from tests.fakes.calls import call_in
from tests.fakes.clock import FakeClock
from tests.fakes.schedules import FakeSchedules
from tests.fakes.tools import FakeTool, named


def reach(web: WebSettings | None = None, **more: Any) -> Reach:
    made = web or WebSettings(search="searxng", search_url="http://127.0.0.1:1")
    known: dict[str, Any] = {
        "clock": FakeClock(),
        "files": FileSettings,
        "commands": ShellSettings,
        "web": lambda: made,
        "sending": FakeSending(),
        "pictures": FakePictures(),
        "room": Room("open"),
    }
    return Reach(**{**known, **more})


@pytest.mark.requirement("R-26")
def test_every_tool_has_one_risk_and_a_name_that_an_agent_may_list() -> None:
    tools = (*built_in_tools(FakeClock(), Outputs(Path("absent")), FakeSchedules()), *working_tools(reach()))
    assert {tool.spec.name: tool.spec.risk for tool in tools if tool.spec.risk not in ("safe", "write")} == {}
    assert {tool.spec.name for tool in tools} <= built_in_tool_names()
    assert {tool.spec.name for tool in working_tools(reach())} == WORKING
    for tool in working_tools(reach()):
        assert tool.spec.untrusted or tool.spec.name in (
            "write",
            "edit",
            "set_working_directory",
            "send_file",
            "send_message",
            "image",
        )


def test_what_strangers_wrote_is_framed_also_when_it_is_read_again() -> None:
    tools = built_in_tools(FakeClock(), Outputs(Path("absent")), FakeSchedules())
    assert {tool.spec.name for tool in tools if tool.spec.untrusted} >= {"read_output", "recall_transcript"}


def test_schemas_are_made_before_a_turn_asks() -> None:
    asked: list[str] = []

    class Asked(dict[str, Any]):
        def __len__(self) -> int:
            asked.append("made")
            return 0

    toolbox = Toolbox([FakeTool(spec=named("late", schema=Asked()))])
    assert asked == [], "not at the start"
    toolbox.make_schemas()
    assert asked == ["made"]


def test_what_the_machine_has_not_is_not_offered() -> None:
    mute = FakePictures(settings=ImageSettings())
    for pictures in (None, mute):
        offered = working_tools(reach(WebSettings(), room=None, pictures=pictures))
        assert {tool.spec.name for tool in offered} == WORKING - {"shell", "web_search", "image"}


@pytest.mark.requirement("R-26")
@pytest.mark.parametrize(
    ("tool", "arguments", "gate"),
    [
        ("shell", {"command": "ls"}, "allow"),
        ("shell", {"command": "rm x"}, "ask"),
        ("shell", {"command": "rm -rf /"}, "deny"),
        ("write", {"path": "x", "content": ""}, "ask"),
        ("read", {"path": "x"}, "allow"),
        ("web_fetch", {"url": "https://example.com/"}, "allow"),
        ("unrated", {}, "ask"),
    ],
)
async def test_the_order_of_risks(tmp_path: Path, tool: str, arguments: dict[str, Any], gate: str) -> None:
    """A command by its content; write is asked about; safe runs; what nobody has rated is asked about."""
    tools = {one.spec.name: one for one in (*working_tools(reach()), FakeTool(spec=named("unrated", risk="unrated")))}
    spec = tools[tool].spec
    found = Appraisal(arguments=arguments)
    if spec.appraise is not None:
        found = await spec.appraise(arguments, call_in(tmp_path))
    assert gate_for(spec, found, Rules(), allowed_for_good=False) == gate
