"""The home of another program, read only: name by name below its root, in bounds, no symbolic link followed.

A file that is missing is no matter; one that cannot be used is told of in `left`. Blocking.
"""

import json
import os
import re
import sqlite3
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from agent.core.errors import ToolError
from agent.core.files.safe import Entry, Names, Tree
from agent.core.untrusted_text import whole, whole_data
from agent.skills.skill import FILE as SKILL_FILE
from agent.skills.skill import slug
from gateway.importers.json5 import loads
from gateway.importers.moved import FoundSkill, Left, shown

LARGEST_TEXT = 1024 * 1024  # bytes of a file of notes
LARGEST_TABLE = 8 * 1024 * 1024  # bytes of a configuration or a list of jobs
MOST_VALUES = 1_000_000  # in one of them; names for other values (YAML's anchors) multiply
LARGEST_DATABASE = 256 * 1024 * 1024
LARGEST_SKILL = 128 * 1024  # bytes of SKILL.md, as the catalogue of skills takes it
LARGEST_SKILL_FILES = 5 * 1024 * 1024  # bytes of all files of one skill
MOST_SKILLS = 200
MOST_SKILL_FILES = 100
DEEPEST_SKILL = 6
PIECE = 1024 * 1024
LARGEST_NUMBER = 1 << 128
# A value of a .env file in quotes, and what may stand behind it.
_QUOTED = re.compile(r"""(["'])((?:\\.|(?!\1)[^\\])*)\1\s*(?:#.*)?""")
_NO_NAME = "it is no name of a file in this home"


@dataclass(slots=True)
class Home:
    """`left` gathers what could not be used, in the order in which it was met."""

    root: Path
    left: list[Left] = field(default_factory=list)

    @property
    def tree(self) -> Tree:
        return Tree(self.root)

    def leave(self, what: str, why: str) -> None:
        """Note something that does not move."""
        self.left.append(Left(shown(what), why))

    def has(self, *names: str) -> bool:
        """Whether there is a file or folder of that name; a link is none."""
        if not _are_names(names):
            return False
        try:
            found = self.tree.look(names)
        except (ToolError, OSError):
            return False
        return found is not None and found.kind != "other"

    def bytes(self, names: Names, most: int = LARGEST_TEXT) -> bytes | None:
        """The content of a file; None where it is missing, or left out."""
        if not _are_names(names):
            self.leave("/".join(names), _NO_NAME)
            return None
        try:
            found = self.tree.look(names)
            if found is None:
                return None
            return self.tree.read(names, most)
        except (ToolError, OSError) as error:
            self.leave("/".join(names), _why(error))
            return None

    def text(self, *names: str, most: int = LARGEST_TEXT) -> str:
        """The text of a file; "" where it is missing, or left out."""
        raw = self.bytes(names, most)
        if raw is None:
            return ""
        try:
            return whole(raw.decode("utf-8-sig").replace("\r\n", "\n"))
        except UnicodeDecodeError as error:
            self.leave("/".join(names), f"it is not text in UTF-8 (byte {error.start})")
            return ""

    def parsed(self, names: Names, parse: Callable[[str], Any]) -> Mapping[str, Any]:
        """The table in a JSON, JSON5 or YAML file; {} where it is missing, or left out."""
        text = self.text(*names, most=LARGEST_TABLE)
        if not text.strip():
            return {}
        return self.table_in(text, "/".join(names), parse)

    def table_in(self, text: str, what: str, parse: Callable[[str], Any] = json.loads) -> Mapping[str, Any]:
        """The table that a text holds, with `whole` texts and keys; {} where there is none, which is noted."""
        try:
            found = parse(text)
            if _is_larger(found, MOST_VALUES):
                self.leave(what, f"it holds more than {MOST_VALUES:,} values")
                return {}
            found = _with_names(whole_data(found))
        # PyYAML meets `!!int ""` with an IndexError and `!!timestamp x` with an AttributeError.
        except (ValueError, LookupError, AttributeError, RecursionError, OverflowError, yaml.YAMLError) as error:
            self.leave(what, f"it cannot be read: {_of_parser(error)}")
            return {}
        if not isinstance(found, dict):
            self.leave(what, "it is no table of keys and values")
            return {}
        return found

    def json(self, *names: str) -> Mapping[str, Any]:
        return self.parsed(names, json.loads)

    def json5(self, *names: str) -> Mapping[str, Any]:
        return self.parsed(names, loads)

    def yaml(self, *names: str) -> Mapping[str, Any]:
        return self.parsed(names, yaml.safe_load)

    def variables(self, *names: str) -> Mapping[str, str]:
        """The `NAME=value` lines of a .env file."""
        found = {}
        for line in self.text(*names).splitlines():
            name, equals, value = line.strip().removeprefix("export ").partition("=")
            if equals and name.strip().isidentifier():
                found[name.strip()] = _unquoted(value.strip())
        return found

    def files(self, *names: str) -> Sequence[Entry]:
        """The content of a folder, by name; nothing where it is missing."""
        if not _are_names(names):
            self.leave("/".join(names), _NO_NAME)
            return ()
        try:
            if not self.tree.is_folder(names):
                return ()
            return self.tree.folder(names)
        except (ToolError, OSError) as error:
            self.leave("/".join(names), _why(error))
            return ()

    def rows(self, names: Names, queries: Mapping[str, str]) -> Mapping[str, Sequence[tuple[Any, ...]]] | None:
        """The rows of each query on a SQLite database; None where it is missing, or left out.

        It is copied first, with its write-ahead log: opening a database may write beside it.
        """
        if not self.has(*names):
            return None
        try:
            with tempfile.TemporaryDirectory() as folder:
                copy = Path(folder) / "copy.sqlite"
                self._copy(names, copy)
                if self.has(*names[:-1], f"{names[-1]}-wal"):
                    self._copy((*names[:-1], f"{names[-1]}-wal"), Path(f"{copy}-wal"))
                database = sqlite3.connect(copy)
                try:
                    return {name: database.execute(query).fetchall() for name, query in queries.items()}
                finally:
                    database.close()
        except (ToolError, OSError, sqlite3.Error, UnicodeError) as error:
            self.leave("/".join(names), f"its tables cannot be read: {_why(error)}")
            return None

    def _copy(self, names: Names, to: Path) -> None:
        with self.tree.opened(names) as source, to.open("wb") as target:
            size = os.fstat(source).st_size
            if size > LARGEST_DATABASE:
                raise ToolError(f"it has {size} bytes; {LARGEST_DATABASE} are the most")
            while piece := os.read(source, PIECE):
                target.write(piece)

    def skills(self, *names: str, depth: int = 1) -> list[FoundSkill]:
        """The skills in a folder: in each folder of it, or down to `depth` where they lie in folders by subject."""
        found: list[FoundSkill] = []
        for entry in self.files(*names):
            path = "/".join(entry.names)
            if entry.names[-1].startswith("."):
                continue
            if entry.kind == "other":
                self.leave(path, "it is a link, and links are not followed")
            elif entry.kind == "folder" and self.has(*entry.names, SKILL_FILE):
                if (skill := self._skill(entry.names)) is not None:
                    found.append(skill)
            elif entry.kind == "folder" and depth > 1:
                found += self.skills(*entry.names, depth=depth - 1)
        if len(found) > MOST_SKILLS:
            self.leave("/".join(names), f"it has {len(found)} skills; the first {MOST_SKILLS} move")
        return found[:MOST_SKILLS]

    def _skill(self, names: Names) -> FoundSkill | None:
        source, name = "/".join(names), slug(names[-1])
        if not name:
            self.leave(f"skill {source}", "its name has no letters or digits")
            return None
        text = self.bytes((*names, SKILL_FILE), LARGEST_SKILL)
        if text is None:
            return None
        files, size = {SKILL_FILE: text}, 0
        executable: set[str] = set()
        for entry in self._below(names, DEEPEST_SKILL):
            below = entry.names[len(names) :]
            if below == (SKILL_FILE,) or any(part.startswith((".", "__")) for part in below):
                continue
            if entry.kind != "file" or not all(part.isprintable() for part in below):
                self.leave("/".join(entry.names), "only plain files move, no links")
                continue
            size += entry.size
            if size > LARGEST_SKILL_FILES or len(files) > MOST_SKILL_FILES:
                most = f"{LARGEST_SKILL_FILES // 1024 // 1024} MB and {MOST_SKILL_FILES} files"
                self.leave(f"skill {source}", f"it is too large: {most} are the most of one skill")
                return None
            content = self.bytes(entry.names, LARGEST_SKILL_FILES)
            if content is not None:
                files["/".join(below)] = content
                if entry.executable:
                    executable.add("/".join(below))
        return FoundSkill(name=name, source=source, files=files, executable=frozenset(executable))

    def _below(self, names: Names, depth: int) -> Sequence[Entry]:
        """Files and links below a folder; folders that are deeper than that are left out."""
        found: list[Entry] = []
        for entry in self.files(*names):
            if entry.kind != "folder":
                found.append(entry)
            elif entry.names[-1].startswith((".", "__")):
                continue
            elif depth > 1:
                found += self._below(entry.names, depth - 1)
            else:
                self.leave("/".join(entry.names), f"folders of a skill are read {DEEPEST_SKILL} deep")
            if len(found) > MOST_SKILL_FILES + 1:
                break
        return found


