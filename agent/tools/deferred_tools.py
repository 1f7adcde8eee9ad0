"""Deferred tools: the model is told their names only, since definitions are paid for in every call. Pure.

It loads one with `tool_search`; what was loaded once stays loaded for the session.
"""

import json
from collections.abc import Collection, Iterable, Sequence

from agent.core.messages import Message
from agent.core.tools import ToolSpec

SEARCH = "tool_search"
SHARE = 0.10  # of the window; above it definitions are left out
OWN_TOKENS = 2_000  # of the built-in tools; above it those that few turns use are left out, whatever the window
LONGEST_DESCRIPTION = 1_024  # characters; OpenAI refuses more
CORE = frozenset({"shell", "read", "write", "edit", "glob", "grep"})  # never left out; others say so in their spec


def size_of(spec: ToolSpec) -> int:
    """Tokens of a definition, roughly: a quarter of the words' bytes, half of the schema's."""
    schema = json.dumps(dict(spec.schema), separators=(",", ":"))
    return _share(spec.name, 4) + _share(spec.description, 4) + _share(schema, 2)


def deferred(
    specs: Sequence[ToolSpec], window: int, loaded: Collection[str], fitting: Sequence[str] = ()
) -> tuple[str, ...]:
    """The names to leave out, in order: of the built-in tools above `OWN_TOKENS`, of all above their share of the
    `window`; never what is core or was loaded. Of `fitting`, servers' tools with the best first, as many stay as the
    share has room for."""
    own = [spec for spec in specs if spec.category != "mcp"]  # servers' tools are chosen by what fits
    rare = {spec.name for spec in specs if not _is_core(spec) and spec.name not in loaded}
    out = rare & {spec.name for spec in own} if sum(map(size_of, own)) > OWN_TOKENS else set()
    if sum(size_of(spec) for spec in specs if spec.name not in out) > window * SHARE:
        out = rare
        room = window * SHARE - sum(size_of(spec) for spec in specs if spec.name not in out)
        lent = {spec.name: size_of(spec) for spec in specs if spec.category == "mcp" and spec.name in out}
        for name in fitting:
            if name in lent:
                room -= lent[name]
                if room < 0:  # a smaller one behind it fits the task less: what is shown is a beginning of the order
                    break
                out = out - {name}
    return tuple(sorted(out))


def search_tool(names: Iterable[str]) -> ToolSpec:
    """The pseudo-tool that stands for the tools of these names."""
    what, known = (
        "Load one more tool, so that it can be called from the next step on.",
        f"There are: {', '.join(names)}.",
    )
    fits = len(what) + len(known) < LONGEST_DESCRIPTION  # that of an argument has no limit
    return ToolSpec(
        name=SEARCH,
        description=f"{what} {known}" if fits else what,
        schema={
            "type": "object",
            "properties": {
                "tool_name": {
                    "type": "string",
                    "description": "The exact name of the tool." if fits else f"The exact name of the tool. {known}",
                }
            },
            "required": ["tool_name"],
            "additionalProperties": False,
        },
        core=True,
        category="info",
        risk="safe",
        touches="own",
        effects=frozenset(),
    )


def loaded_in(messages: Iterable[Message]) -> frozenset[str]:
    """Tools that a history shows to have been loaded: asked for by name, and not refused."""
    asked: dict[str, str] = {}
    found: set[str] = set()
    for message in messages:
        for use in message.tool_uses:
            if use.name == SEARCH and isinstance(name := use.input.get("tool_name"), str):
                asked[use.id] = name
        found |= {asked[result.tool_use_id] for result in message.tool_results
                  if result.tool_use_id in asked and not result.is_error}  # fmt: skip
    return frozenset(found)


def _is_core(spec: ToolSpec) -> bool:
    return spec.core or spec.name in CORE


def _share(text: str, divisor: int) -> int:
    return -(-len(text.encode("utf-8", "replace")) // divisor)
