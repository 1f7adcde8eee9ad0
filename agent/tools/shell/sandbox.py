"""The sandbox of a command: the system read-only, the workspace, nothing else of the machine.

The files of skills are there too, read-only. No home, no data directory, no environment, no other conversation, no
network unless it was opened; its own processes alone. What is made in it outside of the workspace is gone when it ends.
For what nobody was asked about the workspace is read-only as well, and there is no network.
"""

import os
import signal
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from subprocess import DEVNULL, PIPE, STDOUT

import anyio
from anyio.abc import Process

from agent.core.tools import SKILLS
from agent.tools.files.paths import ROOT
from agent.tools.shell import launcher

NO_SKILLS: Mapping[str, Path] = {}
USER, HOST = 1000, "sandbox"
TMP_BYTES = 256 * 1024 * 1024
# Files that programs look up; none tells who uses the machine.
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
    """The environment of a command: nothing of the gateway's own."""
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
    words += ["--proc", "/proc", "--dev", "/dev"]
    words += ["--size", str(TMP_BYTES), "--tmpfs", "/tmp", "--tmpfs", "/run", "--symlink", "../tmp", "/var/tmp"]  # noqa: S108
    for path in read_only:  # behind the empty folders, in which one of them may lie
        words += ["--ro-bind-try", path, path]
    for name, folder in skills.items():
        words += ["--ro-bind-try", str(folder), f"{SKILLS}/{name}"]
    words += ["--bind" if writable else "--ro-bind", str(workspace), ROOT, "--chdir", str(cwd)]
    for name, value in env.items():
        words += ["--setenv", name, value]
    return [*words, "--", *command]


# Runs one program under limits: bounded output, bounded time, and nothing left of it afterwards.