def _are_names(names: Names) -> bool:
    """Whether each is a name of one thing in a folder; an id of the other program may be one that leads elsewhere."""
    return not any(name in ("", ".", "..") or set(name) & {"/", "\\", "\0"} for name in names)


def _is_larger(value: object, most: int) -> bool:
    """Whether there are more values in it; also of one that holds itself."""
    waiting, seen = [value], 0
    while waiting:
        seen += 1
        if seen > most:
            return True
        match waiting.pop():
            case dict() as inner:
                waiting += inner.values()
            case list() | tuple() | set() as inner:
                waiting += inner
    return False


def _with_names(value: object) -> object:
    """The same data, whose keys are texts: YAML also has numbers, moments and yes or no there.

    Numbers of hundreds of digits, which Python does not write out, are none.
    """
    match value:
        case dict():
            return {str(key): _with_names(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_with_names(inner) for inner in value]
        case int() if abs(value) >= LARGEST_NUMBER:
            return None
        case _:
            return value


def _unquoted(value: str) -> str:
    if found := _QUOTED.fullmatch(value):
        return found[2] if found[1] == "'" else re.sub(r'\\(["\\$])', r"\1", found[2])
    return re.split(r"(?<!\s)\s++#", value, maxsplit=1)[0].strip()


def _why(error: Exception) -> str:
    return error.strerror or "it cannot be read" if isinstance(error, OSError) else shown(error)


def _of_parser(error: Exception) -> str:
    """The place of a mistake. A parser's own words may quote the text, and with it a secret."""
    if isinstance(error, json.JSONDecodeError):
        return f"line {error.lineno} is no JSON"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    mark = getattr(error, "problem_mark", None)
    return f"line {mark.line + 1} is no YAML" if mark is not None else "it is not well-formed"
