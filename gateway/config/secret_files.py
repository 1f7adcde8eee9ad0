"""Files that hold one secret each: which of them are refused because others may read them, or because they are empty.

A file that somebody else has mounted here (Docker, systemd, Kubernetes) has the mode that it was given there.
"""

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import get_args, get_type_hints

from pydantic import BaseModel, SecretStr

# Docker and Podman mount secrets there as 0444, systemd credentials as 0440 with an access list.
MOUNTED = (Path("/run/secrets"), Path("/run/credentials"))
OTHERS, EVERYBODY = 0o077, 0o007
FOLDER = "secrets"  # below the data directory: what lies there is a secret, whatever its key


def holds_secret(annotation: object, steps: Sequence[str]) -> bool:
    """Whether the value at these steps below something of this type is a secret."""
    if annotation is SecretStr:
        return True
    if isinstance(annotation, type) and is_dataclass(annotation):
        return bool(steps) and holds_secret(get_type_hints(annotation).get(steps[0]), steps[1:])
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        field = annotation.model_fields.get(steps[0]) if steps else None
        return field is not None and holds_secret(field.annotation, steps[1:])
    return any(holds_secret(inner, steps) for inner in get_args(annotation))


def lies_among_secrets(path: Path, home: Path) -> bool:
    """Whether it is in the folder of secrets of the data directory."""
    return path.is_relative_to(home / FOLDER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Why a file is not taken, and why one that is taken could be kept better; "" for neither."""

    refused: str = ""
    unsafe: str = ""


def judged(path: Path, text: str, home: Path) -> Judgement:
    """The judgement on the file, which says this."""
    if not text.strip():
        return Judgement(refused=f"{path} is empty; put the secret into it")
    try:
        return _by_mode(path, path.stat(), home)
    except OSError:  # gone again
        return Judgement()


def _by_mode(path: Path, status: os.stat_result, home: Path) -> Judgement:
    mode, is_ours = stat.S_IMODE(status.st_mode), status.st_uid == os.geteuid()
    if _is_mounted(path):
        return Judgement()
    if not is_ours and not _is_inside(path, status, home):
        if not mode & EVERYBODY:
            return Judgement()
        said = f"everybody on this machine may read {path} (mode {mode:04o}); its owner mends that by chmod o= {path}"
        return Judgement(unsafe=said)
    if not mode & (EVERYBODY if _is_of_volume(path, status) else OTHERS):
        return Judgement()
    owner = "" if is_ours else f"chown {os.geteuid()} {path} && "
    return Judgement(refused=f"others may read {path} (mode {mode:04o}); {owner}chmod 600 {path}")


def _is_mounted(path: Path) -> bool:
    given = os.environ.get("CREDENTIALS_DIRECTORY")
    places = (*MOUNTED, Path(given)) if given else MOUNTED
    return any(one.is_relative_to(place) for one in (path, path.resolve()) for place in places)


def _is_inside(path: Path, status: os.stat_result, home: Path) -> bool:
    """Whether it is a file of the data directory itself, not of something that is mounted in it."""
    return path.resolve().is_relative_to(home.resolve()) and status.st_dev == home.stat().st_dev


def _is_of_volume(path: Path, status: os.stat_result) -> bool:
    """Whether its group is that of the volume.

    With `fsGroup` Kubernetes gives all folders the set-group-ID bit and all files to that group, at every start of the
    pod: `chmod 600` would not last, and the group is the pod's.
    """
    folder = path.resolve().parent.stat()
    return bool(folder.st_mode & stat.S_ISGID) and folder.st_gid == status.st_gid == os.getegid()
