"""Which tools a model is only told the names of (SPEC §6.5)."""

import pytest

from agent.core.messages import Message, ToolResult, ToolUse
from agent.core.tools import ToolSpec
from agent.tools.deferring import SEARCH, deferred, loaded_in, search_tool, size_of


def fat(name: str, **more: bool) -> ToolSpec:
    return ToolSpec(
        name=name,
        description="x" * 4000,
        schema={"type": "object", "properties": {"a": {"description": "y" * 800}}},
        **more,  # type: ignore[arg-type]
    )


def test_a_definition_is_measured_by_its_bytes() -> None:
    spec = ToolSpec(name="abcde", description="Ä" * 4, schema={"a": 1})
    assert size_of(spec) == 2 + 2 + 4  # 5/4, 8/4 and 7/2, each rounded up


@pytest.mark.requirement("R-04")
def test_above_a_tenth_of_the_window_all_but_the_core_are_left_out() -> None:
    specs = [*(fat(f"t{number}") for number in range(50)), fat("shell"), fat("mine", core=True)]
    size = sum(map(size_of, specs))
    assert deferred(specs, size * 10, frozenset()) == (), "exactly a tenth is allowed"
    left_out = deferred(specs, size * 10 - 1, frozenset())
    assert len(left_out) == 50
    assert left_out == tuple(sorted(left_out))
    assert "t7" not in deferred(specs, 1000, {"t7"}), "what was loaded stays"
    listed = search_tool(left_out)
    assert all(name in listed.description for name in left_out)


def test_rare_tools_are_always_left_out_until_they_are_loaded() -> None:
    specs = [fat("usual"), fat("rare", rare=True)]
    assert deferred(specs, size_of(specs[0]) * 10, frozenset()) == ("rare",), "and weigh nothing"
    assert deferred(specs, 10**9, {"rare"}) == ()


def test_a_history_tells_what_was_loaded() -> None:
    def asked(id: str, name: str, **result: object) -> list[Message]:
        use = ToolUse(id=id, name=SEARCH, input={"tool_name": name})
        answer = ToolResult(tool_use_id=id, content="", is_error=bool(result.get("refused")))
        return [Message(role="assistant", parts=(use,)), Message(role="user", parts=(answer,))]

    history = [*asked("1", "mail"), *asked("2", "nope", refused=True), *asked("3", "maps")]
    assert loaded_in(history) == {"mail", "maps"}
    assert loaded_in(history[:1]) == frozenset(), "not answered, not loaded"
