"""Agent definitions: AGENT.md files, loaded and checked (B-06, B-09, B-10). Reads files, never writes them.

A definition lives in `<root>/<name>/AGENT.md`: YAML front matter with the keys of `FrontMatter`, then the identity in
Markdown. Several roots may be given; the first that has the name wins, so an operator's file stands before the
shipped one.
"""

import logging
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from stat import S_ISREG
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agent.core.errors import AgentInvalid, AgentMissing

FILE = "AGENT.md"
LARGEST = 256 * 1024  # bytes; an identity is sent with every call
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")

log = logging.getLogger("tieline.definitions")


LENT = "mcp__"  # how names of tools begin that come and go with their servers


def allows(tools: frozenset[str], name: str) -> bool:
    """Whether a definition with these `tools` has the one of that name; `mcp__time__*` stands for all of a server."""
    return name in tools or any(
        one.endswith("*") and name.startswith(one[:-1]) for one in tools if one.startswith(LENT)
    )


class FrontMatter(BaseModel):
    """The keys of the front matter. `tools` names the only tools the agent may call; left out: all of them.

    `extra_tools` adds to either and is always shown; `disallowed_tools` takes away from what the two have come to.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    name: str = Field(min_length=1, max_length=64)
    description: str = Field(default="", max_length=500)
    provider: str | None = Field(default=None, min_length=1)
    tools: list[str] | None = None
    extra_tools: list[str] = []
    disallowed_tools: list[str] = []
    max_tool_iterations: int | None = Field(default=None, ge=1, le=100)
    max_turns: int | None = Field(default=None, ge=1)
    max_tokens: int | None = Field(default=None, ge=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A loaded AGENT.md. What is None is left to the settings; `provider` is overruled by a person's choice."""

    name: str
    description: str
    identity: str
    provider: str | None = None
    tools: frozenset[str] | None = None
    extra: frozenset[str] = frozenset()
    disallowed: frozenset[str] = frozenset()
    max_tool_iterations: int | None = None
    max_turns: int | None = None
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class _Read:
    signature: tuple[str, int, int]  # path, mtime in ns, size
    definition: Definition | None
    error: AgentInvalid | None


class Definitions:
    """Gives definitions by name; a file that changed is read again the next time it is asked for."""

    def __init__(self, roots: Sequence[Path], *, known_tools: frozenset[str]) -> None:
        self.roots = tuple(roots)
        self.known_tools = known_tools
        self._read: dict[str, _Read] = {}

    def names(self) -> tuple[str, ...]:
        """Every definition there is, also those with mistakes."""
        found = {path.parent.name for root in self.roots for path in root.glob(f"*/{FILE}")}
        return tuple(sorted(name for name in found if NAME.fullmatch(name)))

    def load(self, name: str) -> Definition:
        """The definition as the file stands now; the same object while the file is the same.

        Raises AgentMissing (with the nearest names) or AgentInvalid (with all mistakes).
        """
        path, status = self._found(name)
        signature = (path, status.st_mtime_ns, status.st_size)
        read = self._read.get(name)
        if read is None or read.signature != signature:
            try:
                read = _Read(signature, self._parse(Path(path), name), None)
            except AgentInvalid as error:
                read = _Read(signature, None, error)
            self._read[name] = read
        if read.definition is None:
            assert read.error is not None
            raise read.error
        return read.definition

    def reloaded(self, current: Definition, name: str) -> Definition:
        """The definition to go on with between turns: a file that broke or went away leaves the current one."""
        try:
            return self.load(name)
        except (AgentMissing, AgentInvalid, OSError) as error:
            log.warning("agent definition kept as it was: %s", error)
            return current

    def _found(self, name: str) -> tuple[str, os.stat_result]:
        """Where the definition stands, and what the disk says of its file. Looked up before every turn."""
        if NAME.fullmatch(name):
            for root in self.roots:
                path = os.path.join(root, name, FILE)
                with suppress(FileNotFoundError, NotADirectoryError):
                    status = os.stat(path)
                    if S_ISREG(status.st_mode):
                        return path, status
        known = self.names()
        near = get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known) or 'none'}"
        raise AgentMissing(f"there is no agent {name!r}; {hint}")

    def _parse(self, path: Path, name: str) -> Definition:
        front, identity, mistakes = split(text_of(path))
        if mistakes:  # what could not be read at all has no further mistakes worth telling
            raise AgentInvalid(str(path), mistakes)
        try:
            matter = FrontMatter.model_validate(front)
        except ValidationError as error:
            mistakes += [told(detail, FrontMatter) for detail in error.errors()]
            matter = None
        if not identity:
            mistakes.append("the text after the front matter is empty; describe there who the agent is")
        if matter is not None:
            mistakes += unknown_tools(matter.tools or (), self.known_tools)
            mistakes += unknown_tools(matter.extra_tools, self.known_tools, key="extra_tools")
            mistakes += unknown_tools(matter.disallowed_tools, self.known_tools, key="disallowed_tools")
        if mistakes or matter is None:
            raise AgentInvalid(str(path), mistakes)
        return Definition(
            name=name,
            description=matter.description,
            identity=identity,
            provider=matter.provider,
            tools=frozenset(matter.tools) if matter.tools is not None else None,
            extra=frozenset(matter.extra_tools),
            disallowed=frozenset(matter.disallowed_tools),
            max_tool_iterations=matter.max_tool_iterations,
            max_turns=matter.max_turns,
            max_tokens=matter.max_tokens,
        )


