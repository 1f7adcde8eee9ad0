"""A pooler between the program and PostgreSQL that loses notifications is found before people wait for answers."""

from pathlib import Path
from typing import Literal

import pytest

from gateway.config.read import read
from gateway.doctor.database import findings
from tests.fakes.pgbouncer import pooled

LOST = "notifications get lost on the way: a pooler that lends connections by transaction lies between"


def found(url: str, home: Path) -> list[tuple[str, str]]:
    settings = read({"database": {"url": url}}, {}, home=home, source=None)
    return [(one.level, one.finding) for one in findings(settings, running=False)]


@pytest.mark.requirement("G-137")
def test_the_server_itself_is_well(postgres_url: str, tmp_path: Path) -> None:
    assert found(postgres_url, tmp_path) == [("ok", "there and up to date")]


@pytest.mark.parametrize(
    ("mode", "told"),
    [("session", [("ok", "there and up to date")]), ("transaction", [("ok", "there and up to date"), ("error", LOST)])],
)
@pytest.mark.requirement("G-137")
def test_a_pooler_is_well_where_it_lends_connections_for_a_session(
    postgres_url: str, tmp_path: Path, mode: Literal["session", "transaction"], told: list[tuple[str, str]]
) -> None:
    try:
        with pooled(postgres_url, mode) as url:
            assert found(url, tmp_path) == told
    except FileNotFoundError:
        pytest.skip("PgBouncer is not installed")
