"""One system under test: started in a session of its own, so that its whole tree can be counted and ended."""

import os
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.bench.peers.driver import Launch

TICK = os.sysconf("SC_CLK_TCK")
GONE_S = 10.0  # a killed process is gone by then
KEPT = ("PATH", "LANG", "TERM")  # of the environment; everything else is what the driver says


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Of all processes of a system: resident, and with shared pages divided among those that share them."""

    rss_mb: float
    pss_mb: float
    processes: int


@dataclass(frozen=True, slots=True)
class Member:
    """One process of a tree; `reaped_s` is the CPU time of its children that have ended."""

    pid: int
    parent: int
    session: int
    reaped_s: float


class Process:
    """A running system with everything that it starts."""

    def __init__(self, launch: Launch, log: Path) -> None:
        base = {name: os.environ[name] for name in KEPT if name in os.environ}
        self._log = log.open("ab")
        self.started_at = time.time()
        self.popen = subprocess.Popen(
            launch.argv,
            env={**base, **launch.env},
            cwd=launch.cwd,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )

    def alive(self) -> bool:
        return self.popen.poll() is None

    def members(self) -> list[Member]:
        """Every process of the session, and every descendant that has left it."""
        everybody = []
        for entry in os.scandir("/proc"):
            if entry.name.isdigit():
                with suppress(OSError):
                    fields = Path(entry.path, "stat").read_text().rpartition(")")[2].split()
                    reaped = (int(fields[13]) + int(fields[14])) / TICK
                    everybody.append(Member(int(entry.name), int(fields[1]), int(fields[3]), reaped))
        found = {member.pid: member for member in everybody if self.popen.pid in (member.pid, member.session)}
        grown = True
        while grown:
            more = {one.pid: one for one in everybody if one.parent in found and one.pid not in found}
            found |= more
            grown = bool(more)
        return list(found.values())

    def cpu(self) -> float:
        """CPU seconds of the tree so far, with those of threads and children that have ended."""
        total = 0.0
        for member in self.members():
            with suppress(OSError):
                # The clock of another process (clock_getcpuclockid(3)): in nanoseconds, where /proc counts in ticks.
                total += time.clock_gettime((~member.pid << 3) | 2) + member.reaped_s
        return total

    def memory(self) -> Memory:
        rss = pss = 0
        members = self.members()
        for member in members:
            with suppress(OSError):
                for line in Path(f"/proc/{member.pid}/smaps_rollup").read_text().splitlines():
                    if line.startswith("Rss:"):
                        rss += int(line.split()[1])
                    elif line.startswith("Pss:"):
                        pss += int(line.split()[1])
        return Memory(rss_mb=rss / 1024, pss_mb=pss / 1024, processes=len(members))

    def kill(self) -> None:
        """kill -9 of the whole tree, as a power cut does; returns when all of it is gone."""
        members = self.members()
        for member in members:
            with suppress(ProcessLookupError):
                os.kill(member.pid, signal.SIGKILL)
        self.popen.wait(GONE_S)
        deadline = time.monotonic() + GONE_S
        while any(_runs(member.pid) for member in members) and time.monotonic() < deadline:
            time.sleep(0.01)
        self._log.close()

    def stop(self, patience: float = 15) -> float:
        """SIGTERM, then SIGKILL; the seconds until it was gone."""
        begun = time.time()
        if self.alive():
            self.popen.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.popen.wait(patience)
        took = time.time() - begun
        self.kill()
        return took


def _runs(pid: int) -> bool:
    """Whether it is more than an entry that its parent has not looked at."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
