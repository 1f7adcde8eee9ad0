"""The closed room a command runs in: the system read-only, the workspace, nothing else of the machine. Pure.

The files of skills are there too, read-only. No home, no data directory, no environment, no other conversation, no
network unless it was opened; its own processes alone. What is made in it outside of the workspace is gone when it ends.
For what nobody was asked about the workspace is read-only as well, and there is no network.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from agent.core.tools import SKILLS
from agent.tools.files.paths import ROOT

NO_SKILLS: Mapping[str, Path] = {}
USER, HOST = 1000, "sandbox"
TMP_BYTES = 256 * 1024 * 1024
# What programs look up; nothing of it tells who uses the machine.
_LOOKED_UP = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "localtime", "ssl/certs", "ca-certificates",
              "pki", "mime.types", "magic", "protocols", "services", "terminfo")  # fmt: skip
_FOR_NETWORK = ("resolv.conf", "hosts", "nsswitch.conf", "gai.conf")
PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"


@dataclass(frozen=True, slots=True)
class Top:
    """A folder at the top of the system: itself, or a link to another place, as /bin is to usr/bin."""

    path: str
    link: str | None = None


def top_of_system() -> tuple[Top, ...]:
    """The folders that hold the system's programs. Looks at the disk."""
    found = []
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        path = Path("/", name)
        if path.is_symlink():
            found.append(Top(str(path), str(path.readlink())))
        elif path.is_dir():
            found.append(Top(str(path)))
    return (Top("/usr"), *found)


def environment(extra: Mapping[str, str], *, home: str) -> dict[str, str]:
    """What a command finds in its environment: nothing of the gateway's own."""
    known = {"PATH": PATH, "HOME": home, "USER": "agent", "LOGNAME": "agent", "LANG": "C.UTF-8", "TERM": "dumb",
             "PYTHONDONTWRITEBYTECODE": "1", "GIT_TERMINAL_PROMPT": "0", "PAGER": "cat"}  # fmt: skip
    return {**known, **extra}


def looking_only() -> dict[str, str]:
    """Where programs put what they would write beside the files, in a room where these cannot be changed."""
    caches = {"CARGO_TARGET_DIR": "cargo", "GOCACHE": "go", "MYPY_CACHE_DIR": "mypy", "RUFF_CACHE_DIR": "ruff"}
    return {"GIT_OPTIONAL_LOCKS": "0", **{name: f"/tmp/{folder}" for name, folder in caches.items()}}  # noqa: S108


def enclosed(
    command: Sequence[str],
    *,
    bwrap: str,
    top: Sequence[Top],
    workspace: Path,
    cwd: PurePosixPath,
    env: Mapping[str, str],
    network: bool,
    read_only: Sequence[str] = (),
    writable: bool = True,
    skills: Mapping[str, Path] = NO_SKILLS,
) -> list[str]:
    """The words that run `command` in the room; `cwd` lies below /workspace, which `writable` is about, or /skills."""
    words = [bwrap, "--unshare-all", "--unshare-user", "--die-with-parent", "--cap-drop", "ALL", "--clearenv",
             "--uid", str(USER), "--gid", str(USER), "--hostname", HOST]  # fmt: skip
    if network:
        words.append("--share-net")
    for one in top:
        words += ["--ro-bind", one.path, one.path] if one.link is None else ["--symlink", one.link, one.path]
    for name in (*_LOOKED_UP, *(_FOR_NETWORK if network else ())):
        words += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    for path in read_only:
        words += ["--ro-bind-try", path, path]
    words += ["--proc", "/proc", "--dev", "/dev"]
    words += ["--size", str(TMP_BYTES), "--tmpfs", "/tmp", "--tmpfs", "/run", "--symlink", "../tmp", "/var/tmp"]  # noqa: S108
    for name, folder in skills.items():
        words += ["--ro-bind-try", str(folder), f"{SKILLS}/{name}"]
    words += ["--bind" if writable else "--ro-bind", str(workspace), ROOT, "--chdir", str(cwd)]
    for name, value in env.items():
        words += ["--setenv", name, value]
    return [*words, "--", *command]
