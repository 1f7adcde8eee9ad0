"""Where the files of a conversation lie: one folder each below the data directory, out of reach for every other."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from agent.core.ids import ConversationId
from agent.tools.files.paths import ROOT

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
