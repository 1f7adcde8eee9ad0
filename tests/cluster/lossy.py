"""A network for each process, whose packets get lost: namespaces of Linux, joined by one bridge on this machine.

The doubles and PostgreSQL listen at `HUB`. Each namespace drops packets at random on their way in and out. Needs root,
and the programs of the Debian packages iproute2 and nftables.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.sweep import WithStandby
from tests.program.running import Program

NETWORK = "198.18.77"  # one of those that RFC 2544 sets aside for measurements
HUB = f"{NETWORK}.1"


class Unavailable(Exception):
    """This machine makes no such networks; names what was refused."""


@dataclass(frozen=True, slots=True)
class Network:
    """Namespaces, by number."""

    name: str
    size: int

    def address(self, number: int) -> str:
        return f"{NETWORK}.{10 + number}"

    def inside(self, number: int) -> Sequence[str]:
        """The words before a command that is to run in it."""
        return (shutil.which("ip") or "ip", "netns", "exec", f"{self.name}-{number}")

    def lost(self) -> int:
        """Packets, in all of them until now."""
        counters = [self.inside(number) for number in range(self.size)]
        listed = [_run(*inside, "nft", "list", "counter", "inet", "loss", "lost").split() for inside in counters]
        return sum(int(words[words.index("packets") + 1]) for words in listed)


@contextmanager
def network(size: int, *, percent: int) -> Iterator[Network]:
    """So many namespaces, of whose packets so many in a hundred get lost each way. Raises Unavailable."""
    made = Network(f"tl{os.getpid()}", size)
    with ExitStack() as stack:
        _run("ip", "link", "add", made.name, "type", "bridge")
        stack.callback(_run, "ip", "link", "del", made.name)
        _run("ip", "address", "add", f"{HUB}/24", "dev", made.name)
        _run("ip", "link", "set", made.name, "up")
        for number in range(size):
            name = f"{made.name}-{number}"
            _run("ip", "netns", "add", name)
            stack.callback(_run, "ip", "netns", "del", name)  # and with it both ends of its cable
            _run("ip", "link", "add", name, "master", made.name, "type", "veth", "peer", "name", "eth0", "netns", name)
            _run("ip", "link", "set", name, "up")
            inside = made.inside(number)
            _run(*inside, "ip", "link", "set", "lo", "up")
            _run(*inside, "ip", "address", "add", f"{made.address(number)}/24", "dev", "eth0")
            _run(*inside, "ip", "link", "set", "eth0", "up")
            _run(*inside, "nft", _RULES.format(percent=percent))
        yield made


_RULES = """
table inet loss {{
  counter lost {{ }}
  chain input {{
    type filter hook input priority 0;
    iifname "eth0" numgen random mod 100 < {percent} counter name lost drop
  }}
  chain output {{
    type filter hook output priority 0;
    oifname "eth0" numgen random mod 100 < {percent} counter name lost drop
  }}
}}
"""


def _run(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise Unavailable(f"there is no {error.filename}") from None
    if done.returncode != 0:
        raise Unavailable(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


class Lossy(WithStandby):
    """The six processes, each in a namespace of its own."""

    address = HUB

    def __init__(
        self,
        home: Path,
        config: str,
        environ: Mapping[str, str] | None = None,
        *,
        about: Set[str] = frozenset(),
        inside: Network,
    ) -> None:
        super().__init__(home, config, environ, about=about)
        for number, one in enumerate(self.all):
            one.host = inside.address(number)
            one.command = [*inside.inside(number), *one.command]
        self.write(config, about=about)

    def write(self, config: str, *, about: Set[str] = frozenset()) -> None:
        super().write(config.replace(Program.host, HUB), about=about)
