"""Which file a model means, as names below the conversation's workspace; what lies outside is refused. Pure.

A model writes paths relative to its working directory, or below `/workspace`: the same in every tool and in the shell.
Nothing is resolved on the disk, so a path means the same whatever is there; links are met when it is opened.
"""

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath

from agent.core.errors import OutOfScope, ToolError
from agent.core.tools import SKILLS
from agent.core.tree import Names

Shown = Callable[[Sequence[str]], str]

ROOT = "/workspace"  # what the workspace is called
LONGEST, LONGEST_NAME = 4_096, 255  # bytes; what Linux takes
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})  # what could make an approval show another name than is meant


def grounded(path: str, cwd: Names, workspace: PurePath) -> Names:
    """The names that `path` stands for. Raises OutOfScope for what is not in the workspace, ToolError for no path."""
    _check(path)
    return _steps(_start(path, cwd, workspace), _rest(path, workspace), _outside(path))


def in_skill(path: str, skills: Mapping[str, PurePath]) -> tuple[str, Names] | None:
    """The skill and the names in its folder that `path` stands for; None where it is none of a skill's.

    Raises OutOfScope for one that leaves the folder or names a skill without files.
    """
    if not _below(path, SKILLS):
        return None
    _check(path)
    skill, *rest = path.removeprefix(SKILLS).strip("/").split("/")
    if skill not in skills:
        known = ", ".join(sorted(skills)[:20]) or "none"
        raise OutOfScope(f"there are no files of a skill {skill!r}; skills with files: {known}")
    leaves = OutOfScope(f"{path} leaves the folder of the skill")
    return skill, _steps((), "/".join(rest), leaves)


def _check(path: str) -> None:
    if not path.strip():
        raise ToolError("the path is empty")
    if odd := next((sign for sign in path if unicodedata.category(sign) in _INVISIBLE), None):
        raise OutOfScope(f"the path holds an invisible character (U+{ord(odd):04X}); write it without")
    if len(path.encode()) > LONGEST:
        raise ToolError(f"the path is longer than {LONGEST} bytes")


def _steps(start: Names, rest: str, outside: OutOfScope) -> Names:
    found = list(start)
    for name in rest.split("/"):
        if name == "..":
            if not found:
                raise outside
            found.pop()
        elif name not in ("", "."):
            if len(name.encode()) > LONGEST_NAME:
                raise ToolError(f"a name in the path is longer than {LONGEST_NAME} bytes")
            found.append(name)
    return tuple(found)


def shown(names: Sequence[str]) -> str:
    """The path as models and people read it, absolute."""
    return "/".join((ROOT, *names))


def names_of(folder: PurePath, workspace: PurePath) -> Names:
    """The names of a folder that lies in the workspace; () for any other, which then is the workspace itself."""
    return folder.relative_to(workspace).parts if folder.is_relative_to(workspace) else ()


def _start(path: str, cwd: Names, workspace: PurePath) -> Names:
    if not path.startswith("/") and path != "~" and not path.startswith("~/"):
        return cwd
    if path.startswith("~") or _below(path, ROOT) or _below(path, str(workspace)):
        return ()
    raise _outside(path)


def _rest(path: str, workspace: PurePath) -> str:
    for root in (ROOT, str(workspace), "~"):
        if _below(path, root):
            return path[len(root) :]
    return path


def _below(path: str, root: str) -> bool:
    return path == root or path.startswith(f"{root}/")


def _outside(path: str) -> OutOfScope:
    if _below(path, SKILLS):
        return OutOfScope(f"{path} lies with the files of skills, which can be read and not changed")
    return OutOfScope(f"{path} is not in the workspace; files are relative to it, or below {ROOT}")
