"""Runs pytest again and again in one tree, in forks of a process that holds the libraries; the tree is read anew.

Most of a short run is the import of libraries. The process imports those that its earlier runs have needed, and nothing
of the tree, which is another for each run.
"""

import importlib
import json
import os
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

LIBRARIES = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "purelib", "platlib")})
NOT_HELD = frozenset({"numpy"})  # starts threads when it is imported, which a fork would lack
POLL_S = 0.005
TIMED_OUT = -1


class ForkedPytest:
    """Runs of pytest in the tree `root`, one at a time."""

    def __init__(self, root: Path, environ: Mapping[str, str]) -> None:
        self.root = root
        self._folder = tempfile.TemporaryDirectory()
        self._said = Path(self._folder.name, "said")
        self._process = subprocess.Popen(  # noqa: S603
            [sys.executable, str(Path(__file__).resolve()), str(self._said)],
            cwd=root,
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()
        self._folder.cleanup()

    def run(self, arguments: Sequence[str], longest_s: float) -> tuple[int, str]:
        """How it ended, or TIMED_OUT after so many seconds, and what it said. Raises ChildProcessError."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps([longest_s, *arguments]), file=self._process.stdin, flush=True)
        if not (code := self._process.stdout.readline()):
            raise ChildProcessError("the process that runs pytest has ended")
        return int(code), self._said.read_text(errors="replace")


def serve(said: Path) -> None:
    """Fork for each line on standard input, until its end. What a run says goes to `said`."""
    needed = said.with_suffix(".libraries")
    orders, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    for line in orders:
        longest_s, *arguments = json.loads(line)
        if not (child := os.fork()):
            sys.exit(_run(arguments, said, needed))
        print(_code_of(child, longest_s), file=answers, flush=True)
        if needed.exists():
            _hold(json.loads(needed.read_text()))
            needed.unlink()


def _run(arguments: Sequence[str], said: Path, needed: Path) -> int:
    """In the child."""
    os.setsid()  # what it starts goes with it
    nothing, written = os.open(os.devnull, os.O_RDONLY), os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for target, source in ((0, nothing), (1, written), (2, written)):
        os.dup2(source, target)
    import pytest

    code = pytest.main([*arguments])
    needed.write_text(json.dumps([*_libraries()]))
    return int(code)


def _libraries() -> Iterator[str]:
    """The modules of libraries that are imported, in the order in which they were."""
    for name, module in [*sys.modules.items()]:
        path = getattr(module, "__file__", None) or ""
        if path.startswith(LIBRARIES) and name.partition(".")[0] not in NOT_HELD and name == module.__name__:
            yield name


def _hold(names: Sequence[str]) -> None:
    """Import what is not held yet; what cannot be imported by itself is left to the runs."""
    with warnings.catch_warnings(action="ignore"):
        for name in names:
            with suppress(ImportError):
                importlib.import_module(name)


def _code_of(child: int, longest_s: float) -> int:
    """Wait for the child's end, and end it after so many seconds."""
    until = time.monotonic() + longest_s
    while not (found := os.waitpid(child, os.WNOHANG))[0]:
        if time.monotonic() > until:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return TIMED_OUT
        time.sleep(POLL_S)
    return os.waitstatus_to_exitcode(found[1])


if __name__ == "__main__":
    sys.path[0] = os.getcwd()  # as `python -m pytest` has it
    serve(Path(sys.argv[1]))
