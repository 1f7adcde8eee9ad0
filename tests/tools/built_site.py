"""The documentation site as `make site` builds it, for tests that look at its files."""

import fcntl
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
REPOSITORY = "https://example.org/tieline/blob/main/"


def build_site(folder: Path) -> Path:
    """Build the site into `folder` and give that. What it is built with is installed once, whoever comes first."""
    (ROOT / "build").mkdir(exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    environment["TIELINE_REPOSITORY"] = REPOSITORY
    with (ROOT / "build/site-tools.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(
            ["make", "site", f"ARGS=--site-dir {folder}"],
            cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=250,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert not done.stderr, done.stderr
    return folder
