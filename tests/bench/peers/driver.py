"""A system under measurement: where it is installed, how it is configured, how it is started."""

import importlib
import json
import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[3]
PEERS = Path(os.environ.get("BENCH_PEERS") or ROOT / ".peers")  # one virtual environment for each peer
STARTERS = Path(__file__).parent / "starters"


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The home of one installation, and what it talks to."""

    home: Path
    telegram: str  # base URL of the Bot API double, without a path
    llm: str  # base URL of the model double, without /v1
    token: str
    port: int  # on loopback, for a system that serves HTTP
    people: tuple[int, ...]  # ids of the people who write to the bot


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """The command that starts a system. `configuration` is the text of what it was given, for the result file."""

    argv: Sequence[str]
    env: dict[str, str] = field(default_factory=dict)
    cwd: Path
    configuration: str = ""


class Packages(NamedTuple):
    """A distribution and the interpreter in whose environment it is installed."""

    python: Path
    distribution: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """One system. `prepare` writes the configuration into the home unless it is there: a restart calls it again."""

    name: str
    notes: str
    packages: Packages
    prepare: Callable[[Site], Launch]

    def installed(self) -> bool:
        """Whether it can be started here."""
        return self.packages.python.exists()

    def versions(self) -> dict[str, str]:
        """The versions of the distribution and of what it requires directly, as installed.

        Raises FileNotFoundError where its environment is missing.
        """
        ran = subprocess.run(
            [self.packages.python, "-c", _VERSIONS, self.packages.distribution],
            capture_output=True,
            text=True,
            check=True,
        )
        found: dict[str, str] = json.loads(ran.stdout)
        return found


_VERSIONS = """
import importlib.metadata as metadata, json, re, sys
found = {sys.argv[1]: metadata.version(sys.argv[1])}
for line in sorted(metadata.requires(sys.argv[1]) or ()):
    name = re.match(r"[A-Za-z0-9._-]+", line)[0]
    try:
        found[name] = metadata.version(name)
    except metadata.PackageNotFoundError:
        pass  # of an extra that is not installed
print(json.dumps(found))
"""


def load(name: str) -> Driver:
    """The driver of `drivers/<name>.py`."""
    driver: Driver = importlib.import_module(f"tests.bench.peers.drivers.{name}").DRIVER
    return driver