def unknown_tools(tools: Sequence[str], known_tools: frozenset[str], *, key: str = "tools") -> list[str]:
    """Mistakes in names of tools in a definition."""
    mistakes, known = [], sorted(known_tools)
    for tool in tools:
        if tool not in known_tools and not tool.startswith(LENT):
            near = get_close_matches(tool, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
            mistakes.append(f"{key}: there is no tool {tool!r}; {hint}")
    return mistakes


def text_of(path: Path) -> str:
    """The text of the file. Raises AgentInvalid where it is too large or no text."""
    raw = path.read_bytes()
    if len(raw) > LARGEST:
        raise AgentInvalid(str(path), [f"the file has {len(raw)} bytes; {LARGEST} is the most"])
    try:
        return raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise AgentInvalid(str(path), [f"the file is not UTF-8 (byte {error.start})"]) from error


def split(written: str) -> tuple[Mapping[str, Any], str, list[str]]:
    """Front matter, body, and what is wrong with the split itself."""
    if not written.startswith("---\n"):
        return {}, written.strip(), ['the file must begin with a line "---" and the front matter']
    head, closed, body = written[3:].partition("\n---")
    if not closed or (body and not body.startswith("\n")):
        return {}, "", ['the front matter is not closed by a line "---"']
    try:
        front = yaml.safe_load(head)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 1}" if mark is not None else ""
        return {}, body.strip(), [f"the front matter is not valid YAML{where}"]
    if front is None:
        front = {}
    if not isinstance(front, dict):
        return {}, body.strip(), ["the front matter must be `key: value` lines"]
    return {str(key): value for key, value in front.items()}, body.strip(), []


def told(detail: Any, keys: type[BaseModel]) -> str:
    """A mistake in the front matter, which has these `keys`, and its mending."""
    key = ".".join(map(str, detail["loc"]))
    if detail["type"] == "extra_forbidden":
        near = get_close_matches(key, list(keys.model_fields), n=1)
        return f"{key}: unknown key; " + (
            f"did you mean {near[0]}?" if near else f"known: {', '.join(keys.model_fields)}"
        )
    if detail["type"] == "missing":
        return f"{key}: missing; add a line `{key}: …`"
    return f"{key}: {detail['msg'][0].lower()}{detail['msg'][1:]}, got {detail['input']!r}"
