"""Prints what the sweep of a cluster found, at the end of a run that made one."""

import json
import shutil
from typing import Any

import pytest

from tests.cluster.test_sweep import FOLDER


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        shutil.rmtree(config.rootpath / FOLDER, ignore_errors=True)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    files = sorted((config.rootpath / FOLDER).glob("*.json"))
    if not files:
        return
    terminalreporter.section("one process of several killed at each point; seconds until all stood there")
    write = terminalreporter.write_line
    write(f"{'channel, role':<20}{'kills':>8}{'wrong':>8}{'repeats':>9}{'median':>9}{'p99':>8}{'longest':>9}")
    for path in files:
        found = json.loads(path.read_text())
        wrong = sum(bool(one["why"]) for one in found)
        repeats = sum(one["repeated"] for one in found)
        took = sorted(one["took_s"] for one in found if one["took_s"] is not None) or [0.0]
        p99 = took[max(0, -(-len(took) * 99 // 100) - 1)]
        waited = f"{took[len(took) // 2]:>9.1f}{p99:>8.1f}{took[-1]:>9.1f}"
        write(f"{path.stem:<20}{len(found):>8}{wrong:>8}{repeats:>9}{waited}")
