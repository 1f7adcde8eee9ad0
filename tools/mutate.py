"""Proves that tests can fail: applies small breakages one at a time and expects the tests they name to notice.

Each `tests/breakages/*.patch` begins with `# tests: <pytest arguments>` and `# breaks: <ids>`, then a unified diff.
A breakage whose tests still pass is an error, and so is a patch that no longer applies. The work happens in a copy.
"""

import argparse
import random
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
COPIED = ("agent", "gateway", "adapters", "tests", "tools", "config", "docs", "pyproject.toml")


def survives(patch: Path, copy: Path) -> str | None:
    """Why this breakage proves nothing, or None if its tests caught it."""
    head = patch.read_text()
    tests = re.search(r"^# tests: (.+)$", head, re.MULTILINE)
    if tests is None:
        return "no line `# tests: …`"
    apply = ["patch", "--strip=1", "--batch", "--silent", f"--input={patch}"]
    if subprocess.run([*apply, "--forward"], cwd=copy, capture_output=True).returncode:  # noqa: S603
        return "does not apply any more: bring it up to date"
    try:
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests[1].split()]
        run = subprocess.run(command, cwd=copy, capture_output=True, text=True, timeout=300)  # noqa: S603
    finally:
        subprocess.run([*apply, "--reverse"], cwd=copy, capture_output=True, check=True)  # noqa: S603
    if run.returncode == 1:
        return None
    return "its tests still pass" if run.returncode == 0 else f"pytest ended with {run.returncode}: {run.stdout[-400:]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=0, help="how many, drawn at random; 0: all")
    parser.add_argument("--seed", type=int, default=None)
    chosen = parser.parse_args()
    patches = sorted((ROOT / "tests" / "breakages").glob("*.patch"))
    if chosen.sample and chosen.sample < len(patches):
        patches = sorted(random.Random(chosen.seed).sample(patches, chosen.sample))  # noqa: S311
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, copy / name)
        for patch in patches:
            why = survives(patch, copy)
            failures += why is not None
            print(f"{'caught ' if why is None else 'MISSED '} {patch.stem}{': ' + why if why else ''}", flush=True)
    print(f"{len(patches) - failures} passed, {failures} failed")
    return 1 if failures or not patches else 0


if __name__ == "__main__":
    sys.exit(main())