MEBIBYTE = 1024 * 1024
STOP_GRACE_S = 0.5  # when a person has said stop
COUNT_EVERY_S = 0.5  # for the superuser, whom no limit on processes binds
FLOOD = 32  # times the output that is kept; then the program is ended
OF_OURS = 3  # the sandbox's own processes
_LAST_WORDS_S = 0.2  # for what is still in the pipe when the program has ended but not what it left behind


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """Limits of a program. Memory counts for each of its processes."""

    wall_s: float
    cpu_s: int
    memory_mb: int
    processes: int
    file_mb: int
    output_bytes: int
    grace_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The result of a program. `left_out` bytes lie between `head` and `tail`; `why` says what ended it, "" itself."""

    status: int
    head: bytes
    tail: bytes
    left_out: int
    why: str = ""


@dataclass(slots=True)
class _Output:
    """The first half of what is kept, and the newest."""

    most: int
    head: bytearray = field(default_factory=bytearray)
    tail: deque[bytes] = field(default_factory=deque)
    in_tail: int = 0
    seen: int = 0

    def take(self, data: bytes) -> None:
        self.seen += len(data)
        room = self.most // 2 - len(self.head)
        self.head += data[:room] if room > 0 else b""
        rest = data[max(room, 0) :]
        if rest:
            self.tail.append(rest)
            self.in_tail += len(rest)
        while self.in_tail - len(self.tail[0]) >= self.most // 2 if self.tail else False:
            self.in_tail -= len(self.tail.popleft())


def limited(command: Sequence[str], allowance: Allowance) -> list[str]:
    """The words that run `command` with the limits that a process can be given."""
    memory = allowance.memory_mb * MEBIBYTE
    limits = {
        "CPU": allowance.cpu_s,
        "DATA": memory,
        "AS": memory * 8,  # programs reserve much more than they use
        "FSIZE": allowance.file_mb * MEBIBYTE,
        "NOFILE": 1024,
        "CORE": 0,
    }
    words = [f"{name}={value}" for name, value in limits.items()]
    return [sys.executable, "-I", "-S", launcher.__file__, *words, "--", *command]


def counted(command: Sequence[str], processes: int) -> list[str]:
    """The words that run `command` with so many processes at most, in a shell of whatever kind."""
    script = 'ulimit -u "$1" 2>/dev/null || ulimit -p "$1" 2>/dev/null; shift; exec "$@"'
    return ["/bin/sh", "-c", script, "sh", str(processes), *command]


async def run(words: Sequence[str], *, cwd: Path, env: Mapping[str, str], allowance: Allowance) -> Ended:
    """Run it to its end, or to that of its time. Cancelled, it is ended before this returns."""
    output, why = _Output(allowance.output_bytes), ""
    process = await anyio.open_process(
        words, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT, cwd=cwd, env=dict(env), start_new_session=True
    )
    grace = STOP_GRACE_S
    try:
        with anyio.move_on_after(allowance.wall_s) as scope:
            why = await _followed(process, output, allowance.processes)
        if scope.cancelled_caught:
            why = f"its {allowance.wall_s:g} s were over"
            grace = allowance.grace_s
    finally:
        with anyio.CancelScope(shield=True):
            await _end(process, grace)
            await process.aclose()
    assert process.returncode is not None
    tail = b"".join(output.tail)[-(output.most // 2) :]
    left_out = output.seen - len(output.head) - len(tail)
    return Ended(status=process.returncode, head=bytes(output.head), tail=tail, left_out=left_out, why=why)


async def _followed(process: Process, output: _Output, most: int) -> str:
    """Take what it writes until it has ended; why it must not go on, "" if it ended by itself."""
    read, why = anyio.Event(), ""
    stream = process.stdout
    assert stream is not None

    async def read_all() -> None:
        nonlocal why
        with suppress(anyio.EndOfStream):
            while not why:
                output.take(await stream.receive(65_536))
                if output.seen > output.most * FLOOD:
                    why = f"it wrote more than {output.most * FLOOD} bytes"
        read.set()
        if why:
            group.cancel_scope.cancel()

    async def count() -> None:
        nonlocal why
        while not why:
            await anyio.sleep(COUNT_EVERY_S)
            if len(await anyio.to_thread.run_sync(family_of, process.pid)) > most + OF_OURS:
                why = f"it had more than {most} processes"
        group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(read_all)
        if os.geteuid() == 0:
            group.start_soon(count)
        await process.wait()
        with anyio.move_on_after(_LAST_WORDS_S):
            await read.wait()
        group.cancel_scope.cancel()
    return why


async def _end(process: Process, grace_s: float) -> None:
    """Ask it and all it has started to end, then make them."""
    if process.returncode is None:
        family = await anyio.to_thread.run_sync(family_of, process.pid)
        for pid, name in family.items():
            if name != "bwrap":  # its end would end the rest without a word
                _signal(pid, signal.SIGTERM)
        with anyio.move_on_after(grace_s):
            await process.wait()
    leftover = await anyio.to_thread.run_sync(family_of, process.pid)
    if process.returncode is None or len(leftover) > 1:  # else the number may be somebody else's by now
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        for pid in leftover.keys() - {process.pid}:
            _signal(pid, signal.SIGKILL)
    await process.wait()


def family_of(pid: int) -> dict[int, str]:
    """A process and all that descend from it or are of its session, with their names; itself alone without /proc."""
    parents: dict[int, int] = {}
    names: dict[int, str] = {}
    found: set[int] = {pid}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError):
            head, _, rest = (folder / "stat").read_text(errors="replace").rpartition(")")
            fields = rest.split()
            one = int(folder.name)
            names[one], parents[one] = head.partition("(")[2], int(fields[1])
            if int(fields[3]) == pid:
                found.add(one)
    while more := {one for one, parent in parents.items() if parent in found} - found:
        found |= more
    return {one: names.get(one, "") for one in found}


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def tasks_of_user() -> int | None:
    """How many tasks this user has now; None where that cannot be told."""
    found, user = 0, os.getuid()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if folder.stat().st_uid == user:
                found += len(os.listdir(folder / "task"))
    return found or None
