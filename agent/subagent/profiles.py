"""Defined sub-agents: `agents/<name>.md`, beside the agents' own folders. Reads files, writes none."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agent.core.errors import AgentInvalid, AgentMissing
from agent.core.tools import AGENT, STEPS, TIMEOUT_S
from agent.definitions import NAME, allows, split, text_of, told, unknown_tools
from agent.providers.provider import ToolSchema
from agent.run.run import Run
from agent.tools.deferred_tools import SEARCH, search_tool
from agent.tools.session_tools import ENTER, EXIT, FOCUS_TOOLS
from agent.turn.decision import ASK_USER, STAY_SILENT
from agent.turn.requests import schema_of, visible_of
from agent.turn.states import States

MOST_STEPS = 50
LONGEST_S = 540.0  # less than a call of category "exec" may take


class FrontMatter(BaseModel):
    """The keys of the front matter. `tools` are the only ones it may call, `without` those it may not."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    name: str | None = None
    description: str = Field(default="", max_length=500)
    tools: list[str] | None = None
    without: list[str] = Field(default_factory=list)
    steps: int = Field(default=STEPS, ge=1, le=MOST_STEPS)
    timeout_s: float = Field(default=TIMEOUT_S, gt=0, le=LONGEST_S)
    max_tokens: int | None = Field(default=None, ge=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One definition. `identity` is its text; `tools` None: all that its parent has."""

    name: str
    description: str = ""
    identity: str = ""
    tools: frozenset[str] | None = None
    without: frozenset[str] = frozenset()
    steps: int = STEPS
    timeout_s: float = TIMEOUT_S
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Listed:
    """A definition for people to read; `mistake` says why it cannot be used, "" for a sound one."""

    name: str
    description: str
    mistake: str = ""


class Profiles:
    """Gives definitions as their files stand now: they are small, and asked for rarely."""

    def __init__(self, roots: Sequence[Path], *, known_tools: frozenset[str]) -> None:
        self._roots = tuple(roots)
        self._known_tools = known_tools

    def names(self) -> tuple[str, ...]:
        """Every definition there is, also those with mistakes."""
        found = {path.stem for root in self._roots for path in root.glob("*.md")}
        return tuple(sorted(name for name in found if NAME.fullmatch(name)))

    def listed(self) -> tuple[Listed, ...]:
        """All of them."""
        return tuple(map(self._listed, self.names()))

    def load(self, name: str) -> Profile:
        """The definition. Raises AgentMissing with the names there are, or AgentInvalid with all mistakes."""
        path = self._path(name)
        try:
            front, identity, mistakes = split(text_of(path))
        except OSError as error:
            raise AgentInvalid(str(path), [f"the file cannot be read: {error.strerror}"]) from error
        if mistakes:
            raise AgentInvalid(str(path), mistakes)
        try:
            matter = FrontMatter.model_validate(front)
        except ValidationError as error:
            raise AgentInvalid(str(path), [told(detail, FrontMatter) for detail in error.errors()]) from error
        if matter.name not in (None, name):
            mistakes.append(f"name: {matter.name!r} is not the file's; write {name}, or leave it out")
        if not identity:
            mistakes.append("the text after the front matter is empty; describe there what the sub-agent does")
        mistakes += unknown_tools((*(matter.tools or ()), *matter.without), self._known_tools)
        if mistakes:
            raise AgentInvalid(str(path), mistakes)
        return Profile(
            name=name,
            description=matter.description,
            identity=identity,
            tools=frozenset(matter.tools) if matter.tools is not None else None,
            without=frozenset(matter.without),
            steps=matter.steps,
            timeout_s=matter.timeout_s,
            max_tokens=matter.max_tokens,
        )

    def _listed(self, name: str) -> Listed:
        try:
            return Listed(name, self.load(name).description)
        except AgentInvalid as error:
            return Listed(name, "", "; ".join(error.mistakes))

    def _path(self, name: str) -> Path:
        if NAME.fullmatch(name):
            for root in self._roots:
                if (path := root / f"{name}.md").is_file():
                    return path
        known = self.names()
        near = get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known) or 'none'}"
        raise AgentMissing(f"there is no sub-agent {name!r}; {hint}")


# Tools of a sub-agent: those of its parent, as far as the task and its definition name them (G-23).

# Beside its own kind and questions to people: what would change the parent's loop instead of its own.
FORBIDDEN = frozenset({AGENT, ASK_USER, STAY_SILENT, ENTER, EXIT, SEARCH}) | FOCUS_TOOLS


def tools_of(
    parents: frozenset[str], *named: frozenset[str] | None, without: frozenset[str] = frozenset()
) -> frozenset[str]:
    """The tools that all of them allow (None: everything), out of what the parent may call."""
    return frozenset(
        name
        for name in parents - FORBIDDEN
        if all(tools is None or allows(tools, name) for tools in named) and not allows(without, name)
    )


def schema_for(run: Run, states: States) -> ToolSchema:
    """Tools that its model sees: the parent's, those named for it, those it has loaded; `tool_search` is there
    for the others."""
    assert run.parent is not None
    seen = {spec.name for spec in schema_of(run.parent, states).specs} | run.calls.named
    scope = visible_of(run, states)
    left_out = sorted(scope - seen)
    extra = [search_tool(left_out)] if left_out else []
    return states.tool.executor.toolbox.schema(frozenset(scope & seen), extra)
