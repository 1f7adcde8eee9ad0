"""The ways that the pages docs/architecture-*.md list are those that the running program takes."""

import ast
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.plain_agent import write_plain_agent
from tests.fakes.sandbox import sandboxed
from tests.program import configs
from tests.program.doubles import all_doubles, until
from tests.program.people import OnTelegram
from tests.program.running import Program
from tests.program.test_compaction import BIG, SMALL, fill, prepare, small_models
from tools.turn_trace import Traced

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").glob("architecture*.md"))
DETAILS = ROOT / "docs" / "architecture-details.md"
STEP = re.compile(r"^\d+\. `([\w/]+\.py):([\w.]+)`", re.MULTILINE)
FUNCTION = re.compile(r"`([\w/]+\.py):([\w.]+)`")
FAILPOINT = re.compile(r"""failpoint\("([\w.]+)"\)""")
FAILPOINT_SHOWN = re.compile(r"`((?:[a-z]+\.[a-z]+)|acknowledge|drain|linger)`")
MESSAGE, TOOL_CALL = "The way of a message", "A tool call that needs approval"
COMPACTION, CRASH = "The way of a compaction", "The way of a crash"
DELIVERY = "Delivery at the start"
WAYS = (MESSAGE, TOOL_CALL, COMPACTION, CRASH, DELIVERY)


def way(heading: str, page: str | None = None) -> list[tuple[str, str]]:
    """The files and functions that stand below a heading, in their order."""
    text = "".join(path.read_text() for path in PAGES) if page is None else page
    _, below = re.split(rf"^#+ {re.escape(heading)}$", text, flags=re.MULTILINE)
    return STEP.findall(re.split(r"^#", below, flags=re.MULTILINE)[0])


def out_of_order(listed: Sequence[tuple[str, str]], passed: Sequence[str]) -> list[str]:
    """The listed functions that were not passed, or were first passed before the one that is listed before them."""
    places = {name: place for place, name in enumerate(passed)}
    wrong, last = [], -1
    for path, function in listed:
        place = places.get(f"{path}:{function}", -1)
        if place <= last:
            wrong.append(f"{path}:{function}")
        last = max(last, place)
    return wrong


@pytest.mark.parametrize(
    ("passed", "wrong"),
    [
        pytest.param(["a.py:f", "a.py:x", "b.py:C.g"], [], id="passed in order, others between"),
        pytest.param(["b.py:C.g", "a.py:f"], ["b.py:C.g"], id="the wrong way round"),
        pytest.param(["a.py:f"], ["b.py:C.g"], id="not passed"),
    ],
)
def test_a_way_is_compared_with_a_trace(passed: list[str], wrong: list[str]) -> None:
    listed = way("One", "# One\n1. `a.py:f` does this\n2. `b.py:C.g` does that\n## Two\n1. `c.py:h` no more\n")
    assert out_of_order(listed, passed) == wrong


@pytest.mark.parametrize("heading", WAYS)
def test_the_pages_list_functions_that_exist(heading: str) -> None:
    """Also those of the ways that are traced in the slow tests alone."""
    steps = way(heading)
    assert len(steps) > 5
    assert [step for step in steps if not is_defined(*step)] == []


def test_the_tables_name_functions_and_failpoints_that_exist() -> None:
    """Each failpoint of the program stands in the table of what is stored."""
    page = DETAILS.read_text()
    named = FUNCTION.findall(page)
    assert len(named) > 35
    assert [one for one in named if not is_defined(*one)] == []
    code = "".join(
        path.read_text() for part in ("agent", "gateway", "adapters") for path in (ROOT / part).rglob("*.py")
    )
    assert set(FAILPOINT_SHOWN.findall(page)) == set(FAILPOINT.findall(code))


def is_defined(path: str, function: str) -> bool:
    """Whether that file has that function, method or class."""
    nodes: list[ast.stmt] = ast.parse((ROOT / path).read_text()).body
    for name in function.split("."):
        defined = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        found = [node for node in nodes if isinstance(node, defined) and node.name == name]
        if not found:
            return False
        nodes = found[-1].body
    return True


@pytest.mark.alone
@sandboxed
async def test_a_message_and_a_tool_call_pass_what_the_page_lists(tmp_path: Path) -> None:
    call = {"type": "tool_use", "name": "shell", "input": {"command": "echo 42 >> ran"}}
    rules = [
        {"match": {"contains": "good morning"}, "reply": {"text": "Good morning to you."}},
        {"match": {"contains": "work it out", "tool_result": True}, "reply": {"text": "It is worked out."}},
        {"match": {"contains": "work it out"}, "reply": {"blocks": [call]}},
    ]
    traced = Traced(tmp_path / "home")
    async with all_doubles() as doubles:
        traced.program.write(configs.ACCESS + configs.models(doubles, "a") + configs.telegram(doubles))
        await doubles.llm.post("script", rules, append="1")
        async with traced.program as program:
            ann = OnTelegram(doubles)
            traced.begin()
            await ann.say("good morning")
            await ann.hears("Good morning to you.")
            await program.settled()
            assert out_of_order(way(MESSAGE), (await traced.passed()).order) == []

            traced.begin()
            await ann.say("work it out")

            async def question() -> dict[str, Any] | None:
                return next((one for one in await ann.messages() if one.get("reply_markup")), None)

            asked = await until(question, what="a question with buttons")
            allow = asked["reply_markup"]["inline_keyboard"][0][0]["callback_data"]
            await ann.press(asked["message_id"], allow)
            await ann.hears("It is worked out.")
            await program.settled()
            assert out_of_order(way(TOOL_CALL), (await traced.passed()).order) == []


@pytest.mark.slow  # five answers before the window is full
async def test_a_compaction_passes_what_the_page_lists(tmp_path: Path) -> None:
    traced = Traced(tmp_path / "home")
    write_plain_agent(tmp_path / "home")
    async with all_doubles() as doubles:
        channels = configs.telegram(doubles) + SMALL
        traced.program.write(configs.ACCESS + small_models(doubles) + channels, about={"memory", "skills"})
        await prepare(doubles)
        async with traced.program as program:
            ann = OnTelegram(doubles)
            await fill(ann)
            await program.settled()
            traced.begin()
            await ann.say(BIG.format("in one go"))
            await ann.hears("long list of wishes, in one go")
            await program.settled()
            assert out_of_order(way(COMPACTION), (await traced.passed()).order) == []


@pytest.mark.slow  # two starts of the program
async def test_a_restart_after_a_kill_passes_what_the_page_lists(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with all_doubles() as doubles:
        config = configs.ACCESS + configs.models(doubles, "a") + configs.telegram(doubles)
        rule = {"match": {"contains": "and then"}, "reply": {"text": "Then it rained.", "hold": "answer"}}
        await doubles.llm.post("script", [rule], append="1")
        killed, ann = Program(home, config), OnTelegram(doubles)
        async with killed:
            await ann.say("and then?")

            async def asked() -> bool:
                return any("and then?" in str(call["body"]) for call in (await doubles.llm.get("calls"))["calls"])

            await until(asked, what="a call of the model")
            killed.kill()
        await doubles.llm.post("release", {"name": "answer"})
        traced = Traced(home, from_start=True)
        traced.program.write(config)
        async with traced.program as program:
            await ann.hears("Then it rained.")
            await program.settled()
            order = (await traced.passed()).order
            assert out_of_order(way(CRASH), order) == []
            assert out_of_order(way(DELIVERY), order) == []
