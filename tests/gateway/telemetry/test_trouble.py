"""Troubles for the operator: each begins once, is counted, ends, and stays a while."""

import pytest

from gateway.running.models import model_window
from gateway.telemetry.redaction import MASK, Redactor
from gateway.telemetry.trouble import KEPT, Trouble, Troubles
from tests.fakes.clock import FakeClock


@pytest.fixture
def troubles(clock: FakeClock) -> Troubles:
    return Troubles(clock, redact=Redactor(["top-secret"]))


def test_a_trouble_begins_is_repeated_and_ends(troubles: Troubles, clock: FakeClock) -> None:
    told: list[Trouble] = []
    troubles.listen(told.append)
    troubles.report("adapter", "slack", "no hello", fix="check the token", blocking=True)
    clock.advance(30)
    troubles.report("adapter", "slack", "still no hello", blocking=True)
    (trouble,) = troubles.blocking
    assert (trouble.text, trouble.times, (trouble.last_at - trouble.since).seconds) == ("still no hello", 2, 30)
    troubles.over("adapter", "slack")
    troubles.over("adapter", "slack")
    assert troubles.open == ()
    assert [each.over_at is not None for each in told] == [False, True]  # begun, over: nothing in between
    assert [each.subject for each in troubles.recent()] == ["slack"]


def test_what_happened_once_is_listed_and_blocks_nothing(troubles: Troubles) -> None:
    troubles.note("delivery", "discord:9", "a dead letter")
    assert troubles.open == ()
    assert [trouble.text for trouble in troubles.recent()] == ["a dead letter"]


def test_open_ones_come_first_and_the_list_is_short(troubles: Troubles, clock: FakeClock) -> None:
    for number in range(KEPT + 50):
        clock.advance(1)
        troubles.note("delivery", f"t:{number}", "x")
    troubles.report("storage", "database", "the disk is full", blocking=True)
    clock.advance(100)
    troubles.note("delivery", "last", "x")
    recent = troubles.recent(1000)
    assert [recent[0].subject, recent[1].subject] == ["database", "last"]
    assert len(recent) == KEPT + 1


@pytest.mark.requirement("G-28")
def test_it_holds_no_secrets(troubles: Troubles) -> None:
    troubles.report("provider", "main", "refused: top-secret")
    assert troubles.open[0].text == f"refused: {MASK}"


def test_a_window_of_little_use_is_a_trouble_until_it_is_larger(troubles: Troubles) -> None:
    model_window(troubles, "main", "llama", 8_192)
    (trouble,) = troubles.open
    assert (trouble.kind, trouble.subject, trouble.blocking) == ("window", "main/llama", False)
    assert "holds 8,192 tokens" in trouble.text
    assert "num_ctx" in trouble.fix
    model_window(troubles, "main", "llama", 32_768)
    assert troubles.open == ()
