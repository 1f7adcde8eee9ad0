"""Losses in an upgrade, and the changes that a start and its turns may make."""

from collections.abc import Mapping

import pytest

from tests.upgrade.comparing import differences
from tests.upgrade.rows import Table

NOTE: Mapping[str, Table] = {"memory": {"1": {"id": 1, "text": "a boat"}, "2": {"id": 2, "text": "a kettle"}}}
SENT = {"id": 1, "conv": "c", "dedup": "d", "created_at": 5, "status": "sent", "sent_refs": "[1]"}
OPEN = {**SENT, "status": "new", "sent_refs": "[]"}


def after(**change: object) -> Mapping[str, Table]:
    return {"memory": {"1": {"id": 1, "text": "a boat", **change}, "2": NOTE["memory"]["2"]}}


@pytest.mark.parametrize(
    ("before", "now", "found"),
    [
        pytest.param(NOTE, NOTE, [], id="nothing has changed"),
        pytest.param(NOTE, after(colour="red"), [], id="a new column is no loss"),
        pytest.param(NOTE, {**NOTE, "boat": {}}, [], id="a new table is no loss"),
        pytest.param(NOTE, {}, ["the table memory is gone"], id="a table is gone"),
        pytest.param(NOTE, {"memory": {"1": NOTE["memory"]["1"]}}, ["memory 2 is gone"], id="a row is gone"),
        pytest.param(NOTE, after(text="b"), ["memory 1: text was 'a boat' and is 'b'"], id="a value has changed"),
        pytest.param(
            NOTE,
            {"memory": {key: {"id": row["id"]} for key, row in NOTE["memory"].items()}},
            ["memory.text is gone", "memory.text is gone"],
            id="a column is gone",
        ),
        pytest.param({"outbox": {"1": OPEN}}, {"outbox": {"1": SENT}}, [], id="what was open is sent"),
        pytest.param({"outbox": {"1": SENT}}, {"outbox": {"1": OPEN}}, ["outbox 1"] * 2, id="what was sent is open"),
        pytest.param(
            {"outbox": {"1": OPEN}}, {"outbox": {"1": {**SENT, "conv": "x"}}}, ["outbox 1"], id="sent elsewhere"
        ),
        pytest.param({"ephemeral": {"1": {"id": 1}}}, {"ephemeral": {}}, [], id="what was transient may go"),
        pytest.param(
            {"conversation": {"c": {"key": "c", "epoch": 1}}},
            {"conversation": {"c": {"key": "c", "epoch": 2}}},
            [],
            id="an owner of its own may be written",
        ),
    ],
)
def test_differences(before: Mapping[str, Table], now: Mapping[str, Table], found: list[str]) -> None:
    told = list(differences(before, now))
    assert len(told) == len(found)
    assert all(map(str.startswith, told, found)), told


def test_without_a_start_everything_counts_and_what_ended_may_be_gone() -> None:
    assert list(differences({"outbox": {"1": OPEN}}, {"outbox": {"1": SENT}}, live=False))
    assert list(differences({"ephemeral": {"1": {"id": 1}}}, {"ephemeral": {}}, live=False))
    fired: Mapping[str, Table] = {"schedule": {"9": {"id": 9, "state": "active"}}}
    assert list(differences(fired, {"schedule": {}}))
    assert not list(differences(fired, {"schedule": {}}, ended={"schedule 9"}))
