"""The tools of the house by name, and the frozen list of them that a model sees (SPEC §6.5)."""

from collections.abc import Iterable
from difflib import get_close_matches

from agent.core.tools import Tool, ToolSpec
from agent.providers.provider import ToolSchema


class Toolbox:
    """Shared by all agents; never changes after it was built. Two tools of one name are refused."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            if tool.spec.name in self._tools:
                raise ValueError(f"two tools are called {tool.spec.name!r}; rename one")
            self._tools[tool.spec.name] = tool
        self._schemas: dict[frozenset[str], ToolSchema] = {}

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._tools)

    def get(self, name: str) -> Tool | None:
        return self._tools.get(name)

    def schema(self, names: frozenset[str], extra: Iterable[ToolSpec] = ()) -> ToolSchema:
        """What a model with these tools sees, sorted by name: the same object for the same names (Z-03, R-03).

        `extra` are specs that are no tools of the box; they belong to `names` in the key.
        """
        schema = self._schemas.get(names)
        if schema is None:
            specs = [*(tool.spec for name, tool in self._tools.items() if name in names), *extra]
            schema = ToolSchema(specs=tuple(sorted(specs, key=lambda spec: spec.name)))
            self._schemas[names] = schema
        return schema

    def nearest(self, name: str, among: frozenset[str]) -> str:
        """A hint for a model that called a tool it does not have."""
        known = sorted(among)
        near = get_close_matches(name, known, n=1)
        return f"did you mean {near[0]}?" if near else f"known: {', '.join(known) or 'none'}"
