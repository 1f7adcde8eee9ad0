"""Runs one program under limits: output bounded, time bounded, and nothing of it left when it is over.

A program is asked to end first and killed after a grace time, with everything it has started.
"""

import os
import signal
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import DEVNULL, PIPE, STDOUT

import anyio
from anyio.abc import Process

from agent.tools.shell import launcher

MEBIBYTE = 1024 * 1024
STOP_GRACE_S = 0.5  # when a person has said stop
COUNT_EVERY_S = 0.5  # for the superuser, whom no limit on processes binds
FLOOD = 32  # times the output that is kept; then the program is ended
OF_OURS = 3  # the sandbox's own processes
_LAST_WORDS_S = 0.2  # for what is still in the pipe when the program has ended but not what it left behind


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """What a program may take. Memory counts for each of its processes."""

    wall_s: float
    cpu_s: int
    memory_mb: int
    processes: int
    file_mb: int
    output_bytes: int
    grace_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How it ended. `left_out` bytes lie between `head` and `tail`; `why` says what ended it, "" itself."""

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
