"""The ledger as a table that a spreadsheet reads."""

import csv
from io import StringIO
from typing import Any

import pytest

from agent.ledger import rows
from agent.ledger.spending import Entry
from tests.agent.ledger.world import attribution


def read(**more: Any) -> dict[str, str]:
    values: dict[str, Any] = {
        "call": "c1",
        "at": 1_700_000_000_123_456,
        "attribution": attribution(),
        "provider": "main",
        "model": "m",
    }
    written = rows.HEADING + rows.lines([Entry(**values | more)])
    [row] = csv.DictReader(StringIO(written))
    return row


@pytest.mark.parametrize(
    ("cost", "shown"), [(None, ""), (0.0, "0"), (0.000_000_25, "0.00000025"), (12.0, "12"), (0.1 + 0.2, "0.3")]
)
def test_money_is_exact_and_an_unknown_price_is_empty(cost: float | None, shown: str) -> None:
    assert read(cost_usd=cost)["cost_usd"] == shown


def test_every_column_has_its_value() -> None:
    row = read(prompt=1, output=2, cache_creation=3, cache_read=4, audio_s=7.5, estimated=True)
    assert row["time"] == "2023-11-14T22:13:20.123+00:00"
    assert [row[f"{kind}_tokens"] for kind in ("input", "output", "cache_write", "cache_read")] == ["1", "2", "3", "4"]
    assert (row["audio_seconds"], row["estimated"], row["call"], row["person"]) == ("7.5", "yes", "c1", "telegram:77")


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@x"])
def test_no_name_becomes_a_formula(name: str) -> None:
    assert read(model=name)["model"] == f"'{name}"
    assert read(model='a,b\n"c"')["model"] == 'a,b\n"c"'
