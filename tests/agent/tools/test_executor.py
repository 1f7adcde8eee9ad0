"""One call: scope, arguments, time limit, retries, and an outcome the model can read (B-31, B-34, Z-34)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from agent.core.cancellation import CancelToken
from agent.core.clock import SystemClock
from agent.core.errors import ToolError
from agent.core.ids import CallId, ConversationId, RunId
from agent.core.messages import ToolUse
from agent.core.tools import Tool, ToolContext
from agent.tools.executor import Executor, Limits, Outcome
from agent.tools.output_files import LONGEST_SHOWN, Outputs
from agent.tools.toolbox import Toolbox
from tests.fakes.tools import FakeTool, named

CONTEXT = ToolContext(
    conversation=ConversationId("console:"),
    run=RunId("r"),
    call=CallId("c"),
    person=None,
    idempotency_key="1:c",
    cancel=CancelToken(),
)
LIMITS = Limits(timeouts={"exec": 600.0, "mcp": 120.0, "info": 5.0, "edit": 30.0})


async def run(
    tool: Tool,
    *,
    limits: Limits = LIMITS,
    allowed: set[str] | None = None,
    home: Path = Path("absent"),
    redact: Callable[[str], str] = str,
    **use: Any,
) -> Outcome:
    executor = Executor(Toolbox([tool]), SystemClock(), Outputs(home), redact)
    call = ToolUse(**{"id": "c", "name": tool.spec.name, "input": {"text": "hello"}} | use)
    scope = frozenset({tool.spec.name} if allowed is None else allowed)
    return await executor.run(call, CONTEXT, allowed=scope, limits=limits)


@pytest.mark.requirement("B-31")
async def test_a_result_is_collected() -> None:
    tool = FakeTool()
    outcome = await run(tool)
    assert (outcome.content, outcome.is_error) == ("hello", False)
    assert tool.calls[0][1].idempotency_key == "1:c"


@pytest.mark.requirement("B-31")
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        pytest.param({"allowed": set()}, "echo is not among the tools of this agent", id="out of scope"),
        pytest.param({"name": "ecko"}, "ecko is no tool; did you mean echo?", id="unknown"),
        pytest.param({"input": {"txt": "a"}}, "text: missing; txt: unknown; did you mean text?", id="arguments"),
    ],
)
async def test_what_must_not_run_does_not_run(changes: dict[str, Any], said: str) -> None:
    tool = FakeTool()
    outcome = await run(tool, **changes)
    assert outcome.is_error
    assert said in outcome.content
    assert tool.calls == []


@pytest.mark.requirement("B-34", "Z-34")
class TestFailures:
    async def test_a_failure_is_an_outcome_with_its_kind(self) -> None:
        tool = FakeTool(errors=[ToolError("no such place")])
        outcome = await run(tool)
        assert (outcome.content, outcome.is_error, outcome.transient) == ("no such place", True, False)

    async def test_a_transient_failure_of_a_retryable_tool_is_tried_again(self) -> None:
        tool = FakeTool(spec=named("echo", retryable=True), errors=[ToolError("busy", transient=True)] * 2)
        assert (await run(tool)).content == "hello"
        assert len(tool.calls) == 3

    async def test_but_not_for_ever(self) -> None:
        tool = FakeTool(spec=named("echo", retryable=True), errors=[ToolError("busy", transient=True)] * 9)
        outcome = await run(tool)
        assert (outcome.content, outcome.transient, len(tool.calls)) == ("busy", True, 3)

    @pytest.mark.parametrize(
        ("retryable", "transient"), [(False, True), (True, False)], ids=["not repeatable", "permanent"]
    )
    async def test_other_failures_are_not(self, retryable: bool, transient: bool) -> None:
        tool = FakeTool(spec=named("echo", retryable=retryable), errors=[ToolError("no", transient=transient)])
        assert (await run(tool)).is_error
        assert len(tool.calls) == 1

    @pytest.mark.requirement("R-40")
    async def test_a_defect_is_told_without_its_text(self) -> None:
        outcome = await run(FakeTool(errors=[RuntimeError("secret token")]))
        assert (outcome.content, outcome.is_error) == ("echo failed (RuntimeError)", True)

    async def test_a_call_that_takes_too_long_is_stopped(self) -> None:
        tool = FakeTool(gate=anyio.Event())
        outcome = await run(tool, limits=Limits(timeouts={**LIMITS.timeouts, "info": 0.05}))
        assert outcome.is_error
        assert "stopped after 0.05 s" in outcome.content
        assert tool.running == 0
        assert tool.calls[0][1].cancel.fired
        assert not CONTEXT.cancel.fired, "the run goes on"


async def test_each_category_has_its_own_time() -> None:
    tool = FakeTool(spec=named("echo", category="edit"), gate=anyio.Event())
    outcome = await run(tool, limits=Limits(timeouts={"exec": 9, "mcp": 9, "info": 9, "edit": 0.01}))
    assert "0.01 s" in outcome.content


async def test_a_result_beyond_reason_is_cut_and_says_so(tmp_path: Path) -> None:
    outcome = await run(FakeTool(), home=tmp_path, input={"text": "x" * (LONGEST_SHOWN + 5)})
    assert "5 characters are left out here; read_output reads them" in outcome.content


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two tools are called 'echo'"):
        Toolbox([FakeTool(), FakeTool()])


def test_a_model_sees_the_same_list_from_turn_to_turn() -> None:
    toolbox = Toolbox([FakeTool(spec=named(name)) for name in ("zebra", "apple", "mango")])
    schema = toolbox.schema(frozenset({"zebra", "apple"}))
    assert [spec.name for spec in schema.specs] == ["apple", "zebra"]
    assert toolbox.schema(frozenset({"apple", "zebra"})) is schema


async def test_neither_a_result_nor_an_error_tells_a_secret() -> None:
    def redact(text: str) -> str:
        return text.replace("top-secret", "[redacted]")

    outcome = await run(FakeTool(errors=[ToolError("no such key: top-secret")]), redact=redact)
    assert outcome.content == "no such key: [redacted]"
    told = await run(FakeTool(), redact=redact, input={"text": "top-secret"})
    assert "top-secret" not in told.content
    assert "[redacted]" in told.content


async def test_an_error_is_cut_as_a_result_is(tmp_path: Path) -> None:
    """A server of tools decides what its errors say: one of a million characters must not fill a context."""
    outcome = await run(FakeTool(errors=[ToolError("no " * 100_000)]), home=tmp_path)
    assert outcome.is_error
    assert len(outcome.content) < LONGEST_SHOWN + 200
    assert "read_output reads them" in outcome.content
