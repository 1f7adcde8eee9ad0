"""Files of others: those of the table, and no more."""

import hashlib
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TABLE = tomllib.loads((ROOT / "docs/vendored.toml").read_text(encoding="utf-8"))["file"]


@pytest.mark.parametrize("row", TABLE, ids=[row["path"] for row in TABLE])
def test_a_vendored_file_is_the_one_of_the_table(row: dict[str, str]) -> None:
    assert hashlib.sha256((ROOT / row["path"]).read_bytes()).hexdigest() == row["sha256"]
    assert all(row[key] for key in ("name", "version", "licence", "source"))


def test_no_vendored_file_is_missing_from_the_table() -> None:
    found = {
        path.relative_to(ROOT).as_posix()
        for folder in ("agent", "gateway", "adapters", "tests", "tools")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and ("vendor" in path.parts or ".min." in path.name)
    }
    assert found == {row["path"] for row in TABLE}


def test_the_version_stands_in_the_file() -> None:
    for row in TABLE:
        if row["path"].endswith(".js") and row["name"] != "iframe-worker":  # whose file does not hold it
            assert row["version"] in (ROOT / row["path"]).read_text(encoding="utf-8")
