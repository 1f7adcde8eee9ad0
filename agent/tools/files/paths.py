"""Paths of the file tools, as names below the conversation's workspace; others are refused.

A model writes paths relative to its working directory, or below `/workspace`: the same in every tool and in the shell.
Nothing is resolved on the disk, so a path means the same whatever is there; links are met when it is opened.
"""

import os
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import quote

import anyio
import anyio.to_thread

from agent.core.errors import OutOfScope, ToolError
from agent.core.files.safe import Names, Tree
from agent.core.function_tools import Function, FunctionTool, tool
from agent.core.ids import ConversationId
from agent.core.tools import SKILLS, Appraisal, ToolContext

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


# Workspaces: one folder for each conversation below the data directory, out of reach for every other.

FOLDER = "workspaces"
SYSTEM = ("/usr/", "/bin/", "/lib/", "/lib64/")


def workspace_of(home: Path, conversation: ConversationId) -> Path:
    """The conversation's own folder; made when something is first put into it."""
    return home / FOLDER / quote(conversation, safe="@._-")


def move_workspace(home: Path, old: ConversationId, new: ConversationId) -> None:
    """The conversation has another name now. Safe to repeat. Blocks.

    Raises OSError, also where there are files under the new name already: both stay as they are.
    """
    with suppress(FileNotFoundError):
        workspace_of(home, old).rename(workspace_of(home, new))


def links_outside(home: Path) -> Iterator[tuple[str, str, str]]:
    """Each symbolic link that leads out of its workspace: the workspace's folder, the link, its target.

    Neither the file tools nor the gateway follow one, but a person's editor or backup may. Links to programs of the
    system, as a virtual environment has them, are left out. Blocks; nothing is changed.
    """
    top = home / FOLDER
    if not top.is_dir():
        return
    for folder, names, files, at in os.fwalk(top, follow_symlinks=False):
        inside = Path(folder).relative_to(top).parts
        for name in (*names, *files):
            with suppress(OSError):  # it is no link, or gone by now
                target = os.readlink(name, dir_fd=at)
                leads_to = os.path.normpath(os.path.join(folder, target))
                own = os.path.join(top, inside[0]) if inside else ""
                stays = bool(own) and (leads_to == own or leads_to.startswith(f"{own}/"))
                if not stays and not f"{leads_to}/".startswith((f"{ROOT}/", *SYSTEM)):
                    yield inside[0] if inside else name, "/".join((*inside[1:], name) if inside else ()), target


# Shared by the file tools: the workspace of a call, and the meaning of a path in it.

PATH = "Relative, or below /workspace."
READABLE = "Relative, or below /workspace or /skills."


@dataclass(frozen=True, slots=True)
class Readable:
    """The readable part of a call: names in a tree, and how the tree's paths are written."""

    tree: Tree
    names: Names
    shown: Shown
    root: Path

    @property
    def folder(self) -> Path:
        """Where that lies on the disk."""
        return self.root.joinpath(*self.names)

    @property
    def path(self) -> str:
        return self.shown(self.names)


def tree_of(context: ToolContext) -> Tree:
    """The files of the call's conversation."""
    return Tree(context.execution.workspace, shown)


def meant(path: str, context: ToolContext) -> Names:
    """The meaning of a path in this call. Raises OutOfScope."""
    execution = context.execution
    return grounded(path, names_of(execution.cwd, execution.workspace), execution.workspace)


def readable(path: str, context: ToolContext) -> Readable:
    """A place in the workspace, or in the folder of a skill. Raises OutOfScope, ToolError. Looks at the disk.

    A relative path that is not in the workspace is looked for in the folders of the skills whose text the model has,
    which name their files so.
    """
    found = in_skill(path, context.execution.skills)
    if found is not None:
        return _of_skill(*found, context)
    names = meant(path, context)
    here = Readable(tree_of(context), names, shown, context.execution.workspace)
    at_hand = context.execution.at_hand
    if not at_hand or path.startswith(("/", "~")) or not names or here.tree.look(names) is not None:
        return here
    for skill in at_hand:
        if (inside := in_skill(f"{SKILLS}/{skill}/{path}", context.execution.skills)) is not None:
            there = _of_skill(*inside, context)
            if there.names and there.tree.look(there.names) is not None:
                return there
    return here


def _of_skill(skill: str, names: Names, context: ToolContext) -> Readable:
    def written(names: Sequence[str]) -> str:
        return "/".join((SKILLS, skill, *names))

    root = context.execution.skills[skill]
    return Readable(Tree(root, written), names, written, root)


async def appraised_to_read(arguments: Mapping[str, Any], context: ToolContext) -> Appraisal:
    """The call with its path made canonical, in a skill's folder too."""
    place = await anyio.to_thread.run_sync(readable, arguments.get("path", "."), context)
    return Appraisal(arguments={**arguments, "path": place.path})


def reading_tool(name: str = "") -> Callable[[Function], FunctionTool]:
    """Decorator of a tool that looks at files and changes nothing; `name`: where it is not the function's."""
    return tool(
        name=name,
        category="info",
        risk="safe",
        touches="place",
        effects=[],
        retryable=True,
        untrusted=True,
        appraise=appraised_to_read,
    )


def real(names: Names, context: ToolContext) -> Path:
    """Where that lies on the disk."""
    return context.execution.workspace.joinpath(*names)


async def appraised(arguments: Mapping[str, Any], context: ToolContext) -> Appraisal:
    """The call with its path made canonical."""
    return Appraisal(arguments={**arguments, "path": shown(meant(arguments.get("path", "."), context))})
