"""Crash points: counted, fired once, and nothing at all unless asked for."""

import re
from pathlib import Path
from typing import get_args

import pytest

from agent.core.failpoints import ENVIRONMENT, Armed, Point, bound

ROOT = Path(__file__).parents[3]


class Kills:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


@pytest.fixture
def kills() -> Kills:
    return Kills()


def test_unless_asked_for_there_is_nothing() -> None:
    assert bound({}) is len


def test_it_fires_at_the_pass_that_was_asked_for_and_once(tmp_path: Path, kills: Kills) -> None:
    file = tmp_path / "crash"
    armed = Armed(file, kills)
    armed("linger")
    file.write_text("send.before:3\n")
    for _ in range(2):
        armed("send.before")
        armed("send.after")
    assert kills.count == 0
    armed("send.before")
    assert kills.count == 1
    assert not file.exists(), "the process that comes after must not die there too"
    armed("send.before")
    assert kills.count == 1


def test_an_order_that_is_given_again_counts_from_its_beginning(tmp_path: Path, kills: Kills) -> None:
    file = tmp_path / "crash"
    armed = Armed(file, kills)
    for order in ("admit.after:2", "linger", "admit.after:2"):
        file.write_text(order)
        armed("admit.after")
    assert kills.count == 0


def test_a_process_is_armed_by_its_environment(tmp_path: Path) -> None:
    assert isinstance(bound({ENVIRONMENT: str(tmp_path / "crash")}), Armed)


def test_every_point_is_passed_somewhere() -> None:
    passed = {
        name
        for room in ("agent", "gateway", "adapters")
        for file in (ROOT / room).rglob("*.py")
        for name in re.findall(r'failpoint\("([^"]+)"\)', file.read_text())
    }
    assert passed == set(get_args(Point))
