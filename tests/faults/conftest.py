"""Prints the table of the sweep at the end of a run that made one."""

import json
import shutil
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.faults.platforms import table

FOLDER = Path("build", "faults")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        for folder in (FOLDER, table.FOLDER):
            shutil.rmtree(config.rootpath / folder, ignore_errors=True)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    table.write_table(config.rootpath, terminalreporter.section, terminalreporter.write_line)
    found = [json.loads(path.read_text()) for path in sorted((config.rootpath / FOLDER).glob("*.json"))]
    if not found:
        return
    channels = list(dict.fromkeys(verdict["channel"] for verdict in found))
    rows: dict[str, dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for verdict in found:
        rows[verdict["cell"]["point"]][verdict["channel"]].append(verdict)
    write = terminalreporter.write_line
    terminalreporter.section("killed at each point: paths that came out right / paths tried (r: flagged repeats)")
    write(f"{'point':<16}" + "".join(f"{channel:>12}" for channel in channels))
    for point, by_channel in rows.items():
        write(f"{point:<16}" + "".join(f"{_cell(by_channel[channel]):>12}" for channel in channels))
    wrong = [verdict for verdict in found if verdict["why"]]
    repeated = sum(verdict["repeated"] for verdict in found)
    seconds = sum(verdict["seconds"] for verdict in found)
    write(f"{len(found)} kills, {len(wrong)} wrong, {repeated} flagged repeats, {seconds / len(found):.1f} s each")


def _cell(verdicts: list[dict[str, Any]]) -> str:
    if not verdicts:
        return "·"
    right = sum(not verdict["why"] for verdict in verdicts)
    repeated = sum(verdict["repeated"] for verdict in verdicts)
    return f"{right}/{len(verdicts)}" + (f" r{repeated}" if repeated else "")
