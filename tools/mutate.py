"""Proves that tests can fail: applies small breakages one at a time and expects the tests they name to notice.

Each `tests/breakages/*.patch` begins with `# breaks: <requirement ids>` and `# tests: <files or node ids>`, then a
unified diff. A breakage whose tests still pass is an error, and so is a patch that no longer applies, one that names an
unknown requirement, and tests that fail without any breakage. The work happens in a copy.
"""

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
COPIED = ("agent", "gateway", "adapters", "tests", "tools", "config", "docs", "pyproject.toml")
LONGEST_S = 300.0  # for the tests of one breakage


@dataclass(frozen=True, slots=True)
class Breakage:
    """One patch and what it says about itself."""

    path: Path
    breaks: tuple[str, ...]
    tests: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.path.stem


def read(path: Path) -> Breakage:
    """Raises ValueError for a patch that does not say what it breaks or who must notice."""
    head = path.read_text()
    found = {key: re.search(rf"^# {key}: (.+)$", head, re.MULTILINE) for key in ("breaks", "tests")}
    missing = [key for key, match in found.items() if match is None]
    if missing:
        raise ValueError(f"no line `# {missing[0]}: …`")
    breaks, tests = (tuple(match[1].split()) for match in found.values() if match is not None)
    return Breakage(path, breaks, tests)


def unknown(breakage: Breakage, requirements: Iterable[str]) -> tuple[str, ...]:
    """The ids it names that no requirement has."""
    return tuple(name for name in breakage.breaks if name not in set(requirements))


def copied(target: Path) -> None:
    """The parts of the tree that tests need, without what was built."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy(source, target / name)


def run(tests: Sequence[str], copy: Path) -> tuple[int, str]:
    """How pytest ended there, and the end of what it said; 1 for tests that hang, which is noticing too."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    # Compiled files are told apart by size and second alone: a patch and its reverse may be too quick for that.
    environ = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(command, cwd=copy, env=environ, capture_output=True, text=True, timeout=LONGEST_S)  # noqa: S603
    except subprocess.TimeoutExpired:
        return 1, f"took more than {LONGEST_S:g} s"
    return done.returncode, done.stdout[-400:]


def fits(breakage: Breakage, tree: Path) -> bool:
    """Does the patch apply there, every line of it? (What lies around may have moved, not changed.)"""
    return _patch(breakage, tree, "--forward", "--dry-run") == 0


def survives(breakage: Breakage, copy: Path) -> str | None:
    """Why this breakage proves nothing, or None if its tests caught it."""
    if not fits(breakage, copy) or _patch(breakage, copy, "--forward"):
        return "does not apply any more: bring it up to date"
    try:
        code, said = run(breakage.tests, copy)
    finally:
        _patch(breakage, copy, "--reverse")
    if code == 1:
        return None
    return "its tests still pass" if code == 0 else f"pytest ended with {code}: {said}"


def _patch(breakage: Breakage, tree: Path, *how: str) -> int:
    exactly = ["--strip=1", "--fuzz=0", "--batch", "--silent", "--no-backup-if-mismatch"]
    command = ["patch", *exactly, f"--input={breakage.path}", *how]
    return subprocess.run(command, cwd=tree, capture_output=True).returncode  # noqa: S603


def chosen_from(patches: Sequence[Path], names: Sequence[str], sample: int, seed: int | None) -> list[Path]:
    """Those named, or that many at random, or all."""
    if names:
        return [path for path in patches if path.stem in names]
    if sample and sample < len(patches):
        return sorted(random.Random(seed).sample(patches, sample))  # noqa: S311
    return list(patches)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="the breakages to try; else all, or a sample")
    parser.add_argument("--sample", type=int, default=0, help="how many, drawn at random; 0: all")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--sound", action="store_true", help="trust that the tests pass without a breakage")
    chosen = parser.parse_args(arguments)
    known = tomllib.loads((ROOT / "docs" / "requirements.toml").read_text())
    patches = sorted((ROOT / "tests" / "breakages").glob("*.patch"))
    failures, tried = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        copied(copy)
        sound: dict[tuple[str, ...], bool] = {}
        for path in chosen_from(patches, chosen.names, chosen.sample, chosen.seed):
            tried, began, breakage = tried + 1, time.monotonic(), None
            try:
                breakage = read(path)
                strange = unknown(breakage, known)
                why = f"names unknown requirements: {' '.join(strange)}" if strange else None
            except ValueError as error:
                why = str(error)
            if breakage is not None and why is None:
                if not chosen.sound and breakage.tests not in sound:
                    sound[breakage.tests] = run(breakage.tests, copy)[0] == 0
                passes = sound.get(breakage.tests, True)
                why = survives(breakage, copy) if passes else "its tests fail without it"
            failures += why is not None
            took = f"{time.monotonic() - began:.0f} s"
            print(
                f"{'caught ' if why is None else 'MISSED '} {path.stem} ({took}){': ' + why if why else ''}", flush=True
            )
    print(f"{tried - failures} caught, {failures} missed")
    return 1 if failures or not tried else 0


if __name__ == "__main__":
    sys.exit(main())
