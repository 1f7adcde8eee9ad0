"""Finds out once, at the start, whether commands can be run here, and how (DESIGN §12)."""

import logging
import shutil
import subprocess
import tempfile
from pathlib import Path, PurePosixPath

from agent.tools.files.paths import ROOT
from agent.tools.reach import ShellSettings
from agent.tools.shell.sandbox import enclosed, environment, top_of_system
from agent.tools.shell.shell import Room

WITHIN_S = 10.0

log = logging.getLogger("tieline.tools")


def room_for(settings: ShellSettings, program: str = "bwrap") -> Room | None:
    """Where commands run under these settings; None: nowhere, and the log says why. Starts a process; blocks."""
    match settings.mode:
        case "off":
            return None
        case "open":
            log.warning("shell commands run without a sandbox ([tools.shell] mode is open)")
            return Room("open")
        case "sandbox":
            trouble, found = trouble_with(program)
            if trouble:
                log.warning("there is no shell tool: %s", trouble)
                return None
            return Room("sandbox", found)


def trouble_with(program: str = "bwrap") -> tuple[str, str]:
    """Why the sandbox cannot be used, with the fix ("": it can), and where its program is."""
    found = shutil.which(program)
    if found is None:
        return "bubblewrap is not installed; install it (Debian: apt install bubblewrap)", ""
    with tempfile.TemporaryDirectory(prefix="tieline-") as folder:
        words = enclosed(
            ["/bin/sh", "-c", "test ! -e /root && echo shut"],
            bwrap=found,
            top=top_of_system(),
            workspace=Path(folder),
            cwd=PurePosixPath(ROOT),
            env=environment({}, home=ROOT),
            network=False,
        )
        try:
            tried = subprocess.run(words, capture_output=True, timeout=WITHIN_S, check=False, env={})  # noqa: S603
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"bubblewrap does not run here: {error}", found
    if tried.stdout.strip() == b"shut":
        return "", found
    why = tried.stderr.decode("utf-8", "replace").strip() or f"it ended with {tried.returncode}"
    return f"bubblewrap does not work here ({why}); it needs unprivileged user namespaces", found
