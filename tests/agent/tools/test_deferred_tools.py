"""Deferred tools, of which a model is only told the names."""

import pytest

from agent.core.messages import Message, ToolResult, ToolUse
from agent.core.tools import ToolSpec
from agent.tools.deferred_tools import OWN_TOKENS, SEARCH, deferred, loaded_in, search_tool, size_of


def fat(name: str, **more: object) -> ToolSpec:
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
    specs = [*(fat(f"t{number}", category="mcp") for number in range(50)), fat("shell"), fat("mine", core=True)]
    size = sum(map(size_of, specs))
    assert deferred(specs, size * 10, frozenset()) == (), "exactly a tenth is allowed"
    left_out = deferred(specs, size * 10 - 1, frozenset())
    assert len(left_out) == 50
    assert left_out == tuple(sorted(left_out))
    assert "t7" not in deferred(specs, 1000, {"t7"}), "what was loaded stays"
    listed = search_tool(left_out)
    assert all(name in listed.description for name in left_out)


def test_of_servers_tools_those_that_fit_best_stay_as_far_as_there_is_room() -> None:
    specs = [*(fat(f"t{number}", category="mcp") for number in range(5)), fat("shell"), fat("mine")]
    window = size_of(fat("t0")) * 30 + 100  # a tenth has room for three
    assert deferred(specs, window, frozenset(), ("t3", "t1", "t0")) == ("mine", "t0", "t2", "t4")
    assert deferred(specs, window, {"t4"}, ("t3", "t1")) == ("mine", "t0", "t1", "t2")


@pytest.mark.requirement("R-04")
def test_of_the_houses_own_those_that_few_turns_use_are_left_out_whatever_the_window() -> None:
    def own(name: str, size: int, **more: object) -> ToolSpec:
        return ToolSpec(name=name, description="x" * (4 * size - 4), schema={}, **more)  # type: ignore[arg-type]

    few = [own("a", OWN_TOKENS - 3), own("b", 1, core=True)]
    assert sum(map(size_of, few)) == OWN_TOKENS
    assert deferred(few, 1_000_000, frozenset()) == ()
    lent = [own(f"m{number}", 1000, category="mcp") for number in range(9)]
    many = [*few, own("c", 1), *lent]
    assert deferred(many, 1_000_000, frozenset()) == ("a", "c"), "servers' tools are chosen by what fits"
    assert deferred(many, 1_000_000, {"a"}) == ("c",)
    assert deferred(many, 90_000, frozenset()) == ("a", "c", *(spec.name for spec in lent)), "and the share"


def test_names_that_no_description_holds_stand_with_the_argument() -> None:
    names = [f"mcp__server__tool{number}" for number in range(100)]
    listed = search_tool(names)
    assert len(listed.description) < 1024
    assert all(name in str(listed.schema) for name in names)


def test_a_history_tells_what_was_loaded() -> None:
    def asked(id: str, name: str, **result: object) -> list[Message]:
        use = ToolUse(id=id, name=SEARCH, input={"tool_name": name})
        answer = ToolResult(tool_use_id=id, content="", is_error=bool(result.get("refused")))
        return [Message(role="assistant", parts=(use,)), Message(role="user", parts=(answer,))]

    history = [*asked("1", "mail"), *asked("2", "nope", refused=True), *asked("3", "maps")]
    assert loaded_in(history) == {"mail", "maps"}
    assert loaded_in(history[:1]) == frozenset(), "not answered, not loaded"
