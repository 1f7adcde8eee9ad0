"""Which tools a sub-agent has: those of its parent, as far as the task and its definition name them (G-23)."""

from agent.core.subagents import AGENT
from agent.definitions import allows
from agent.providers.provider import ToolSchema
from agent.tools.deferring import SEARCH, search_tool
from agent.tools.focus import FOCUS_TOOLS
from agent.tools.plan_mode import ENTER, EXIT
from agent.turn.decision import ASK_USER
from agent.turn.requests import schema_of, visible_of
from agent.turn.run import Run
from agent.turn.states import States

# Beside its own kind and questions to people: what would change the parent's loop instead of its own.
FORBIDDEN = frozenset({AGENT, ASK_USER, ENTER, EXIT, SEARCH}) | FOCUS_TOOLS


def tools_of(
    parents: frozenset[str], *named: frozenset[str] | None, without: frozenset[str] = frozenset()
) -> frozenset[str]:
    """What all of them allow (None: everything), out of what the parent may call."""
    return frozenset(
        name
        for name in parents - FORBIDDEN
        if all(tools is None or allows(tools, name) for tools in named) and not allows(without, name)
    )


def schema_for(run: Run, states: States) -> ToolSchema:
    """What its model sees: what the parent's sees, what was named for it, what it has loaded; `tool_search` is there
    for the others."""
    assert run.parent is not None
    seen = {spec.name for spec in schema_of(run.parent, states).specs} | run.named
    scope = visible_of(run, states)
    left_out = sorted(scope - seen)
    extra = [search_tool(left_out)] if left_out else []
    return states.tool.executor.toolbox.schema(frozenset(scope & seen), extra)
