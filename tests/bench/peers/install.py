"""Installs the pinned peers, each into an environment of its own below .peers/: `python -m tests.bench.peers.install`.

A peer that cannot be had here is named with the reason and left out; the bench then runs without it.
"""

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench.peers.driver import PEERS

UV = Path(sys.executable).parent / "uv"


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A peer's packages, and the Python that they need."""

    name: str
    python: str
    requirements: Sequence[str]


PINNED = (
    Peer(
        name="nanobot",
        python="3.11",
        requirements=(
            "nanobot-ai==0.3.5",
            "python-telegram-bot[socks,webhooks]>=22.6,<23",
            "socksio",
            "python-socks[asyncio]<3",
        ),
    ),
    # edge-tts: it would try to install it during the first turn.
    Peer(name="hermes", python="3.11", requirements=("hermes-agent[messaging]==0.19.0", "edge-tts==7.2.7")),
    Peer(name="astrbot", python="3.12", requirements=("AstrBot==4.29.1",)),
)


class CannotInstall(Exception):
    """A peer is left out; the text says why."""


def install(peer: Peer) -> str:
    """Install it unless it is there as pinned; what was done. Raises CannotInstall."""
    folder = PEERS / peer.name
    stamp, pinned = folder / ".installed", "\n".join((peer.python, *peer.requirements))
    if stamp.exists() and stamp.read_text() == pinned:
        return "is there"
    python = interpreter(peer.python)
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    _run(str(python), "-m", "venv", str(folder))
    own = str(folder / "bin" / "python")
    if UV.exists():
        _run(str(UV), "pip", "install", "--quiet", "--python", own, *peer.requirements)
    else:
        _run(own, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *peer.requirements)
    stamp.write_text(pinned)
    return "installed"


def interpreter(version: str) -> Path:
    """A Python of this version that runs. Raises CannotInstall."""
    for path in _candidates(version):
        ran = subprocess.run(
            [path, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
            capture_output=True,
            text=True,
            check=False,
        )
        if ran.returncode == 0 and ran.stdout.strip() == version:
            return path
    raise CannotInstall(f"there is no Python {version} here; put python{version} on the PATH")


def _candidates(version: str) -> Iterator[Path]:
    for name in (f"python{version}", "python3"):
        if found := shutil.which(name):
            yield Path(found)
    yield Path(sys.executable)
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from sorted(pyenv.glob(f"versions/{version}.*/bin/python"))  # its shims run the chosen versions only


def _run(*command: str) -> None:
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise CannotInstall(f"`{' '.join(command[:4])} …` failed: {ran.stderr.strip()[-600:]}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.peers.install", description=(__doc__ or "")[:80])
    known = [peer.name for peer in PINNED]
    parser.add_argument("names", nargs="*", metavar="PEER", help=f"else all of {', '.join(known)}")
    names = parser.parse_args().names or known
    if unknown := set(names) - set(known):
        parser.error(f"no peer {', '.join(sorted(unknown))}; known: {', '.join(known)}")
    for peer in PINNED:
        if peer.name in names:
            try:
                print(f"{peer.name} ({peer.requirements[0]}): {install(peer)}", flush=True)
            except CannotInstall as error:
                print(f"{peer.name} ({peer.requirements[0]}) is left out: {error}", flush=True)


if __name__ == "__main__":
    main()
