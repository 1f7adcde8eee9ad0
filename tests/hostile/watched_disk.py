"""A pytest plugin: notes each path below a workspace that product code hands to the system as a whole.

What is reached from an open folder has a bare name there. Tests may open what they like: the innermost frame that is of
this repository decides whose use it is.
"""

import os
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from tests.hostile.product_calls import PRODUCT, ROOT

EVENTS = frozenset(
    {
        "open", "os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "os.chmod",
        "os.utime", "os.listdir", "os.scandir", "shutil.rmtree", "shutil.copyfile", "shutil.move",
    }
)  # fmt: skip
REPORT = Path(os.environ["WATCHED_DISK"])
MINE = tuple(f"{ROOT}/{folder}/" for folder in (*PRODUCT, "tests"))
THEIRS = tuple(f"{ROOT}/{folder}/" for folder in PRODUCT)


def _below_a_workspace(path: object) -> bool:
    parts = Path(os.fsdecode(path)).parts if isinstance(path, str | bytes | os.PathLike) else ()
    return "workspaces" in parts and len(parts) > parts.index("workspaces") + 2


def _of_product(frame: FrameType | None) -> str | None:
    """The place of the use in the product; None where a test or a library is nearer."""
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(MINE) or "/test_" in name:
            return f"{name}:{frame.f_lineno}" if name.startswith(THEIRS) else None
        frame = frame.f_back
    return None


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if event in EVENTS and any(map(_below_a_workspace, arguments[:2])) and (where := _of_product(sys._getframe(1))):
        os.write(_REPORT, f"{event} {arguments[0]!r} {where}\n".encode())


_REPORT = os.open(REPORT, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
sys.addaudithook(_hook)
